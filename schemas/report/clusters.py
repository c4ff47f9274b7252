"""Section `clusters`: requests grouped by K-means, and the groups' calling-context trees laid on each other.

Clusters are numbered from 1, by size. A is the first of two sides, B the second. Times are µs.
"""

from __future__ import annotations

from typing import Literal

from schemas.report.parts import Frozen, Section

NodeKindName = Literal["same", "only-a", "only-b", "more", "fewer", "slower", "faster"]
OverlayKind = Literal["samples", "origin", "nearest", "alone"]


class OverlayNode(Frozen):
    """A node of two calling-context trees; both have it, or one."""

    above: int
    """Place in `nodes` of the nearest node above that is shown; -1 for a root."""
    where: str
    """`[host/]component`."""
    what: str
    kind: NodeKindName
    shade: int
    """0: no difference beyond chance; 1 to 4 by what it adds to the mean request's time."""
    added_us: float
    """That, B less A: by visits from here on, or by time; 0 where it is not coloured."""
    passing_a: float
    passing_b: float
    """Share of the side's requests that pass the node."""
    visits_a: float
    visits_b: float
    """Mean visits of a request of the side."""
    mean_a_us: float | None
    mean_b_us: float | None
    """Of a visit, without what it calls; None: the side has none."""
    skipped: int
    """Steps between this node and the one above that are not shown."""
    skipped_a_us: float
    skipped_b_us: float
    """What they take of a mean request."""
    below: int
    """Nodes below that are not shown."""


class TreeOverlayRow(Frozen):
    """Two trees on each other."""

    kind: OverlayKind
    """A cluster's two samples, its suspected origin and it, its nearest and it, or it alone (A is B)."""
    cluster: int
    other: int
    """Cluster that A is of."""
    a: str
    b: str
    """In words."""
    requests_a: int
    requests_b: int
    mean_a_us: float
    mean_b_us: float
    """Mean response times."""
    score_us: float
    """What the most coloured node adds to the mean response time of all requests."""
    calls: bool
    """Nodes are calls; else steps between trace points."""
    nodes: tuple[OverlayNode, ...]
    """In order: a node, then what is below it."""
    nodes_total: int
    first: int | None
    """Place in `nodes` of the most coloured one."""


class ClusterCategory(Frozen):
    """A category (level L1) of a cluster."""

    key: str
    """Of its largest stored category."""
    requests: tuple[int, ...]
    """By sample."""


class ClusterRow(Frozen):
    """One cluster."""

    number: int
    root: str
    """Root type of most of its requests."""
    root_part: float
    """Share of its requests that have it."""
    roots: int
    """Root types in it."""
    has: str
    lacks: str
    """Node of the call tree that its requests pass and the others of the root type do not, and the other way
    round; empty where none is telling."""
    requests: tuple[int, ...]
    shares: tuple[float, ...]
    """Of all requests of a sample."""
    of_root: tuple[float | None, ...]
    """Of the requests of its root type, by sample; None without any: what the test is of."""
    mean_us: tuple[float | None, ...]
    z: float | None
    p: float | None
    q: float | None
    """Two samples only."""
    changed: bool
    nearest: int | None
    """Nearest other cluster of the same root type."""
    nearest_distance: float | None
    origin: int | None
    """Where it grew: nearest cluster of the same root type that shrank."""
    jaccard: float | None
    """Mean overlap with its likeness when the clustering is done again."""
    categories: tuple[ClusterCategory, ...]
    categories_total: int
    rare: int
    """Categories of at most 10 requests among them."""
    rare_requests: int


class CurvePoint(Frozen):
    """One number of clusters that was tried."""

    k: int
    score: float
    se: float
    inertia: float


class ClustersSection(Section):
    """What groups requests fall into, and how groups and samples differ."""

    section: Literal["clusters"] = "clusters"
    features: str
    style: Literal["robust", "paper"]
    samples: tuple[str, ...]
    requests: int
    rows: int
    """Distinct rows of features."""
    columns: int
    dimensions: int
    explained: float
    """Part of the sum of squares that the dimensions keep."""
    chosen: Literal["asked", "curve"]
    curve: tuple[CurvePoint, ...]
    clusters_total: int
    clusters: tuple[ClusterRow, ...]
    """By number."""
    apart: tuple[tuple[float, ...], ...]
    """Distances between the centres of `clusters`."""
    reseeded: tuple[float, ...]
    halved: tuple[float, ...]
    """Adjusted Rand of refits: other first centres; two halves of the requests."""
    categories: int
    """Level L1."""
    rand_categories: float
    """Adjusted Rand of clusters and categories."""
    homogeneity: float
    completeness: float
    overlays: tuple[TreeOverlayRow, ...]
    """By score."""
    overlays_total: int
