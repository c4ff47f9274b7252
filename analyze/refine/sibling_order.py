"""Decide which children of a parent run one after the other, by consensus over all samples.

Evidence is collected for each parent operation and each pair of child keys. A child key is (operation,
occurrence): the second call of an operation, by start time within the request, is the same thing in every
request, whichever branch of the stored structure it lies on.

Example: a page calls `auth`, then `load` twice, the second time before the first is done; times in ms, and
epsilon is 1 % of the page's 100.

    page |--------------------------------|  0-100
    auth   |----|                            2-20    keys: auth, load, load (call 2), by start whichever of
    load         |-----------|               20-60   the two is the first branch of the stored structure
    load              |----------------|     40-90

The three are one family of the page, with a row for each key in that order, and three pairs of rows:

    auth, load            20 <= 20 + 1: first before second
    auth, load (call 2)   20 <= 40 + 1: first before second
    load, load (call 2)   60 >  40 + 1, 90 > 20 + 1: neither, they overlap

Over 40 such requests, in two of which `auth` is late, the first pair has 38 of 40 in order: at a share of
0.95 that is sequential. The last pair has none: parallel. The refined graph is page> auth> auth<, then both
loads beside each other, then page<.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from analyze.cache_blocks import FEW_CELLS
from analyze.numbering import Numbering
from analyze.ragged import Ragged
from analyze.refine.consensus import Answers, Asked, FlowBatch, ask
from analyze.refine.settings import RefineSettings
from analyze.refine.span_tree import SpanTree
from analyze.refine.stored import Operation, StoredCategory
from schemas.arrays import B1, I1, I8

_MOVED = 0.2
"""Least difference of the share between the reference and another sample for a note."""
_MAX_NOTES = 5


class SiblingRelation(IntEnum):
    """Relation of two child keys of a parent; `first` has the smaller key."""

    PARALLEL = 0
    FIRST_SECOND = 1
    SECOND_FIRST = 2
    BY_TRACE = 3
    """Too few traces: each request decides its own relation."""
    SEQUENTIAL = 4
    """Too few traces, but their components never overlap: each request decides which comes first."""


class ChildKey(NamedTuple):
    """Name of a child among its siblings: the nth call of an operation, by start; from 0."""

    operation: Operation
    occurrence: int

    @property
    def text(self) -> str:
        """`operation`, or `operation (call 2)` for the second call; for display."""
        return self.operation.text + (f" (call {self.occurrence + 1})" if self.occurrence else "")


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbering of the key columns of `order_evidence`."""

    children: Numbering[ChildKey] = field(default_factory=Numbering)
    families: Numbering[tuple[int, tuple[int, ...]]] = field(default_factory=Numbering)
    """(parent operation, keys of all its children) -> number."""


@dataclass(frozen=True, slots=True)
class Family:
    """A parent and its awaited children; *rows* are the children ordered by child key."""

    parent: int
    """Unit of the parent."""
    children: tuple[int, ...]
    """[rows] unit of the child; rows of one operation are in column order."""
    keys: tuple[int, ...]
    """[rows] child key, ascending."""
    groups: tuple[tuple[int, ...], ...]
    """Groups of rows with the same operation (two or more), ascending."""
    relation: I1 = field(default_factory=lambda: np.zeros(0, dtype=np.int8))
    """`SiblingRelation` of each pair of rows, in the order of `pair_rows`; empty while undecided."""


def families(tree: SpanTree, numbers: Numbers, max_siblings: int) -> list[Family]:
    """Families of parents with 2 to `max_siblings` awaited children. O(units log units)."""
    found = []
    for unit in range(tree.n_units):
        children = tree.awaited_children(unit)
        if not 2 <= len(children) <= max_siblings:
            continue
        by_operation: dict[Operation, list[int]] = {}
        for child in children:
            by_operation.setdefault(tree.operation[child], []).append(child)
        keyed = sorted(
            (numbers.children[ChildKey(operation, nth)], child)
            for operation, members in by_operation.items()
            for nth, child in enumerate(members)
        )
        row_of = {child: row for row, (_, child) in enumerate(keyed)}
        found.append(
            Family(
                parent=unit,
                children=tuple(child for _, child in keyed),
                keys=tuple(key for key, _ in keyed),
                groups=tuple(
                    tuple(row_of[child] for child in members)
                    for members in by_operation.values()
                    if len(members) > 1
                ),
            )
        )
    return found


