"""Settings of the comparison of whole paths."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config


class PathSettings(Config):
    """Criteria for changed categories, and bounds of the assignment of requests that moved."""

    q: float = Field(default=0.05, gt=0, lt=1)
    """False discovery rate of each family: shares, response times, repeats."""
    min_count: int = Field(default=10, ge=1)
    """Least change of a category's requests beyond the expected number."""
    min_relative: float = Field(default=0.2, ge=0, le=1_000)
    """Least change of a category's requests, as a share of the larger of seen and expected."""
    least_expected: float = Field(default=5.0, ge=0, le=1e9)
    """Expected requests from which on a category is tested by itself, or else `min_count` seen requests;
    rarer categories are tested together."""
    least_z: float = Field(default=3.0, ge=0, le=30)
    """Least effect over its standard error, noise between windows included."""
    floor_time: float = Field(default=0.05, ge=0, le=1_000)
    """Largest relative change of a category's median response time that does not count."""
    blocks: int = Field(default=8, ge=2)
    """Blocks of equal time into which a reference of fewer than three ordinary windows is cut."""
    assumed_tau: float = Field(default=0.2, ge=0, le=10)
    """Least noise of times (log units) between windows, assumed if there are fewer than three."""
    assumed_phi: float = Field(default=3.0, ge=1, le=1e6)
    """Over-dispersion of shares, assumed if there are fewer than three ordinary windows."""
    min_tau: float = Field(default=0.05, ge=0, le=10)
    """Least noise of times and repeats between windows."""
    min_requests: int = Field(default=4, ge=2)
    """Fewest requests a period for a test of response times."""
    candidates: int = Field(default=20, ge=1)
    """Nearest paths that are candidates for having given requests to one that gained."""
    draws: int = Field(default=25, ge=0)
    """Resamples of the assignment, with shares drawn from their errors; 0: no confidence is computed."""
    drawn_pairs: int = Field(default=400, ge=0)
    """Most candidate pairs of a root type whose assignment is resampled: a resample takes some 20 µs a
    pair."""
    seed: int = 0
    groups: int = Field(default=20, ge=1)
    """Most groups of moved paths shown."""
    aligned: int = Field(default=400, ge=1)
    """Most moves compared step by step, the largest; the others are summed."""
    aligned_cells: int = Field(default=2_000_000_000, ge=1)
    """Most steps before x steps after, summed over these moves: an alignment takes some 0.1 ns a cell;
    further moves of huge graphs are summed, too."""
    difference_rows: int = Field(default=60, ge=5)
    """Most steps shown of a difference."""
