"""Settings of `flowdiff clusters`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.config import Config, Expert


class ClustersSettings(Config):
    """Features, K-means, tests and colours of clusters."""

    features: Literal["combined", "points", "latencies", "counts"] = "combined"
    """Features of a request: trace points it reaches, mean latency or number of each step between two points,
    or all three, each set weighing the same."""
    style: Literal["robust", "paper"] = "robust"
    """robust: logarithms, columns of one spread, at most `dimensions` of them; paper: the values as they are,
    K random requests as first centres, the best K of all."""
    clusters: int = Field(default=0, ge=0)
    """Number of clusters; 0: the grid is tried, and the curve shown."""
    starts: Expert[int] = Field(default=10, ge=1)
    """K-means is begun that often, the best end is taken."""
    dimensions: int = Field(default=50, ge=2)
    """Most dimensions (truncated SVD); more mean less (curse of dimensionality)."""
    least_presence: Expert[float] = Field(default=0.001, ge=0, lt=1)
    """A column is left out that fewer requests have."""
    tried_rows: Expert[int] = Field(default=5_000, ge=100)
    """Requests drawn, by weight, that the number of clusters and stability are computed from."""
    whole_rows: Expert[int] = Field(default=50_000, ge=100)
    """Up to so many distinct rows plain K-means runs on all of them; beyond on batches."""
    refits: Expert[int] = Field(default=3, ge=0)
    """Times that other first centres, and other halves of the requests, are tried for stability."""
    q: float = Field(default=0.003, gt=0, lt=1)
    """Share of false ones among the clusters whose share changed, and among the coloured nodes of an
    overlay (Benjamini-Hochberg)."""
    min_z: float = Field(default=3.0, gt=0, le=30)
    """A change counts when it is so many standard errors, over-dispersion included."""
    share_floor: float = Field(default=0.05, ge=0, le=1)
    """Smallest change of a cluster's share that counts."""
    new_floor: float = Field(default=0.01, ge=0, le=1)
    """The same for a cluster that is new or gone."""
    share_margin: Expert[float] = Field(default=0.02, ge=0, le=1)
    """A share must leave what the blocks of the reference show by this much."""
    assumed_phi: Expert[float] = Field(default=3.0, ge=1, le=1e6)
    """Over-dispersion of shares where a reference is too short to tell."""
    time_floor: float = Field(default=0.10, ge=0, le=1_000)
    """Smallest relative change of a node's time that is coloured."""
    min_tau: Expert[float] = Field(default=0.05, ge=0, le=10)
    """Noise of a node's log time between two samples is taken to be this at least."""
    assumed_tau: Expert[float] = Field(default=0.20, ge=0, le=10)
    """The same where the reference is too short to tell."""
    time_share: Expert[float] = Field(default=0.01, ge=0, le=1)
    """A node's time is coloured that adds this part of the mean request's at least."""
    least_times: Expert[int] = Field(default=5, ge=1)
    """Requests of either side by which a node's time is known."""
    overlay_requests: Expert[int] = Field(default=10, ge=1)
    """Requests of either side for an overlay."""
    mark_share: Expert[float] = Field(default=0.3, gt=0, le=1)
    """A node marks a cluster where the share of its requests that pass it differs by this from the share of
    the others of its root type."""
    blocks: Expert[int] = Field(default=8, ge=2)
    """The reference is cut into this many blocks of time."""
    seed: int = 0
    """Seed of first centres and draws."""
