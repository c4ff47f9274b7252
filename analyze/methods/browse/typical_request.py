"""The typical request of a category: its medoid, and the mean of all (H.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.paths.critical_path import edge_latency_ns
from analyze.population import Category
from analyze.stats.kernel_density import weighted_quantile
from schemas.arrays import F8

NS_PER_US = 1e3


@dataclass(frozen=True, slots=True)
class Medoid:
    """The request nearest to the medians of its category's edges."""

    row: int
    """Of the category."""
    distance: float
    """Mean over edges of |ln(1 + x/µs) - median|; 0 for a graph without edges."""


def medoid(category: Category, rows: slice) -> Medoid:
    """The request of some with the smallest Σ_e |ln(1 + x_e/µs) - median_e|; of equals the first.

    The logarithm is of one microsecond more: what takes next to nothing does not decide. Medians are weighted
    ones (the lower). Raises ValueError without a request. O(edges · requests log requests).
    """
    if rows.start >= rows.stop:
        raise ValueError("a category without a request has no typical one")
    latency = edge_latency_ns(category)[rows]
    weight = category.weight[rows]
    equal = bool((weight == weight[0]).all())
    far = np.zeros(len(weight))
    for edge in range(latency.shape[1]):
        x = np.log1p(latency[:, edge] / NS_PER_US)
        far += np.abs(x - (_lower_median(x) if equal else weighted_quantile(x, weight, 0.5)))
    row = int(np.argmin(far))
    edges = latency.shape[1]
    return Medoid(rows.start + row, float(far[row]) / edges if edges else 0.0)


def _lower_median(x: F8) -> float:
    middle = (len(x) - 1) // 2
    return float(np.partition(x, middle)[middle])


def mean_times(category: Category, rows: slice) -> F8:
    """[nodes] weighted mean time of every node since the request's start, ns.

    In every request dst >= src along an edge, so it is in the means; along every path the means of edges add
    up to the mean time of the node at its end.
    """
    weight = category.weight[rows]
    found: F8 = category.node_ns[:, rows] @ weight / weight.sum()
    return found