@lru_cache(maxsize=256)
def pair_rows(n_rows: int) -> tuple[I8, I8]:
    """(first, second) row of every pair of rows, in the order of relations. Cached: do not write to it."""
    first, second = np.triu_indices(n_rows, 1)
    return first, second


def occurrence_times(times: I8, tree: SpanTree, kin: Sequence[Family]) -> tuple[I8, I8]:
    """(starts, ends) [rows, requests] of the rows of families, one family after the other.

    Each operation's occurrences are sorted by start; equal starts keep the column order. `times` is [nodes,
    requests].
    """
    units = [unit for family in kin for unit in family.children]
    starts = times[[tree.start[unit] for unit in units]]
    ends = times[[tree.end[unit] for unit in units]]
    base = 0
    for family in kin:
        for group in family.groups:
            rows = [base + row for row in group]
            part = starts[rows]
            if (part[1:] >= part[:-1]).all():
                continue
            order = np.argsort(part, axis=0, kind="stable")
            starts[rows] = np.take_along_axis(part, order, axis=0)
            ends[rows] = np.take_along_axis(ends[rows], order, axis=0)
        base += len(family.children)
    return starts, ends


def slack_ns(times: I8, tree: SpanTree, parents: Sequence[int], settings: RefineSettings) -> I8:
    """[parents, requests] overlap up to which two children still count as sequential.

    S5's epsilon as far as it depends on the parent; `_order_times` bounds it by the children's durations.
    """
    return _slack(
        times[[tree.end[unit] for unit in parents]] - times[[tree.start[unit] for unit in parents]], settings
    )


def _slack(duration: I8, settings: RefineSettings) -> I8:
    slack: I8 = np.maximum(settings.slack_ns, (duration * settings.slack_share).astype(np.int64))
    return slack


def _order_times(starts: I8, ends: I8, slack: I8) -> tuple[I8, I8]:
    """(middles, late starts) [rows, requests], by which to tell whether one row runs before another.

    `a` runs before `b` iff `middle[a] <= start[b]` and `end[a] <= late start[b]`. That is S5's `end[a] <=
    start[b] + epsilon`, epsilon = min(slack of the parent, half of the shorter of both), split so that each
    side depends on one row only: the overlap may be at most the slack and half of `b` (late start), and at
    most half of `a` (middle, which also makes `a` the one that starts first).
    """
    half = np.maximum(ends - starts, 0) >> 1
    late_starts = starts + np.minimum(slack, half)
    return np.maximum(ends - half, starts), late_starts


