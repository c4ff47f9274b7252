"""Find asynchronous children by consensus over all samples, and what was awaited below them.

A child that outlives its parent was left behind by it: nobody joins it, and its subtree is deferred. What the
parent demonstrably waited for stays: a span below the child that is over before the parent's next own event
(the start of another child, or its end) in nearly all requests.

Example: setting up a write pipeline takes until the first data node is connected to the second, but the write
handler that it starts goes on until the data are there:

    set-up   |--------------|           The handler is asynchronous; `connect` is over before the set-up goes
    handler     |---------------------- on, so it keeps its place: set-up> handler connect> connect< set-up<,
    connect        |------|             with the handler's start as a point, and its end gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from analyze.cache_blocks import FEW_CELLS, uneven_blocks
from analyze.numbering import Numbering
from analyze.refine.consensus import Answer, Answers, Asked, FlowBatch, ask
from analyze.refine.settings import RefineSettings
from analyze.refine.span_tree import SpanTree
from analyze.refine.stored import FlowMatrices, Operation, StoredCategory
from analyze.stats.sums import numbered
from schemas.arrays import B1, I8
from stitch.columnar.runs import ranges
from stitch.graph.placed import is_made_up

Calls = tuple[Operation, ...]
"""Operations of a question: (parent, child), or (parent, child, span below the child)."""

_MOVED = 0.5
"""Least difference of the share between the reference and another sample for a note."""

_MAX_NOTES = 5
_LEAST_CALLS = 5
"""Fewest calls of a sample for its share of late calls to be used."""


@dataclass(frozen=True, slots=True)
class Asynchrony:
    """Asynchronous children of one structure."""

    left_behind: frozenset[int] = frozenset()
    """Units that their parent does not wait for."""
    waited: tuple[tuple[int, int], ...] = ()
    """(unit below a unit in `left_behind`, ancestor that waits for the unit)."""


class _Units(NamedTuple):
    """Units of all trees, structure after structure; arrays are [units]."""

    structure: I8
    start: I8
    end: I8
    """start, end: stored columns."""
    above: I8
    """Parent unit; -1 for roots."""
    awaited: B1
    operation: I8
    """Index into `names`."""
    names: tuple[Operation, ...]
    first: tuple[int, ...]
    """[structures] first unit."""

    @staticmethod
    def of(trees: Sequence[SpanTree | None]) -> _Units:
        """Concatenate the units of all trees, numbered consecutively, one structure after another."""
        names = Numbering[Operation]()
        rows: list[tuple[int, int, int, int, bool, int]] = []
        first = []
        for structure, tree in enumerate(trees):
            first.append(base := len(rows))
            if tree is not None:
                rows += [
                    (structure, start, end, -1 if above < 0 else base + above, awaited, names[operation])
                    for start, end, above, awaited, operation in zip(
                        tree.start, tree.end, tree.parent, tree.awaited, tree.operation, strict=True
                    )
                ]
        of, start, end, above, awaited, operation = np.array(rows, dtype=np.int64).reshape(-1, 6).T
        return _Units(of, start, end, above, awaited > 0, operation, tuple(names), tuple(first))

    def places(self, key: I8) -> list[Calls]:
        """Operations for rows of `key`, [places, calls]."""
        return [tuple(self.names[call] for call in calls) for calls in key.tolist()]


def _asked_once(
    categories: Sequence[StoredCategory],
    times: Sequence[I8],
    asked: Asked,
    n_apart: int,
    answer: Answer,
    cells: int,
) -> tuple[Answers, I8]:
    """Votes on a yes-no question by place, and [entries] the index of each entry's place.

    A request counts once per place, however many calls it has there: one request must not decide alone.
    """
    votes = ask(categories, times, asked, n_apart, 1, answer, cells)
    is_first = np.zeros(len(asked.structure), dtype=np.bool_)
    is_first[numbered((asked.structure, *asked.key.T))[1]] = True
    return replace(votes, requests=votes.requests * is_first).pooled(asked.key)


def find_asynchronous(
    flows: FlowMatrices,
    times: Sequence[I8],
    trees: Sequence[SpanTree | None],
    settings: RefineSettings,
    samples: Sequence[str],
    cells: int = FEW_CELLS,
) -> tuple[list[Asynchrony], tuple[str, ...]]:
    """Find awaited children that outlive their parent in at least `async_share` of all calls.

    Votes are pooled over all samples by (parent operation, child operation). Returns decisions by category,
    and notes on the compared samples, named in `samples` (the first of `flows`). cells: as in `ask`.
    O(spans), and O(spans below asynchronous children · children).
    """
    categories, units, n_apart = flows.categories, _Units.of(trees), len(samples)
    called = np.flatnonzero(units.awaited & (units.above >= 0))
    key = np.stack((units.operation[units.above[called]], units.operation[called]), axis=1)
    late = Asked(units.structure[called], key)
    votes, place = _asked_once(categories, times, late, n_apart, _outliving(units, called, settings), cells)
    is_late = votes.agreed(settings.async_share)[0] & votes.enough(settings)
    left: list[set[int]] = [set() for _ in trees]
    for unit in called[is_late[place]].tolist():
        structure = units.structure[unit]
        left[structure].add(unit - units.first[structure])
    below = [
        [] if tree is None or not behind else list(_below(tree, behind))
        for tree, behind in zip(trees, left, strict=True)
    ]
    rows = [
        (number, units.first[number] + unit, units.first[number] + child)
        for number, pairs in enumerate(below)
        for unit, child in pairs
    ]
    structure, early, behind = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    waits = Asked(structure, units.operation[np.stack((units.above[behind], behind, early), axis=1)])
    waiting, at = _asked_once(categories, times, waits, n_apart, _early(units, early, behind, cells), cells)
    stays_there = waiting.agreed(settings.sequential_share)[0] & waiting.enough(settings)
    kept = iter(stays_there[at].tolist())
    found = [
        Asynchrony(frozenset(left[number]), tuple(_outermost(tree, pairs, [next(kept) for _ in pairs])))
        if tree is not None
        else Asynchrony()
        for number, (tree, pairs) in enumerate(zip(trees, below, strict=True))
    ]
    stays: set[Calls] = {
        (tree.operation[tree.parent[child]], tree.operation[child], tree.operation[unit])
        for tree, pairs, here in zip(trees, below, found, strict=True)
        if tree is not None
        for unit, child in pairs
        if (unit, tree.parent[child]) in here.waited
    }
    outlive = units.places(votes.key)
    asynchronous = {outlive[number] for number in np.flatnonzero(is_late).tolist()}
    return found, _notes(outlive, votes.of_first(n_apart), asynchronous, stays, samples)


def _below(tree: SpanTree, behind: Set[int]) -> Iterator[tuple[int, int]]:
    """(span, unit left behind) for every span that the unit awaits, directly or through others."""
    top = {unit: unit for unit in behind}
    for unit in range(1, tree.n_units):
        above = top.get(tree.parent[unit])
        if above is None or not tree.awaited[unit] or unit in behind or tree.start[unit] == tree.end[unit]:
            continue
        top[unit] = above
        yield unit, above


def _outermost(tree: SpanTree, below: list[tuple[int, int]], kept: list[bool]) -> Iterator[tuple[int, int]]:
    """(span, ancestor that waits for it); descendants of such a span move with it and are not listed."""
    stays: set[int] = set()
    for (unit, child), is_kept in zip(below, kept, strict=True):
        if tree.parent[unit] in stays:
            stays.add(unit)
        elif is_kept:
            stays.add(unit)
            yield unit, tree.parent[child]


def _outliving(units: _Units, called: I8, settings: RefineSettings) -> Answer:
    """Answer True where a unit ends after its parent by more than S5's epsilon."""

    def is_late(batch: FlowBatch, entries: slice) -> tuple[B1]:
        unit = called[entries]
        of, above = units.structure[unit], units.above[unit]
        end, end_above = batch.at(of, units.end[unit]), batch.at(of, units.end[above])
        half = np.maximum(end - batch.at(of, units.start[unit]), 0) >> 1
        duration = np.maximum(end_above - batch.at(of, units.start[above]), 0)
        slack = np.maximum((duration * settings.slack_share).astype(np.int64), settings.slack_ns)
        return (end - end_above > np.minimum(np.minimum(slack, duration >> 1), half),)

    return is_late


