"""Cluster distinct weighted rows by K-means, choose the number of clusters, and validate them (HotAC 2007
§2.1).

They are validated by silhouette, stability, and agreement with categories. Stable clusters recur if K-means
starts from other centres, or on random halves of the requests. Clusters merge rare categories; they do not
replace categories (TR §4.1): a mutation and its precursor may be in one cluster.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.special import entr

from analyze.methods.clusters.cluster_shares import ClusteredRequests
from analyze.methods.clusters.features import Points, halves
from analyze.methods.clusters.settings import ClustersSettings
from analyze.numbering import Numbering
from analyze.population import Population
from analyze.stats.moments import LARGE
from analyze.stats.sums import row_totals, totals
from schemas.arrays import B1, F8, I8
from schemas.report.clusters import CurvePoint

_MOST_ROUNDS: Final = 300
_BATCH: Final = 8_192


@dataclass(frozen=True, slots=True)
class Partition:
    """Partition of rows into clusters; cluster 0 has the largest weight."""

    centre: F8
    """Coordinates of the clusters' centres, float64[clusters, dimensions]."""
    label: I8
    """Index of the cluster of each row, int64[rows]."""
    inertia: float
    """Weighted sum of squared distances between rows and the centres of their clusters."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters; none is empty."""
        return len(self.centre)

    def distances(self, points: Points) -> F8:
        """Euclidean distance of each point to each centre, float64[rows, clusters]."""
        from sklearn.metrics.pairwise import euclidean_distances

        return np.asarray(euclidean_distances(points, self.centre))

    def apart(self) -> F8:
        """Distance between the centres of each pair of clusters, float64[clusters, clusters]: the similarity
        matrix (HotAC 2007 §2.3)."""
        from sklearn.metrics.pairwise import euclidean_distances

        found: F8 = euclidean_distances(self.centre)
        np.fill_diagonal(found, 0.0)
        return found


def partition(
    points: Points, weight: F8, k: int, settings: ClustersSettings, *, seed: int, starts: int
) -> Partition:
    """Cluster points by K-means: the best of `starts` runs; by mini-batches if there are many rows.
    Deterministic.

    Fewer than `k` clusters if there are fewer distinct points.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    n_rows = points.shape[0]
    k = min(k, n_rows)
    paper = settings.style == "paper"
    options: dict[str, Any] = {
        "n_clusters": k,
        "n_init": starts,
        "random_state": seed,
        "max_iter": _MOST_ROUNDS,
        "init": "random" if paper else "k-means++",
    }
    model = (
        KMeans(**options, tol=0.0 if paper else 1e-4)
        if n_rows <= settings.whole_rows
        else MiniBatchKMeans(**options, batch_size=_BATCH)
    )
    with warnings.catch_warnings():
        # With fewer distinct points than clusters sklearn warns; the caller sees the number of clusters
        # returned.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # One thread: sums of several threads have no fixed order, and ties would be broken at random. The
        # products are small: a second thread takes twice the CPU and saves no time.
        with _threads().limit(limits=1):
            model.fit(points, sample_weight=weight)
    label = np.asarray(model.labels_, dtype=np.int64)
    held = np.bincount(label, weight, len(model.cluster_centers_))
    used = np.flatnonzero(np.bincount(label, minlength=len(held)))
    order = used[np.argsort(-held[used], kind="stable")]
    number = np.full(len(held), -1, np.int64)
    number[order] = np.arange(len(order))
    return Partition(np.asarray(model.cluster_centers_)[order], number[label], float(model.inertia_))


@cache
def _threads() -> Any:
    """Thread pools of the loaded libraries; cached, as finding them takes longer than a small K-means."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def contingency(first: I8, second: I8, weight: F8, n_first: int = 0) -> F8:
    """Contingency table of two groupings of the same items: float64[first groups, second groups], summed
    weight.

    first, second: [items] group number, from 0; n_first: minimum number of rows, as the last groups may be
    empty. O(items).
    """
    shape = (max(n_first, int(first.max(initial=-1)) + 1), int(second.max(initial=-1)) + 1)
    return totals(first * shape[1] + second, weight, shape[0] * shape[1]).reshape(shape)


