"""Overlay two calling-context trees: where they part, where one is slower (HOT §2.3).

The two sides, A and B, are sums over groups of requests, each group a block of time. Per node of either: who
has it, how often, how long, and what a difference adds to the mean request's time, which is its colour. A
difference is coloured where it is more than its blocks differ among themselves (all nodes of the overlay
corrected together), and more than a floor; what lies below a parting has no colour of its own.

Overlaid are a cluster's two samples, or a cluster and its nearest of the same root type, which it is best
distinguished from; where the cluster grew, the nearest of those that shrank is its suspected origin. Shown is
what differs, the ways to it and where time goes; the rest is counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from analyze.methods.clusters.calling_tree import ROOT, CallingTree
from analyze.methods.clusters.cluster_shares import ClusteredRequests, ClusterShareTests
from analyze.methods.clusters.settings import ClustersSettings
from analyze.report.moment_rows import number
from analyze.stats.multiple import q_values
from schemas.arrays import B1, F8, I8
from schemas.report.clusters import OverlayNode

_TIME_SHARE: Final = 0.01
"""A time that adds less of the mean request's time than this is not coloured."""
_LEAST_TIMES: Final = 5.0
"""Requests of either side whose times tell something."""
NONE: Final = -1
_LEAST_REQUESTS: Final = 10
"""Requests of either side for an overlay."""
_Kind = Literal["samples", "origin", "nearest", "alone"]
_MOST_NODES: Final = 40
"""A tree of at most so many nodes is shown whole."""
_MOST_COLOURED: Final = 14
_MOST_PARTINGS: Final = 8
_MOST_TIMES: Final = 8
"""Nodes without a colour that take the most time."""
_SHADES: Final = 4


if TYPE_CHECKING:
    from scipy.sparse import csc_matrix


class NodeKind(StrEnum):
    """What differs at a node."""

    SAME = "same"
    ONLY_A = "only-a"
    ONLY_B = "only-b"
    MORE = "more"
    FEWER = "fewer"
    SLOWER = "slower"
    FASTER = "faster"


@dataclass(frozen=True, slots=True)
class Gates:
    """What is coloured."""

    q: float
    """Share of false ones among the coloured of an overlay (Benjamini-Hochberg)."""
    min_z: float
    time_floor: float
    """Relative."""
    share_floor: float
    """Visits of a request that passes the node above."""
    new_floor: float
    """The same where only one side has the node."""
    phi: float = 1.0
    """Over-dispersion of shares."""


@dataclass(frozen=True, slots=True)
class Side:
    """Sums of one side by block; matrices are [nodes, blocks]."""

    asked: F8
    """Requests that pass the node above; of a root all."""
    through: F8
    visits: F8
    time_us: F8
    time_squares: F8
    requests: float

    @property
    def n_visits(self) -> F8:
        """[nodes]"""
        return np.asarray(self.visits.sum(axis=1))

    def mean_us(self) -> F8:
        """[nodes] mean time of a visit; NaN without one."""
        return _ratio(self.time_us, self.visits)[0]

    def single_error_us(self) -> F8:
        """[nodes] standard error of that mean were requests independent; visits of one request are not."""
        visits, through = self.n_visits, self.through.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = self.time_squares.sum(axis=1) / visits - self.mean_us() ** 2
            return np.asarray(np.sqrt(np.maximum(spread, 0.0) / through))

    def passing(self) -> F8:
        """[nodes] share of the requests that pass; 0 without requests."""
        return np.asarray(self.through.sum(axis=1) / max(self.requests, 1e-300))

    @property
    def total_us(self) -> float:
        """Sum of the nodes' times of a mean request."""
        return float(self.time_us.sum()) / max(self.requests, 1e-300)


