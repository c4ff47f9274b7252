"""Test what changed about whole paths: the second resolution, beside call sites.

Shares and times of categories are tested, requests that moved are assigned to where they came from, like
moves are one group, and all of it adds up to the change of the mean exactly. Nothing here decides what a
comparison finds: categories are too fine for that (L), they name whole paths.

Loops that turn more or less often are one row instead of dozens of categories (C.9): categories of one root
with the same set of operations differ in counts and order only. Over each such family the number of times a
request does an operation is data. A graph of the population holds every iteration as nodes, so counts are
exact. Left out: loops in families whose set of operations changes as well (a move says so), and the time of
one iteration is an estimate (the slope of response time over the count), not a measurement.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.paths.moves import (
    OTHER,
    CandidatePairs,
    Flows,
    PathAccount,
    PathGroup,
    PathShares,
    candidate_pairs,
    decompose,
    flow_roots,
    grouped_moves,
    path_shares,
    transport,
)
from analyze.paths.path_table import PathTable, path_table
from analyze.paths.settings import PathSettings
from analyze.population import Graph, GraphNode, Population
from analyze.stats.counts import CountTests, count_tests
from analyze.stats.ks import tolerant_ks
from analyze.stats.multiple import q_values, simes
from analyze.stats.noise import LogMedians, log_medians, window_noise
from analyze.stats.rank import rank_tests, rank_tests_of_histograms
from schemas.arrays import B1, F8, I8
from schemas.windows import NS_PER_US
from stitch.graph.placed import END

_DRAWN_ROOTS = 5
"""Roots whose assignment is repeated: those with most of the change."""
_LEAST_EXPECTED = 5.0
_LEAST_SEEN = 10.0
"""A category is tested from 5 expected or 10 seen requests on; rarer ones are tested together."""
_SMALL = 20
"""Below so many requests on a side, by what weights are worth, the exact rank test is used, above the
tolerant KS."""
_LEAST_US = 1e-3
"""1 ns: what a time of 0 is raised to before its logarithm is taken."""


@dataclass(frozen=True, slots=True)
class PathChanges:
    """Everything found, in indices of the table's categories."""

    table: PathTable
    shares: PathShares
    tests: ShareTests
    times: TimeTests
    account: PathAccount
    groups: tuple[PathGroup, ...]
    """By score."""
    rest_moves: int
    """Moves that were too small to be compared step by step."""
    rest_us: float
    repeats: tuple[RepeatChange, ...]


def path_changes(population: Population, history: Population | None, settings: PathSettings) -> PathChanges:
    """Compare samples 0 and 1 of a population; `history` has samples of ordinary times, refined alike.

    Pure and deterministic. O(requests + moves · steps²/64).
    """
    table = path_table(population, history)
    shares = path_shares(table.weight, table.moments.mean_us, table.root, len(table.roots))
    tests = _share_tests(table, shares.change, settings)
    times = time_tests(table, settings)
    lost, gained = np.flatnonzero(tests.lost), np.flatnonzero(tests.gained)
    tokens = {at: table.graphs[at].tokens for at in np.union1d(lost, gained).tolist()}
    pairs = candidate_pairs(tokens, table.root, lost, gained, settings.candidates)
    supply = np.where(tests.lost, -shares.change, 0.0)
    demand = np.where(tests.gained, shares.change, 0.0)
    flows = transport(supply, demand, pairs)
    account = decompose(shares, flows, times.changed)
    groups, rest = grouped_moves(
        table,
        shares,
        flows,
        account,
        _confidence(table, shares, tests, flows, account, pairs, settings),
        settings,
    )
    return PathChanges(
        table=table,
        shares=shares,
        tests=tests,
        times=times,
        account=account,
        groups=groups,
        rest_moves=len(rest),
        rest_us=sum(move.contribution_us for move in rest),
        repeats=tuple(_repeat_changes(table, shares, settings)),
    )