def adjusted_rand(table: F8) -> float:
    """Adjusted Rand index (Hubert and Arabie 1985): 1 for equal groupings, 0 on average by chance.

    table: result of `contingency`. 1 if both have a single group, or only groups of one request, as in
    scikit-learn.
    """
    rows, columns, whole = table.sum(axis=1), table.sum(axis=0), table.sum()
    together = _pairs(table).sum()
    in_rows, in_columns, every = _pairs(rows).sum(), _pairs(columns).sum(), float(_pairs(whole))
    if every <= 0:
        return 1.0
    expected = in_rows * in_columns / every
    most = (in_rows + in_columns) / 2
    return 1.0 if most == expected else float((together - expected) / (most - expected))


def _pairs(count: F8) -> F8:
    return np.asarray(count * (count - 1) / 2)


class Purity(NamedTuple):
    """Agreement of a second grouping with a first one (Rosenberg and Hirschberg 2007); both numbers in [0,
    1]."""

    homogeneity: float
    """Homogeneity: 1 if every group of the second grouping has members of only one group of the first."""
    completeness: float
    """Completeness: 1 if all members of each group of the first grouping are in one group of the second."""


def purity(table: F8) -> Purity:
    """Homogeneity and completeness of the second grouping with respect to the first.

    table: result of `contingency`.
    """
    first, second = _entropy(table.sum(axis=1)), _entropy(table.sum(axis=0))
    both = _entropy(table.reshape(-1))
    mutual = first + second - both
    return Purity(
        1.0 if first <= 0 else min(1.0, max(0.0, float(mutual / first))),
        1.0 if second <= 0 else min(1.0, max(0.0, float(mutual / second))),
    )


def _entropy(count: F8) -> float:
    return float(entr(count / max(count.sum(), 1e-300)).sum())


def best_jaccard(table: F8) -> F8:
    """Largest Jaccard overlap of each group of the first grouping with a group of the second; float64[first
    groups], 0 for none."""
    union = table.sum(axis=1)[:, None] + table.sum(axis=0)[None, :] - table
    with np.errstate(divide="ignore", invalid="ignore"):
        alike = np.where(union > 0, table / union, 0.0)
    return np.asarray(alike.max(axis=1, initial=0.0))


_GRID: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_STARTS: Final = 3
"""Number of K-means runs for each tried number of clusters."""
_RESTARTS: Final = 2
"""Number of K-means runs in each refit of the stability check."""


def number_of_clusters(
    points: Points, weight: F8, n_requests: int, settings: ClustersSettings
) -> tuple[int, tuple[CurvePoint, ...]]:
    """Choose the number of clusters by the silhouette of sampled points: (number, curve of silhouettes).

    Robust style takes the smallest number within a standard error of the best, paper style the best. The
    curve is ascending by number, and empty if the number is given. (The sum of squares would always prefer
    more clusters.) n_requests: sample size for the standard error.
    """
    n_rows = points.shape[0]
    if settings.clusters or n_rows < 3:
        asked = settings.clusters or n_rows
        return max(1, min(asked, n_rows)), ()
    curve: list[CurvePoint] = []
    for k in (k for k in _GRID if k <= n_rows):
        found = partition(
            points, weight, k, settings, seed=settings.seed, starts=min(_STARTS, settings.starts)
        )
        if found.n_clusters < 2 or (curve and found.n_clusters <= curve[-1].k):
            break
        curve.append(_scored(found, points, weight, n_requests))
    if not curve:
        return 1, ()
    best = max(curve, key=lambda point: (point.score, -point.k))
    if settings.style == "paper":
        return best.k, tuple(curve)
    return next(point.k for point in curve if point.score >= best.score - best.se), tuple(curve)


def _scored(found: Partition, points: Points, weight: F8, n_requests: int) -> CurvePoint:
    value = simplified_silhouette(found.distances(points), found.label)
    mean = float(np.average(value, weights=weight))
    spread = float(np.average((value - mean) ** 2, weights=weight))
    se = float(np.sqrt(spread / max(n_requests, 1)))
    return CurvePoint(k=found.n_clusters, score=mean, se=se, inertia=found.inertia)