def _ratio(part: F8, whole: F8) -> tuple[F8, F8, F8]:
    """([rows] sum of part over sum of whole, its standard error from blocks, blocks less 1).

    part, whole: [rows, blocks]. Linearised, blocks being what is drawn; NaN where whole is 0, infinite for
    one block.
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
    """Arrays are [nodes of either side]; a node comes after the one above."""

    node: I8
    """Number in the tree."""
    above: I8
    """Place of the node above; ROOT for a root."""
    sides: tuple[Side, Side]
    kind: tuple[NodeKind, ...]
    by_paths_us: F8
    """What more or fewer visits from here on add to a mean request, B less A; 0 where it is not coloured."""
    by_time_us: F8
    """What longer or shorter visits add; 0 where it is not coloured."""

    @property
    def colour_us(self) -> F8:
        """The larger of the two, as a size."""
        return np.maximum(np.abs(self.by_paths_us), np.abs(self.by_time_us))

    @property
    def first(self) -> int:
        """Place of the most coloured node; -1 where none is."""
        colour = self.colour_us
        return int(np.argmax(colour)) if len(colour) and colour.max() > 0 else -1


def overlaid(tree: CallingTree, a: Sequence[int], b: Sequence[int], gates: Gates) -> TreeOverlay:
    """The trees of two lists of groups on each other. O(nodes of either)."""
    matrices = (tree.through, tree.visits, tree.time_us, tree.time_squares)
    parts = [[matrix[:, list(side)] for matrix in matrices] for side in (a, b)]
    node = np.unique(np.concatenate([part.indices for _, part, *_ in parts])).astype(np.int64)
    place = np.full(tree.n_nodes + 1, ROOT, dtype=np.int64)
    place[node] = np.arange(len(node))
    above = place[tree.above[node]]
    sides = tuple(
        _side(node, above, tree.requests[list(groups)], part)
        for groups, part in zip((a, b), parts, strict=True)
    )
    time, paths = _by_time(sides[0], sides[1], gates), _by_paths(above, sides[0], sides[1], gates)
    sure = q_values(np.concatenate([time.p, paths.p])) <= gates.q
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


def _kind(visits_a: float, visits_b: float, paths: float, time: float) -> NodeKind:
    if visits_a <= 0:
        return NodeKind.ONLY_B
    if visits_b <= 0:
        return NodeKind.ONLY_A
    if paths == 0 and time == 0:
        return NodeKind.SAME
    if abs(paths) > abs(time):
        return NodeKind.MORE if paths > 0 else NodeKind.FEWER
    return NodeKind.SLOWER if time > 0 else NodeKind.FASTER


class _Differences(NamedTuple):
    """Arrays are [nodes]."""

    added_us: F8
    p: F8
    """Two-sided, Student's with a degree for each block less one; NaN: not tested."""
    passes: B1
    """Beyond the floors."""


def _p(difference: F8, error: F8, freedom: F8, tested: B1) -> F8:
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(difference == 0, 0.0, np.abs(difference) / error)
    return np.where(tested, 2 * stdtr(np.maximum(freedom, 1.0), -t), np.nan)


def _by_time(a: Side, b: Side, gates: Gates) -> _Differences:
    """Visits of a mean request times how much longer one takes."""
    (mean_a, error_a, free_a), (mean_b, error_b, free_b) = (_ratio(s.time_us, s.visits) for s in (a, b))
    difference = mean_b - mean_a
    # Blocks of few requests may be alike by chance: at least the error that single requests show.
    error = np.maximum(np.hypot(error_a, error_b), np.hypot(a.single_error_us(), b.single_error_us()))
    large = np.abs(difference) >= gates.time_floor * np.minimum(mean_a, mean_b)
    visits = (a.n_visits / max(a.requests, 1e-300) + b.n_visits / max(b.requests, 1e-300)) / 2
    added = np.nan_to_num(visits * difference)
    matters = np.abs(added) >= _TIME_SHARE * min(a.total_us, b.total_us)
    seen = np.minimum(a.through.sum(axis=1), b.through.sum(axis=1)) >= _LEAST_TIMES
    passes = large & matters & (difference != 0) & (np.abs(difference) >= gates.min_z * error)
    return _Differences(added, _p(difference, error, free_a + free_b, seen), passes)