def _early(units: _Units, early: I8, behind: I8, cells: int) -> Answer:
    """Answer True where a span ends before the waiting ancestor's next own event.

    That event is the first start of another child after the start of the unit left behind, or the ancestor's
    end; computed once per unit left behind, however many spans are below it, for `cells` cells of siblings at
    a time.
    """
    by_above = np.argsort(units.above, kind="stable")

    def next_event_ns(batch: FlowBatch, child: I8) -> I8:
        of, waiting = units.structure[child], units.above[child]
        first, past = (
            np.searchsorted(units.above[by_above], waiting, side=side) for side in ("left", "right")
        )
        layout, n_others = batch.layout(of), past - first
        next_ns = batch.at(of, units.end[waiting])
        for part in uneven_blocks(n_others * layout.size, cells):
            row = np.repeat(np.arange(part.start, part.stop), n_others[part])
            other = by_above[ranges(first[part], n_others[part])]
            row, other = (column[other != child[row]] for column in (row, other))
            start = batch.at(of[row], units.start[other])
            comes = start >= batch.at(of[row], units.start[child[row]])
            at = batch.layout(of[row]).at(layout.first[row])
            np.minimum.at(next_ns, at[comes], start[comes])
        return next_ns

    def is_early(batch: FlowBatch, entries: slice) -> tuple[B1]:
        unit = early[entries]
        child, which = np.unique(behind[entries], return_inverse=True)
        of = units.structure[unit]
        cell = batch.layout(of).at(batch.layout(units.structure[child]).first[which])
        return (batch.at(of, units.end[unit]) <= next_event_ns(batch, child)[cell],)

    return is_early


