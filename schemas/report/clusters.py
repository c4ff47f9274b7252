"""Section `clusters`: requests grouped by K-means, and overlays of the groups' calling-context trees.

Clusters are numbered from 1, by size. A is the first of two sides, B the second. Times are µs.
"""

from __future__ import annotations

from typing import Literal

from schemas.report.parts import Frozen, Section

NodeKindName = Literal["same", "only-a", "only-b", "more", "fewer", "slower", "faster"]
OverlayKind = Literal["samples", "origin", "nearest", "alone"]


class OverlayNode(Frozen):
    """A node of an overlay of two calling-context trees, present in one or both."""

    above: int
    """Place in `nodes` of the nearest ancestor that is shown; -1 for a root."""
    where: str
    """`[host/]component`."""
    what: str
    kind: NodeKindName
    shade: int
    """0: no difference beyond chance; 1 to 4 by `added_us`."""
    added_us: float
    """Time that the node adds to a request's mean, B less A: from the number of visits, or from time a visit;
    0 if not coloured."""
    passing_a: float
    passing_b: float
    """Share of the side's requests that pass the node."""
    visits_a: float
    visits_b: float
    """Mean visits of a request of the side."""
    mean_a_us: float | None
    mean_b_us: float | None
    """Mean time of a visit without the calls below it; None: the side never visits the node."""
    skipped: int
    """Steps between this node and the ancestor shown that are left out."""
    skipped_a_us: float
    skipped_b_us: float
    """Mean time of the skipped steps, per request of the side."""
    below: int
    """Descendants that are not shown."""


class TreeOverlayRow(Frozen):
    """Overlay of two trees."""

    kind: OverlayKind
    """A and B: a cluster's two samples; its suspected origin and it; the nearest cluster and it; or it alone
    (A is B)."""
    cluster: int
    other: int
    """Number of A's cluster."""
    a: str
    b: str
    """Descriptions of A and B."""
    requests_a: int
    requests_b: int
    mean_a_us: float
    mean_b_us: float
    """Mean response times."""
    score_us: float
    """Time that the most coloured node adds to the mean response time of all requests."""
    calls: bool
    """True: nodes are calls; False: steps between trace points."""
    nodes: tuple[OverlayNode, ...]
    """In depth-first order: a node, then its descendants."""
    nodes_total: int
    first: int | None
    """Place in `nodes` of the most coloured node; None if none is coloured."""


class ClusterCategory(Frozen):
    """A category (level L1) of a cluster."""

    key: str
    """Key of its largest stored category."""
    requests: tuple[int, ...]
    """[samples] requests."""


class ClusterRow(Frozen):
    """One cluster."""

    number: int
    root: str
    """Root type of most of its requests."""
    root_part: float
    """Share of its requests with that root type."""
    roots: int
    """Number of root types in it."""
    has: str
    lacks: str
    """Call-tree nodes that set the cluster apart from the other requests of its root type: one that its
    requests pass, one that only the others pass. Empty if none does."""
    requests: tuple[int, ...]
    shares: tuple[float, ...]
    """[samples] share of all requests."""
    of_root: tuple[float | None, ...]
    """[samples] share of the requests of its root type: the value tested; None without any."""
    mean_us: tuple[float | None, ...]
    z: float | None
    p: float | None
    q: float | None
    """Test of the difference of `of_root` between two samples; None for other numbers of samples."""
    changed: bool
    nearest: int | None
    """Nearest other cluster of the same root type."""
    nearest_distance: float | None
    origin: int | None
    """Suspected origin of its growth: the nearest cluster of the same root type that shrank."""
    jaccard: float | None
    """Mean Jaccard overlap with its best match in refits."""
    categories: tuple[ClusterCategory, ...]
    categories_total: int
    rare: int
    """Categories of at most 10 requests in it."""
    rare_requests: int


class CurvePoint(Frozen):
    """One tried number of clusters."""

    k: int
    score: float
    se: float
    inertia: float


class ClustersSection(Section):
    """Groups that requests fall into, and the differences of groups and samples."""

    section: Literal["clusters"] = "clusters"
    features: str
    style: Literal["robust", "paper"]
    samples: tuple[str, ...]
    requests: int
    rows: int
    """Distinct rows of the feature matrix."""
    columns: int
    dimensions: int
    explained: float
    """Share of the sum of squares that the reduced dimensions retain."""
    chosen: Literal["asked", "curve"]
    curve: tuple[CurvePoint, ...]
    clusters_total: int
    clusters: tuple[ClusterRow, ...]
    """Ordered by number."""
    apart: tuple[tuple[float, ...], ...]
    """[clusters, clusters] distances between the centres of `clusters`."""
    reseeded: tuple[float, ...]
    halved: tuple[float, ...]
    """Adjusted Rand indices of refits: from other first centres; from two halves of the requests."""
    categories: int
    """Categories at level L1."""
    rand_categories: float
    """Adjusted Rand index of clusters against categories."""
    homogeneity: float
    completeness: float
    overlays: tuple[TreeOverlayRow, ...]
    """Ordered by score."""
    overlays_total: int
