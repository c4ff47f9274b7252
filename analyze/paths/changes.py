"""Test changes of whole paths: a second, finer view in addition to call sites.

Shares and times of categories are tested, requests that moved are assigned to their origins, similar moves
are grouped, and all parts add up to the change of the mean exactly. No finding depends on this: categories
are too fine for that.

Loops with more or fewer iterations give one row instead of dozens of categories. A *family* is all categories
of one root type with the same set of operations; they differ in counts and order only. Within a family, the
number of times that a request runs an operation is compared between periods. A graph has nodes for every
iteration, so counts are exact. Not covered: loops in requests whose set of operations changes as well (these
are reported as moves between paths). The time of one iteration is an estimate, the slope of the response time
over the count, not a measurement.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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
from analyze.population import GraphNode, Population
from analyze.stats.estimate import AFTER, BEFORE, Estimate, level_change, share_change
from analyze.stats.histograms import Histograms, bin_of
from analyze.stats.multiple import q_values
from analyze.stats.noise import LogMedians
from analyze.stats.rank import effective_weights, requests_per_weight
from analyze.stats.sums import row_totals
from schemas.arrays import B1, F8, I8
from schemas.report.parts import NodeName
from schemas.report.paths import RepeatsRow
from stitch.graph.placed import END

_DRAWN_ROOTS = 5
"""Maximum number of root types for which the assignment of moved requests is resampled: those that contribute
most to the change."""


@dataclass(frozen=True, slots=True)
class PathChanges:
    """Results of the comparison of whole paths; categories are given as indices into `table.graphs`."""

    table: PathTable
    shares: PathShares
    tests: ShareTests
    times: TimeTests
    account: PathAccount
    groups: tuple[PathGroup, ...]
    """Groups of similar moves of requests between paths, sorted by score."""
    rest_moves: int
    """Number of moves of requests between paths that were too small to be compared step by step."""
    rest_us: float
    """Sum of the contributions of the moves in `rest_moves`, µs."""
    repeats: tuple[RepeatsRow, ...]
    """Operations that requests run significantly more or less often (loops with more or fewer iterations)."""


def path_changes(population: Population, history: Population | None, settings: PathSettings) -> PathChanges:
    """Compare the paths of samples 0 and 1 of a population. history: samples of normal times, refined
    together with it.

    Pure and deterministic. O(requests + moves · steps²/64).
    """
    table = path_table(population, history, settings)
    counts = effective_counts(table)
    shares = path_shares(table.weight, table.mean_us, table.root, len(table.roots))
    tests = share_tests(table, counts, shares.change)
    times = time_tests(table)
    lost, gained = np.flatnonzero(tests.lost), np.flatnonzero(tests.gained)
    tokens = {at: table.graphs[at].text.tokens for at in np.union1d(lost, gained).tolist()}
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
        _confidence(table, shares, tests, flows, account, pairs),
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
        repeats=tuple(_repeat_changes(table, counts, shares)),
    )


def _confidence(
    table: PathTable,
    shares: PathShares,
    tests: ShareTests,
    flows: Flows,
    account: PathAccount,
    pairs: CandidatePairs,
) -> F8:
    """float64[flows]: share in [0, 1] of the resamples in which at least half of the flow occurs; NaN if not
    resampled.

    A resample draws the changes of the categories' shares from their standard errors and solves the
    assignment again, for all resamples at once.
    """
    settings, confidence = table.settings, np.full(len(flows.amount), np.nan)
    if not settings.draws or len(flows.amount) == 0:
        return confidence
    root = flow_roots(table.root, flows)
    weight = np.bincount(root, np.abs(account.flow_us), len(table.roots))
    for r in np.lexsort((np.arange(len(weight)), -weight))[:_DRAWN_ROOTS].tolist():
        mine = np.flatnonzero(root == r)
        near = np.flatnonzero(table.root[pairs.target] == r) if len(pairs.target) else np.zeros(0, np.int64)
        if len(mine) == 0 or len(near) > settings.drawn_pairs:
            continue
        changed = np.flatnonzero((tests.lost | tests.gained) & (table.root == r))
        rng = np.random.default_rng((settings.seed, r))
        drawn = shares.change[changed] + tests.estimate.se[changed] * rng.standard_normal(
            (settings.draws, len(changed))
        )
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
    """Tests of the share of each category in the requests of the category's root type.

    Arrays of [categories + roots] have the tests of categories first, then, for each root type, the test of
    all rare categories pooled.
    """

    estimate: Estimate
    """Changes of the shares, [categories + roots]."""
    tested: B1
    """bool[categories]: True if the category is tested alone, False if it is pooled with rare categories."""
    q: F8
    """float64[categories + roots]: p adjusted for the false discovery rate; NaN if not tested."""
    gained: B1
    """bool[categories]: True for paths that gained requests (mutations): by a significant test, or because
    the path is new and the pooled rare paths of the root type gained significantly."""
    lost: B1
    """bool[categories]: True for paths that lost requests (precursors): by a significant test, or because the
    path is gone and the pooled rare paths of the root type lost significantly."""
    rare_changed: B1
    """bool[roots]: True if the share of the pooled rare categories of the root type changed significantly."""
    new_kinds: I8
    """int64[roots]: number of distinct rare categories that occur in the problem only."""

    @property
    def expected(self) -> F8:
        """float64[categories + roots]: number of requests expected in the problem, by the share before."""
        return self.estimate.before * self.estimate.n1

    @property
    def seen(self) -> F8:
        """float64[categories + roots]: number of requests observed in the problem."""
        return self.estimate.after * self.estimate.n1


def share_tests(table: PathTable, counts: F8, change: F8) -> ShareTests:
    """Test, for every category, the share of the root type's requests in the problem against the baseline.

    counts: float64[categories, columns], effective numbers of requests. change: float64[categories], share in
    the problem minus share in the reference; a significant change counts only if it has the sign of `change`.
    """
    n, n_roots, settings = len(table.graphs), len(table.roots), table.settings
    trials = row_totals(counts, table.root, n_roots)
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.nan_to_num(counts[:, BEFORE] / trials[table.root, BEFORE])
    expected = before * trials[table.root, AFTER]
    large = (expected >= settings.least_expected) | (counts[:, AFTER] >= settings.min_count)
    tested = large & (table.count.sum(axis=0) > 0)
    found = share_change(
        np.concatenate([counts, row_totals(np.where(tested[:, None], 0.0, counts), table.root, n_roots)]),
        np.concatenate([trials[table.root], trials]),
        prior_phi=settings.assumed_phi if table.noise_assumed else 1.0,
    )
    seen, expected = np.nan_to_num(found.after * found.n1), np.nan_to_num(found.before * found.n1)
    enough = np.append(tested, (expected >= settings.least_expected)[n:] | (seen >= settings.min_count)[n:])
    q = q_values(np.where(enough, found.p, np.nan))
    floor = np.maximum(settings.min_count, settings.min_relative * np.maximum(seen, expected))
    changed = (q <= settings.q) & (np.abs(seen - expected) >= floor)
    changed &= found.clears(settings.least_z, 0.0) & found.outside()
    more = found.change > 0
    rare_changed = changed[n:][table.root] & ~tested
    rare_more = more[n:][table.root]
    count = table.count
    new, gone = (rare_changed & (count[t] == 0) & (count[1 - t] > 0) for t in (0, 1))
    return ShareTests(
        estimate=found,
        tested=tested,
        q=q,
        gained=(changed[:n] & more[:n] & (change > 0)) | (new & rare_more),
        lost=(changed[:n] & ~more[:n] & (change < 0)) | (gone & ~rare_more),
        rare_changed=changed[n:],
        new_kinds=np.bincount(table.root[~tested & (count[0] == 0) & (count[1] > 0)], minlength=n_roots),
    )


def effective_counts(table: PathTable) -> F8:
    """float64[categories, columns]: effective number of requests of each category."""
    weight = table.requests.weight
    counts, squares = table.sums(weight), table.sums(weight**2)
    n_roots = len(table.roots)
    per_weight = requests_per_weight(*(row_totals(sums, table.root, n_roots) for sums in (counts, squares)))
    return counts * per_weight[table.root]


@dataclass(frozen=True, slots=True)
class TimeTests:
    """Tests of the median response times of categories."""

    estimate: Estimate
    """Changes of the logarithm of the median response time, [categories]."""
    q: F8
    """float64[categories]: p adjusted for the false discovery rate; NaN if not tested."""
    changed: B1
    """bool[categories]: True for significant changes."""


def time_tests(table: PathTable) -> TimeTests:
    """Test the response times of every category with enough requests in both periods."""
    made, n, settings = table.requests, len(table.graphs), table.settings
    cell = made.category * table.n_columns + made.column
    values = Histograms.of(
        made.category,
        made.column,
        bin_of(made.response_ns),
        effective_weights(made.weight, cell, n * table.n_columns),
    )
    tau = max(settings.min_tau, settings.assumed_tau) if table.noise_assumed else settings.min_tau
    found = _level_changes(table, values, n, Histograms.log_medians, tau)
    enough = table.count.min(axis=0) >= settings.min_requests
    q, changed = _changed(found, enough, settings.floor_time, settings)
    return TimeTests(found, q, changed)


def _level_changes(
    table: PathTable,
    values: Histograms,
    n_places: int,
    level: Callable[[Histograms, int, int], tuple[LogMedians, F8]],
    tau_floor: float,
) -> Estimate:
    """Estimate changes of the logarithm of a mean or median at each place (category or family).

    level: function (histograms, number of places, number of columns) -> (logarithms, numbers of requests).
    """
    periods = values.pooled(table.side)
    values_of_periods, requests = level(periods, n_places, 2)
    blocks = level(values.pooled(table.block), n_places, sum(table.blocks))
    return level_change(values_of_periods, requests, periods.rank_p(n_places), *blocks, tau_floor=tau_floor)


def _changed(found: Estimate, enough: B1, floor: float, settings: PathSettings) -> tuple[F8, B1]:
    """(float64[places] p adjusted for the false discovery rate, bool[places] True if the change is
    significant and exceeds the relative `floor`). enough: bool[places], True to test a place."""
    q = q_values(np.where(enough, found.p, np.nan))
    with np.errstate(invalid="ignore"):
        clear = found.clears(settings.least_z, np.log1p(floor)) & found.outside()
    return q, clear & (q <= settings.q)


@dataclass(frozen=True, slots=True)
class _Family:
    operation: GraphNode
    operations: int
    categories: I8
    times: F8
    """float64[categories of the family]: number of times that a request of the category runs the
    operation."""


def _repeat_changes(table: PathTable, counts: F8, shares: PathShares) -> list[RepeatsRow]:
    """Find operations that requests run significantly more or less often: one row per operation and
    direction, largest |contribution| first."""
    together: dict[tuple[NodeName, bool], list[RepeatsRow]] = defaultdict(list)
    for change in _by_family(table, counts, shares):
        together[change.operation, change.after > change.before].append(change)
    merged = [_merged(changes) for changes in together.values()]
    return sorted(merged, key=lambda c: (-abs(c.contribution_us), c.operation.text, c.after))


def _merged(changes: list[RepeatsRow]) -> RepeatsRow:
    """Merge the rows of one operation from several families: means are weighted by requests; numbers and
    contributions are added up."""
    n0, n1 = sum(c.requests0 for c in changes), sum(c.requests1 for c in changes)
    roots = tuple(dict.fromkeys(root for c in changes for root in c.roots))
    return RepeatsRow(
        roots=roots,
        roots_total=len(roots),
        operation=changes[0].operation,
        operations=max(c.operations for c in changes),
        categories=sum(c.categories for c in changes),
        before=sum(c.before * c.requests0 for c in changes) / n0,
        after=sum(c.after * c.requests1 for c in changes) / n1,
        requests0=n0,
        requests1=n1,
        p=min(c.p for c in changes),
        q=min(c.q for c in changes),
        contribution_us=sum(c.contribution_us for c in changes),
    )


def _by_family(table: PathTable, counts: F8, shares: PathShares) -> list[RepeatsRow]:
    """Find the families of categories in which the number of times that a request runs an operation changed
    significantly; one row per family and operation."""
    families = _families(table)
    if not families:
        return []
    settings = table.settings
    times, code = np.unique(np.concatenate([f.times for f in families]), return_inverse=True)
    categories = np.concatenate([f.categories for f in families])
    family = np.repeat(np.arange(len(families)), [len(f.categories) for f in families])
    row, column = np.nonzero(counts[categories, AFTER:])
    values = Histograms.of(family[row], column + AFTER, code[row], counts[categories[row], column + AFTER])
    found = _level_changes(
        table,
        values,
        len(families),
        lambda rows, *shape: rows.log_means(times[rows.bin], *shape),
        settings.min_tau,
    )
    enough = np.minimum(found.n0, found.n1) >= settings.min_requests
    q, changed = _changed(found, enough, settings.min_relative, settings)
    before, after = np.exp(found.before), np.exp(found.after)
    return [
        RepeatsRow(
            roots=(table.graphs[int(f.categories[0])].root,),
            roots_total=1,
            operation=NodeName(
                component=f.operation.component, point=f.operation.point, label=f.operation.label
            ),
            operations=f.operations,
            categories=len(f.categories),
            before=float(before[i]),
            after=float(after[i]),
            requests0=round(found.n0[i]),
            requests1=round(found.n1[i]),
            p=float(found.p[i]),
            q=float(q[i]),
            contribution_us=_contribution(table, shares, f, float(after[i] - before[i])),
        )
        for i, f in enumerate(families)
        if changed[i]
    ]


def _families(table: PathTable) -> list[_Family]:
    """Find the operations that some categories of a family run more often than others.

    A family is all categories of one root type with the same set of operations. Operations that are run
    equally often in each category of the family make one entry."""
    members: dict[tuple[str, frozenset[GraphNode]], list[tuple[int, Counter[GraphNode]]]] = defaultdict(list)
    present = table.count.sum(axis=0) > 0
    for i, graph in enumerate(table.graphs):
        if present[i]:
            # Count a span once, and disregard hosts.
            times = Counter(GraphNode(n.component, n.point, n.label) for n in graph.nodes if n.side != END)
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


def _contribution(table: PathTable, shares: PathShares, family: _Family, change: float) -> float:
    """Contribution to the change of the mean response time, µs: mean share of the family's requests in both
    periods × `change` of the number of repeats × slope of the response time over the number of repeats."""
    mine = family.categories
    weight = table.weight[:, mine].sum(axis=0)
    mean_us = shares.mean_us[:, mine].mean(axis=0)
    times = family.times - (weight * family.times).sum() / weight.sum()
    slope = float((weight * times * mean_us).sum() / (weight * times**2).sum())
    root = int(table.root[mine[0]])
    share = float(shares.of_all.mean(axis=0)[root] * shares.of_root.mean(axis=0)[mine].sum())
    return share * change * slope