def _by_paths(above: I8, a: Side, b: Side, gates: Gates) -> _Differences:
    """How much more often a request that is above goes on here, times what it takes from here on.

    Not tested below a node that only one side has: the ways parted before.
    """
    (rate_a, error_a, free_a), (rate_b, error_b, free_b) = (_ratio(s.visits, s.asked) for s in (a, b))
    asked_a, asked_b = a.asked.sum(axis=1), b.asked.sum(axis=1)
    visits = a.n_visits + b.n_visits
    with np.errstate(divide="ignore", invalid="ignore"):
        # At least the error of a proportion: blocks that all say 0 or 1 do not differ.
        pooled = np.minimum(visits / (asked_a + asked_b), 1.0)
        least = np.maximum(pooled * (1 - pooled), 0.25 / (asked_a + asked_b))
        least = gates.phi * least * (1 / asked_a + 1 / asked_b)
        error = np.maximum(np.hypot(error_a, error_b), np.sqrt(least))
        lasting = _with_all_below(above, (a.time_us + b.time_us).sum(axis=1)) / visits
    difference = rate_b - rate_a
    met = (asked_a > 0) & (asked_b > 0)
    reached = (asked_a / max(a.requests, 1e-300) + asked_b / max(b.requests, 1e-300)) / 2
    floor = np.where((rate_a > 0) & (rate_b > 0), gates.share_floor, gates.new_floor)
    passes = (np.abs(difference) >= floor) & (np.abs(difference) >= gates.min_z * error)
    added = np.nan_to_num(difference * reached * lasting)
    return _Differences(added, _p(difference, error, free_a + free_b, met), passes)


def _with_all_below(above: I8, value: F8) -> F8:
    """[nodes] sums over a node and all nodes below."""
    total = value.copy()
    parents = above.tolist()
    for place in range(len(parents) - 1, -1, -1):
        if parents[place] != ROOT:
            total[parents[place]] += total[place]
    return total


@dataclass(frozen=True, slots=True)
class HeldAgainst:
    """One overlay."""

    kind: _Kind
    cluster: int
    """Whose tree B is."""
    other: int
    """Whose tree A is; the same cluster where the two samples are compared with each other."""
    overlay: TreeOverlay
    weight: float
    """Share of all requests of the second sample (or the only one) that it is about."""

    @property
    def score_us(self) -> float:
        """What the most coloured node adds to the mean response time of all requests."""
        colour = self.overlay.colour_us
        return self.weight * float(colour.max(initial=0.0))


def nearest_of_root(apart: F8, dominant: I8, wanted: B1 | None = None) -> I8:
    """[clusters] nearest other cluster of the same dominant root type, of those wanted; NONE without one."""
    distance = np.where(dominant[:, None] == dominant[None, :], apart, np.inf)
    np.fill_diagonal(distance, np.inf)
    if wanted is not None:
        distance[:, ~wanted] = np.inf
    nearest = distance.argmin(axis=1)
    found = np.isfinite(distance[np.arange(len(apart)), nearest])
    return np.where(found, nearest, NONE).astype(np.int64)


def origins(apart: F8, dominant: I8, tests: ClusterShareTests) -> I8:
    """[clusters] of those that grew: nearest cluster of the same root type that shrank; else NONE."""
    shrank = tests.after < tests.before
    origin = nearest_of_root(apart, dominant, shrank)
    return np.where(tests.changed & (tests.after > tests.before), origin, NONE).astype(np.int64)


def held_against(
    tree: CallingTree,
    clustered: ClusteredRequests,
    nearest: I8,
    origin: I8,
    settings: ClustersSettings,
    *,
    noise_assumed: bool,
) -> list[HeldAgainst]:
    """All overlays, by what their most coloured node adds; then by requests.

    noise_assumed: the first sample is too short to tell how far ordinary times differ.
    """
    found = list(_all(tree, clustered, nearest, origin, settings, noise_assumed=noise_assumed))
    found.sort(key=lambda one: (-one.score_us, -one.weight, one.cluster, one.kind))
    return found