DEFERRED: Final = "Asynchronous, as they outlive their parent, which shows the time meanwhile"
"""Beginning of the note on asynchronous children; no concern while both periods have them."""


def _notes(
    places: list[Calls],
    votes: Answers,
    asynchronous: set[Calls],
    kept: set[Calls],
    samples: Sequence[str],
) -> tuple[str, ...]:
    """Sentences: children asynchronous in some samples only, then all deferred ones; most calls first."""
    stays: dict[Calls, list[str]] = {}
    for place in sorted(kept, key=_text):
        stays.setdefault(place[:2], []).append(place[2].text)
    moved: list[str] = []
    below: dict[str, list[str]] = {}
    of_sample, (calls, late) = votes.weight[0], votes.weight.sum(axis=1)
    shares = votes.shares()[0]
    # NaN, where a sample has no call, compares false.
    differs = (np.abs(shares - shares[0]) > _MOVED).any(axis=0)
    differs &= ((of_sample == 0) | (of_sample >= _LEAST_CALLS)).all(axis=0)
    number = {place: at for at, place in enumerate(places)}
    noted = {number[place] for place in asynchronous} | set(np.flatnonzero(differs).tolist())
    # Where a span was lost nobody knows what outlived what.
    here = [
        at
        for at in noted
        if calls[at] and not any(is_made_up(name.component, name.point) for name in places[at])
    ]
    for at in sorted(here, key=lambda at: (-calls[at], _text(places[at]))):
        place = places[at]
        parent, child = _text(place)
        if differs[at]:
            taken = "asynchronous" if place in asynchronous else "awaited"
            seen = [
                f"{shares[sample, at]:.0%} of the {name}"
                for sample, name in enumerate(samples)
                if of_sample[sample, at]
            ]
            moved.append(
                f"{child} outlives its parent {parent} in {_listed(seen)} calls: taken as {taken} in "
                f"{'both' if len(samples) == 2 else 'all'}."
            )
        if place in asynchronous:
            text = f"(in {late[at] / calls[at]:.0%} of its calls"
            if place in stays:
                text += f"; but {_listed(stays[place])} in it is over before the parent goes on, and stays"
            below.setdefault(child, []).append(f"{parent} {text})")
    deferred = [
        f"{child} below {of[0] if len(of) == 1 else f'{len(of)} operations'}" for child, of in below.items()
    ]
    if len(moved) > _MAX_NOTES:
        moved = [*moved[:_MAX_NOTES], f"{len(moved) - _MAX_NOTES} more operations are awaited in some only."]
    if len(deferred) > _MAX_NOTES:
        deferred = [*deferred[: _MAX_NOTES - 1], f"{len(deferred) - _MAX_NOTES + 1} more"]
    if deferred:
        moved.append(f"{DEFERRED}: {_listed(deferred)}.")
    return tuple(moved)


def _text(place: Calls) -> list[str]:
    return [operation.text for operation in place]


def _listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
