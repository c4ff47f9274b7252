"""Find asynchronous children by consensus over all samples, and spans below them that the parent waits for.

A child that ends after its parent in most calls is asynchronous: the parent does not wait for it, and its
subtree is deferred. A span below the child stays in the graph if the parent demonstrably waited for it: the
span ends before the parent's next event (the start of another child, or the parent's end) in nearly all
requests.

Example: setting up a write pipeline takes until the first data node is connected to the second, but the write
handler that it starts goes on until the data are there:

    set-up   |--------------|           The handler is asynchronous; `connect` is over before the set-up goes
    handler     |---------------------- on, so it keeps its place: set-up> handler connect> connect< set-up<,
    connect        |------|             with the handler's start as a point, and its end gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from analyze.cache_blocks import FEW_CELLS, blocks
from analyze.refine.consensus import Answer, Answers, Asked, FlowBatch, ask
from analyze.refine.settings import RefineSettings
from analyze.refine.span_trees import SpanTrees
from analyze.refine.stored import FlowMatrices, Operation, StoredCategory
from analyze.stats.sums import numbered
from schemas.arrays import B1, I8
from stitch.columnar.runs import group_stably, offsets, run_starts
from stitch.graph.placed import is_made_up

Calls = tuple[Operation, ...]
"""Operations of (parent, child), or of (parent, child, span below the child)."""

_MOVED = 0.5
"""Minimum difference, between the reference and another sample, of the share of calls in which a child
outlives its parent, for a note."""

_MAX_NOTES = 5
_LEAST_CALLS = 5
"""Minimum summed weight of a sample's requests with a (parent, child), for a note that samples differ in
whether the child is asynchronous; samples without such requests do not count."""
_NEVER: Final = np.iinfo(np.int64).max
"""Start, ns, of a call that does not count: later than any time."""


class Asynchrony(NamedTuple):
    """Asynchronous children of all structures."""

    left: B1
    """bool[units of the trees]: True for an asynchronous child, for which the parent does not wait."""
    waited: I8
    """int64[n]: spans (units) below an asynchronous child for which the child's parent does wait."""
    behind: I8
    """int64[n]: the asynchronous child (unit) above each span in `waited`."""
    notes: tuple[str, ...]
    """Sentences on asynchronous children in the compared samples."""


def _asked_once(
    categories: Sequence[StoredCategory],
    asked: Asked,
    n_apart: int,
    answer: Answer,
    cells: int,
) -> tuple[Answers, I8]:
    """Like `ask`, but pooled by the key of the question, with one vote per request and key.

    Returns (pooled votes, int64[entries] index into the pooled entries of each entry of `asked`). `requests`
    of the votes counts a request once per key, however many calls with that key it has, so that a single
    request cannot decide.
    """
    votes = ask(categories, asked, n_apart, 1, answer, cells)
    is_first = np.zeros(len(asked.structure), dtype=np.bool_)
    is_first[numbered((asked.structure, *asked.key.T))[1]] = True
    return replace(votes, requests=votes.requests * is_first).pooled(asked.key)


def find_asynchronous(
    flows: FlowMatrices,
    trees: SpanTrees,
    settings: RefineSettings,
    samples: Sequence[str],
    cells: int = FEW_CELLS,
) -> Asynchrony:
    """Find awaited children that outlive their parent in at least `async_share` of all calls.

    Votes are pooled over all samples by (parent operation, child operation). flows: skew-corrected. trees: of
    the structures of `flows.categories`. samples: names of the compared samples, which are the first in
    `flows`. cells: array cells per batch. O(spans + spans below asynchronous children · children).
    """
    categories, n_apart, operation = flows.categories, len(samples), trees.operation
    called = np.flatnonzero(trees.awaited & (trees.parent >= 0))
    key = np.stack((operation[trees.parent[called]], operation[called]), axis=1)
    late = Asked(trees.structure[called], key)
    votes, place = _asked_once(categories, late, n_apart, _outliving(trees, called, settings), cells)
    is_late = votes.agreed(settings.async_share)[0] & votes.enough(settings)
    left = np.zeros(len(trees.parent), dtype=np.bool_)
    left[called] = is_late[place]
    early, behind = _below(trees, left)
    calls = operation[np.stack((trees.parent[behind], behind, early), axis=1)]
    waits = Asked(trees.structure[early], calls)
    waiting, at = _asked_once(categories, waits, n_apart, _early(trees, early, behind, cells), cells)
    stays_there = waiting.agreed(settings.sequential_share)[0] & waiting.enough(settings)
    stays = _outermost(trees, early, stays_there[at])
    names = trees.nodes.names

    def named(keys: I8) -> list[Calls]:
        return [tuple(names[call] for call in calls) for calls in keys.tolist()]

    outlive = named(votes.key)
    asynchronous = {outlive[number] for number in np.flatnonzero(is_late).tolist()}
    notes = _notes(outlive, votes.of_first(n_apart), asynchronous, {*named(calls[stays])}, samples)
    return Asynchrony(left, early[stays], behind[stays], notes)