def relations_by_trace(starts: I8, ends: I8, slack: I8, first: int, second: int) -> I1:
    """[requests] relation of two rows in each request: FIRST_SECOND, SECOND_FIRST or PARALLEL.

    slack: [requests] `slack_ns` of their parent.
    """
    middles, late_starts = _order_times(starts, ends, slack)
    after = (middles[second] <= starts[first]) & (ends[second] <= late_starts[first])
    before = (middles[first] <= starts[second]) & (ends[first] <= late_starts[second])
    relation: I1 = np.zeros(starts.shape[1], dtype=np.int8)
    relation[after] = SiblingRelation.SECOND_FIRST
    relation[before] = SiblingRelation.FIRST_SECOND  # of two that take no time at one moment, too
    return relation


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of families of all structures, structure after structure, family after family."""

    structure: I8
    """[rows] structure."""
    start: I8
    end: I8
    """start, end: [rows] stored columns."""
    family: I8
    """[rows] family."""
    parent: tuple[I8, I8, I8]
    """[families] structure, column of the parent's start, column of its end."""
    groups: dict[int, tuple[I8, I8]]
    """Calls of an operation -> ([groups] structure, [groups, calls] rows of the family)."""
    pair: tuple[I8, I8]
    """[pairs] (first row, second row), family after family in the order of `pair_rows`."""

    @staticmethod
    def of(trees: Sequence[SpanTree | None], kin: Sequence[Sequence[Family]]) -> _Rows:
        """Lay out the families of each tree."""
        rows: list[tuple[int, int, int, int]] = []
        parents: list[tuple[int, int, int]] = []
        groups: dict[int, list[tuple[int, ...]]] = {}
        pairs = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for structure, (tree, here) in enumerate(zip(trees, kin, strict=True)):
            for family in here if tree is not None else ():
                assert tree is not None
                base, number = len(rows), len(parents)
                parents.append((structure, tree.start[family.parent], tree.end[family.parent]))
                rows += [(structure, tree.start[u], tree.end[u], number) for u in family.children]
                for group in family.groups:
                    groups.setdefault(len(group), []).append((structure, *(base + row for row in group)))
                firsts, seconds = pair_rows(len(family.children))
                pairs.append((base + firsts, base + seconds))
        of_row, start, end, family_of = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        of_parent, begins, ends = np.array(parents, dtype=np.int64).reshape(-1, 3).T
        laid = {n: np.array(mine, dtype=np.int64) for n, mine in groups.items()}
        return _Rows(
            of_row,
            start,
            end,
            family_of,
            (of_parent, begins, ends),
            {n: (mine[:, 0], mine[:, 1:]) for n, mine in laid.items()},
            (np.concatenate([one for one, _ in pairs]), np.concatenate([other for _, other in pairs])),
        )

    def order_times(self, batch: FlowBatch, settings: RefineSettings) -> tuple[Ragged, int, tuple[I8, ...]]:
        """(layout of the batch's rows, index of the first row, [cells] starts, ends, middles, late starts);
        each operation's calls are sorted by start, equal starts in column order."""
        mine = batch.part(self.structure)
        structure = self.structure[mine]
        layout = batch.layout(structure)
        starts, ends = batch.at(structure, self.start[mine]), batch.at(structure, self.end[mine])
        for of, rows in self.groups.values():
            here = batch.part(of)
            alike = batch.layout(of[here])
            cells = np.stack([alike.at(layout.first[row - mine.start]) for row in rows[here].T])
            order = np.argsort(starts[cells], axis=0, kind="stable")
            for times in (starts, ends):
                times[cells] = np.take_along_axis(times[cells], order, axis=0)
        families = batch.part(self.parent[0])
        of, begin, end = (column[families] for column in self.parent)
        slack = _slack(batch.at(of, end) - batch.at(of, begin), settings)
        slack = slack[layout.at(batch.layout(of).first[self.family[mine] - families.start])]
        return layout, mine.start, (starts, ends, *_order_times(starts, ends, slack))


def order_evidence(
    categories: Sequence[StoredCategory],
    times: Sequence[I8],
    trees: Sequence[SpanTree | None],
    kin: Sequence[Sequence[Family]],
    numbers: Numbers,
    settings: RefineSettings,
    n_apart: int,
    cells: int = FEW_CELLS,
) -> Answers:
    """Votes on the order of every pair of every family. O(requests · pairs).

    Answers: first ends before second starts; second ends before first starts. Keys: family (parent operation
    and all its child keys), parent operation, first child key, second child key. Entries: structure by
    structure, family by family, pairs in the order of `pair_rows`. cells: as in `ask`.
    """
    rows = _Rows.of(trees, kin)
    first, second = rows.pair

    def order(batch: FlowBatch, pairs: slice) -> tuple[B1, B1]:
        layout, base, (starts, ends, middles, late_starts) = rows.order_times(batch, settings)
        here = batch.layout(rows.structure[first[pairs]])
        a, b = (here.at(layout.first[side[pairs] - base]) for side in (first, second))
        leads = (middles[a] <= starts[b]) & (ends[a] <= late_starts[b])
        follows = (middles[b] <= starts[a]) & (ends[b] <= late_starts[a])
        return leads, follows & ~leads

    keys = np.array([key for here in kin for family in here for key in family.keys], dtype=np.int64)
    parents, codes = [], []
    for tree, here in zip(trees, kin, strict=True):
        for family in here if tree is not None else ():
            assert tree is not None
            parents.append(numbers.children[ChildKey(tree.operation[family.parent], 0)])
            codes.append(numbers.families[parents[-1], family.keys])
    of = rows.family[first]
    key = np.stack(
        (np.array(codes, np.int64)[of], np.array(parents, np.int64)[of], keys[first], keys[second]), axis=1
    )
    return ask(categories, times, Asked(rows.structure[first], key), n_apart, 2, order, cells)


@dataclass(frozen=True, slots=True)
class Consensus:
    """Relations decided from the evidence, in the order of its entries; and notes."""

    relation: I1
    notes: tuple[str, ...]