def _confidence(
    table: PathTable,
    shares: PathShares,
    tests: ShareTests,
    flows: Flows,
    account: PathAccount,
    pairs: CandidatePairs,
    settings: PathSettings,
) -> F8:
    """[flows] share of draws in which at least half of a flow is there; NaN where nothing was drawn.

    Shares are drawn from the predictive law of their test; the assignment is solved anew for all draws at
    once.
    """
    confidence = np.full(len(flows.amount), np.nan)
    if not settings.draws or len(flows.amount) == 0:
        return confidence
    root = flow_roots(table, flows)
    weight = np.bincount(root, np.abs(account.flow_us), len(table.roots))
    served = np.bincount(table.root, tests.tests.seen, len(table.roots))
    for r in np.lexsort((np.arange(len(weight)), -weight))[:_DRAWN_ROOTS].tolist():
        mine = np.flatnonzero(root == r)
        near = np.flatnonzero(table.root[pairs.target] == r) if len(pairs.target) else np.zeros(0, np.int64)
        if len(mine) == 0 or len(near) > settings.drawn_pairs or served[r] <= 0:
            continue
        changed = np.flatnonzero((tests.lost | tests.gained) & (table.root == r))
        rng = np.random.default_rng((settings.seed, r))
        sd = tests.tests.sd[changed] / served[r]
        drawn = shares.change[changed] + sd * rng.standard_normal((settings.draws, len(changed)))
        local = np.full(len(table.root), OTHER, np.int64)
        local[changed] = np.arange(len(changed))
        offset = np.repeat(np.arange(settings.draws) * len(changed), len(near))
        again = transport(
            np.where(tests.lost[changed], np.maximum(-drawn, 0.0), 0.0).reshape(-1),
            np.where(tests.gained[changed], np.maximum(drawn, 0.0), 0.0).reshape(-1),
            CandidatePairs(
                np.tile(local[pairs.source[near]], settings.draws) + offset,
                np.tile(local[pairs.target[near]], settings.draws) + offset,
                np.tile(pairs.cost[near], settings.draws),
            ),
        )
        ends = [
            np.where(end == OTHER, OTHER, changed[end % len(changed)]) for end in (again.source, again.target)
        ]
        for k in mine.tolist():
            same = (ends[0] == flows.source[k]) & (ends[1] == flows.target[k])
            there = same & (again.amount >= flows.amount[k] / 2)
            confidence[k] = there.sum() / settings.draws
    return confidence


@dataclass(frozen=True, slots=True)
class ShareTests:
    """[categories] each, and the rare ones of each root together, [roots]."""

    tests: CountTests
    tested: B1
    q: F8
    gained: B1
    """Mutations (C.4): by their own test, or new kinds of a root whose rare paths gained together."""
    lost: B1
    """Precursors; likewise kinds that are gone."""
    rare: CountTests
    rare_q: F8
    rare_changed: B1
    new_kinds: I8
    """Distinct rare categories of each root that only the problem has."""
    cold: bool
    """One window of history: the noise of shares is a guess (C.3)."""


def _share_tests(table: PathTable, change: F8, settings: PathSettings) -> ShareTests:
    """Test every category's share of its root's requests in the problem against history.

    change: [categories] share in the problem less share in the reference; only a change that both see counts.
    """
    tests = count_tests(table.history, table.problem, table.root, parts=table.parts)
    here = table.moments.count.sum(axis=0) > 0
    tested = here & ((tests.expected >= _LEAST_EXPECTED) | (tests.seen >= _LEAST_SEEN))
    rare = _together(table, ~tested)
    n = len(tested)
    n_roots = len(table.roots)
    has_rare = np.bincount(table.root[~tested], minlength=n_roots) > 0
    large = has_rare & ((rare.expected >= _LEAST_EXPECTED) | (rare.seen >= _LEAST_SEEN))
    q = q_values(np.concatenate([np.where(tested, tests.p, np.nan), np.where(large, rare.p, np.nan)]))
    changed = (q <= settings.q) & np.concatenate([_clear(tests, settings), _clear(rare, settings)])
    more = tests.seen > tests.expected
    rare_more = (rare.seen > rare.expected)[table.root]
    rare_moved = changed[n:][table.root] & ~tested
    new = ~tested & (table.moments.count[0] == 0) & (table.moments.count[1] > 0)
    gone = ~tested & (table.moments.count[0] > 0) & (table.moments.count[1] == 0)
    return ShareTests(
        tests=tests,
        tested=tested,
        q=q[:n],
        gained=(changed[:n] & more & (change > 0)) | (new & rare_moved & rare_more),
        lost=(changed[:n] & ~more & (change < 0)) | (gone & rare_moved & ~rare_more),
        rare=rare,
        rare_q=q[n:],
        rare_changed=changed[n:],
        new_kinds=np.bincount(table.root[new], minlength=n_roots),
        cold=len(table.history) < 2,
    )


