"""Settings of `flowdiff clusters`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.config import Config, Expert


class ClustersSettings(Config):
    """Features, K-means, tests and colours of clusters."""

    features: Literal["combined", "points", "latencies", "counts"] = "combined"
    """Features of a request: the trace points it reaches (`points`), the mean latency (`latencies`) or number
    (`counts`) of each step between two points, or all three with equal weight (`combined`).
    """
    style: Literal["robust", "paper"] = "robust"
    """`robust`: logarithms, columns scaled to one spread, at most `dimensions` of them; `paper`: raw values,
    K random requests as first centres, the best K of all.
    """
    clusters: int = Field(default=0, ge=0)
    """Number of clusters; 0: a grid of numbers is tried, and the curve is shown."""
    starts: Expert[int] = Field(default=10, ge=1)
    """Number of K-means runs from different first centres, of which the best is kept."""
    dimensions: int = Field(default=50, ge=2)
    """Maximum number of dimensions after truncated SVD; distances mean less in more dimensions."""
    least_presence: Expert[float] = Field(default=0.001, ge=0, lt=1)
    """Share of requests below which a feature column is left out."""
    tried_rows: Expert[int] = Field(default=5_000, ge=100)
    """Number of requests sampled, by weight, to choose the number of clusters and to measure stability."""
    whole_rows: Expert[int] = Field(default=50_000, ge=100)
    """Number of distinct rows up to which K-means runs on all of them; above it, mini-batches are used."""
    refits: Expert[int] = Field(default=3, ge=0)
    """Number of fits with other first centres, and with other halves of the requests, that measure stability.
    """
    q: float = Field(default=0.003, gt=0, lt=1)
    """False discovery rate (Benjamini-Hochberg) among clusters whose share changed, and among coloured nodes
    of an overlay.
    """
    min_z: float = Field(default=3.0, gt=0, le=30)
    """Smallest change over its standard error (over-dispersion included) that counts."""
    share_floor: float = Field(default=0.05, ge=0, le=1)
    """Smallest change of a cluster's share of requests that counts."""
    new_floor: float = Field(default=0.01, ge=0, le=1)
    """Smallest change of share that counts for a cluster that is new or gone."""
    share_margin: Expert[float] = Field(default=0.02, ge=0, le=1)
    """Margin by which a share must lie outside the range of the reference's time blocks."""
    assumed_phi: Expert[float] = Field(default=3.0, ge=1, le=1e6)
    """Assumed over-dispersion of shares where the reference is too short to show it."""
    time_floor: float = Field(default=0.10, ge=0, le=1_000)
    """Smallest relative change of a node's time that is coloured."""
    min_tau: Expert[float] = Field(default=0.05, ge=0, le=10)
    """Minimum noise (standard deviation between samples) of a node's log time."""
    assumed_tau: Expert[float] = Field(default=0.20, ge=0, le=10)
    """Assumed noise of a node's log time where the reference is too short to show it."""
    time_share: Expert[float] = Field(default=0.01, ge=0, le=1)
    """Share of the mean request's time that a node must contribute to be coloured."""
    least_times: Expert[int] = Field(default=5, ge=1)
    """Minimum number of requests in each sample for a node's time to be known."""
    overlay_requests: Expert[int] = Field(default=10, ge=1)
    """Minimum number of requests in each sample for an overlay."""
    mark_share: Expert[float] = Field(default=0.3, gt=0, le=1)
    """Smallest difference, between a cluster and the other requests of its root type, in the share of
    requests that pass a node for that node to characterise the cluster.
    """
    blocks: Expert[int] = Field(default=8, ge=2)
    """Number of time blocks into which the reference is divided."""
    seed: int = 0
    """Seed of first centres and samples."""
