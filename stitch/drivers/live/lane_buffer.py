"""What a live lane holds between commits: open events, closed flows whose window goes on, and its memory.

Pure: events and times in, tables out. The way of an event (`add`):

* a span without trace or span id, a record without a time, a time far ahead of the clock: dead letter;
* of a request that is closed: an exact copy is dropped and counted, anything else is late;
* before what is sealed, or older than a request may be: late;
* else it is open, until its request closes (`stitch.closing`, `advance`) and the flow's window is sealed
  (`due`, `committed`).

Passes over the open events are what costs. One is made when a quarter as many events came as were open, when
a window might be sealed, and before a commit; so each event is looked at about four times in its life.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from schemas.arrays import B1, U8
from schemas.commits import Counters
from schemas.events import concat_events, empty_events, with_text_ids
from schemas.rejects import REJECT_SCHEMA, Reason, rejects_table
from stitch.closing import NEVER, event_times
from stitch.drivers.live.arrivals import Arrivals, route
from stitch.drivers.live.closed_memory import ClosedMemory, window_ends
from stitch.drivers.live.due import Due, Settled, segment_rows, settled_of, with_settled
from stitch.drivers.live.keys import print_events, record_words
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.open_events import ClosedEvents, OpenEvents, Slab
from stitch.drivers.live.pending_windows import PendingWindows, Piece
from stitch.drivers.live.steady_clock import Moment
from stitch.drivers.refusals import KERNEL_SOURCE
from stitch.kernel import stitch_closed
from stitch.lake.encoding import VALUES_PER_GROUP
from stitch.structures import StructureMemo

PASS_ROWS: Final = 16_384
"""New events below which a pass is not worth its fixed costs, some 10 ms."""
PASS_SHARE: Final = 4
"""A pass is made once the new events are one in so many of the open ones."""
STITCH_EVENTS: Final = 250_000
"""Events stitched at a time, at most: some 300 MB at the kernel's peak."""
STITCH_SHARE: Final = 4_096
"""Bytes of the budget for each of them: a third of it at the kernel's peak."""
LEAST_STITCHED: Final = 16_384
PART_SHARE: Final = 2_048
"""Bytes of the budget for each node of a part that is encoded: a quarter of it for the part."""
MEMO_SHARE: Final = 32_768
"""Bytes of the budget for each structure that is remembered, of some 4 KB: an eighth of it."""
MOST_REMEMBERED: Final = 16_384
STEPS_PER_GAP: Final = 8
"""While a window waits to be sealed, passes are so many in `stitch.idle_ns` of event time."""
COMMIT_BYTES: Final = 8
"""A commit is worth its while once new events take one in so many of the memory budget."""


