"""Decide which children of a parent run one after the other, by consensus over all samples.

Requests vote on each pair of child keys of each parent operation. A child key is (operation, occurrence): the
second call of an operation, by start time within the request, has the same key in every request, whichever
branch of the stored structure it lies on.

Example: a page calls `auth`, then `load` twice, the second time before the first is done; times in ms, and
epsilon is 1 % of the page's 100.

    page |--------------------------------|  0-100
    auth   |----|                            2-20    keys: auth, load, load (call 2); the two loads by start,
    load         |-----------|               20-60   whichever comes first in the stored structure
    load              |----------------|     40-90

The three children are one *family*, that of the page, with one row per key in that order, and three pairs of
rows:

    auth, load            20 <= 20 + 1: first before second
    auth, load (call 2)   20 <= 40 + 1: first before second
    load, load (call 2)   60 >  40 + 1, 90 > 20 + 1: neither, they overlap

Over 40 such requests, in two of which `auth` is late, the first pair has 38 of 40 in order: at a share of
0.95 that is sequential. The last pair has none: parallel. The refined graph is page> auth> auth<, then both
loads beside each other, then page<.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from analyze.cache_blocks import FEW_CELLS
from analyze.numbering import Numbering, first_numbered
from analyze.refine.consensus import Answers, Asked, FlowBatch, ask, flow_batches
from analyze.refine.settings import RefineSettings
from analyze.refine.span_trees import SpanTrees
from analyze.refine.stored import Operation, StoredCategory
from analyze.stats.sums import row_totals
from schemas.arrays import B1, I1, I8, U8
from stitch.columnar.hashing import mix
from stitch.columnar.runs import no_rows, ranges, rank_in_runs, run_starts

_MOVED = 0.2
"""Minimum difference, between the reference and another sample, of the share of requests in which one call
ends before another starts, for a note."""
_MAX_NOTES = 5


class SiblingRelation(IntEnum):
    """Relation of two children of a parent; `first` is the child with the smaller child key."""

    PARALLEL = 0
    FIRST_SECOND = 1
    """The first child ends before the second starts."""
    SECOND_FIRST = 2
    """The second child ends before the first starts."""
    BY_TRACE = 3
    """Too few requests to decide: the relation is determined for each request separately."""
    SEQUENTIAL = 4
    """Too few requests for the pair, but calls of the two components do not overlap: which child comes first
    is determined for each request separately."""


class ChildKey(NamedTuple):
    """Key of a child among its siblings: call number `occurrence` of `operation`, by start, from 0."""

    operation: Operation
    occurrence: int

    @property
    def text(self) -> str:
        """`operation`, or `operation (call 2)` for the second call; for display."""
        return self.operation.text + (f" (call {self.occurrence + 1})" if self.occurrence else "")


@dataclass(frozen=True)
class Families:
    """Families of all structures: a family is a parent with two or more awaited children.

    The *rows* of a family are its children, ordered by child key; its *pairs* are the pairs of its rows:
    (0, 1), (0, 2), … Families are ordered by parent; rows and pairs are ordered by family.
    """

    trees: SpanTrees
    parent: I8
    """int64[families]: index in the arrays of `trees` of the parent span, ascending."""
    parent_key: I8
    """int64[families]: number of the parent's operation."""
    keys_number: I8
    """int64[families]: equal numbers for families with the same parent operation and the same child keys."""
    size: I8
    """int64[families]: number of rows (children) in the family."""
    unit: I8
    """int64[rows]: index in the arrays of `trees` of the child, a span or a point event; ascending among
    children with the same operation."""
    key: I8
    """int64[rows]: index into `children` of the row's child key, ascending within a family."""
    children: tuple[ChildKey, ...]
    group: I8
    """int64[rows]: equal numbers for children of one parent that have the same operation."""
    first: I8
    """int64[pairs]: row of the child with the smaller key."""
    second: I8
    """int64[pairs]: row of the child with the larger key."""

    @cached_property
    def family(self) -> I8:
        """int64[rows]: index of the family that the row belongs to."""
        return np.repeat(np.arange(len(self.size)), self.size)

    @cached_property
    def structure(self) -> I8:
        """int64[rows]: number of the structure that the row belongs to."""
        return self.trees.structure[self.unit]

    def groups(self) -> Iterator[I8]:
        """Yield int64[groups, n] for each n >= 2: the rows of each group of n children in a family that call
        the same operation, in order of their stored column."""
        order = np.lexsort((self.unit, self.group))
        first = np.flatnonzero(run_starts(self.group[order]))
        size = np.diff(np.append(first, len(order)))
        by_row = np.argsort(order[first], kind="stable")
        for n in np.unique(size[size > 1]).tolist():
            begins = first[by_row[size[by_row] == n]]
            yield order[begins[:, None] + np.arange(n)]


