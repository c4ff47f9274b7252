"""Test for changes of the clusters' shares of their root type, from the first sample to the second.

Requests are counted by cluster, sample, root type, category and block of time. Shares are relative to the
requests of the cluster's dominant root type, so that a changed mix of root types is not a change. The tests
are those of `share_change`: an exact test, standard errors with the over-dispersion between the reference's
blocks, and the normal range over those blocks (the envelope).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyze.methods.clusters.settings import ClustersSettings
from analyze.population import Population
from analyze.stats.estimate import share_change
from analyze.stats.multiple import q_values
from analyze.stats.rank import requests_per_weight
from analyze.stats.sums import row_totals
from analyze.stats.time_blocks import common_blocks
from schemas.arrays import B1, F8, I8
from schemas.windows import NS_PER_US


@dataclass(frozen=True, slots=True)
class ClusteredRequests:
    """Numbers of requests, sums of weights, and sums of weighted response times, by category, cluster and
    sample."""

    label: tuple[I8, ...]
    """Per category, the index of the cluster of each request."""
    n_clusters: int
    n_samples: int
    count: I8
    """Number of requests, int64[categories, clusters, samples]."""
    weight: F8
    """Sum of the requests' weights, float64[categories, clusters, samples]."""
    response_us: F8
    """Sum of weight times response time, µs, float64[categories, clusters, samples]."""
    roots: tuple[str, ...]
    root: I8
    """Index in `roots` of the root type of each category, int64[categories]."""

    def by_root(self) -> F8:
        """Sum of weights by root type, float64[roots, clusters, samples]."""
        return row_totals(self.weight, self.root, len(self.roots))

    def dominant(self) -> I8:
        """Index of the root type with the most requests of each cluster, int64[clusters]."""
        return np.asarray(self.by_root().sum(axis=2).argmax(axis=0), dtype=np.int64)


def clustered_requests(population: Population, label: Sequence[I8], n_clusters: int) -> ClusteredRequests:
    """Count requests by category, cluster and sample. label: for each category the cluster of each request.
    O(requests)."""
    n_samples = len(population.samples)
    shape = (len(population.categories), n_clusters, n_samples)
    count, weight, response = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape)
    for number, (category, mine) in enumerate(zip(population.categories, label, strict=True)):
        cell = mine * n_samples + category.sample
        size = n_clusters * n_samples
        w = category.weight
        count[number] = np.bincount(cell, minlength=size).reshape(shape[1:])
        weight[number] = np.bincount(cell, w, size).reshape(shape[1:])
        response[number] = np.bincount(cell, w * category.response_ns / NS_PER_US, size).reshape(shape[1:])
    return ClusteredRequests(
        tuple(label), n_clusters, n_samples, count, weight, response, *population.root_types()
    )


def tested_shares(
    population: Population, clustered: ClusteredRequests, block_of: Sequence[I8], settings: ClustersSettings
) -> ClusterShareTests:
    """Test the change of every cluster's share of its dominant root type, from the first sample to the
    second.

    block_of: for each category the block of time of each request.
    """
    dominant = clustered.dominant()
    by_root = clustered.by_root()
    per_weight = _requests_per_weight(population, clustered)[dominant]
    held = by_root[dominant, np.arange(clustered.n_clusters)] * per_weight
    asked = by_root.sum(axis=1)[dominant] * per_weight
    blocks, whole = _blocks(population, clustered, block_of, settings.blocks)
    return share_tests(
        held,
        asked,
        blocks[dominant, np.arange(clustered.n_clusters)] * per_weight[:, :1],
        whole[dominant] * per_weight[:, :1],
        settings,
        noise_assumed=noise_is_assumed(population, settings),
    )


def _requests_per_weight(population: Population, clustered: ClusteredRequests) -> F8:
    """Effective number of requests per unit of weight, by root type and sample, float64[roots, samples]."""
    shape = (len(clustered.roots), clustered.n_samples)
    w, w2 = np.zeros(shape), np.zeros(shape)
    for root, category in zip(clustered.root.tolist(), population.categories, strict=True):
        w[root] += np.bincount(category.sample, category.weight, shape[1])
        w2[root] += np.bincount(category.sample, category.weight**2, shape[1])
    return requests_per_weight(w, w2)


def noise_is_assumed(population: Population, settings: ClustersSettings) -> bool:
    """True if the first of two samples is too short, compared with the second, to estimate the difference
    between normal times."""
    first, second = population.samples
    return first.length_ns < settings.blocks * second.length_ns


def _blocks(
    population: Population, clustered: ClusteredRequests, block_of: Sequence[I8], n_blocks: int
) -> tuple[F8, F8]:
    """Weights of the first sample by block of time: (of each cluster, float64[roots, clusters, blocks]; of
    all requests, float64[roots, blocks])."""
    found = np.zeros((len(clustered.roots), clustered.n_clusters, n_blocks))
    for number, (category, block) in enumerate(zip(population.categories, block_of, strict=True)):
        rows = category.rows(0)
        cell = clustered.label[number][rows] * n_blocks + block[rows]
        found[clustered.root[number]] += np.bincount(
            cell, category.weight[rows], clustered.n_clusters * n_blocks
        ).reshape(clustered.n_clusters, n_blocks)
    return found, found.sum(axis=1)


def time_blocks(population: Population, n_blocks: int) -> list[I8]:
    """Per category, the block of time of each request, numbered within its sample; blocks have equal numbers
    of requests, ±1."""
    found = [np.zeros(category.n_requests, np.int64) for category in population.categories]
    for sample in range(len(population.samples)):
        rows = [category.rows(sample) for category in population.categories]
        when = [category.start_ns[part] for category, part in zip(population.categories, rows, strict=True)]
        for block, part, dealt in zip(found, rows, common_blocks(when, n_blocks), strict=True):
            block[part] = dealt
    return found


@dataclass(frozen=True, slots=True)
class ClusterShareTests:
    """Tests of clusters' shares; arrays are [clusters]."""

    before: F8
    """Share of the cluster in the requests of its root type in the first sample, in [0, 1]; NaN without such
    requests."""
    after: F8
    """Share of the cluster in the requests of its root type in the second sample, in [0, 1]; NaN without such
    requests."""
    z: F8
    p: F8
    q: F8
    changed: B1
    """True for clusters whose share changed significantly."""


def share_tests(
    held: F8, asked: F8, blocks: F8, block_asked: F8, settings: ClustersSettings, *, noise_assumed: bool
) -> ClusterShareTests:
    """Test the change of each cluster's share `held / asked` from sample A to sample B.

    held: float64[clusters, 2] weights of the clusters in A, B; asked: float64[clusters, 2] weights of their
    root types; blocks, block_asked: the same by time block of A, float64[clusters, blocks]. noise_assumed: A
    is too short for its blocks to show the difference between normal times; the over-dispersion φ is then at
    least `assumed_phi`.
    """
    tested = (asked > 0).all(axis=1)
    x, n = np.concatenate((held, blocks), axis=1), np.concatenate((asked, block_asked), axis=1)
    prior = settings.assumed_phi if noise_assumed else 1.0
    found = share_change(np.minimum(x, n), n, prior_phi=prior, margin=settings.share_margin)
    p = np.where(tested, found.p, 1.0)
    q = np.ones(len(p))
    if tested.any():
        q[tested] = q_values(p[tested])
    floor = np.where(found.new, settings.new_floor, settings.share_floor)
    changed = tested & (q <= settings.q) & found.clears(settings.min_z, floor) & found.outside()
    return ClusterShareTests(
        found.before, found.after, np.where(tested, found.z, 0.0), p, q, np.asarray(changed)
    )
