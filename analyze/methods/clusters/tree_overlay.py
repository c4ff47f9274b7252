"""Overlay two calling-context trees: find where they diverge, and where one is slower (HotAC 2007 §2.3).

The two sides, A and B, are sums over groups of requests, each group a block of time. Each node of either tree
has the sides that contain it, visits, time, and the time that a difference adds to the mean response time,
which is its colour. A difference is coloured if it exceeds the differences between blocks of one side (all
nodes of the overlay corrected together), and a floor; nodes below a divergence are not coloured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analyze.methods.clusters.calling_tree import ROOT, CallingTree
from analyze.methods.clusters.settings import ClustersSettings
from analyze.stats.multiple import q_values
from schemas.arrays import B1, F8, I8
from schemas.report.clusters import NodeKindName

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix


@dataclass(frozen=True, slots=True)
class Side:
    """Sums of one side of an overlay by block of time; matrices are float64[nodes, blocks]."""

    asked: F8
    """Requests that pass the parent of each node, float64[nodes, blocks]; for a root all requests."""
    through: F8
    """Weighted number of requests that pass each node, float64[nodes, blocks]."""
    visits: F8
    """Weighted number of visits of each node, float64[nodes, blocks]."""
    time_us: F8
    """Weighted time at each node summed over visits, µs, float64[nodes, blocks]."""
    time_squares: F8
    """Weighted squared time at each node summed over visits, µs², float64[nodes, blocks]."""
    requests: float
    """Weighted number of requests of the side."""

    @property
    def n_visits(self) -> F8:
        """Number of visits of each node, float64[nodes]."""
        return np.asarray(self.visits.sum(axis=1))

    def mean_us(self) -> F8:
        """Mean time of a visit of each node, µs, float64[nodes]; NaN without a visit."""
        return _ratio(self.time_us, self.visits)[0]

    def single_error_us(self) -> F8:
        """Standard error of `mean_us` by the scatter of visits, float64[nodes]; requests are the independent
        units."""
        visits, through = self.n_visits, self.through.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = self.time_squares.sum(axis=1) / visits - self.mean_us() ** 2
            return np.asarray(np.sqrt(np.maximum(spread, 0.0) / through))

    def passing(self) -> F8:
        """Share of the side's requests that pass each node, float64[nodes], in [0, 1]; 0 without requests."""
        return np.asarray(self.through.sum(axis=1) / max(self.requests, 1e-300))

    @property
    def total_us(self) -> float:
        """Sum of the times of all nodes per request, µs."""
        return float(self.time_us.sum()) / max(self.requests, 1e-300)