def families(trees: SpanTrees, max_siblings: int) -> Families:
    """Find the families, parents with 2 to `max_siblings` awaited children, in all span trees. O(units log
    units), where a unit is a span or a point event inside a span."""
    child = np.flatnonzero(trees.awaited & (trees.parent >= 0))
    n_children = np.bincount(trees.parent[child], minlength=len(trees.parent))
    child = child[(n_children[trees.parent[child]] >= 2) & (n_children[trees.parent[child]] <= max_siblings)]
    # By parent, then operations by their first call, then calls.
    operation = trees.operation
    called, first_call = first_numbered(trees.parent[child] * len(trees.nodes.names) + operation[child])
    order = np.lexsort((child, child[first_call][called], trees.parent[child]))
    child, called = child[order], called[order]
    nth = rank_in_runs(run_starts(called))
    parent, size = np.unique(trees.parent[child], return_counts=True)
    every = np.concatenate((operation[child], operation[parent]))
    nth_of = np.concatenate((nth, np.zeros(len(parent), dtype=np.int64)))
    number, of = first_numbered(nth_of * len(trees.nodes.names) + every)
    names = trees.nodes.names
    children = tuple(
        ChildKey(names[call], at) for call, at in zip(every[of].tolist(), nth_of[of].tolist(), strict=True)
    )
    key, parent_key = number[: len(child)], number[len(child) :]
    by_key = np.lexsort((key, np.repeat(np.arange(len(parent)), size)))
    child, called, key = child[by_key], called[by_key], key[by_key]
    # Equal sums of hashes: equal keys, which are distinct in a family.
    hashed = row_totals(mix(key.astype(np.uint64)), np.repeat(np.arange(len(size)), size), len(size))
    keys_number, _ = first_numbered(mix(hashed + mix(parent_key.astype(np.uint64))).view(np.int64))
    row = np.arange(len(child))
    n_after = np.repeat(np.cumsum(size), size) - 1 - row
    return Families(
        trees=trees,
        parent=parent,
        parent_key=parent_key,
        keys_number=keys_number,
        size=size,
        unit=child,
        key=key,
        children=children,
        group=called,
        first=np.repeat(row, n_after),
        second=ranges(row + 1, n_after),
    )


class _RowTimes(NamedTuple):
    """Times of the rows of families in a batch of requests; arrays are [rows of the batch, requests]."""

    rows: I8
    """int64[n]: rows of `Families` that are in the batch, ascending."""
    unit: I8
    """Unit of `Families.trees` that is the row's child in the request. The first row of an operation is its
    call with the earliest start; equal starts are in order of the stored column."""
    start: I8
    """Start of the child, ns since the request's start."""
    end: I8
    """End of the child, ns since the request's start."""
    middle: I8
    """Middle of the child's duration, ns since the request's start; see `of`."""
    late_start: I8
    """Start of the child plus the allowed overlap, ns since the request's start; see `of`."""

    @staticmethod
    def of(kin: Families, groups: Sequence[I8], batch: FlowBatch, settings: RefineSettings) -> _RowTimes:
        """Times of all rows of a batch. groups: result of `kin.groups()`.

        `a` runs before `b` iff `middle[a] <= start[b]` and `end[a] <= late_start[b]`. That is `end[a] <=
        start[b] + epsilon`, where epsilon is the smallest of the parent's slack, half of `a`'s duration and
        half of `b`'s. The condition is split so that each side depends on one row only: `late_start` allows
        an overlap of the slack and of half of `b`; `middle` allows an overlap of half of `a`, and makes `a`
        the one that starts first.
        """
        trees, mine = kin.trees, batch.part(kin.structure)
        structure, unit = kin.structure[mine], kin.unit[mine]
        starts, ends = batch.at(structure, trees.start[unit]), batch.at(structure, trees.end[unit])
        units = np.repeat(unit[:, None], starts.shape[1], axis=1)
        for rows in groups:
            alike = mine.searchsorted(rows[batch.part(kin.structure[rows[:, 0]])])
            began = starts[alike]
            wrong = (began[:, 1:] < began[:, :-1]).any(axis=(1, 2))
            if wrong.any():
                alike = alike[wrong]
                order = np.argsort(began[wrong], axis=1, kind="stable")
                for values in (units, starts, ends):
                    values[alike] = np.take_along_axis(values[alike], order, axis=1)
        families_ = batch.part(trees.structure[kin.parent])
        parent = kin.parent[families_]
        of = trees.structure[parent]
        duration = batch.at(of, trees.end[parent]) - batch.at(of, trees.start[parent])
        slack = np.maximum(settings.slack_ns, (duration * settings.slack_share).astype(np.int64))
        half = np.maximum(ends - starts, 0) >> 1
        late_starts = starts + np.minimum(slack[families_.searchsorted(kin.family[mine])], half)
        return _RowTimes(mine, units, starts, ends, np.maximum(ends - half, starts), late_starts)

    def order(self, first: I8, second: I8) -> tuple[B1, B1]:
        """(bool[n, requests] True if `first` runs before `second`, bool[n, requests] True if `second` runs
        before `first`).

        first, second: int64[n], rows of `Families`. Of two children without duration at the same time,
        `first` runs before `second`."""
        a, b = self.rows.searchsorted(first), self.rows.searchsorted(second)
        leads = (self.middle[a] <= self.start[b]) & (self.end[a] <= self.late_start[b])
        follows = (self.middle[b] <= self.start[a]) & (self.end[b] <= self.late_start[a])
        return leads, follows & ~leads