def _clear(tests: CountTests, settings: PathSettings) -> B1:
    """Large enough to be worth a word."""
    off = np.abs(tests.seen - tests.expected)
    return off >= np.maximum(
        settings.min_count, settings.min_relative * np.maximum(tests.seen, tests.expected)
    )


def _together(table: PathTable, rare: B1) -> CountTests:
    """Test of all rare categories of a root as one, [roots]."""
    n_roots = len(table.roots)

    def split(counts: F8) -> F8:
        """[rows, 2·roots]: rare ones of each root, then its others."""
        side = np.where(rare, table.root, table.root + n_roots)
        summed = np.zeros((len(counts), 2 * n_roots))
        for row, mine in enumerate(counts):
            summed[row] = np.bincount(side, mine, 2 * n_roots)
        return summed

    both = count_tests(
        split(table.history),
        split(table.problem),
        np.tile(np.arange(n_roots), 2),
        parts=(split(table.parts[0]), split(table.parts[1])),
    )
    first = slice(0, n_roots)
    return CountTests(
        share0=both.share0[first],
        expected=both.expected[first],
        seen=both.seen[first],
        dispersion=both.dispersion[first],
        spread=both.spread[first],
        p_more=both.p_more[first],
        p_fewer=both.p_fewer[first],
    )


@dataclass(frozen=True, slots=True)
class TimeTests:
    """[categories] each; NaN where nothing was tested."""

    p: F8
    q: F8
    z: F8
    """Change of the log-median over its standard error, noise between windows included."""
    changed: B1


def time_tests(table: PathTable, settings: PathSettings) -> TimeTests:
    """Test the response times of every category with enough requests in both periods.

    Requests count by their weight, and as many as the weights are worth (A.7).
    """
    n = len(table.graphs)
    tested = table.moments.count.min(axis=0) >= settings.min_requests
    places = np.flatnonzero(tested)
    columns = [(i, c) for i, c in enumerate(table.categories) if c is not None and tested[i]]
    nothing = np.full(n, np.nan)
    if not columns:
        return TimeTests(nothing, nothing, nothing, tested)
    us = np.concatenate([c.response_ns for _, c in columns]) / NS_PER_US
    late = np.concatenate([c.sample for _, c in columns]) == 1
    weight = np.concatenate([c.weight for _, c in columns])
    test = np.repeat(np.arange(len(columns)), [c.n_requests for _, c in columns])
    side = test + late * len(columns)
    medians = log_medians(us, side, 2 * len(columns), least=_LEAST_US, weight=weight)
    value, variance = (x.reshape(2, -1) for x in (medians.value, medians.variance))
    noise = window_noise(_times_by_window(table, places), floor=_floor(table, settings))
    windows0, windows1 = max(len(table.history), 1), max(len(table.problem), 1)
    spread = np.sqrt(noise.tau2 * (1 / windows0 + 1 / windows1))
    delta = np.maximum(settings.floor_time, np.expm1(2.0 * spread))
    ranked = rank_tests(us, late, test, len(columns), weight)
    stretched = tolerant_ks(us, weight, late, test, delta)
    # Sums of weights that are worth 20 requests may fall short of it by rounding.
    small = np.minimum(stretched.effective0, stretched.effective1) < _SMALL * (1 - 1e-9)
    p = np.where(small, ranked.p, stretched.p)
    change = value[1] - value[0]
    z = change / np.sqrt(noise.variance_of_change(variance[0], variance[1], windows0, windows1))
    clear = (np.abs(z) >= settings.least_z) & (np.abs(change) > np.log1p(delta)) & noise.outside(value[1])
    q = q_values(p)

    def spread_out(part: F8) -> F8:
        whole = nothing.copy()
        whole[places] = part
        return whole

    changed = np.zeros(n, np.bool_)
    changed[places] = clear & (q <= settings.q)
    return TimeTests(spread_out(p), spread_out(q), spread_out(z), changed)