def _below(trees: SpanTrees, left: B1) -> tuple[I8, I8]:
    """(int64[pairs] span, int64[pairs] asynchronous unit above it): every descendant span that an
    asynchronous unit waits for, directly or through awaited units.

    left: bool[units], True if asynchronous."""
    top = np.where(left, np.arange(len(left)), -1)
    through = trees.awaited & trees.is_span & ~left
    for level in trees.levels[1:] if left.any() else ():
        level = level[through[level]]
        top[level] = top[trees.parent[level]]
    below = np.flatnonzero((top >= 0) & ~left)
    return below, top[below]


def _outermost(trees: SpanTrees, below: I8, kept: B1) -> B1:
    """bool[pairs]: True for spans that become children of the ancestor that waits for them: the topmost spans
    with `kept`. Spans below such a span stay below it. below: int64[pairs], span; kept: bool[pairs], True if
    the ancestor waits for the span."""
    candidate, stays = np.zeros((2, len(trees.parent)), dtype=np.bool_)
    candidate[below], stays[below] = True, kept
    for level in trees.levels[1:] if len(below) else ():
        level = level[candidate[level]]
        stays[level] |= stays[trees.parent[level]]
    outermost: B1 = stays[below] & ~stays[trees.parent[below]]
    return outermost


def _outliving(trees: SpanTrees, called: I8, settings: RefineSettings) -> Answer:
    """Answer function for `ask`: True if the child `called[entry]` ends after its parent by more than the
    allowed slack.

    called: int64[entries], children (units of `trees`)."""

    def is_late(batch: FlowBatch, entries: I8) -> tuple[B1]:
        unit = called[entries]
        of, above = trees.structure[unit], trees.parent[unit]
        end, end_above = batch.at(of, trees.end[unit]), batch.at(of, trees.end[above])
        late = end > end_above
        # Slack is needed only of those that outlive their parent at all, which are few.
        row, column = np.nonzero(late)
        begin, begin_above = (
            batch.first_node[batch.place(of)] + trees.start[of_unit] for of_unit in (unit, above)
        )
        start, start_above = batch.times[begin[row], column], batch.times[begin_above[row], column]
        end, end_above = end[row, column], end_above[row, column]
        half = np.maximum(end - start, 0) >> 1
        duration = np.maximum(end_above - start_above, 0)
        slack = np.maximum((duration * settings.slack_share).astype(np.int64), settings.slack_ns)
        late[row, column] = end - end_above > np.minimum(np.minimum(slack, duration >> 1), half)
        return (late,)

    return is_late


def _early(trees: SpanTrees, early: I8, behind: I8, cells: int) -> Answer:
    """Answer function for `ask`: True if span `early[entry]` ends before its waiting ancestor's next event.

    The ancestor is the parent of the asynchronous unit `behind[entry]`. Its next event is the first start of
    another child at or after the start of `behind[entry]`, else the ancestor's end. Computed once per
    asynchronous unit, for about `cells` starts of other children at a time.
    """
    by_above, first = group_stably(trees.parent + 1, len(trees.parent) + 1)

    def next_event_ns(batch: FlowBatch, child: I8) -> I8:
        of, above = trees.structure[child], trees.parent[child]
        begin, next_ns = batch.at(of, trees.start[child]), batch.at(of, trees.end[above])
        pair = offsets(first[above + 2] - first[above + 1])
        for part in blocks(int(pair[-1]), begin.shape[1], cells):
            nth = np.arange(part.start, part.stop)
            row = pair.searchsorted(nth, side="right") - 1
            other = by_above[first[above[row] + 1] + nth - pair[row]]
            row, other = row[other != child[row]], other[other != child[row]]
            if not len(row):
                continue
            start = batch.at(of[row], trees.start[other])
            start[start < begin[row]] = _NEVER
            begins = np.flatnonzero(run_starts(row))
            own = row[begins]
            next_ns[own] = np.minimum(next_ns[own], np.minimum.reduceat(start, begins, axis=0))
        return next_ns

    def is_early(batch: FlowBatch, entries: I8) -> tuple[B1]:
        unit = early[entries]
        child, which = np.unique(behind[entries], return_inverse=True)
        return (batch.at(trees.structure[unit], trees.end[unit]) <= next_event_ns(batch, child)[which],)

    return is_early


DEFERRED: Final = "Asynchronous, as they outlive their parent, which shows the time meanwhile"
"""Prefix of the note that lists asynchronous children; `pipeline` selects `asynchrony_notes` by it."""


def _notes(
    places: list[Calls],
    votes: Answers,
    asynchronous: set[Calls],
    kept: set[Calls],
    samples: Sequence[str],
) -> tuple[str, ...]:
    """Notes, most calls first: a sentence per child that is asynchronous in some samples only, then one
    sentence that lists all asynchronous children.

    places: (parent, child) operations of the entries of `votes`. asynchronous: (parent, child) of
    asynchronous children. kept: (parent, child, span) of spans below them that the parent waits for."""
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
    """Join at least one word: `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
