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
    """Index in `nodes` of the nearest ancestor that is shown; -1 for a root."""
    where: str
    """Place of the node, `[host/]component`."""
    what: str
    kind: NodeKindName
    shade: int
    """Colour, 1 to 4 by `added_us`; 0: no significant difference."""
    added_us: float
    """Contribution to the mean of a request, B minus A, through the number of visits or the time per visit; 0
    if not coloured."""
    passing_a: float
    passing_b: float
    """Share of B's requests that pass the node (`passing_a`: of A's)."""
    visits_a: float
    visits_b: float
    """Mean visits per request of B (`visits_a`: of A)."""
    mean_a_us: float | None
    mean_b_us: float | None
    """Mean time per visit in B (`mean_a_us`: in A), calls below excluded; None without visits."""
    skipped: int
    """Steps left out between the node and its `above`."""
    skipped_a_us: float
    skipped_b_us: float
    """Mean time of the skipped steps, per request of B (`skipped_a_us`: of A)."""
    below: int
    """Number of descendants that are not shown."""


class TreeOverlayRow(Frozen):
    """Overlay of two trees."""

    kind: OverlayKind
    """Meaning of A and B: the two samples of a cluster; its suspected origin and the cluster; the nearest
    cluster and the cluster; or the cluster alone (A is B)."""
    cluster: int
    other: int
    """Number of the cluster that is A."""
    a: str
    b: str
    """Description of B (`a`: of A)."""
    requests_a: int
    requests_b: int
    mean_a_us: float
    mean_b_us: float
    """Mean response time of B (`mean_a_us`: of A)."""
    score_us: float
    """Contribution of the most coloured node to the mean response time of all requests."""
    calls: bool
    """True: nodes are calls; False: steps between trace points."""
    nodes: tuple[OverlayNode, ...]
    """In depth-first order: a node, then its descendants."""
    nodes_total: int
    first: int | None
    """Index in `nodes` of the most coloured node; None if none is coloured."""


class ClusterCategory(Frozen):
    """A category (level L1) of a cluster."""

    key: str
    """Key of the largest stored category merged into it."""
    requests: tuple[int, ...]
    """[samples] number of requests."""


class ClusterRow(Frozen):
    """One cluster."""

    number: int
    root: str
    """Root type of most of the cluster's requests."""
    root_part: float
    """Share of the cluster's requests that have root type `root`."""
    roots: int
    """Number of root types in the cluster."""
    has: str
    lacks: str
    """Call-tree nodes that distinguish the cluster from other requests of its root type: one passed by its
    requests only, one passed by the others only. Empty if there is none."""
    requests: tuple[int, ...]
    shares: tuple[float, ...]
    """[samples] share of all requests that are in the cluster."""
    of_root: tuple[float | None, ...]
    """[samples] share of its root type's requests that are in the cluster, the tested value; None without
    any."""
    mean_us: tuple[float | None, ...]
    z: float | None
    p: float | None
    q: float | None
    """q-value of the difference of `of_root` between two samples (`z`, `p`: statistic and p-value); None for
    other numbers of samples."""
    changed: bool
    nearest: int | None
    """Number of the nearest other cluster of the same root type."""
    nearest_distance: float | None
    origin: int | None
    """Suspected origin of the cluster's growth: the nearest cluster of the same root type that shrank."""
    jaccard: float | None
    """Mean Jaccard overlap of the cluster with its best match in refits."""
    categories: tuple[ClusterCategory, ...]
    categories_total: int
    rare: int
    """Categories with at most 10 requests in the cluster."""
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
    """Number of distinct rows of the feature matrix."""
    columns: int
    dimensions: int
    explained: float
    """Share of the sum of squares retained by the reduced dimensions."""
    chosen: Literal["asked", "curve"]
    curve: tuple[CurvePoint, ...]
    clusters_total: int
    clusters: tuple[ClusterRow, ...]
    """Clusters, ordered by number."""
    apart: tuple[tuple[float, ...], ...]
    """[clusters, clusters] distances between the centres of `clusters`."""
    reseeded: tuple[float, ...]
    halved: tuple[float, ...]
    """Adjusted Rand indices of refits on two halves of the requests (`reseeded`: from other initial
    centres)."""
    categories: int
    """Number of categories at level L1."""
    rand_categories: float
    """Adjusted Rand index of clusters against categories."""
    homogeneity: float
    completeness: float
    overlays: tuple[TreeOverlayRow, ...]
    """Overlays, highest score first."""
    overlays_total: int
