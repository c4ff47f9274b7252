"""Clusters against categories: how alike the two groupings are, and which categories a cluster merges.

Clusters merge rare categories; they replace none (TR §4.1): a mutation and its precursor may be one cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.methods.clusters.clustered_requests import ClusteredRequests
from analyze.population import Population
from analyze.stats.agreement import Purity, adjusted_rand, purity
from analyze.stats.moments import LARGE
from schemas.arrays import B1, I8


@dataclass(frozen=True, slots=True)
class PathAgreement:
    """Categories of level L1 are those of one root type and one folded sequence."""

    category: I8
    """[stored categories] number of the L1 category."""
    key: tuple[str, ...]
    """[L1 categories] key of the stored one with most requests."""
    count: I8
    """[L1 categories, clusters, samples] requests."""
    rare: B1
    """[L1 categories] at most LARGE requests in all samples."""
    adjusted_rand: float
    purity: Purity
    """Of clusters by categories."""

    def members(self, cluster: int) -> list[int]:
        """L1 categories of a cluster, the largest first."""
        held = self.count[:, cluster].sum(axis=1)
        return [one for one in np.argsort(-held, kind="stable").tolist() if held[one] > 0]


def path_agreement(population: Population, clustered: ClusteredRequests) -> PathAgreement:
    """Agreement by weight. O(categories · clusters)."""
    number: dict[tuple[str, tuple[str, ...]], int] = {}
    code = np.array(
        [
            number.setdefault((category.graph.root, category.graph.tokens), len(number))
            for category in population.categories
        ],
        dtype=np.int64,
    )
    n = len(number)
    count = np.zeros((n, *clustered.count.shape[1:]), np.int64)
    np.add.at(count, code, clustered.count)
    table = np.zeros((n, clustered.n_clusters))
    np.add.at(table, code, clustered.weight.sum(axis=2))
    size = np.array([category.n_requests for category in population.categories])
    order = np.lexsort((-size, code))
    _, first = np.unique(code[order], return_index=True)
    key = tuple(population.categories[order[place]].graph.key for place in first.tolist())
    return PathAgreement(
        code, key, count, count.sum(axis=(1, 2)) <= LARGE, adjusted_rand(table), purity(table)
    )
