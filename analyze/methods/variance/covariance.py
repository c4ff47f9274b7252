"""Attribute the variance of a group of requests to its parts, and correlate the parts (VarianceFinder §4.3).

A part is an edge of the group's graph, or a call site. y_e is the critical time of part e and Σ_e y_e = T,
the response time, so share_e = Cov(y_e, T)/Var(T) adds up to 1. A part with a negative share compensates for
the others: it is short when they are long. Two parts that are long together may be a queue and the busy
component behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtr

from analyze.methods.variance.markers import LabelRules
from analyze.methods.variance.variance_decomposition import NOWHERE, TOLERANCE, RequestGroups
from analyze.population import Graph, Population
from analyze.profile.names import PartName, edge_name, site_name
from analyze.profile.times import AllPathTimes, at_sites
from analyze.stats.multiple import q_values
from analyze.stats.rank import rank_scores
from analyze.stats.time_blocks import autocorrelation_time, blocks_for
from schemas.arrays import B1, F8, I8

_MOST_SITES: Final = 60
"""Maximum number of call sites of rare paths that are separate parts (the sites with most variance); all
other call sites are merged into one part."""
_WINSORISED_AT: Final = 0.995
"""Quantile at which the times of a part are clipped, to show how far a share depends on few requests."""
_LEAST_REQUESTS: Final = 24
"""Minimum number of requests for correlations: three in each block, for the smallest number of blocks that
can be permuted."""
_MOST_PARTS: Final = 40
"""Maximum number of parts that are correlated with each other (the parts with the largest shares): 780
pairs."""
_MOST_REQUESTS: Final = 5_000
"""Maximum number of requests used for correlations; of more, requests at even distances in time.

With 5000, a rank correlation of 0.1 is 7 standard errors.
"""
_LEAST_RHO: Final = 0.1
_LEVEL: Final = 0.05
_WAITS: Final = re.compile(r"queue|wait|(?<![bc])lock|pend|acquire|schedul", re.IGNORECASE)
"""Pattern that matches names of trace points at which requests wait."""


@dataclass(frozen=True, slots=True)
class GroupParts:
    """Parts of the response times of one group of requests; requests are ordered by start, and each column of
    `us` adds up to a response time."""

    names: tuple[PartName, ...]
    """Name of each part: an edge or a call site."""
    us: F8
    """Time of each part in each request, µs, float64[parts, requests]."""
    marked: B1
    """bool[parts]: True for parts that a marker removes from the residual variance."""
    weight: F8
    """Weight of each request, float64[requests]."""
    category: I8
    """Index of each request's category, [requests]."""
    row: I8
    """Index of each request in its category, int64[requests]."""


def group_parts(
    population: Population,
    times: AllPathTimes,
    groups: RequestGroups,
    group: int,
    rules: LabelRules,
    *,
    by_sites: bool,
) -> GroupParts:
    """Compute the parts of a group; a group of rare paths is always divided by call sites, since rare paths
    have no edges in common. O(requests · edges)."""
    members = groups.members(group)
    alone = groups.category[group] != NOWHERE
    if alone and not by_sites:
        names, us, marked = _edges(population, times, groups, members[0], rules)
    else:
        names, us, marked = _sites(times, groups, members, rules)
    rows = [np.arange(groups.rows[c].start, groups.rows[c].stop) for c in members]
    category = np.concatenate([np.full(len(part), c) for c, part in zip(members, rows, strict=True)])
    row = np.concatenate(rows)
    start = np.concatenate([population.categories[c].start_ns[groups.rows[c]] for c in members])
    weight = np.concatenate([groups.weight[groups.part(c)] for c in members])
    order = np.argsort(start, kind="stable")
    return GroupParts(
        names, np.ascontiguousarray(us[:, order]), marked, weight[order], category[order], row[order]
    )


def _edges(
    population: Population, times: AllPathTimes, groups: RequestGroups, number: int, rules: LabelRules
) -> tuple[tuple[PartName, ...], F8, B1]:
    graph, mine = population.categories[number].graph, times.categories[number]
    names = tuple(edge_name(graph, edge, int(mine.site[edge])) for edge in range(len(graph.edges)))
    return names, mine.us[:, groups.rows[number]], rules.unmarked(graph, mine.site) == 0


