"""Section `clusters`: requests grouped by K-means, and overlays of the groups' calling-context trees.

Clusters are numbered from 1, by size. An overlay compares two sets of requests, side A and side B. Times are
µs.
"""

from __future__ import annotations

from typing import Literal

from schemas.report.parts import Frozen, Section

NodeKindName = Literal["same", "only-a", "only-b", "more", "fewer", "slower", "faster"]
OverlayKind = Literal["samples", "origin", "nearest", "alone"]


class OverlayNode(Frozen):
    """A node of an overlay of two calling-context trees, present in one or both."""

    above: int
    """Index in `nodes` of the nearest ancestor that is listed; -1 for a root of the tree."""
    where: str
    """Component of the node, `[host/]component`."""
    what: str
    kind: NodeKindName
    shade: int
    """Intensity of the colour, 1 to 4, by `added_us`; 0: no significant difference."""
    added_us: float
    """Contribution to the mean response time, side B minus side A, µs, through the number of visits or the
    time per visit; 0 if the difference is not significant.
    """
    passing_a: float
    """Share of the requests of side A that visit the node, in [0, 1]."""
    passing_b: float
    """Share of the requests of side B that visit the node, in [0, 1]."""
    visits_a: float
    """Mean number of visits of the node per request of side A."""
    visits_b: float
    """Mean number of visits of the node per request of side B."""
    mean_a_us: float | None
    """Mean self time of the node per visit on side A, µs; None without visits."""
    mean_b_us: float | None
    """Mean self time of the node per visit on side B, µs; None without visits."""
    skipped: int
    """Number of nodes left out between this node and `above`."""
    skipped_a_us: float
    """Mean self time of the nodes left out between this node and `above`, µs per request of side A."""
    skipped_b_us: float
    """Mean self time of the nodes left out between this node and `above`, µs per request of side B."""
    below: int
    """Number of descendants that are not shown."""


class TreeOverlayRow(Frozen):
    """Overlay of the calling-context trees of two sets of requests, side A and side B."""

    kind: OverlayKind
    """Meaning of sides A and B: `samples` – the cluster in the first and in the second sample; `origin` – the
    cluster's suspected origin, and the cluster; `nearest` – the nearest cluster, and the cluster; `alone` –
    the cluster on both sides."""
    cluster: int
    other: int
    """Number of the cluster on side A."""
    a: str
    """Description of side A in words."""
    b: str
    """Description of side B in words."""
    requests_a: int
    requests_b: int
    mean_a_us: float
    """Mean response time of the requests of side A, µs."""
    mean_b_us: float
    """Mean response time of the requests of side B, µs."""
    score_us: float
    """Contribution of the node with the largest difference to the mean response time of all requests, µs."""
    calls: bool
    """True: nodes are calls; False: steps between trace points."""
    nodes: tuple[OverlayNode, ...]
    """Nodes in depth-first order, each followed by its descendants."""
    nodes_total: int
    first: int | None
    """Index in `nodes` of the node with the largest significant difference; None if no difference is
    significant."""


class ClusterCategory(Frozen):
    """A category (level of detail L1) that occurs in a cluster."""

    key: str
    """Key of the category; the key of the largest one if several stored categories were merged into it."""
    requests: tuple[int, ...]
    """[samples] number of the cluster's requests in the category."""


class ClusterRow(Frozen):
    """One cluster of requests, and its size and mean in each sample."""

    number: int
    root: str
    """Root type of most of the cluster's requests."""
    root_part: float
    """Share of the cluster's requests that have root type `root`."""
    roots: int
    """Number of root types in the cluster."""
    has: str
    """Call-tree node that only the cluster's requests visit; empty if there is none."""
    lacks: str
    """Call-tree node that the cluster's requests never visit and other requests of its root type do; empty if
    there is none.
    """
    requests: tuple[int, ...]
    shares: tuple[float, ...]
    """[samples] share of the sample's requests that are in the cluster."""
    of_root: tuple[float | None, ...]
    """[samples] share of the requests of type `root` that are in the cluster, the tested value; None without
    such requests.
    """
    mean_us: tuple[float | None, ...]
    z: float | None
    """Change of `of_root` from the first to the second sample over its standard error; None unless there are
    two samples."""
    p: float | None
    """p-value of the change of `of_root`; None unless there are two samples."""
    q: float | None
    """p-value of the change of `of_root`, corrected for the number of clusters; None unless there are two
    samples.
    """
    changed: bool
    nearest: int | None
    """Number of the nearest other cluster of the same root type."""
    nearest_distance: float | None
    origin: int | None
    """Suspected origin of the cluster's growth: the nearest cluster of the same root type that shrank."""
    jaccard: float | None
    """Mean Jaccard overlap of the cluster with its best match in repeated fits, 0 to 1."""
    categories: tuple[ClusterCategory, ...]
    categories_total: int
    rare: int
    """Number of categories with at most 10 requests in the cluster."""
    rare_requests: int


class CurvePoint(Frozen):
    """One tried number of clusters `k`, with the scores of the fit."""

    k: int
    score: float
    se: float
    inertia: float


class ClustersSection(Section):
    """Clusters of requests, and overlays that show how clusters and samples differ."""

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
    """Share of the sum of squares that the reduced dimensions retain, 0 to 1."""
    chosen: Literal["asked", "curve"]
    curve: tuple[CurvePoint, ...]
    clusters_total: int
    clusters: tuple[ClusterRow, ...]
    """Clusters by ascending number."""
    apart: tuple[tuple[float, ...], ...]
    """[clusters, clusters] distance between the centres of two clusters."""
    reseeded: tuple[float, ...]
    """Adjusted Rand indices of fits from other initial centres, compared with the clusters."""
    halved: tuple[float, ...]
    """Adjusted Rand indices of fits on two halves of the requests, compared with the clusters."""
    categories: int
    """Number of distinct categories at level of detail L1."""
    rand_categories: float
    """Adjusted Rand index of clusters against categories."""
    homogeneity: float
    completeness: float
    overlays: tuple[TreeOverlayRow, ...]
    """Overlays of call trees, highest score first."""
    overlays_total: int
