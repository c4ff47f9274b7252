"""Loop-count mutations: the same steps, done more or less often (ALGORITHMS C.9).

Categories of one root with the same set of operations differ in counts and order only. Over each such family
the number of times a request does an operation is data: one row replaces dozens of categories. A graph of the
population holds every iteration as nodes, so counts are exact. Left out: loops in families whose set of
operations changes as well (a move says so), and the time of one iteration is an estimate (the slope of
response time over the count), not a measurement.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from analyze.paths.decomposition import PathShares
from analyze.paths.path_settings import PathSettings
from analyze.paths.path_table import PathTable
from analyze.population import Graph, GraphNode
from analyze.stats.multiple import q_values, simes
from analyze.stats.noise import LogMedians, window_noise
from analyze.stats.rank import rank_tests_of_histograms
from schemas.arrays import F8, I8
from stitch.graph.placed import END


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


def operation_counts(graph: Graph) -> dict[GraphNode, int]:
    """How often a path does each operation; a span once, hosts alike. First come first."""
    plain = (GraphNode(n.component, n.point, n.label) for n in graph.nodes if n.side != END)
    return dict(Counter(plain))


def repeat_changes(table: PathTable, shares: PathShares, settings: PathSettings) -> list[RepeatChange]:
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
    noise = window_noise(_by_window(table, families))
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
            times = operation_counts(graph)
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


def _by_window(table: PathTable, families: list[_Family]) -> LogMedians:
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
