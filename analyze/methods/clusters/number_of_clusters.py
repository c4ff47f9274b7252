"""How many clusters: a score for each number of a grid, and which is taken (HOT §2.1; ALGORITHMS F)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.clusters.clusters_settings import ClustersSettings
from analyze.methods.clusters.feature_space import Points
from analyze.methods.clusters.partition import Partition, partition
from schemas.arrays import F8, I8

GRID: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
STARTS: Final = 3
"""Runs of K-means for one point of the curve."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One point of the curve."""

    k: int
    score: float
    """Mean simplified silhouette, -1 to 1."""
    se: float
    inertia: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The number of clusters and where it comes from."""

    k: int
    curve: tuple[Scored, ...]
    """Ascending; empty where there was nothing to choose."""


def number_of_clusters(points: Points, weight: F8, n_requests: int, settings: ClustersSettings) -> Choice:
    """Of drawn points: robust the smallest number within a standard error of the best, paper the best.

    The sum of squares alone always prefers more, so it is the silhouette that is best. n_requests: what the
    standard error is of.
    """
    n_rows = points.shape[0]
    if settings.clusters or n_rows < 3:
        asked = settings.clusters or n_rows
        return Choice(max(1, min(asked, n_rows)), ())
    curve: list[Scored] = []
    for k in _grid(n_rows, settings.around):
        found = partition(
            points, weight, k, settings, seed=settings.seed, starts=min(STARTS, settings.starts)
        )
        if found.n_clusters < 2 or (curve and found.n_clusters <= curve[-1].k):
            break
        curve.append(_scored(found, points, weight, n_requests))
    if not curve:
        return Choice(1, ())
    return Choice(_chosen(curve, settings), tuple(curve))


def _grid(n_rows: int, around: int) -> Sequence[int]:
    grid = [k for k in GRID if k <= n_rows]
    if around:
        near = {k for k in grid if around / 2 <= k <= around * 2} | {min(max(around, 2), n_rows)}
        return sorted(near)
    return grid


def _chosen(curve: Sequence[Scored], settings: ClustersSettings) -> int:
    best = max(curve, key=lambda point: (point.score, -point.k))
    if settings.style == "paper":
        return best.k
    return next(point.k for point in curve if point.score >= best.score - best.se)


def _scored(found: Partition, points: Points, weight: F8, n_requests: int) -> Scored:
    value = simplified_silhouette(found.distances(points), found.label)
    mean = float(np.average(value, weights=weight))
    spread = float(np.average((value - mean) ** 2, weights=weight))
    return Scored(found.n_clusters, mean, float(np.sqrt(spread / max(n_requests, 1))), found.inertia)


def simplified_silhouette(distance: F8, label: I8) -> F8:
    """[rows] (b - a)/max(a, b), a the distance to the own centre, b to the nearest other; 0 for 0/0.

    distance: [rows, clusters], at least 2 clusters. After Hruschka, de Castro and Campello 2004.
    """
    rows = np.arange(len(label))
    own = distance[rows, label]
    others = distance.copy()
    others[rows, label] = np.inf
    other = others.min(axis=1)
    largest = np.maximum(own, other)
    return np.asarray(np.where(largest > 0, (other - own) / np.where(largest > 0, largest, 1.0), 0.0))