def _all(
    tree: CallingTree,
    clustered: ClusteredRequests,
    nearest: I8,
    origin: I8,
    settings: ClustersSettings,
    *,
    noise_assumed: bool,
) -> Iterator[HeldAgainst]:
    samples = clustered.n_samples
    last = clustered.weight[:, :, -1].sum(axis=0)
    share = last / max(last.sum(), 1e-300)
    count = clustered.count.sum(axis=0)
    floors = (settings.share_floor, settings.new_floor)
    gates = within = Gates(settings.q, settings.min_z, settings.time_floor, *floors)
    if samples == 2:
        tau = settings.assumed_tau if noise_assumed else settings.min_tau
        moved = max(settings.time_floor, math.expm1(settings.min_z * tau))
        gates = Gates(
            settings.q, settings.min_z, moved, *floors, phi=settings.assumed_phi if noise_assumed else 1.0
        )

    def side(cluster: int, sample: int) -> range:
        first = (cluster * samples + sample) * settings.blocks
        return range(first, first + settings.blocks)

    for cluster in range(clustered.n_clusters):
        every = [*side(cluster, 0), *side(cluster, samples - 1)] if samples == 2 else side(cluster, 0)
        named = False
        if samples == 2 and (count[cluster] >= _LEAST_REQUESTS).all():
            both = overlaid(tree, side(cluster, 0), side(cluster, 1), gates)
            named = True
            yield HeldAgainst("samples", cluster, cluster, both, float(share[cluster]))
        other = int(origin[cluster])
        if other != NONE and count[other, 0] >= _LEAST_REQUESTS and count[cluster, 1] >= _LEAST_REQUESTS:
            both = overlaid(tree, side(other, 0), side(cluster, 1), gates)
            named = True
            yield HeldAgainst("origin", cluster, other, both, float(share[cluster]))
        other = int(nearest[cluster])
        if samples == 1 and other != NONE and min(count[cluster, 0], count[other, 0]) >= _LEAST_REQUESTS:
            both = overlaid(tree, side(other, 0), side(cluster, 0), gates)
            named = True
            yield HeldAgainst("nearest", cluster, other, both, float(share[cluster]))
        if not named:
            itself = overlaid(tree, every, every, within)
            yield HeldAgainst("alone", cluster, cluster, itself, float(share[cluster]))


def shade(added_us: float, largest_us: float) -> int:
    """1 to 4 by part of the largest, on a root scale so that small ones show; 0 for none."""
    if added_us == 0 or largest_us <= 0:
        return 0
    return min(_SHADES, 1 + int(math.sqrt(abs(added_us) / largest_us) * (_SHADES - 0.001)))


