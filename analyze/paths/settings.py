"""Set how whole paths are compared."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config


class PathSettings(Config):
    """Which categories count as changed, and how requests that moved are assigned."""

    q: float = Field(default=0.05, gt=0, lt=1)
    """False discovery rate of each family: shares, response times, repeats."""
    min_count: int = Field(default=10, ge=1)
    """Least change of a category's requests beyond what is expected."""
    min_relative: float = Field(default=0.2, ge=0, le=1_000)
    """The same as a share of the larger of seen and expected."""
    least_expected: float = Field(default=5.0, ge=0, le=1e9)
    """A category is tested from so many expected or `min_count` seen requests on; rarer ones are tested
    together."""
    least_z: float = Field(default=3.0, ge=0, le=30)
    """Effect over its standard error, noise between windows included."""
    floor_time: float = Field(default=0.05, ge=0, le=1_000)
    """Relative change of a category's median response time that is no change."""
    blocks: int = Field(default=8, ge=2)
    """Of fewer than three ordinary windows the reference is cut into so many blocks of time;"""
    assumed_tau: float = Field(default=0.2, ge=0, le=10)
    """times (log units) are then taken to move so much between windows at least,"""
    assumed_phi: float = Field(default=3.0, ge=1, le=1e6)
    """and shares to be so much over-dispersed."""
    min_tau: float = Field(default=0.05, ge=0, le=10)
    """Noise of times and repeats between windows is taken to be this at least."""
    min_requests: int = Field(default=4, ge=2)
    """A period, for a test of response times."""
    candidates: int = Field(default=20, ge=1)
    """Nearest paths that may have given requests to one that gained."""
    draws: int = Field(default=25, ge=0)
    """Times the assignment is repeated with shares as uncertain as they are; 0: no confidence is given."""
    drawn_pairs: int = Field(default=400, ge=0)
    """Roots with more candidate pairs than this are not drawn anew: a draw takes some 20 µs a pair."""
    seed: int = 0
    groups: int = Field(default=20, ge=1)
    """Groups of moved paths that are shown."""
    aligned: int = Field(default=400, ge=1)
    """Moves that are compared step by step, the largest; the others are summed up."""
    aligned_cells: int = Field(default=2_000_000_000, ge=1)
    """Sum of steps before x steps after over these: an alignment takes some 0.1 ns a cell, and more moves of
    huge graphs are summed up likewise."""
    difference_rows: int = Field(default=60, ge=5)
    """Steps of a difference that are shown."""