def structure_memo(settings: LiveSettings) -> StructureMemo:
    """Make the memo of structures that all lanes of a process share, within the budget."""
    return StructureMemo(min(MOST_REMEMBERED, settings.memory_bytes // MEMO_SHARE))


class LaneBuffer:
    """One lane between commits. Used by one thread."""

    def __init__(
        self,
        settings: LiveSettings,
        window_length_ns: int,
        lane: int,
        memory: ClosedMemory,
        sealed_to_ns: int | None,
        memo: StructureMemo | None = None,
    ) -> None:
        """`memory` knows the requests that the lane published before; it is the buffer's from now on.

        memo: shared with other lanes.
        """
        self._settings = settings
        self._length_ns = window_length_ns
        self._lane = lane
        self._memory = memory
        self._memo = structure_memo(settings) if memo is None else memo
        self._open = OpenEvents()
        part_nodes = min(VALUES_PER_GROUP, settings.memory_bytes // PART_SHARE)
        self._pending = PendingWindows(window_length_ns, settings.params_share, part_nodes)
        self._stitched = min(STITCH_EVENTS, max(LEAST_STITCHED, settings.memory_bytes // STITCH_SHARE))
        self._arrivals = Arrivals(settings.max_dead_letters_per_commit)
        self._watermark_ns: int | None = None
        self._passed_ns: int | None = None
        """Watermark of the last pass."""
        self._new = 0
        """Events since the last pass."""
        self._carried = 0
        self._settled: list[U8] = []
        """Hashes of events that were refused for want of any time, since the last commit."""
        self._ties: list[tuple[int, int]] = []
        """Segments with ties of settled records without request ids: number, and end of the last window of
        these. They are kept while something may come late."""
        self._segment = 0
        """Number of the coming segment, from 0 for the first that was loaded."""
        self._now_ns = 0
        """Clock, when something came last."""
        self.sealed_to_ns = sealed_to_ns
        """Every window that ends here or before is published whole."""

    # -- gauges ---------------------------------------------------------------------------------------------

    @property
    def open_events(self) -> int:
        """Events of requests that go on."""
        return self._open.n_events

    @property
    def open_flows(self) -> int:
        """Requests that go on, as of the last pass."""
        return self._open.n_requests

    @property
    def pending_flows(self) -> int:
        """Flows that wait for their window."""
        return self._pending.n_flows

    def share(self, lanes: int) -> None:
        """Be one of so many lanes that share the budget."""
        self._memory.share(self._settings.memory_bytes, lanes)

    @property
    def oldest_open_ns(self) -> int | None:
        """First time of an open event, as of the last pass."""
        return self._open.oldest_ns

    @property
    def bytes(self) -> int:
        """Bytes that a commit or a closing would free; an event that came since the last commit may count
        twice. The memory of closed requests has a bound of its own.
        """
        return self._open.bytes + self._pending.bytes + self._arrivals.bytes

    @property
    def seals(self) -> bool:
        """True if a commit is worth its cost now: a window could be sealed, or much came since the last."""
        first = self._pending.first_end_ns()
        ready = first is not None and first <= (self._sealable() or first - 1)
        return ready or self._arrivals.bytes > self._settings.memory_bytes // COMMIT_BYTES

    # -- in -------------------------------------------------------------------------------------------------

    def load(self, segments: Sequence[pa.Table]) -> None:
        """Take what the lane's segments hold, in their order, before anything else; once.

        Events of requests that a segment calls settled are dropped: they were accounted for. All others are
        open again, however late they are, and whatever else the lake has of their requests.
        """
        settled = Settled(segments)
        # When exactly they were is not reported: they count as of the window that goes on.
        end_ns = 0 if self.sealed_to_ns is None else self.sealed_to_ns + self._length_ns
        self._memory.words.add(settled.keys, np.full(len(settled.keys), end_ns))
        for number, segment in enumerate(segments):
            rows = segment_rows(segment, number, settled)
            if len(settled_of(segment)):
                self._ties.append((number, end_ns))
            gone = rows.settled
            row, word = rows.words
            if gone[row].any():
                first, _ = event_times(rows.events)
                ends = window_ends(first[row], self._length_ns)[gone[row]]
                self._memory.words.add(word[gone[row]], ends)
            kept = np.flatnonzero(~gone)
            part = rows.events.take(pa.array(kept)).combine_chunks()
            self._segment = number
            self._open_up(part, rows.key[kept], None if rows.loose is None else rows.loose[kept])
            self._carried += len(kept)
        self._segment = len(segments)

    def add(self, events: pa.Table, now: Moment) -> None:
        """Take events of a poll (EVENT_SCHEMA); `now` shows which times cannot be."""
        self._now_ns = now.earliest_ns
        self._arrivals.n_read += events.num_rows
        if not events.num_rows:
            return
        routed = route(
            concat_events([events]),
            self._memory,
            latest_ns=now.latest_ns + self._settings.max_future_ns,
            earliest_ns=self._earliest_ns(),
        )
        self._arrivals.take(routed)
        if routed.goes_on is not None:  # closed by age: it must not begin anew once it is forgotten
            self._memory.remember_late(routed.goes_on, self._length_ns)
        if routed.events.num_rows:
            self._new += routed.events.num_rows
            self._open_up(routed.events, routed.key, routed.loose)

    def _earliest_ns(self) -> int | None:
        """Events before are late."""
        bounds = [] if self.sealed_to_ns is None else [self.sealed_to_ns]
        if self._watermark_ns is not None:
            bounds.append(self._watermark_ns - self._settings.stitch.max_age_ns)
        return max(bounds, default=None)

    def _open_up(self, events: pa.Table, key: U8, loose: B1 | None) -> None:
        first, last = event_times(events)
        unknown = last == -NEVER
        if unknown.any():
            # Without a time of its own an event keeps its request open as if it were the latest so far.
            known = (
                last[~unknown].max(initial=-NEVER + 1) if self._watermark_ns is None else self._watermark_ns
            )
            last = np.where(unknown, known, last)
        self._open.add(
            Slab(
                table=events,
                row=np.arange(len(key)),
                key=key,
                loose=loose if loose is not None and loose.any() else None,
                first_ns=first,
                last_ns=last,
                segment=np.full(len(key), self._segment, dtype=np.int64),
            )
        )

    # -- closing --------------------------------------------------------------------------------------------

    def advance(self, watermark_ns: int) -> None:
        """Move event time on: nothing before the watermark is to come.

        Closes and stitches when that is worth a pass.
        """
        if self._watermark_ns is None or watermark_ns > self._watermark_ns:
            self._watermark_ns = watermark_ns
        if self._new > max(PASS_ROWS, self._open.n_events // PASS_SHARE) or self._might_seal():
            self._pass()

    def _might_seal(self) -> bool:
        """Tell whether a window is over that holds something, and the last pass was a while ago."""
        if self._watermark_ns is None:
            return False
        step = max(1, self._settings.stitch.idle_ns // STEPS_PER_GAP)
        if self._passed_ns is not None and self._watermark_ns < self._passed_ns + step:
            return False
        first = self._pending.first_end_ns()
        oldest = self._open.oldest_ns
        ends = [] if first is None else [first]
        if oldest is not None:
            ends.append(oldest - oldest % self._length_ns + self._length_ns)
        return bool(ends) and min(ends) <= self._watermark_ns

    def _pass(self) -> None:
        """Close what the watermark closes, and stitch it."""
        if self._watermark_ns is None:
            return
        self._passed_ns, self._new = self._watermark_ns, 0
        for closed in self._open.close(
            self._watermark_ns, self._settings.stitch, self._settings.linger_ns, max_events=self._stitched
        ):
            self._stitch(closed)

    def relieve(self, keep_bytes: int) -> None:
        """Close what is complete, then what began first, INCOMPLETE, until what is open takes no more."""
        self._pass()
        if self._open.bytes > keep_bytes and self._open.n_events:
            n_events = int(self._open.n_events * (1 - keep_bytes / self._open.bytes)) + 1
            for closed in self._open.close_oldest(n_events, max_events=self._stitched):
                self._stitch(closed)

    def _stitch(self, closed: ClosedEvents) -> None:
        made = stitch_closed(
            closed.events, self._settings.stitch, aged=closed.aged, lane=self._lane, memo=self._memo
        )
        row, word = record_words(made.events)
        nameless = made.events["request_id"].is_null().to_numpy()
        self._pending.add(closed, made, (row[nameless[row]], word[nameless[row]]))
        # What became no flow is remembered with the window at hand.
        now = np.array([0 if self._watermark_ns is None else self._watermark_ns], dtype=np.int64)
        starts = np.concatenate((made.flows["start_ns"].to_numpy(), now))
        ends = window_ends(starts, self._length_ns)[made.flow]
        keys, sample = np.unique(closed.key, return_index=True)
        self._memory.requests.add(keys, ends[sample])
        if len(row):
            words, sample = np.unique(word, return_index=True)
            self._memory.words.add(words, ends[row[sample]])
        self._memory.events.add(print_events(made.events, closed.key), ends)
        if len(made.timeless):
            refused = made.events.take(pa.array(made.timeless)).combine_chunks()
            self._arrivals.refuse(refused, Reason.BAD_TIME)
            self._settled.append(np.unique(closed.key[made.timeless]))

    # -- out ------------------------------------------------------------------------------------------------

    def _sealable(self) -> int | None:
        """Return how far the lane could be sealed, as of the last pass."""
        if self._passed_ns is None:
            return self.sealed_to_ns
        reached = (
            self._passed_ns if self._open.oldest_ns is None else min(self._passed_ns, self._open.oldest_ns)
        )
        reached -= reached % self._length_ns
        return reached if self.sealed_to_ns is None else max(reached, self.sealed_to_ns)

    def due(self, *, early: bool = False) -> Due:
        """Return what a commit now publishes; says the same again until something is added or committed.

        `early`: also flows whose window is not sealed, to make room. What comes of their requests is late.
        """
        self._pass()
        sealed_to_ns = self._sealable()
        if early:
            return self._due(self._pending.until(None), sealed_to_ns)
        return self._due([] if sealed_to_ns is None else self._pending.until(sealed_to_ns), sealed_to_ns)

    def everything(self) -> Due:
        """Return what a commit publishes after which nothing more is to come: all requests are closed."""
        for closed in self._open.close_all(max_events=self._stitched):
            self._stitch(closed)
        self._new = 0
        ends = [end for end in (self._pending.last_end_ns(), self.sealed_to_ns) if end is not None]
        return self._due(self._pending.until(None), max(ends, default=None))

    def _due(self, pieces: list[Piece], sealed_to_ns: int | None) -> Due:
        arrivals = self._arrivals
        events, copies, conflicts = (
            sum(counts)
            for counts in (
                [piece.n_events for piece in pieces],
                [piece.n_copies for piece in pieces],
                [piece.conflicts.num_rows for piece in pieces],
            )
        )
        words = [piece.words for piece in pieces]
        settled = np.concatenate(
            [np.zeros(0, np.uint64), *self._settled, *(piece.keys for piece in pieces), *words]
        )
        new_events, aside, n_unlogged = self._new_events(pieces)
        ties = self._ties_kept(pieces, sealed_to_ns)
        left = [self._pending.first_segment(pieces), self._open.first_segment(), *(tie[0] for tie in ties)]
        first = min((number for number in left if number is not None), default=None)
        older = first is not None and first < self._segment
        has_segment = bool(ties and ties[-1][0] == self._segment) or (
            new_events.num_rows > 0 or aside.num_rows > 0 or (older and len(settled) > 0)
        )
        rejects = arrivals.refused + Counter({Reason.CONFLICT.value: conflicts})
        letters = list(arrivals.letters)
        room = self._settings.max_dead_letters_per_commit - len(letters)
        for piece in pieces:
            if room > 0 and piece.conflicts.num_rows:
                found = piece.rejects(room)
                letters += found
                room -= len(found)
        n_rejected = rejects.total()
        n_open = self._open.n_events + self._pending.n_events - events
        counters = Counters(
            events_read=arrivals.n_read,
            events_published=events - copies - conflicts,
            events_duplicate=copies + arrivals.n_copies,
            events_rejected=n_rejected,
            events_late=arrivals.n_late,
            events_carried=self._carried,
            events_unlogged=n_unlogged,
            events_open=n_open,
            flows=sum(piece.flows.num_rows for piece in pieces),
            rejects=dict(sorted((+rejects).items())),
            rejects_not_kept=n_rejected - len(letters),
        )
        return Due(
            parts=self._pending.parts(pieces),
            late=with_text_ids(arrivals.late_events()),
            dead_letters=rejects_table(letters, KERNEL_SOURCE, [0])
            if letters
            else REJECT_SCHEMA.empty_table(),
            counters=counters,
            sealed_to_ns=sealed_to_ns,
            new_events=with_settled(new_events, settled) if has_segment else new_events,
            aside=aside,
            has_segment=has_segment,
            segments_needed=int(has_segment) + (0 if first is None else self._segment - first),
            pieces=tuple(pieces),
        )

    def _ties_kept(self, pieces: list[Piece], sealed_to_ns: int | None) -> list[tuple[int, int]]:
        """`_ties` after a commit of these pieces."""
        ends = [piece.window.end_ns for piece in pieces if len(piece.words)]
        ties = [*self._ties, (self._segment, max(ends))] if ends else self._ties
        horizon = None if sealed_to_ns is None else sealed_to_ns - self._settings.stitch.max_age_ns
        return [tie for tie in ties if horizon is None or tie[1] > horizon]

    def _new_events(self, pieces: list[Piece]) -> tuple[pa.Table, pa.Table, int]:
        """(Events for the log that were open when they came, those that were not, number of others): all that
        came since the last commit but what was refused; of events older than `keep_events_ns` only what is
        open still.
        """
        refused = np.concatenate([np.zeros(0, np.uint64), *self._settled])
        arrivals = self._arrivals
        if (
            self._watermark_ns is not None
            and self._now_ns - self._watermark_ns < self._settings.keep_events_ns
        ):
            return arrivals.new_events(refused), arrivals.aside(), 0
        new = empty_events()
        if self._open.n_events or len(pieces) != self._pending.n_pieces:
            gone = [piece.keys for piece in pieces if piece.segments[1] == self._segment]
            new = arrivals.new_events(np.concatenate([refused, *gone]))
        n_refused = arrivals.n_open - arrivals.new_events(refused).num_rows if len(refused) else 0
        n_all = arrivals.n_open - n_refused + arrivals.n_late + arrivals.n_copies
        return new, empty_events(), n_all - new.num_rows

    def committed(self, due: Due) -> None:
        """A commit of what was due is in the lake: forget it."""
        self._ties = self._ties_kept(list(due.pieces), due.sealed_to_ns)
        self._pending.remove(due.pieces)
        self._carried = due.counters.events_open
        self.sealed_to_ns = due.sealed_to_ns
        self._segment += int(due.has_segment)
        self._settled = []
        self._arrivals = Arrivals(self._settings.max_dead_letters_per_commit)
        if due.sealed_to_ns is not None:
            self._memory.forget(due.sealed_to_ns - self._settings.stitch.max_age_ns)
