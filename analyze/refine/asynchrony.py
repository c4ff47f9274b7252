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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from analyze.numbering import Numbering
from analyze.refine.consensus import Answers, all_answers, answers_of
from analyze.refine.settings import RefineSettings
from analyze.refine.span_tree import SpanTree
from analyze.refine.stored import FlowMatrices, Operation, StoredCategory
from schemas.arrays import B1, I8
from stitch.graph.placed import is_made_up

Calls = tuple[Operation, ...]
"""Operations that a question is about: (parent, child), or (parent, child, span below the child)."""

_MOVED = 0.5
"""Difference of the share between the reference and another sample that is worth a note."""

_MAX_NOTES = 5
_LEAST_CALLS = 5
"""Of a sample, from which a share of them says something."""


@dataclass(frozen=True, slots=True)
class Asynchrony:
    """What becomes of the children of one structure."""

    left_behind: frozenset[int] = frozenset()
    """Units that nobody waits for."""
    waited: tuple[tuple[int, int], ...] = ()
    """(unit below a unit left behind, ancestor that waits for it)."""


_Question = Callable[[I8, I8], B1]
"""[units, requests] starts and ends of all units -> whether the answer is yes, by unit asked about."""


class _Ballot:
    """Votes on one yes-no question, from all categories, by place."""

    def __init__(self, n_apart: int) -> None:
        self._n_apart = n_apart
        self._numbers = Numbering[Calls]()
        none = np.zeros((2, n_apart + 1, 0))
        self._votes = [Answers(np.zeros((0, 1), dtype=np.int64), none[0], none)]

    def ask(
        self, places: list[Calls], category: StoredCategory, times: I8, tree: SpanTree, question: _Question
    ) -> None:
        """Add a category's votes on some of its units, each at its place."""

        def answer(rows: slice) -> tuple[B1]:
            return (question(times[list(tree.start), rows], times[list(tree.end), rows]),)

        number = np.array([self._numbers[place] for place in places])
        votes = answers_of(category, number[:, None], self._n_apart, tree.n_units, answer)
        # One request decides nothing, however many calls it has: it counts once at a place.
        is_first = np.isin(np.arange(len(number)), np.unique(number, return_index=True)[1])
        self._votes.append(replace(votes, requests=votes.requests * is_first))

    def count(self) -> tuple[list[Calls], Answers]:
        """All places, and the votes of each."""
        votes = all_answers(self._votes)
        return list(self._numbers), votes.pooled(votes.key)[0]

    def carried(self, share: float, settings: RefineSettings) -> set[Calls]:
        """Places where at least `share` of the calls agree, in requests enough to say so."""
        places, votes = self.count()
        carried = votes.agreed(share)[0] & votes.enough(settings)
        return {places[at] for at in np.flatnonzero(carried).tolist()}


def find_asynchronous(
    flows: FlowMatrices,
    times: Sequence[I8],
    trees: Sequence[SpanTree | None],
    settings: RefineSettings,
    samples: Sequence[str],
) -> tuple[list[Asynchrony], tuple[str, ...]]:
    """Find awaited children that outlive their parent in at least `async_share` of all calls.

    Pooled over all samples by (parent operation, child operation). Returns what was found by category, and
    sentences on it in `samples`, the names of those compared, the first of the flows'. O(spans), and O(spans
    below asynchronous children · children).
    """
    categories = flows.categories
    lateness = _Ballot(len(samples))
    for category, matrix, tree in zip(categories, times, trees, strict=True):
        if tree is None:
            continue
        units = [unit for unit in range(1, tree.n_units) if tree.awaited[unit]]
        places: list[Calls] = [(tree.operation[tree.parent[unit]], tree.operation[unit]) for unit in units]
        if units:
            lateness.ask(places, category, matrix, tree, _outliving(tree, units, settings))
    asynchronous = lateness.carried(settings.async_share, settings)
    left = [frozenset() if tree is None else _units_of(tree, asynchronous) for tree in trees]
    waiting = _Ballot(len(samples))
    candidates = []
    for category, matrix, tree, behind in zip(categories, times, trees, left, strict=True):
        below = [] if tree is None else list(_below(tree, behind))
        candidates.append(below)
        if tree is None or not below:
            continue
        places = [_place(tree, unit, child) for unit, child in below]
        waiting.ask(places, category, matrix, tree, _early(tree, below))
    kept = waiting.carried(settings.sequential_share, settings)
    found = [
        Asynchrony() if tree is None else Asynchrony(behind, tuple(_outermost(tree, below, kept)))
        for tree, behind, below in zip(trees, left, candidates, strict=True)
    ]
    stays = {
        _place(tree, unit, child)
        for tree, below, here in zip(trees, candidates, found, strict=True)
        if tree is not None
        for unit, child in below
        if (unit, tree.parent[child]) in here.waited
    }
    outlive, votes = lateness.count()
    return found, _notes(outlive, votes.of_first(len(samples)), asynchronous, stays, samples)