def order_evidence(
    categories: Sequence[StoredCategory],
    kin: Families,
    settings: RefineSettings,
    n_apart: int,
    cells: int = FEW_CELLS,
) -> Answers:
    """Count the votes of requests on the order of every pair of siblings. O(requests · pairs).

    Two answers: the first child ends before the second starts; the second ends before the first starts.
    Entries are the pairs of `kin`. Columns of the key: `keys_number` and `parent_key` of the family, first
    and second child key. n_apart, cells: as in `ask`.
    """
    structure, groups = kin.structure, list(kin.groups())

    def order(batch: FlowBatch, pairs: I8) -> tuple[B1, B1]:
        return _RowTimes.of(kin, groups, batch, settings).order(kin.first[pairs], kin.second[pairs])

    of = kin.family[kin.first]
    key = np.stack((kin.keys_number[of], kin.parent_key[of], kin.key[kin.first], kin.key[kin.second]), axis=1)
    return ask(categories, Asked(structure[kin.first], key), n_apart, 2, order, cells)


def deciding_alone(kin: Families, relation: I1, shapes: U8) -> dict[int, I8]:
    """Structure -> int64[places], places at which each of its requests decides for itself.

    A request decides the relation of a pair of siblings without consensus. It also decides which call is
    which row, for rows that call the same operation, if subtrees of the calls differ in shape and any of the
    rows is ordered before or after a sibling. Place `p` is row `p` of `kin`, or, counted on behind the rows,
    pair `p - n_rows`.

    relation: int8[pairs], `SiblingRelation`. shapes: uint64[units], equal for interchangeable subtrees.
    """
    related = np.zeros(len(kin.unit), dtype=np.bool_)
    related[kin.first[relation != 0]] = related[kin.second[relation != 0]] = True
    pair = np.flatnonzero(relation >= SiblingRelation.BY_TRACE)
    rows, group = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for alike in kin.groups():
        shape = shapes[kin.unit[alike]]
        differ = alike[related[alike].any(axis=1) & (shape != shape[:, :1]).any(axis=1)]
        rows, group = np.append(rows, differ), np.append(group, np.repeat(differ[:, 0], differ.shape[1]))
    at_row, n_rows = np.concatenate((rows, kin.first[pair])), len(kin.unit)
    place = np.concatenate((rows, n_rows + pair))
    # A family's rows by group, then its pairs.
    order = np.lexsort((place, np.append(group, np.full(len(pair), n_rows)), kin.family[at_row]))
    found, begin = np.unique(kin.structure[at_row[order]], return_index=True)
    return dict(zip(found.tolist(), np.split(place[order], begin)[1:], strict=True))