def _floor(table: PathTable, settings: PathSettings) -> float:
    """Least noise between windows: what is assumed, unless there are windows enough to see it."""
    return settings.cold_tau if len(table.history) < 3 else 0.05


def _times_by_window(table: PathTable, places: npt.NDArray[np.intp]) -> LogMedians:
    """[tested categories, windows] log-medians of the windows of reference and history."""
    windows = len(table.history)
    column = np.full(len(table.graphs), -1, np.int64)
    column[places] = np.arange(len(places))
    mine = column[table.past.category] >= 0
    group = column[table.past.category[mine]] * windows + table.past.window[mine]
    found = log_medians(
        table.past.response_us[mine],
        group,
        len(places) * windows,
        least=_LEAST_US,
        weight=table.past.weight[mine],
    )
    return LogMedians(found.value.reshape(len(places), windows), found.variance.reshape(len(places), windows))


@dataclass(frozen=True, slots=True)
class RepeatChange:
    """An operation that requests do more or less often, over the families in which that is so by test."""

    roots: tuple[str, ...]
    operation: GraphNode
    """The outermost of the operations that are repeated together."""
    operations: int
    """Number of them, the largest of the families."""
    categories: int
    before: float
    """Mean number of times a request."""
    after: float
    requests0: int
    requests1: int
    p: float
    q: float
    """Simes' over the families."""
    contribution_us: float
    """Estimate: share of requests x change of the number x time of an iteration (slope)."""


@dataclass(frozen=True, slots=True)
class _Family:
    operation: GraphNode
    operations: int
    categories: I8
    times: F8
    """[categories of the family] how often each does it."""


def _operation_counts(graph: Graph) -> dict[GraphNode, int]:
    """How often a path does each operation; a span once, hosts alike. First come first."""
    plain = (GraphNode(n.component, n.point, n.label) for n in graph.nodes if n.side != END)
    return dict(Counter(plain))


def _repeat_changes(table: PathTable, shares: PathShares, settings: PathSettings) -> list[RepeatChange]:
    """Repeats that changed by test, one an operation and direction, largest |contribution| first."""
    together: dict[tuple[GraphNode, bool], list[RepeatChange]] = defaultdict(list)
    for change in _by_family(table, shares, settings):
        together[change.operation, change.after > change.before].append(change)
    merged = [_merged(changes) for changes in together.values()]
    return sorted(merged, key=lambda c: (-abs(c.contribution_us), c.operation.operation, c.after))


def _merged(changes: list[RepeatChange]) -> RepeatChange:
    """The same loop in several families: means over their requests, sums of the rest."""
    n0, n1 = sum(c.requests0 for c in changes), sum(c.requests1 for c in changes)
    one = np.zeros(len(changes), np.int64)
    return RepeatChange(
        roots=tuple(dict.fromkeys(root for c in changes for root in c.roots)),
        operation=changes[0].operation,
        operations=max(c.operations for c in changes),
        categories=sum(c.categories for c in changes),
        before=sum(c.before * c.requests0 for c in changes) / n0,
        after=sum(c.after * c.requests1 for c in changes) / n1,
        requests0=n0,
        requests1=n1,
        p=float(simes(np.array([c.p for c in changes]), one, 1)[0]),
        q=float(simes(np.array([c.q for c in changes]), one, 1)[0]),
        contribution_us=sum(c.contribution_us for c in changes),
    )