def _sites(
    times: AllPathTimes, groups: RequestGroups, members: list[int], rules: LabelRules
) -> tuple[tuple[PartName, ...], F8, B1]:
    """Compute the parts of a group by call site: (names, times float64[parts, requests], bool[parts] True if
    a marker matches the site).

    Markers of single edges do not count here, only in their own category.
    """
    parts = [at_sites(times.categories[c], groups.rows[c]) for c in members]
    codes = np.unique(np.concatenate([part.codes for part in parts])) if parts else np.zeros(0, np.int64)
    energy = np.zeros(len(codes))
    for part in parts:
        energy[np.searchsorted(codes, part.codes)] += part.us.var(axis=1) * part.us.shape[1]
    kept = np.sort(codes[np.argsort(-energy, kind="stable")[:_MOST_SITES]])
    others = len(codes) > len(kept)
    n = sum(part.us.shape[1] for part in parts)
    us = np.zeros((len(kept) + others, n))
    first = 0
    for part in parts:
        past = first + part.us.shape[1]
        known = np.isin(part.codes, kept)
        us[np.searchsorted(kept, part.codes[known]), first:past] = part.us[known]
        if others:
            us[-1, first:past] = part.us[~known].sum(axis=0)
        first = past
    names = [site_name(site, times.names) for site in kept.tolist()]
    marked = [rules.accepts(name) for name in names] + [False] * others
    if others:
        names.append(PartName(f"{len(codes) - len(kept)} other sites", "", NOWHERE, NOWHERE, NOWHERE))
    return tuple(names), us, np.array(marked, dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class CovarianceShares:
    """Decomposition of a variance by parts; arrays are float64[parts]."""

    variance: float
    """Variance of the response time, µs²; if it is 0, all shares are 0."""
    mean: F8
    """Mean time of each part, µs."""
    part_variance: F8
    """Variance of the times of each part, µs²."""
    share: F8
    """Cov(part, response time) / `variance`; adds up to 1."""
    share_winsorised: F8
    """Share of each part when its times are clipped at a quantile (_WINSORISED_AT); the shares add up to
    1."""
    kept: float
    """Variance of the sum of the clipped parts, as a share of `variance`."""


def covariance_shares(us: F8, weight: F8) -> CovarianceShares:
    """Compute the shares of parts in the variance of their sum. us: float64[parts, requests]. Raises
    ValueError if they do not add up to 1.

    O(parts · requests).
    """
    mean, variance, part_variance, share = _shares(us, weight)
    cut = np.minimum(us, np.quantile(us, _WINSORISED_AT, axis=1, keepdims=True))
    _, left, _, share_cut = _shares(cut, weight)
    return CovarianceShares(
        variance, mean, part_variance, share, share_cut, left / variance if variance > 0 else 1.0
    )


def _shares(us: F8, weight: F8) -> tuple[F8, float, F8, F8]:
    """Compute (means, variance of the sum, variances of the parts, shares of the parts).

    us: float64[parts, requests].
    """
    p = weight / weight.sum()
    mean = us @ p
    off = us - mean[:, None]
    total = off.sum(axis=0)
    variance = float(p @ total**2)
    scale = float(p @ us.sum(axis=0) ** 2)
    part_variance = (off * off) @ p
    if variance <= 1e-15 * scale:
        return mean, 0.0, part_variance, np.zeros(len(us))
    share = off @ (p * total) / variance
    if abs(float(share.sum()) - 1.0) > TOLERANCE:
        raise ValueError(f"shares of a variance add up to {share.sum():.12f}")
    return mean, variance, part_variance, share


@dataclass(frozen=True, slots=True)
class CorrelatedPair:
    """Two parts whose times are correlated over the requests."""

    one: int
    """Index of the first part."""
    other: int
    """Index of the second part."""
    rho: float
    """Spearman's rank correlation of the two parts."""
    q: float
    """p of the correlation, corrected for the number of pairs."""
    covariance: float
    """Covariance of the two parts, µs²."""


def correlated_pairs(us: F8, weight: F8, share: F8) -> tuple[CorrelatedPair, ...]:
    """Find pairs of parts with a significant correlation of at least _LEAST_RHO, largest |covariance| first.

    us: float64[parts, requests] in order of time. The standard error of ρ is its standard deviation over all
    permutations of blocks of time of one part, or the standard error of independent requests if larger; q by
    Benjamini-Hochberg over all pairs. O(blocks · parts² · requests).
    """
    if us.shape[1] < _LEAST_REQUESTS:
        return ()
    varied = np.flatnonzero(us.max(axis=1) > us.min(axis=1))
    kept = np.sort(varied[np.argsort(-np.abs(share[varied]), kind="stable")[:_MOST_PARTS]])
    if len(kept) < 2:
        return ()
    step = -(-us.shape[1] // _MOST_REQUESTS)
    thin = us[np.ix_(kept, np.arange(0, us.shape[1], step))]
    # Ranks, so that one slow request does not dominate the autocorrelation.
    z = rank_scores(thin)
    first, second = np.triu_indices(len(kept), 1)
    rho = (z @ z.T)[first, second]
    se = np.maximum(_shuffled_se(z)[first, second], 1 / np.sqrt(z.shape[1] - 1))
    q = q_values(2 * ndtr(-np.abs(rho) / se))
    whole = np.cov(us[kept], ddof=0, aweights=weight)
    found = [
        CorrelatedPair(int(kept[i]), int(kept[j]), float(rho[k]), float(q[k]), float(whole[i, j]))
        for k, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True))
        if q[k] <= _LEVEL and abs(rho[k]) >= _LEAST_RHO
    ]
    return tuple(sorted(found, key=lambda pair: (-abs(pair.covariance), pair.one, pair.other)))


