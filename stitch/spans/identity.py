"""Find the rows that describe the same span: duplicates, conflicts, partial reports, shared ids.

Rows with the same (trace, id, kind) describe the same span. One of them is kept: the one with most times,
then with the earliest start, the earliest end, the smallest content hash; so arrival order never matters.

* Same content as another version: an exact duplicate, dropped and counted.
* Less completely timed than the kept version, or without kind and incompletely timed beside a span of that
  id which has one (Zipkin's late annotations): a partial report, merged. Its declared parents serve if the
  kept version has none.
* Anything else: a conflict. The flow is flagged, and the row becomes a dead letter.

One id under several kinds (Zipkin's shared ids): CLIENT, else the first of PRODUCER, INTERNAL, UNSPECIFIED,
CONSUMER, SERVER is the owner and keeps the declared parent; the others are its children. A span that names
the shared id as its parent becomes a child of the member with its own component, else of the SERVER (the last
in that list).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.arrays import B1, I8
from schemas.events import SPAN_KIND_BASE, EventKind
from stitch.columnar.hashing import hash_rows
from stitch.columnar.runs import no_rows, run_starts
from stitch.spans.span_columns import UNKNOWN_NS, SpanIndex, SpanReferences, Spans

_OUTSIDE_IN = (
    EventKind.SPAN_CLIENT,
    EventKind.SPAN_PRODUCER,
    EventKind.SPAN_INTERNAL,
    EventKind.SPAN_UNSPECIFIED,
    EventKind.SPAN_CONSUMER,
    EventKind.SPAN_SERVER,
)
_PRECEDENCE = np.full(256 - SPAN_KIND_BASE, len(_OUTSIDE_IN), dtype=np.int64)
for _place, _kind in enumerate(_OUTSIDE_IN):
    _PRECEDENCE[_kind - SPAN_KIND_BASE] = _place


@dataclass(frozen=True, slots=True)
class SharedIds:
    """Groups of spans that share an id. The members of a group are sorted from the outermost to the
    innermost."""

    group: I8
    """[spans] index of the span's group; -1 if no other span has its id."""
    owner: I8
    """[spans] row of the group's owner; -1 for owners and for spans in no group."""
    innermost: I8
    """[groups] row of the group's last member, the innermost."""
    side_key: I8
    """[sides] `group * n_components + component`, ascending. A side is the set of a group's spans with one
    component."""
    side: I8
    """[sides] row of the innermost member of the side."""
    n_components: int

    def attach(self, found: I8, component: I8) -> I8:
        """Parents of spans that name another span's id as their parent: [queries] row of the parent.

        found: [queries] row of a span with that id; -1 if there is none. component: [queries] component of
        the span that names the id.
        """
        group = np.where(found >= 0, self.group[found], -1)
        asked = np.flatnonzero(group >= 0)
        if not len(asked):
            return found
        wanted = group[asked] * self.n_components + component[asked]
        place = np.minimum(np.searchsorted(self.side_key, wanted), len(self.side_key) - 1)
        result = found.copy()
        result[asked] = np.where(
            self.side_key[place] == wanted, self.side[place], self.innermost[group[asked]]
        )
        return result


@dataclass(frozen=True, slots=True)
class Identified:
    """Spans of a batch, each in one row, and the event rows that were dropped or merged."""

    spans: Spans
    index: SpanIndex
    shared: SharedIds | None = None
    copies: I8 = field(default_factory=no_rows)
    """Event rows that were dropped as exact duplicates."""
    conflicts: I8 = field(default_factory=no_rows)
    """Event rows that were dropped because another row of the same span with different content was kept."""
    conflict_flows: I8 = field(default_factory=no_rows)
    """[conflicts] code of the flow to which each row in `conflicts` belongs."""
    merged: tuple[I8, I8] = field(default_factory=lambda: (no_rows(), no_rows()))
    """(event rows of partial reports, event rows of the spans into which these were merged): int64 arrays of
    equal length."""


