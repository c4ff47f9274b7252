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
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.refine.settings import RefineSettings
from analyze.refine.sibling_order import CHUNK_CELLS, sample_bounds, weigh
from analyze.refine.span_tree import SpanTree
from analyze.refine.stored import FlowMatrices, Operation, StoredCategory
from schemas.arrays import B1, F8, I8
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


@dataclass(frozen=True, slots=True)
class _Votes:
    """Requests and weighted calls by place; arrays are [samples, places]."""

    places: tuple[Calls, ...]
    requests: F8
    calls: F8
    ayes: F8

    def of_first(self, n_samples: int) -> _Votes:
        """The votes of the first samples only, at all places."""
        return _Votes(self.places, self.requests[:n_samples], self.calls[:n_samples], self.ayes[:n_samples])

    def shares(self) -> F8:
        """[samples, places] share of the calls that agree; NaN where there is none."""
        shares = np.full(self.calls.shape, np.nan)
        np.divide(self.ayes, self.calls, out=shares, where=self.calls > 0)
        return shares

    def carried(self, share: float, settings: RefineSettings) -> set[Calls]:
        """Places where at least `share` of the calls agree, in requests enough to say so.

        As for sibling order (S5): `min_traces` requests decide, or `min_unanimous` that agree without
        exception. One request decides nothing, however many calls it has.
        """
        n, calls, ayes = (part.sum(axis=0) for part in (self.requests, self.calls, self.ayes))
        by_share = (n >= settings.min_traces) & (ayes >= share * calls)
        unanimous = (n >= settings.min_unanimous) & (ayes == calls)
        return {self.places[at] for at in np.flatnonzero(by_share | unanimous).tolist()}


class _Ballot:
    """Answers to one question, from all categories, to be added up by place."""

    def __init__(self, n_samples: int) -> None:
        self._n_samples = n_samples
        self._codes: dict[Calls, int] = {}
        self._entries: list[tuple[I8, F8]] = []

    def ask(
        self,
        places: list[Calls],
        category: StoredCategory,
        times: I8,
        tree: SpanTree,
        question: Callable[[I8, I8], B1],
    ) -> None:
        """Add a category's answers for some of its units, each at its place; `question` as of `_early`."""
        codes = [self._codes.setdefault(place, len(self._codes)) for place in places]
        # A place has the category's requests once, however many of its units stand there.
        owner = {code: at for at, code in enumerate(codes)}
        once = np.array([owner[code] == at for at, code in enumerate(codes)])
        calls = np.zeros((self._n_samples, 1))
        ayes = np.zeros((self._n_samples, len(places)))
        step = max(1, CHUNK_CELLS // tree.n_units)
        for at in range(0, category.n_requests, step):
            rows = slice(at, at + step)
            bounds = sample_bounds(category.sample[rows], self._n_samples)
            weight = category.weight[rows]
            calls += weigh(np.ones((1, len(weight)), dtype=np.bool_), weight, bounds)
            ayes += weigh(
                question(times[list(tree.start), rows], times[list(tree.end), rows]), weight, bounds
            )
        requests = np.diff(sample_bounds(category.sample, self._n_samples))[:, None] * once
        entry = np.concatenate((requests, np.repeat(calls, len(places), axis=1), ayes))
        self._entries.append((np.array(codes, dtype=np.int64), entry))

    def count(self) -> _Votes:
        """The votes of every place."""
        if not self._entries:
            none = np.zeros((self._n_samples, 0))
            return _Votes((), none, none, none)
        codes = np.concatenate([codes for codes, _ in self._entries])
        entries = np.concatenate([entry for _, entry in self._entries], axis=1)
        sums = np.stack([np.bincount(codes, weights=row, minlength=len(self._codes)) for row in entries])
        return _Votes(tuple(self._codes), *sums.reshape(3, self._n_samples, -1))


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
    lateness = _Ballot(flows.n_samples)
    for category, matrix, tree in zip(categories, times, trees, strict=True):
        if tree is None:
            continue
        units = [unit for unit in range(1, tree.n_units) if tree.awaited[unit]]
        places: list[Calls] = [(tree.operation[tree.parent[unit]], tree.operation[unit]) for unit in units]
        if units:
            lateness.ask(places, category, matrix, tree, _outliving(tree, units, settings))
    outlives = lateness.count()
    asynchronous = outlives.carried(settings.async_share, settings)
    left = [frozenset() if tree is None else _units_of(tree, asynchronous) for tree in trees]
    waiting = _Ballot(flows.n_samples)
    candidates = []
    for category, matrix, tree, behind in zip(categories, times, trees, left, strict=True):
        below = [] if tree is None else list(_below(tree, behind))
        candidates.append(below)
        if tree is None or not below:
            continue
        places = [_place(tree, unit, child) for unit, child in below]
        waiting.ask(places, category, matrix, tree, _early(tree, below))
    kept = waiting.count().carried(settings.sequential_share, settings)
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
    return found, _notes(outlives.of_first(len(samples)), asynchronous, stays, samples)


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


def _outliving(tree: SpanTree, units: list[int], settings: RefineSettings) -> Callable[[I8, I8], B1]:
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


def _early(tree: SpanTree, below: list[tuple[int, int]]) -> Callable[[I8, I8], B1]:
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
    outlives: _Votes, asynchronous: set[Calls], kept: set[Calls], samples: Sequence[str]
) -> tuple[str, ...]:
    """Sentences: what only some samples leave behind, and what was deferred; the most calls first."""
    stays: dict[Calls, list[str]] = {}
    for place in sorted(kept, key=_text):
        stays.setdefault(place[:2], []).append(place[2].text)
    moved: list[str] = []
    below: dict[str, list[str]] = {}
    shares, calls = outlives.shares(), outlives.calls.sum(axis=0)
    # NaN, where a sample has no call, compares false.
    differs = (np.abs(shares - shares[0]) > _MOVED).any(axis=0)
    differs &= ((outlives.calls == 0) | (outlives.calls >= _LEAST_CALLS)).all(axis=0)
    number = {place: at for at, place in enumerate(outlives.places)}
    noted = {number[place] for place in asynchronous} | set(np.flatnonzero(differs).tolist())
    # Where a span was lost nobody knows what outlived what.
    here = [
        at
        for at in noted
        if calls[at] and not any(is_made_up(name.component, name.point) for name in outlives.places[at])
    ]
    for at in sorted(here, key=lambda at: (-calls[at], _text(outlives.places[at]))):
        place = outlives.places[at]
        parent, child = _text(place)
        if differs[at]:
            taken = "asynchronous" if place in asynchronous else "awaited"
            seen = [
                f"{shares[sample, at]:.0%} of the {name}"
                for sample, name in enumerate(samples)
                if outlives.calls[sample, at]
            ]
            moved.append(
                f"{child} outlives its parent {parent} in {_listed(seen)} calls: taken as {taken} in "
                f"{'both' if len(samples) == 2 else 'all'}."
            )
        if place in asynchronous:
            text = f"(in {outlives.ayes[:, at].sum() / calls[at]:.0%} of its calls"
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
