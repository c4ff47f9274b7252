"""Buffer the events that a lane read since its last commit, and reject events that no window can hold.

Rejected are spans without trace or span id, records without a time, and events far ahead of the clock. All
other events go to the lane's log.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import pyarrow as pa

from schemas.arrays import B1, I8
from schemas.events import SPAN_KIND_BASE, concat_events
from schemas.rejects import REJECT_SCHEMA, Reason, Reject, rejects_table
from stitch.closing import NEVER, event_times
from stitch.columnar.runs import whole
from stitch.drivers.refusals import KERNEL_SOURCE
from stitch.kernel import reject_rows

DETAILS: Final = {
    Reason.BAD_TIME: "a record needs a time",
    Reason.ABSURD_TIME: "far ahead of the clock: a wrong clock, or a wrong unit",
}
"""Reason for which an event is rejected -> detail of its dead letter."""


def refusals(events: pa.Table, first: I8, last: I8, latest_ns: int) -> dict[Reason, B1]:
    """Find the events (EVENT_SCHEMA) to reject: reason -> [events] True if rejected for it. Reasons without
    events are left out; an event is rejected for one reason.

    first, last: [events] first and last time of each event, ns, from `event_times`. latest_ns: later events
    have an absurd time.
    """
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


def _valid(column: pa.ChunkedArray) -> B1:
    valid: B1 = whole(column).is_valid().to_numpy(zero_copy_only=False)
    return valid


class Arrivals:
    """Events and dead letters that a lane read since its last commit."""

    def __init__(self, max_letters: int) -> None:
        """max_letters: maximum number of dead letters stored; all further ones are counted without being
        stored."""
        self._max_letters = max_letters
        self._events: list[pa.Table] = []
        self._letters: list[Reject] = []
        self.n_read = 0
        self.refused: Counter[str] = Counter()
        """Reason (`Reason.value`) -> number of events rejected for it."""
        self.bytes = 0
        self.latest_ns: int | None = None
        """Latest time of any accepted event, ns since the epoch; None before the first event with a time."""

    def take(self, events: pa.Table, latest_ns: int) -> None:
        """Buffer a batch of events (EVENT_SCHEMA) after rejecting those that no window can hold or that are
        later than `latest_ns`."""
        self.n_read += events.num_rows
        if not events.num_rows:
            return
        events = concat_events([events])
        first, last = event_times(events)
        refused = refusals(events, first, last, latest_ns)
        if refused:
            kept = np.ones(events.num_rows, dtype=np.bool_)
            for reason, rows in refused.items():
                self._refuse(events.filter(pa.array(rows)).combine_chunks(), reason)
                kept &= ~rows
            events = events.filter(pa.array(kept)).combine_chunks()
            first, last = first[kept], last[kept]
        if events.num_rows:
            self.add(events)
            known = np.maximum(last, np.where(first == NEVER, -NEVER, first))
            reached = int(known.max())
            if reached > -NEVER:
                self.latest_ns = reached if self.latest_ns is None else max(self.latest_ns, reached)

    def add(self, events: pa.Table) -> None:
        """Buffer events (EVENT_SCHEMA) that were accepted earlier, without checking or counting them."""
        self._events.append(events)
        self.bytes += int(events.nbytes)

    def _refuse(self, events: pa.Table, reason: Reason) -> None:
        self.refused[reason.value] += events.num_rows
        room = min(events.num_rows, self._max_letters - len(self._letters))
        if room > 0:
            self._letters += reject_rows(events, np.arange(room), reason, DETAILS.get(reason, ""))

    def events(self) -> pa.Table:
        """Accepted events (EVENT_SCHEMA), each column in one chunk."""
        if len(self._events) > 1:
            self._events = [concat_events(self._events)]
        return concat_events(self._events)

    def letters(self) -> pa.Table:
        """Rejected events as dead letters (REJECT_SCHEMA), at most `max_letters`."""
        if not self._letters:
            return REJECT_SCHEMA.empty_table()
        return rejects_table(self._letters, KERNEL_SOURCE, [0])