def _units_of(tree: SpanTree, asynchronous: set[Calls]) -> frozenset[int]:
    return frozenset(
        unit
        for unit in range(1, tree.n_units)
        if tree.awaited[unit] and (tree.operation[tree.parent[unit]], tree.operation[unit]) in asynchronous
    )


def _below(tree: SpanTree, behind: frozenset[int]) -> Iterator[tuple[int, int]]:
    """(span, unit left behind) for every span that the unit waits for, directly or through others."""
    top = {unit: unit for unit in behind}
    for unit in range(1, tree.n_units):
        above = top.get(tree.parent[unit])
        if above is None or not tree.awaited[unit] or unit in behind or tree.start[unit] == tree.end[unit]:
            continue
        top[unit] = above
        yield unit, above


def _place(tree: SpanTree, unit: int, child: int) -> Calls:
    return tree.operation[tree.parent[child]], tree.operation[child], tree.operation[unit]


def _outermost(tree: SpanTree, below: list[tuple[int, int]], kept: set[Calls]) -> Iterator[tuple[int, int]]:
    """(span, ancestor that waits for it); spans below one that stays come with it."""
    stays: set[int] = set()
    for unit, child in below:
        if tree.parent[unit] in stays:
            stays.add(unit)
        elif _place(tree, unit, child) in kept:
            stays.add(unit)
            yield unit, tree.parent[child]


def _outliving(tree: SpanTree, units: list[int], settings: RefineSettings) -> _Question:
    """[units, requests] whether a unit ends after its parent does, by more than S5's epsilon."""
    above = [tree.parent[unit] for unit in units]

    def is_late(starts: I8, ends: I8) -> B1:
        durations = np.maximum(ends - starts, 0)
        half = durations >> 1
        slack = np.maximum((durations * settings.slack_share).astype(np.int64), settings.slack_ns)
        bounded = np.minimum(slack, half)
        late: B1 = ends[units] - ends[above] > np.minimum(bounded[above], half[units])
        return late

    return is_late


def _early(tree: SpanTree, below: list[tuple[int, int]]) -> _Question:
    """[spans, requests] whether a span ends before the waiting ancestor's next own event.

    That is the first start of another of its children once the unit left behind has started, or its end.
    """

    def is_early(starts: I8, ends: I8) -> B1:
        early = np.empty((len(below), starts.shape[1]), dtype=np.bool_)
        for row, (unit, child) in enumerate(below):
            waiting = tree.parent[child]
            next_ns = ends[waiting].copy()
            for other in tree.children[waiting]:
                if other != child:
                    np.minimum(next_ns, starts[other], out=next_ns, where=starts[other] >= starts[child])
            early[row] = ends[unit] <= next_ns
        return early

    return is_early


DEFERRED: Final = "Asynchronous, as they outlive their parent, which shows the time meanwhile"
"""How the note begins that lists them: nothing to mind, as long as both periods have them."""


def _notes(
    places: list[Calls],
    votes: Answers,
    asynchronous: set[Calls],
    kept: set[Calls],
    samples: Sequence[str],
) -> tuple[str, ...]:
    """Sentences: what only some samples leave behind, and what was deferred; the most calls first."""
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