def _shuffled_se(z: F8) -> F8:
    """Standard error of the correlation of each two parts by chance: root mean square over permutations of
    the blocks of one of them, float64[parts, parts]."""
    n = z.shape[1]
    blocks = blocks_for(n, max(autocorrelation_time(row) for row in z))
    length = n // blocks
    cut = z[:, : blocks * length].reshape(len(z), blocks, length)
    found: F8 = np.sqrt(squares_over_orders(cut)) * (n / (blocks * length))
    return found


def squares_over_orders(cut: F8) -> F8:
    """Mean, over all permutations of blocks, of the squared product of two parts, float64[parts, parts].

    cut: float64[parts, blocks, length], the parts cut into blocks. With g[b, c] the product of block b of one
    part and block c of the other, the product for the permutation π is Σ_b g[b, π(b)]: its mean over π is Σg
    / B, its variance Σd² / (B - 1), with d = g minus the means of its rows and columns (Hoeffding 1951,
    Theorem 2). O(parts² · blocks² · length).
    """
    parts, blocks, length = cut.shape
    whole = cut.sum(axis=1)
    off = (cut - whole[:, None] / blocks).reshape(parts * blocks, length)
    squares = ((off @ off.T) ** 2).reshape(parts, blocks, parts, blocks).sum(axis=(1, 3))
    found: F8 = (whole @ whole.T / blocks) ** 2 + squares / (blocks - 1)
    return found


@dataclass(frozen=True, slots=True)
class DecomposedGroup:
    """Group of requests with the decomposition of its variance into parts."""

    group: int
    """Index of the group."""
    category: str | None
    """Key of the group's category; None for a group of rare paths."""
    impact: float
    """Share of the total variance due to the group, in [0, 1]."""
    parts: GroupParts
    shares: CovarianceShares
    pairs: tuple[CorrelatedPair, ...]
    """Significantly correlated pairs of parts."""


def queue_hints(graph: Graph, names: Sequence[PartName], pairs: Sequence[CorrelatedPair]) -> dict[int, int]:
    """Find the server behind each queue: index of the queue's edge (one that leads into another component, or
    is named like a queue) -> index of the server's edge.

    The server is the later edge of that component with the largest positive covariance with the edge.
    """
    found: dict[int, int] = {}
    for pair in pairs:  # the largest covariance first
        if pair.covariance <= 0 or pair.rho <= 0:
            continue
        one, other = sorted((pair.one, pair.other), key=lambda part: (names[part].src, names[part].dst))
        if one not in found and _serves(graph, names[one], names[other]):
            found[one] = other
    return found


def _serves(graph: Graph, waiting: PartName, serving: PartName) -> bool:
    if serving.src < waiting.dst:
        return False
    source, target = graph.nodes[waiting.src], graph.nodes[waiting.dst]
    crosses = source.component != target.component
    if not crosses and not _WAITS.search(f"{source.operation} {target.operation}"):
        return False
    begin, end = graph.nodes[serving.src], graph.nodes[serving.dst]
    return begin.component == end.component and (not crosses or begin.component == target.component)
