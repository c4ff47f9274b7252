"""Settings of the comparison of whole paths."""

from __future__ import annotations

from pydantic import Field

from schemas.config import Config


class PathSettings(Config):
    """Criteria for changed categories, and bounds of the assignment of requests that moved."""

    q: float = Field(default=0.05, gt=0, lt=1)
    """False discovery rate of each family of tests: shares, response times, repeats."""
    min_count: int = Field(default=10, ge=1)
    """Smallest change of a category's requests beyond the expected number that counts."""
    min_relative: float = Field(default=0.2, ge=0, le=1_000)
    """Smallest change of a category's requests that counts, as a share of the larger of observed and
    expected.
    """
    least_expected: float = Field(default=5.0, ge=0, le=1e9)
    """Expected requests from which a category is tested by itself (or with `min_count` observed requests);
    rarer categories are pooled.
    """
    least_z: float = Field(default=3.0, ge=0, le=30)
    """Smallest change over its standard error (noise between windows included) that counts."""
    floor_time: float = Field(default=0.05, ge=0, le=1_000)
    """Relative change of a category's median response time up to which it does not count."""
    blocks: int = Field(default=8, ge=2)
    """Number of equal time blocks into which a reference with fewer than three ordinary windows is divided.
    """
    assumed_tau: float = Field(default=0.2, ge=0, le=10)
    """Assumed noise of log times between windows where there are fewer than three."""
    assumed_phi: float = Field(default=3.0, ge=1, le=1e6)
    """Assumed over-dispersion of shares where there are fewer than three ordinary windows."""
    min_tau: float = Field(default=0.05, ge=0, le=10)
    """Minimum noise of log times and of repeats between windows."""
    min_requests: int = Field(default=4, ge=2)
    """Minimum number of requests in each period for a test of response times."""
    candidates: int = Field(default=20, ge=1)
    """Number of nearest paths considered as precursors of a path that gained requests."""
    draws: int = Field(default=25, ge=0)
    """Number of resamples of the assignment, with shares drawn from their errors; 0: no confidence is
    computed.
    """
    drawn_pairs: int = Field(default=400, ge=0)
    """Maximum number of candidate pairs of a root type whose assignment is resampled, at some 20 µs a pair
    and resample.
    """
    seed: int = 0
    groups: int = Field(default=20, ge=1)
    """Maximum number of groups of moved paths shown."""
    aligned: int = Field(default=400, ge=1)
    """Maximum number of moves compared step by step, the largest; all others are summed."""
    aligned_cells: int = Field(default=2_000_000_000, ge=1)
    """Maximum number of alignment cells (steps before × steps after, summed over moves), some 0.1 ns each;
    moves of larger graphs are summed.
    """
    difference_rows: int = Field(default=60, ge=5)
    """Maximum number of steps shown of a difference."""
