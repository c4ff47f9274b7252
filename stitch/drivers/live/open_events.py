"""Events of requests that are still open, by request, in the order of arrival.

Events stay in the tables they came in (*slabs*); beside each lie numpy columns of the rows that are still
open. Closing takes rows out of the columns at once and out of the tables when half of one is gone, so a row
is copied once or twice in its life, however long its request stays open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from schemas.arrays import B1, I8, U8
from schemas.config import StitchConfig
from schemas.events import SPAN_KIND_BASE, concat_events
from stitch.closing import COMPLETENESS_COLUMNS, NEVER, complete_requests, idle_and_old
from stitch.columnar.runs import own_words, run_starts, whole
from stitch.drivers.live.keys import LINKING_COLUMNS, loose_keys

SMALL_ROWS: Final = 4_096
"""Slabs below this are put together, so that polls of a few events do not make thousands of slabs."""


@dataclass(slots=True)
class Slab:
    """Table of events, with arrays about its open rows."""

    table: pa.Table
    """EVENT_SCHEMA, one chunk a column; rows that are closed may still be in it."""
    row: I8
    """[open] row of `table`."""
    key: U8
    """[open] `request_keys`; of a loose record 0 until a pass finds out."""
    loose: B1 | None
    """[open] records without a request id; None: there are none."""
    first_ns: I8
    """[open] see `stitch.closing.event_times`."""
    last_ns: I8
    """[open] as `first_ns`; of an event without a time when it came, in event time."""
    segment: I8
    """[open] number of the segment that holds the event, or will."""

    def keep(self, kept: B1) -> None:
        """Keep only some of the open rows."""
        self.row, self.key, self.segment = self.row[kept], self.key[kept], self.segment[kept]
        self.first_ns, self.last_ns = self.first_ns[kept], self.last_ns[kept]
        if self.loose is not None:
            self.loose = self.loose[kept]
            if not self.loose.any():
                self.loose = None
        if 2 * len(self.row) < self.table.num_rows:
            self.table = own_words(self.table.take(pa.array(self.row)).combine_chunks())
            self.row = np.arange(len(self.row))

    def rows(self, places: I8, columns: list[str] | None = None) -> pa.Table:
        """Open rows by their places, all columns or some."""
        table = self.table if columns is None else self.table.select(columns)
        if len(places) == table.num_rows:
            return table
        return table.take(pa.array(self.row[places]))


@dataclass(frozen=True, slots=True)
class ClosedEvents:
    """Events that a pass took out."""

    events: pa.Table
    """EVENT_SCHEMA, in any number of chunks."""
    key: U8
    """[events]"""
    aged: B1
    """[events] closed before its request's end."""
    segment: I8
    """[events]"""


@dataclass(frozen=True, slots=True)
class _Requests:
    """The open requests at one instant."""

    key: U8
    """[requests] distinct."""
    first_ns: I8
    last_ns: I8
    size: I8
    """[requests] open events."""
    code: I8
    """[open events, slab by slab] request."""