def simplified_silhouette(distance: F8, label: I8) -> F8:
    """Simplified silhouette of each row, float64[rows]: (b - a) / max(a, b), 0 for 0/0.

    a: distance to the centre of the row's cluster, b: to the nearest other centre. distance: float64[rows,
    clusters], at least 2 clusters. After Hruschka, de Castro and Campello 2004.
    """
    rows = np.arange(len(label))
    own = distance[rows, label]
    others = distance.copy()
    others[rows, label] = np.inf
    other = others.min(axis=1)
    largest = np.maximum(own, other)
    return np.asarray(np.where(largest > 0, (other - own) / np.where(largest > 0, largest, 1.0), 0.0))


@dataclass(frozen=True, slots=True)
class Stability:
    """Recurrence of a partition when K-means is repeated (refits)."""

    reseeded: tuple[float, ...]
    """Adjusted Rand index between the partition and each refit from other first centres."""
    halved: tuple[float, ...]
    """Adjusted Rand index between the partitions of two random halves, measured on all rows; one per refit,
    without refits in which by chance one half is empty."""
    jaccard: F8
    """Mean over refits of the best Jaccard overlap of each cluster with a cluster of the refit,
    float64[clusters]; NaN without refits."""


def stability(
    found: Partition, label: I8, points: Points, weight: F8, settings: ClustersSettings
) -> Stability:
    """Repeat a clustering on samples of points, and measure the agreement. Deterministic.

    label: cluster of each of `points`; weight: of each.
    """
    from sklearn.metrics import pairwise_distances_argmin

    reseeded, halved, overlaps = [], [], []

    def refit(share: F8, seed: int) -> I8:
        there = share > 0
        made = partition(
            points[there],
            share[there],
            found.n_clusters,
            settings,
            seed=seed,
            starts=min(_RESTARTS, settings.starts),
        )
        return np.asarray(pairwise_distances_argmin(points, made.centre), dtype=np.int64)

    for number in range(1, settings.refits + 1):
        seed = settings.seed + number
        refits = [refit(weight, seed)]
        reseeded.append(adjusted_rand(contingency(label, refits[0], weight)))
        parts = halves(weight, seed)
        if all(half.any() for half in parts):
            first, second = (refit(half, seed) for half in parts)
            halved.append(adjusted_rand(contingency(first, second, weight)))
            refits += [first, second]
        overlaps += [best_jaccard(contingency(label, other, weight, found.n_clusters)) for other in refits]
    seen = np.bincount(label, minlength=found.n_clusters) > 0
    mean = np.mean(overlaps, axis=0) if overlaps else np.full(found.n_clusters, np.nan)
    return Stability(tuple(reseeded), tuple(halved), np.where(seen, mean, np.nan))


@dataclass(frozen=True, slots=True)
class PathAgreement:
    """Agreement of clusters with categories of level L1, each of which has one root type and one sequence of
    tokens."""

    category: I8
    """Index of the L1 category of each stored category, int64[stored categories]."""
    key: tuple[str, ...]
    """Key of the largest stored category in each L1 category."""
    count: I8
    """Number of requests, int64[L1 categories, clusters, samples]."""
    rare: B1
    """bool[L1 categories]: True for categories with at most LARGE requests, all samples together."""
    adjusted_rand: float
    purity: Purity
    """Homogeneity and completeness of clusters by categories."""

    def members(self, cluster: int) -> list[int]:
        """Indices of the L1 categories in a cluster, by number of requests, descending."""
        held = self.count[:, cluster].sum(axis=1)
        return [one for one in np.argsort(-held, kind="stable").tolist() if held[one] > 0]


def path_agreement(population: Population, clustered: ClusteredRequests) -> PathAgreement:
    """Compute the weighted agreement of clusters with categories. O(categories · clusters)."""
    number = Numbering[tuple[str, tuple[str, ...]]]()
    graphs = [category.graph for category in population.categories]
    code = np.array([number[graph.root, graph.text.tokens] for graph in graphs], dtype=np.int64)
    count = row_totals(clustered.count, code, len(number))
    table = row_totals(clustered.weight.sum(axis=2), code, len(number))
    size = np.array([category.n_requests for category in population.categories])
    order = np.lexsort((-size, code))
    _, first = np.unique(code[order], return_index=True)
    key = tuple(population.categories[order[place]].graph.key for place in first.tolist())
    return PathAgreement(
        code, key, count, count.sum(axis=(1, 2)) <= LARGE, adjusted_rand(table), purity(table)
    )
