"""Cluster distinct rows with weights by K-means (HOT §2.1; ALGORITHMS F)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from analyze.methods.clusters.features import Points
from analyze.methods.clusters.settings import ClustersSettings
from schemas.arrays import F8, I8

_MOST_ROUNDS: Final = 300
_BATCH: Final = 8_192


@dataclass(frozen=True, slots=True)
class Partition:
    """Rows in clusters; cluster 0 has the most weight."""

    centre: F8
    """[clusters, dimensions]"""
    label: I8
    """[rows] cluster."""
    inertia: float
    """Weighted sum of squared distances to the own centre."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters, none empty."""
        return len(self.centre)

    def distances(self, points: Points) -> F8:
        """[rows, clusters] Euclidean distances of points to the centres."""
        from sklearn.metrics.pairwise import euclidean_distances

        return np.asarray(euclidean_distances(points, self.centre))

    def apart(self) -> F8:
        """[clusters, clusters] distances between centres: the similarity matrix (HOT §2.3)."""
        from sklearn.metrics.pairwise import euclidean_distances

        found: F8 = euclidean_distances(self.centre)
        np.fill_diagonal(found, 0.0)
        return found


def partition(
    points: Points, weight: F8, k: int, settings: ClustersSettings, *, seed: int, starts: int
) -> Partition:
    """The best of several runs of K-means; batches where there are many rows. Deterministic.

    Fewer clusters than asked for where fewer points differ.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

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
        # Fewer distinct points than clusters: seen in the number of clusters that come back.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Sums of several threads come in any order, and a tie would go either way. The products are small:
        # a second thread takes twice the CPU and saves no time.
        with threadpool_limits(limits=1):
            model.fit(points, sample_weight=weight)
    label = np.asarray(model.labels_, dtype=np.int64)
    held = np.bincount(label, weight, len(model.cluster_centers_))
    used = np.flatnonzero(np.bincount(label, minlength=len(held)))
    order = used[np.argsort(-held[used], kind="stable")]
    number = np.full(len(held), -1, np.int64)
    number[order] = np.arange(len(order))
    return Partition(np.asarray(model.cluster_centers_)[order], number[label], float(model.inertia_))


def moved_on(found: Partition, points: Points) -> I8:
    """[rows] nearest centre of other points."""
    from sklearn.metrics import pairwise_distances_argmin

    return np.asarray(pairwise_distances_argmin(points, found.centre), dtype=np.int64)