def identify(spans: Spans, events: pa.Table, component: I8, n_components: int) -> Identified:
    """Keep one row per span, and find spans that share an id.

    component: [label codes] code of the label's component. O(spans) if ids are unique.
    """
    index = SpanIndex(spans.flow, spans.key, spans.n_flows)
    if not len(index.repeated):
        return Identified(spans, index)
    holders = index.find(spans.flow[index.repeated], spans.key[index.repeated])
    rows = np.unique(np.concatenate((index.repeated, holders)))
    rows = rows[np.lexsort((spans.key[rows], spans.flow[rows]))]
    group = _group_numbers(spans.flow[rows], spans.key[rows])
    kind, partial = _kinds_of_partials(spans, rows, group, component[spans.label[rows]])
    complete = (spans.start_ns[rows] != UNKNOWN_NS).astype(np.int64) + (spans.end_ns[rows] != UNKNOWN_NS)
    content = hash_rows(events.take(pa.array(spans.row[rows])))
    order = np.lexsort((content, spans.end_ns[rows], spans.start_ns[rows], -complete, partial, kind, group))
    rows, group, kind, partial = rows[order], group[order], kind[order], partial[order]
    complete, content = complete[order], content[order]
    identity = _group_numbers(group, kind)
    first = run_starts(identity)
    winner = np.flatnonzero(first)[identity]
    duplicate = ~first & ~run_starts(content)
    merged = ~first & ~duplicate & (partial | (complete < complete[winner]))
    conflict = ~first & ~duplicate & ~merged

    kept = np.ones(len(spans), dtype=np.bool_)
    kept[rows[~first]] = False
    lent = _lent_references(spans, rows[merged], rows[winner[merged]])
    survivors = replace(spans, references=lent).keep(kept)
    new_row = np.cumsum(kept) - 1
    return Identified(
        spans=survivors,
        index=SpanIndex(survivors.flow, survivors.key, survivors.n_flows),
        shared=_shared_ids(survivors, new_row[rows[first]], group[first], component, n_components),
        copies=spans.row[rows[duplicate]],
        conflicts=np.sort(spans.row[rows[conflict]]),
        conflict_flows=spans.flow[rows[conflict]],
        merged=(spans.row[rows[merged]], spans.row[rows[winner[merged]]]),
    )


def _group_numbers(*columns: npt.NDArray[np.generic]) -> I8:
    """[rows] number of the group of equal rows, 0, 0, 1, …; rows must be sorted."""
    numbers: I8 = np.cumsum(run_starts(*columns)) - 1
    return numbers


def _kinds_of_partials(spans: Spans, rows: I8, group: I8, component: I8) -> tuple[I8, B1]:
    """Kinds of rows without a kind: ([rows] kind, [rows] True for partial reports that got the kind of
    another row).

    A row without kind that lacks a time gets the kind of the span with the same id and component, else that
    of the outermost span with the same id.
    """
    kind = spans.kind[rows].astype(np.int64)
    untimed = (spans.start_ns[rows] == UNKNOWN_NS) | (spans.end_ns[rows] == UNKNOWN_NS)
    named = kind != EventKind.SPAN_UNSPECIFIED
    has_named = np.bincount(group[named], minlength=int(group[-1]) + 1) > 0
    partial = ~named & untimed & has_named[group]
    if not partial.any():
        return kind, partial
    place = _PRECEDENCE[kind - SPAN_KIND_BASE]
    sides = np.flatnonzero(named)
    sides = sides[np.lexsort((place[sides], group[sides]))]
    outermost = kind[sides[np.searchsorted(group[sides], group[partial])]]
    width = int(component.max()) + 1
    sides = sides[np.lexsort((place[sides], component[sides], group[sides]))]
    side_key = group[sides] * width + component[sides]
    wanted = group[partial] * width + component[partial]
    at = np.minimum(np.searchsorted(side_key, wanted), len(sides) - 1)
    kind[partial] = np.where(side_key[at] == wanted, kind[sides[at]], outermost)
    return kind, partial


def _lent_references(spans: Spans, givers: I8, takers: I8) -> SpanReferences:
    """References of `spans`, in which rows `takers` without declared parents get those of `givers`, the
    partial reports merged into them."""
    references = spans.references
    has = np.zeros(len(spans), dtype=np.bool_)
    has[references.row] = True
    taker = np.arange(len(spans))
    poor = ~has[takers]
    taker[givers[poor]] = takers[poor]
    return SpanReferences(taker[references.row], references.key, references.follows)


def _shared_ids(spans: Spans, rows: I8, group: I8, component: I8, n_components: int) -> SharedIds | None:
    """Find groups of spans that share an id; None if there are none. rows: candidates. group: [candidates]
    number of each row's id, ascending."""
    sizes = np.bincount(group)
    several = sizes[group] > 1
    if not several.any():
        return None
    rows, group = rows[several], _group_numbers(group[several])
    place = _PRECEDENCE[spans.kind[rows].astype(np.int64) - SPAN_KIND_BASE]
    order = np.lexsort((rows, place, group))
    rows, group = rows[order], group[order]
    first = run_starts(group)
    last = np.concatenate((first[1:], [True]))
    group_of = np.full(len(spans), -1, dtype=np.int64)
    group_of[rows] = group
    owner = np.full(len(spans), -1, dtype=np.int64)
    owner[rows[~first]] = rows[first][group[~first]]
    side_key = group * n_components + component[spans.label[rows]]
    by_side = np.argsort(side_key, kind="stable")  # outside in inside a side: the last is innermost
    side_key = side_key[by_side]
    inner = np.concatenate((side_key[1:] != side_key[:-1], [True]))
    return SharedIds(
        group=group_of,
        owner=owner,
        innermost=rows[last],
        side_key=side_key[inner],
        side=rows[by_side][inner],
        n_components=n_components,
    )