class OpenEvents:
    """The open events of one lane."""

    def __init__(self) -> None:
        self._slabs: list[Slab] = []
        self._waiting: tuple[U8, I8] = (np.zeros(0, np.uint64), np.zeros(0, np.int64))
        """Requests that were not complete when last looked at, and how many events they had then."""
        self.n_events = 0
        self.n_requests = 0
        """Number of requests at the last pass, and at most one more for each event since."""
        self.oldest_ns: int | None = None
        """First time of an open event, as of the last pass."""
        self.bytes = 0

    def add(self, slab: Slab) -> None:
        """More events. O(1)."""
        self._slabs.append(slab)
        self.n_events += len(slab.row)
        self.bytes += _slab_bytes(slab)

    def close(
        self, watermark_ns: int, config: StitchConfig, linger_ns: int, *, max_events: int
    ) -> Iterator[ClosedEvents]:
        """Take out the requests that a watermark closes, in parts of whole requests of about `max_events`.

        O(open events), and O(events) of those that may be complete.
        """
        requests = self._requests()
        idle, old = idle_and_old(requests.first_ns, requests.last_ns, watermark_ns, config)
        quiet = (requests.last_ns <= watermark_ns - linger_ns) & ~idle
        complete = self._complete(requests, quiet, max_events)
        return self._take_out(requests, idle | old | complete, old & ~idle & ~complete, max_events)

    def close_oldest(self, n_events: int, *, max_events: int) -> Iterator[ClosedEvents]:
        """Take out the complete requests, then others, as aged, of each those that began first, with at least
        so many events.
        """
        requests = self._requests()
        complete = self._complete(requests, np.ones(len(requests.key), dtype=np.bool_), max_events)
        order = np.lexsort((requests.first_ns, ~complete))
        enough = int(np.searchsorted(np.cumsum(requests.size[order]), n_events)) + 1
        chosen = np.zeros(len(order), dtype=np.bool_)
        chosen[order[:enough]] = True
        return self._take_out(requests, chosen, chosen & ~complete, max_events)

    def close_all(self, *, max_events: int) -> Iterator[ClosedEvents]:
        """Take out everything: nothing more is to come."""
        requests = self._requests()
        every = np.ones(len(requests.key), dtype=np.bool_)
        return self._take_out(requests, every, ~every, max_events)

    def first_segment(self) -> int | None:
        """Number of the first segment with an open event. O(open events)."""
        return min((int(slab.segment.min()) for slab in self._slabs if len(slab.row)), default=None)

    # -- one pass -------------------------------------------------------------------------------------------

    def _requests(self) -> _Requests:
        self._merge_small()
        key = np.concatenate([np.zeros(0, np.uint64), *(slab.key for slab in self._slabs)])
        loose = [slab.loose for slab in self._slabs]
        if any(part is not None for part in loose):
            key = self._with_loose(key)
        encoded = pa.array(key).dictionary_encode()
        code = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        n = len(encoded.dictionary)
        none = np.zeros(0, np.int64)
        first, last = np.full(n, NEVER), np.full(n, -NEVER)
        np.minimum.at(first, code, np.concatenate([none, *(slab.first_ns for slab in self._slabs)]))
        np.maximum.at(last, code, np.concatenate([none, *(slab.last_ns for slab in self._slabs)]))
        return _Requests(
            key=encoded.dictionary.to_numpy(),
            first_ns=first,
            last_ns=last,
            size=np.bincount(code, minlength=n),
            code=code,
        )

    def _with_loose(self, key: U8) -> U8:
        """Keys of all open events where some records name no request: known by all open records together.

        O(open records), twenty times slower for the loose ones.
        """
        tables, places, start = [], [], 0
        for slab in self._slabs:
            is_record = whole(slab.table["kind"]).to_numpy()[slab.row] < SPAN_KIND_BASE
            records = np.flatnonzero(is_record)
            tables.append(slab.table.select(LINKING_COLUMNS).take(pa.array(slab.row[records])))
            places.append(records + start)
            start += len(slab.row)
        key = key.copy()
        key[np.concatenate(places)] = loose_keys(pa.concat_tables(tables).combine_chunks())
        return key

    def _complete(self, requests: _Requests, quiet: B1, max_events: int) -> B1:
        """[requests] which of those that are `quiet` are complete; none is looked at twice in vain.

        Looks at whole requests of about `max_events` at a time: to look takes more memory than they do.
        """
        complete = np.zeros(len(requests.key), dtype=np.bool_)
        known, sizes = self._waiting
        if len(known) and quiet.any():
            place = np.minimum(np.searchsorted(known, requests.key), len(known) - 1)
            quiet = quiet & ~((known[place] == requests.key) & (sizes[place] == requests.size))
        asked = np.flatnonzero(quiet)
        if not len(asked):
            return complete
        part = np.cumsum(requests.size[asked]) // max(1, max_events)
        begins = np.flatnonzero(run_starts(part))
        part = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(asked)))
        events = self._by_part(requests, asked, part)
        for number, some in enumerate(np.split(asked, begins[1:])):
            complete[some] = self._are_complete(requests, some, [of_slab[number] for of_slab in events])
        still = asked[~complete[asked]]
        self._remember_waiting(requests.key[still], requests.size[still])
        return complete

    def _by_part(self, requests: _Requests, asked: I8, part: I8) -> list[list[I8]]:
        """[slabs][parts] open rows of the requests asked about. part: [asked] part of each.

        O(events log events) for all parts together.
        """
        of_request = np.full(len(requests.key), -1, dtype=np.int64)
        of_request[asked] = part
        found, start = [], 0
        for slab in self._slabs:
            own = of_request[requests.code[start : start + len(slab.row)]]
            start += len(slab.row)
            places = np.flatnonzero(own >= 0)
            own = own[places]
            ends = np.cumsum(np.bincount(own, minlength=int(part[-1]) + 1))
            found.append(np.split(places[np.argsort(own, kind="stable")], ends[:-1]))
        return found

    def _are_complete(self, requests: _Requests, asked: I8, places: Sequence[I8]) -> B1:
        """[asked] whether each is complete: places of requests, ascending, and of their events by slab."""
        tables, codes, start = [], [], 0
        for slab, own in zip(self._slabs, places, strict=True):
            if len(own):
                tables.append(slab.rows(own, COMPLETENESS_COLUMNS))
                codes.append(np.searchsorted(asked, requests.code[start + own]))
            start += len(slab.row)
        events = pa.concat_tables(tables).combine_chunks()
        return complete_requests(np.concatenate(codes), len(asked), events)

    def _remember_waiting(self, key: U8, size: I8) -> None:
        known, sizes = self._waiting
        old = ~np.isin(known, key)
        known, sizes = np.concatenate((known[old], key)), np.concatenate((sizes[old], size))
        order = np.argsort(known)
        self._waiting = known[order], sizes[order]

    def _take_out(self, requests: _Requests, closed: B1, aged: B1, max_events: int) -> Iterator[ClosedEvents]:
        """Part by part: what was given before may be forgotten when the next is asked for."""
        self.n_requests = int(np.count_nonzero(~closed))
        left = requests.first_ns[~closed]
        self.oldest_ns = int(left.min()) if len(left) and left.min() < NEVER else None
        known, sizes = self._waiting
        if len(known):
            kept = np.isin(known, requests.key[~closed])
            self._waiting = known[kept], sizes[kept]
        if not closed.any():
            return
        part = np.zeros(len(closed), dtype=np.int64)
        part[closed] = np.cumsum(requests.size[closed]) // max(1, max_events)
        n_parts = int(part[closed][-1]) + 1
        starts = np.cumsum([0, *(len(slab.row) for slab in self._slabs)])
        columns = (np.where(closed, part, -1), aged, requests.key)
        selected = [
            [column[requests.code[start:end]] for column in columns]
            for start, end in pairwise(starts.tolist())
        ]
        for number in range(n_parts):
            pieces = []
            for slab, own in zip(self._slabs, selected, strict=True):
                places = np.flatnonzero(own[0] == number)
                if not len(places):
                    continue
                pieces.append((slab.rows(places), own[2][places], own[1][places], slab.segment[places]))
                kept = own[0] != number
                own[:] = [column[kept] for column in own]
                self.bytes -= _slab_bytes(slab)
                slab.keep(kept)
                self.bytes += _slab_bytes(slab)
                self.n_events -= len(places)
            if pieces:
                yield ClosedEvents(
                    pa.concat_tables([table for table, *_ in pieces]),
                    np.concatenate([key for _, key, _, _ in pieces]),
                    np.concatenate([old for _, _, old, _ in pieces]),
                    np.concatenate([segment for *_, segment in pieces]),
                )
        self._slabs = [slab for slab in self._slabs if len(slab.row)]

    def _merge_small(self) -> None:
        """Put small slabs together, in order; a large one may stand between them."""
        small = [slab for slab in self._slabs if len(slab.row) < SMALL_ROWS]
        if len(small) < 2:
            return
        large = [slab for slab in self._slabs if len(slab.row) >= SMALL_ROWS]
        rows = [slab.rows(np.arange(len(slab.row))) for slab in small]
        loose = None
        if any(slab.loose is not None for slab in small):
            loose = np.concatenate(
                [np.zeros(len(s.row), np.bool_) if s.loose is None else s.loose for s in small]
            )
        merged = Slab(
            table=own_words(concat_events(rows)),
            row=np.arange(sum(len(slab.row) for slab in small)),
            key=np.concatenate([slab.key for slab in small]),
            loose=loose,
            first_ns=np.concatenate([slab.first_ns for slab in small]),
            last_ns=np.concatenate([slab.last_ns for slab in small]),
            segment=np.concatenate([slab.segment for slab in small]),
        )
        self.bytes += _slab_bytes(merged) - sum(map(_slab_bytes, small))
        self._slabs = [*large, merged]


def _slab_bytes(slab: Slab) -> int:
    return int(slab.table.nbytes) + 41 * len(slab.row)
