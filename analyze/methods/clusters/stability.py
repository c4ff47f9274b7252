"""Whether the clusters are there again: other first centres, other halves of the requests (ALGORITHMS F)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.clusters.clusters_settings import ClustersSettings
from analyze.methods.clusters.feature_space import Points
from analyze.methods.clusters.partition import Partition, moved_on, partition
from analyze.methods.clusters.row_draws import halves
from analyze.stats.agreement import adjusted_rand, best_jaccard, contingency
from schemas.arrays import F8, I8

_STARTS: Final = 2
"""Runs of K-means for one refit."""


@dataclass(frozen=True, slots=True)
class Stability:
    """How much of the partition comes back."""

    reseeded: tuple[float, ...]
    """Adjusted Rand with partitions from other first centres."""
    halved: tuple[float, ...]
    """Adjusted Rand between the partitions of two halves, told on all; of few requests a coin may give all to
    one half, and that refit is not here."""
    jaccard: F8
    """[clusters] mean over refits of the best overlap with a cluster of the refit; NaN without one."""


def stability(
    found: Partition, label: I8, points: Points, weight: F8, settings: ClustersSettings
) -> Stability:
    """Refits on drawn points, whose clusters are `label`. Deterministic."""
    reseeded, halved, overlaps = [], [], []

    def refit(share: F8, seed: int) -> I8:
        there = share > 0
        made = partition(
            points[there],
            share[there],
            found.n_clusters,
            settings,
            seed=seed,
            starts=min(_STARTS, settings.starts),
        )
        return moved_on(made, points)

    def held_against(other: I8) -> F8:
        table = np.zeros((found.n_clusters, int(other.max(initial=0)) + 1))
        part = contingency(label, other, weight)
        table[: part.shape[0], : part.shape[1]] = part
        overlaps.append(best_jaccard(table))
        return part

    for number in range(1, settings.refits + 1):
        seed = settings.seed + number
        reseeded.append(adjusted_rand(held_against(refit(weight, seed))))
        parts = halves(weight, seed)
        if not all(half.any() for half in parts):
            continue
        first, second = (refit(half, seed) for half in parts)
        halved.append(adjusted_rand(contingency(first, second, weight)))
        for other in (first, second):
            held_against(other)
    seen = np.bincount(label, minlength=found.n_clusters) > 0
    mean = np.mean(overlaps, axis=0) if overlaps else np.full(found.n_clusters, np.nan)
    return Stability(tuple(reseeded), tuple(halved), np.where(seen, mean, np.nan))