def decide_order(
    votes: Answers,
    children: Sequence[ChildKey],
    settings: RefineSettings,
    samples: Sequence[str],
) -> Consensus:
    """Pool the evidence and decide every relation (S5). O(entries log entries).

    The first level with enough requests decides: parents of the same operation *with the same child keys* (an
    operation like `GET` stands for many programs, its set of calls distinguishes them); all parents of the
    operation; all pairs of the same two components; the request itself. children: keys by code. Notes report
    pairs whose share differs between the first of `samples` (names of the compared ones, the first in the
    votes) and another.
    """
    if not len(votes.key):
        return Consensus(np.zeros(0, dtype=np.int8), ())
    families_, entry = votes.pooled(votes.key)
    operations, of_family = families_.pooled(families_.key[:, 1:])
    by_operation = np.where(
        operations.requests.sum(axis=0) >= settings.min_traces,
        _by_share(operations, settings),
        _component_relation(operations, _components(children), settings),
    )
    decided = families_.enough(settings)
    relation = np.where(decided, _by_share(families_, settings), by_operation[of_family])
    notes = _shift_notes(families_.of_first(len(samples)), children, settings, samples)
    return Consensus(relation[entry], notes)


def _components(children: Sequence[ChildKey]) -> I8:
    """[keys] number of the child's component."""
    numbers = Numbering[str]()
    return np.array([numbers[child.operation.component] for child in children], dtype=np.int64)


def _by_share(votes: Answers, settings: RefineSettings) -> I1:
    """[entries] order in nearly all requests; PARALLEL if there is none."""
    first_second, second_first = votes.agreed(settings.sequential_share)
    relation = np.full(len(first_second), SiblingRelation.PARALLEL, dtype=np.int8)
    relation[first_second] = SiblingRelation.FIRST_SECOND
    relation[second_first] = SiblingRelation.SECOND_FIRST
    return relation


def _component_relation(operations: Answers, component_of: I8, settings: RefineSettings) -> I1:
    """[entries] relation by the pair of components, for operations with too few requests."""
    pooled, of_operation = operations.pooled(np.sort(component_of[operations.key[:, 1:]], axis=1))
    weight, first_second, second_first = pooled.weight.sum(axis=1)
    relation = np.where(
        first_second + second_first >= settings.sequential_share * weight,
        np.int8(SiblingRelation.SEQUENTIAL),
        np.int8(SiblingRelation.PARALLEL),
    )
    relation[pooled.requests.sum(axis=0) < settings.min_traces] = SiblingRelation.BY_TRACE
    return relation[of_operation]


def _shift_notes(
    votes: Answers, children: Sequence[ChildKey], settings: RefineSettings, samples: Sequence[str]
) -> tuple[str, ...]:
    """Sentences on pairs whose order differs between the first sample and another (Bonferroni p < 0.05)."""
    # Both directions: the smaller key need not be the one that comes first.
    pairs = np.concatenate((votes.key[:, 2:], votes.key[:, :1:-1]))
    n, ordered = np.tile(votes.requests, 2), np.concatenate(votes.shares(), axis=1)
    enough = n >= settings.min_traces
    later, at = np.nonzero(enough[1:] & enough[0])
    later += 1
    n_0, n_1 = n[0, at], n[later, at]
    old, new = ordered[0, at], ordered[later, at]
    pooled = (old * n_0 + new * n_1) / (n_0 + n_1)
    spread = np.sqrt(np.maximum(pooled * (1 - pooled), 1e-12) * (1 / n_0 + 1 / n_1))
    from scipy.special import ndtr  # see analyze.stats.noise

    p = 2 * ndtr(-np.abs(new - old) / spread)
    notes = []
    for test in np.flatnonzero((np.abs(new - old) > _MOVED) & (p * len(p) < 0.05)).tolist():
        first, second = (children[key].text for key in pairs[at[test]])
        notes.append(
            f"{first} is over before {second} starts in {old[test]:.0%} of the {samples[0]} and "
            f"{new[test]:.0%} of the {samples[later[test]]} requests that have both; one order is laid over "
            f"{'both' if len(samples) == 2 else 'all'}."
        )
    if len(notes) > _MAX_NOTES:
        return (*notes[:_MAX_NOTES], f"The order of {len(notes) - _MAX_NOTES} more pairs of siblings moved.")
    return tuple(notes)