def decided_alone(
    categories: Sequence[StoredCategory],
    kin: Families,
    relation: I1,
    places: Mapping[int, I8],
    settings: RefineSettings,
) -> dict[int, I8]:
    """Decisions of every request: structure -> int64[places, requests].

    The decision at a place that is a row is the unit, counted within its structure, that is the row's child;
    at a place that is a pair, it is the `SiblingRelation` of the pair.

    relation: int8[pairs of `kin`]. places: as returned by `deciding_alone`.
    """
    groups, n_places = list(kin.groups()), [len(one) for one in places.values()]
    of = np.repeat(np.array([*places], dtype=np.int64), n_places)
    at = np.concatenate([no_rows(), *places.values()])
    is_row = at < len(kin.unit)
    decided = {
        number: np.empty((len(mine), categories[number].n_requests), dtype=np.int64)
        for number, mine in places.items()
    }
    for batch in flow_batches(categories, of, FEW_CELLS):
        times = _RowTimes.of(kin, groups, batch, settings)
        here = batch.part(of)
        rows, pairs = is_row[here], at[here[~is_row[here]]] - len(kin.unit)
        found = np.empty((len(here), batch.times.shape[1]), dtype=np.int64)
        row = times.rows.searchsorted(at[here[rows]])
        found[rows] = times.unit[row] - kin.trees.first[of[here[rows]], None]
        leads, follows = times.order(kin.first[pairs], kin.second[pairs])
        # Of sequential components the start alone tells which comes first.
        goes = (relation[pairs] == SiblingRelation.SEQUENTIAL)[:, None]
        a, b = (times.rows.searchsorted(side[pairs]) for side in (kin.first, kin.second))
        leads = np.where(goes, times.start[a] <= times.start[b], leads)
        ordered = np.where(follows | goes, SiblingRelation.SECOND_FIRST, SiblingRelation.PARALLEL)
        found[~rows] = np.where(leads, SiblingRelation.FIRST_SECOND, ordered)
        begin = of[here].searchsorted(batch.structures)
        for number, cut, first in zip(batch.structures.tolist(), batch.rows, begin.tolist(), strict=True):
            mine = found[first : first + len(places[number]), : cut.stop - cut.start]
            decided[number][:, cut] = mine
    return decided


@dataclass(frozen=True, slots=True)
class Consensus:
    """Relations of siblings decided from the votes."""

    relation: I1
    """int8[entries of the votes]: `SiblingRelation` of each pair."""
    notes: tuple[str, ...]
    """Sentences on pairs whose order differs between samples."""


def decide_order(
    votes: Answers,
    children: Sequence[ChildKey],
    settings: RefineSettings,
    samples: Sequence[str],
) -> Consensus:
    """Pool the votes and decide the relation of every pair of siblings. O(entries log entries).

    Votes are pooled at four levels, and the first level with enough requests decides: parents of the same
    operation *with the same child keys* (an operation like `GET` stands for many programs, which its set of
    calls distinguishes); all parents of the operation; all pairs of the same two components; each request
    separately. children: child key by number. samples: names of the compared samples, the first in `votes`.
    Notes report pairs whose share of ordered requests differs between the first and another of `samples`.
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
    """int64[children]: number of each child key's component; equal for children of the same component."""
    numbers = Numbering[str]()
    return np.array([numbers[child.operation.component] for child in children], dtype=np.int64)


def _by_share(votes: Answers, settings: RefineSettings) -> I1:
    """int8[entries]: FIRST_SECOND or SECOND_FIRST if at least `sequential_share` of the votes agree on it,
    else PARALLEL."""
    first_second, second_first = votes.agreed(settings.sequential_share)
    relation = np.full(len(first_second), SiblingRelation.PARALLEL, dtype=np.int8)
    relation[first_second] = SiblingRelation.FIRST_SECOND
    relation[second_first] = SiblingRelation.SECOND_FIRST
    return relation


def _component_relation(operations: Answers, component_of: I8, settings: RefineSettings) -> I1:
    """int8[entries of `operations`]: SEQUENTIAL or PARALLEL by the votes of all pairs of the same two
    components; BY_TRACE if those are fewer than `min_traces`.

    component_of: int64[children], number of each child key's component."""
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
    """Sentences on pairs whose share of ordered requests differs by more than `_MOVED` between the first
    sample and another (two-proportion z test, Bonferroni-corrected p < 0.05)."""
    # Both directions: the smaller key need not be the one that comes first.
    pairs = np.concatenate((votes.key[:, 2:], votes.key[:, :1:-1]))
    n, ordered = np.tile(votes.requests, 2), np.concatenate(votes.shares(), axis=1)
    enough = n >= settings.min_traces
    later, at = np.nonzero(enough[1:] & enough[0])
    if not len(later):
        return ()
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