def _ratio(part: F8, whole: F8) -> tuple[F8, F8, F8]:
    """Ratios of sums: (Σ part / Σ whole, standard error of this ratio by the scatter of blocks, number of
    blocks - 1), each float64[rows].

    part, whole: float64[rows, blocks]. Linearised, with blocks as the sampling units. The ratio is NaN where
    whole is 0, the error infinite for one block.
    """
    total = whole.sum(axis=1)
    blocks = (whole > 0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = part.sum(axis=1) / total
        rest = np.where(whole > 0, part - ratio[:, None] * whole, 0.0)
        error = np.sqrt((rest**2).sum(axis=1) * blocks / np.maximum(blocks - 1, 0)) / total
    return ratio, np.where(blocks > 1, error, np.inf), np.maximum(blocks - 1, 0).astype(np.float64)


@dataclass(frozen=True, slots=True)
class TreeOverlay:
    """Overlay of two trees; arrays are [nodes] of either side, a node comes after its parent."""

    node: I8
    """Number of each node in the `CallingTree`, int64[nodes]."""
    above: I8
    """Index of each node's parent in these arrays, int64[nodes]; ROOT for a root."""
    sides: tuple[Side, Side]
    kind: tuple[NodeKindName, ...]
    """Kind of difference of each node."""
    by_paths_us: F8
    """Time per request added by more or fewer visits of the subtree, B minus A, µs, float64[nodes]; 0 if not
    significant."""
    by_time_us: F8
    """Time per request added by longer or shorter visits of the node, B minus A, µs, float64[nodes]; 0 if not
    significant."""

    @property
    def colour_us(self) -> F8:
        """Larger of |by_paths_us| and |by_time_us| of each node, µs, float64[nodes]."""
        return np.maximum(np.abs(self.by_paths_us), np.abs(self.by_time_us))

    @property
    def first(self) -> int:
        """Index of the most strongly coloured node; -1 if no node is coloured."""
        colour = self.colour_us
        return int(np.argmax(colour)) if len(colour) and colour.max() > 0 else -1


def overlaid(
    tree: CallingTree, a: Sequence[int], b: Sequence[int], settings: ClustersSettings, *, phi: float = 1.0
) -> TreeOverlay:
    """Overlay the trees of two sides, each a list of groups. O(nodes of either).

    settings: criteria for colours; phi: over-dispersion of shares.
    """
    matrices = (tree.through, tree.visits, tree.time_us, tree.time_squares)
    parts = [[matrix[:, list(side)] for matrix in matrices] for side in (a, b)]
    node = np.unique(np.concatenate([part.indices for _, part, *_ in parts])).astype(np.int64)
    place = np.full(tree.n_nodes + 1, ROOT, dtype=np.int64)
    place[node] = np.arange(len(node))
    above = place[tree.above[node]]
    sides = [
        _side(node, above, tree.requests[list(groups)], part)
        for groups, part in zip((a, b), parts, strict=True)
    ]
    time = _by_time(sides[0], sides[1], settings)
    paths = _by_paths(above, sides[0], sides[1], settings, phi)
    sure = q_values(np.concatenate([time.p, paths.p])) <= settings.q
    by_time = np.where(sure[: len(node)] & time.passes, time.added_us, 0.0)
    by_paths = np.where(sure[len(node) :] & paths.passes, paths.added_us, 0.0)
    kinds = tuple(
        _kind(*map(float, numbers))
        for numbers in zip(sides[0].n_visits, sides[1].n_visits, by_paths, by_time, strict=True)
    )
    return TreeOverlay(node, above, (sides[0], sides[1]), kinds, by_paths, by_time)


def _side(node: I8, above: I8, requests: F8, matrices: Sequence[csc_matrix]) -> Side:
    passed, visited, time, squares = (part.tocsr()[node].toarray() for part in matrices)
    asked = np.where((above == ROOT)[:, None], requests[None, :], passed[np.maximum(above, 0)])
    return Side(asked, passed, visited, time, squares, float(requests.sum()))


def _kind(visits_a: float, visits_b: float, paths: float, time: float) -> NodeKindName:
    if visits_a <= 0:
        return "only-b"
    if visits_b <= 0:
        return "only-a"
    if paths == 0 and time == 0:
        return "same"
    if abs(paths) > abs(time):
        return "more" if paths > 0 else "fewer"
    return "slower" if time > 0 else "faster"


class _Differences(NamedTuple):
    """Differences between the two sides; arrays are [nodes]."""

    added_us: F8
    """Time that the difference adds per request, B minus A, µs."""
    p: F8
    """Two-sided p of Student's t, float64[nodes]; the degrees of freedom are the numbers of blocks of both
    sides minus 2. NaN: not tested."""
    passes: B1
    """bool[nodes]: True for differences above the floors."""


def _p(difference: F8, error: F8, freedom: F8, tested: B1) -> F8:
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(difference == 0, 0.0, np.abs(difference) / error)
    return np.where(tested, 2 * stdtr(np.maximum(freedom, 1.0), -t), np.nan)


def _by_time(a: Side, b: Side, settings: ClustersSettings) -> _Differences:
    """Compute the differences of time: mean number of visits per request times the change of the mean time of
    a visit."""
    (mean_a, error_a, free_a), (mean_b, error_b, free_b) = (_ratio(s.time_us, s.visits) for s in (a, b))
    difference = mean_b - mean_a
    # Blocks of few requests may be equal by chance: the error is at least that of single requests.
    error = np.maximum(np.hypot(error_a, error_b), np.hypot(a.single_error_us(), b.single_error_us()))
    large = np.abs(difference) >= settings.time_floor * np.minimum(mean_a, mean_b)
    visits = (a.n_visits / max(a.requests, 1e-300) + b.n_visits / max(b.requests, 1e-300)) / 2
    added = np.nan_to_num(visits * difference)
    matters = np.abs(added) >= settings.time_share * min(a.total_us, b.total_us)
    seen = np.minimum(a.through.sum(axis=1), b.through.sum(axis=1)) >= settings.least_times
    passes = large & matters & (difference != 0) & (np.abs(difference) >= settings.min_z * error)
    return _Differences(added, _p(difference, error, free_a + free_b, seen), passes)


def _by_paths(above: I8, a: Side, b: Side, settings: ClustersSettings, phi: float) -> _Differences:
    """Compute the differences of visits: change of the rate at which requests at the parent enter the node,
    times the mean time of the node's subtree.

    Not tested below a node that only one side has: the trees diverge there.
    """
    (rate_a, error_a, free_a), (rate_b, error_b, free_b) = (_ratio(s.visits, s.asked) for s in (a, b))
    asked_a, asked_b = a.asked.sum(axis=1), b.asked.sum(axis=1)
    visits = a.n_visits + b.n_visits
    with np.errstate(divide="ignore", invalid="ignore"):
        # The error is at least that of a proportion: blocks with shares of all 0 or all 1 do not differ.
        pooled = np.minimum(visits / (asked_a + asked_b), 1.0)
        least = np.maximum(pooled * (1 - pooled), 0.25 / (asked_a + asked_b))
        least = phi * least * (1 / asked_a + 1 / asked_b)
        error = np.maximum(np.hypot(error_a, error_b), np.sqrt(least))
        lasting = _with_all_below(above, (a.time_us + b.time_us).sum(axis=1)) / visits
    difference = rate_b - rate_a
    met = (asked_a > 0) & (asked_b > 0)
    reached = (asked_a / max(a.requests, 1e-300) + asked_b / max(b.requests, 1e-300)) / 2
    floor = np.where((rate_a > 0) & (rate_b > 0), settings.share_floor, settings.new_floor)
    passes = (np.abs(difference) >= floor) & (np.abs(difference) >= settings.min_z * error)
    added = np.nan_to_num(difference * reached * lasting)
    return _Differences(added, _p(difference, error, free_a + free_b, met), passes)


def _with_all_below(above: I8, value: F8) -> F8:
    """Sum a value over each node and all its descendants, float64[nodes]."""
    total = value.copy()
    parents = above.tolist()
    for place in range(len(parents) - 1, -1, -1):
        if parents[place] != ROOT:
            total[parents[place]] += total[place]
    return total