def _by_family(table: PathTable, shares: PathShares, settings: PathSettings) -> list[RepeatChange]:
    """One change a family."""
    families = _families(table)
    if not families:
        return []
    width = max(len(np.unique(f.times)) for f in families)
    counts = np.zeros((2, len(families), width), np.int64)
    for row, family in enumerate(families):
        place = np.unique(family.times, return_inverse=True)[1]
        for t in (0, 1):
            np.add.at(counts[t, row], place, table.moments.count[t, family.categories])
    tests = rank_tests_of_histograms(counts[0], counts[1])
    enough = np.minimum(tests.n0, tests.n1) >= settings.min_requests
    q = q_values(np.where(enough, tests.p, np.nan))
    means = np.array([_mean_and_error(table.weight[t], f) for f in families for t in (0, 1)])
    value, variance = np.log(np.maximum(means[:, 0], 1e-9)).reshape(-1, 2), means[:, 1].reshape(-1, 2)
    noise = window_noise(_counts_by_window(table, families))
    windows = max(len(table.history), 1), max(len(table.problem), 1)
    error = np.sqrt(noise.variance_of_change(variance[:, 0], variance[:, 1], *windows))
    change = value[:, 1] - value[:, 0]
    clear = (np.abs(change) >= settings.least_z * error) & noise.outside(value[:, 1])
    clear &= np.abs(change) >= np.log1p(settings.min_relative)
    return [
        RepeatChange(
            roots=(table.graphs[int(f.categories[0])].root,),
            operation=f.operation,
            operations=f.operations,
            categories=len(f.categories),
            before=float(means[2 * i, 0]),
            after=float(means[2 * i + 1, 0]),
            requests0=int(tests.n0[i]),
            requests1=int(tests.n1[i]),
            p=float(tests.p[i]),
            q=float(q[i]),
            contribution_us=_contribution(table, shares, f, float(means[2 * i + 1, 0] - means[2 * i, 0])),
        )
        for i, f in enumerate(families)
        if clear[i] and q[i] <= settings.q
    ]


def _families(table: PathTable) -> list[_Family]:
    """Operations whose number differs inside a family of categories; those repeated together as one."""
    members: dict[tuple[str, frozenset[GraphNode]], list[tuple[int, dict[GraphNode, int]]]] = defaultdict(
        list
    )
    present = table.moments.count.sum(axis=0) > 0
    for i, graph in enumerate(table.graphs):
        if present[i]:
            times = _operation_counts(graph)
            members[graph.root, frozenset(times)].append((i, times))
    families = []
    for mine in members.values():
        if len(mine) < 2:
            continue
        together: dict[tuple[int, ...], list[GraphNode]] = defaultdict(list)
        for operation in mine[0][1]:
            together[tuple(times[operation] for _, times in mine)].append(operation)
        families += [
            _Family(
                operations[0], len(operations), np.array([i for i, _ in mine]), np.array(times, np.float64)
            )
            for times, operations in together.items()
            if len(set(times)) > 1
        ]
    return families


def _mean_and_error(weight: F8, family: _Family) -> tuple[float, float]:
    """Weighted mean of the count, and the sampling variance of its log; NaN for none."""
    mine = weight[family.categories]
    total = float(mine.sum())
    if total <= 0:
        return float("nan"), float("nan")
    mean = float((mine * family.times).sum() / total)
    spread = float((mine * (family.times - mean) ** 2).sum() / total)
    return mean, max(spread, 0.02**2 * mean**2) / total / mean**2


def _counts_by_window(table: PathTable, families: list[_Family]) -> LogMedians:
    """[families, windows] log-means of the windows of reference and history."""
    found = np.array([[_mean_and_error(row, f) for row in table.history] for f in families])
    found = found.reshape(len(families), len(table.history), 2)
    return LogMedians(np.log(found[..., 0]), found[..., 1])


def _contribution(table: PathTable, shares: PathShares, family: _Family, change: float) -> float:
    """Midpoint share of the family's requests x change of the count x slope of the response time."""
    mine = family.categories
    weight = table.weight[:, mine].sum(axis=0)
    mean_us = shares.mean_us[:, mine].mean(axis=0)
    times = family.times - (weight * family.times).sum() / weight.sum()
    slope = float((weight * times * mean_us).sum() / (weight * times**2).sum())
    root = int(table.root[mine[0]])
    share = float(shares.of_all.mean(axis=0)[root] * shares.of_root.mean(axis=0)[mine].sum())
    return share * change * slope
