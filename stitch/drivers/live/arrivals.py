"""Route events as they come: open, late, repeated or refused; and keep what came since the last commit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from schemas.arrays import B1, I8, U8
from schemas.events import SPAN_KIND_BASE, concat_events
from schemas.rejects import Reason, Reject
from stitch.closing import NEVER, event_times
from stitch.columnar.runs import whole
from stitch.drivers.live.closed_memory import ClosedMemory
from stitch.drivers.live.keys import print_events, record_words, request_keys
from stitch.kernel import reject_rows

_DETAILS = {
    Reason.BAD_TIME: "a record needs a time",
    Reason.ABSURD_TIME: "far ahead of the clock: a wrong clock, or a wrong unit",
}


@dataclass(frozen=True, slots=True)
class Routed:
    """A batch, dealt out; each event is in one place."""

    events: pa.Table
    """Events of open requests."""
    key: U8
    """[open] `request_keys`."""
    loose: B1 | None
    """[open] records without a request id; None: there are none."""
    late: pa.Table
    copies: pa.Table
    """Copies of events of closed requests."""
    refused: tuple[tuple[Reason, pa.Table], ...]
    goes_on: pa.Table | None = None
    """Events of `late` whose requests are closed and go on all the same."""


def route(events: pa.Table, memory: ClosedMemory, *, latest_ns: int, earliest_ns: int | None) -> Routed:
    """Deal out a batch (one chunk a column).

    Times after `latest_ns` cannot be; events before `earliest_ns` are late (None: none is). O(events), and
    O(log memory) a distinct request.
    """
    key, loose = request_keys(events)
    first, last = event_times(events)
    refused = refusals(events, first, last, latest_ns)
    gone = np.zeros(len(key), dtype=np.bool_)
    for rows in refused.values():
        gone |= rows
    closed = _closed(events, key, loose, memory) & ~gone
    late: B1 = closed.copy() if earliest_ns is None else closed | (~gone & (first < earliest_ns))
    tables = tuple((reason, _rows(events, rows)) for reason, rows in refused.items())
    if not late.any():
        open_ = ~gone
        return Routed(
            _rows(events, open_),
            key[open_],
            None if loose is None else loose[open_],
            events.slice(0, 0),
            events.slice(0, 0),
            tables,
        )
    places = np.flatnonzero(closed)
    copies = memory.events.has(print_events(events.take(pa.array(places)).combine_chunks(), key[places]))
    late[places[copies]] = False
    repeated = np.zeros(len(key), dtype=np.bool_)
    repeated[places[copies]] = True
    goes_on = closed & late
    open_ = ~(gone | late | closed)
    return Routed(
        events=_rows(events, open_),
        key=key[open_],
        loose=None if loose is None else loose[open_],
        late=_rows(events, late),
        copies=_rows(events, repeated) if repeated.any() else events.slice(0, 0),
        refused=tables,
        goes_on=_rows(events, goes_on) if goes_on.any() else None,
    )


def refusals(events: pa.Table, first: I8, last: I8, latest_ns: int) -> dict[Reason, B1]:
    """Sort out events that cannot be placed, by reason; reasons that occur, each event under one."""
    is_span = events["kind"].to_numpy() >= SPAN_KIND_BASE
    found: dict[Reason, B1] = {}
    if events["request_id"].null_count or events["id"].null_count:
        nameless = ~(_valid(events["request_id"]) & _valid(events["id"]))
        found[Reason.BAD_ID] = is_span & nameless
    found[Reason.BAD_TIME] = ~is_span & (first == NEVER)
    found[Reason.ABSURD_TIME] = ((first > latest_ns) & (first != NEVER)) | (last > latest_ns)
    taken = np.zeros(len(is_span), dtype=np.bool_)
    for reason, rows in found.items():
        found[reason] = rows & ~taken
        taken |= rows
    return {reason: rows for reason, rows in found.items() if rows.any()}


def _closed(events: pa.Table, key: U8, loose: B1 | None, memory: ClosedMemory) -> B1:
    """[events] of a request that is closed."""
    distinct, code = np.unique(key, return_inverse=True)
    closed: B1 = memory.requests.has(distinct)[code]
    if loose is not None:
        closed &= ~loose
        rows = np.flatnonzero(loose)
        row, word = record_words(events.take(pa.array(rows)).combine_chunks())
        closed[rows[row[memory.words.has(word)]]] = True
    return closed


def _valid(column: pa.ChunkedArray) -> B1:
    valid: B1 = whole(column).is_valid().to_numpy(zero_copy_only=False)
    return valid


def _rows(events: pa.Table, rows: B1) -> pa.Table:
    if rows.all():
        return events
    return events.filter(pa.array(rows)).combine_chunks()


class Arrivals:
    """Events that came since the last commit."""

    def __init__(self, max_letters: int) -> None:
        """More dead letters than `max_letters` are counted only."""
        self._max_letters = max_letters
        self._new: list[tuple[pa.Table, U8, B1 | None]] = []
        self._late: list[pa.Table] = []
        self._copies: list[pa.Table] = []
        self.n_read = 0
        self.n_open = 0
        """Events that were open when they came."""
        self.n_copies = 0
        self.n_late = 0
        self.letters: list[Reject] = []
        self.refused: Counter[str] = Counter()
        self.bytes = 0

    def take(self, routed: Routed) -> None:
        """Book a batch."""
        if routed.events.num_rows:
            self._new.append((routed.events, routed.key, routed.loose))
            self.n_open += routed.events.num_rows
            self.bytes += int(routed.events.nbytes)
        if routed.late.num_rows:
            self._late.append(routed.late)
            self.n_late += routed.late.num_rows
            self.bytes += int(routed.late.nbytes)
        if routed.copies.num_rows:
            self._copies.append(routed.copies)
            self.n_copies += routed.copies.num_rows
            self.bytes += int(routed.copies.nbytes)
        for reason, events in routed.refused:
            self.refuse(events, reason, _DETAILS.get(reason, ""))

    def refuse(self, events: pa.Table, reason: Reason, detail: str = "") -> None:
        """Book dead letters, `detail` as of `reject_rows`; the first are kept while there is room."""
        self.refused[reason.value] += events.num_rows
        room = min(events.num_rows, self._max_letters - len(self.letters))
        if room > 0:
            self.letters += reject_rows(events, np.arange(room), reason, detail)

    def late_events(self) -> pa.Table:
        """EVENT_SCHEMA."""
        return concat_events(self._late)

    def aside(self) -> pa.Table:
        """EVENT_SCHEMA: what was late or repeated."""
        return concat_events([*self._late, *self._copies])

    def new_events(self, without: U8) -> pa.Table:
        """EVENT_SCHEMA: what is open or was closed since, but for requests by key."""
        if not len(without):
            return concat_events([events for events, _, _ in self._new])
        kept = []
        for events, key, _ in self._new:
            stays = ~np.isin(key, without)
            if stays.any():
                kept.append(_rows(events, stays))
        return concat_events(kept)