def shown_nodes(tree: CallingTree, found: TreeOverlay) -> tuple[list[OverlayNode], int | None]:
    """(nodes in order, place of the most coloured one)."""
    kept = _kept(found)
    children = _children(found)
    rows: list[OverlayNode] = []
    row_of: dict[int, int] = {}
    a, b = found.sides
    means = a.mean_us(), b.mean_us()
    passing = a.passing(), b.passing()
    times = tuple(s.time_us.sum(axis=1) / max(s.requests, 1e-300) for s in found.sides)
    visits = tuple(s.n_visits / max(s.requests, 1e-300) for s in found.sides)
    largest = float(found.colour_us.max(initial=0.0))
    below = _below(found, kept)
    todo = [(place, ROOT, 0, 0.0, 0.0) for place in reversed(children[ROOT])]
    while todo:
        place, above, skipped, skipped_a, skipped_b = todo.pop()
        if place in kept:
            paths, time = float(found.by_paths_us[place]), float(found.by_time_us[place])
            added = paths if abs(paths) > abs(time) else time
            name = tree.names[int(found.node[place])]
            row_of[place] = len(rows)
            rows.append(
                OverlayNode(
                    above=above,
                    where=name.where,
                    what=name.what,
                    kind=found.kind[place].value,
                    shade=shade(added, largest),
                    added_us=added,
                    passing_a=float(passing[0][place]),
                    passing_b=float(passing[1][place]),
                    visits_a=float(visits[0][place]),
                    visits_b=float(visits[1][place]),
                    mean_a_us=number(means[0][place]),
                    mean_b_us=number(means[1][place]),
                    skipped=skipped,
                    skipped_a_us=skipped_a,
                    skipped_b_us=skipped_b,
                    below=below[place],
                )
            )
            above, skipped, skipped_a, skipped_b = row_of[place], 0, 0.0, 0.0
        else:
            skipped += 1
            skipped_a += float(times[0][place])
            skipped_b += float(times[1][place])
        todo += [(child, above, skipped, skipped_a, skipped_b) for child in reversed(children[place])]
    return rows, row_of.get(found.first)


def _children(found: TreeOverlay) -> dict[int, list[int]]:
    """Place -> places below it, the most visited first; ROOT -> roots."""
    traffic = (found.sides[0].n_visits + found.sides[1].n_visits).tolist()
    children: dict[int, list[int]] = {place: [] for place in range(ROOT, len(found.node))}
    for place, above in enumerate(found.above.tolist()):
        children[above].append(place)
    for places in children.values():
        places.sort(key=lambda place: (-traffic[place], place))
    return children


def _kept(found: TreeOverlay) -> set[int]:
    above = found.above.tolist()
    if len(above) <= _MOST_NODES:
        return set(range(len(above)))
    kept = {place for place, up in enumerate(above) if up == ROOT}
    colour = found.colour_us
    coloured = [p for p in np.argsort(-colour, kind="stable").tolist() if colour[p] > 0][:_MOST_COLOURED]
    parted = np.maximum(found.sides[0].passing(), found.sides[1].passing())
    only = (NodeKind.ONLY_A, NodeKind.ONLY_B)
    partings = [
        place
        for place, up in enumerate(above)
        if found.kind[place] in only and (up == ROOT or found.kind[up] not in only)
    ]
    partings.sort(key=lambda place: (-parted[place], place))
    time = sum(s.time_us.sum(axis=1) / max(s.requests, 1e-300) for s in found.sides)
    longest: list[int] = np.argsort(-np.asarray(time), kind="stable")[:_MOST_TIMES].tolist()
    kept |= {*coloured, *partings[:_MOST_PARTINGS], *longest}
    kept |= {above[place] for place in [*coloured, *partings[:_MOST_PARTINGS]] if above[place] != ROOT}
    return kept | _forks(above, kept)


def _forks(above: list[int], kept: set[int]) -> set[int]:
    """Places below which kept ones lie on several ways."""
    ways = [0] * len(above)
    leads = [place in kept for place in range(len(above))]
    for place in range(len(above) - 1, -1, -1):
        up = above[place]
        leads[place] = leads[place] or ways[place] > 0
        if leads[place] and up != ROOT:
            ways[up] += 1
    return {place for place, n in enumerate(ways) if n > 1}


def _below(found: TreeOverlay, kept: set[int]) -> list[int]:
    """[places] nodes that hang below a kept one and lead to none that is."""
    above = found.above.tolist()
    leads = [place in kept for place in range(len(above))]
    for place in range(len(above) - 1, -1, -1):
        if leads[place] and above[place] != ROOT:
            leads[above[place]] = True
    count = [0] * len(above)
    for place in range(len(above) - 1, -1, -1):
        up = above[place]
        if not leads[place]:
            count[place] += 1
        if up != ROOT and place not in kept:
            count[up] += count[place]
            count[place] = 0 if leads[place] else count[place]
    return count
