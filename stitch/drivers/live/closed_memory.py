"""What a lane remembers of requests that it closed: so that what comes after is taken for late or repeated.

Hashes of 64 bits, sorted, with the end of the window they belong to; forgotten window by window, and the
oldest windows first where there are more than `capacity`; of a window that is too large for it most stay.
Two of ten million requests share a hash with a chance of three in a million; then an event of one may be
taken for late.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from schemas.arrays import B1, I4, I8, U8
from schemas.windows import NS_PER_MINUTE
from stitch.closing import NEVER, event_times
from stitch.drivers.live.keys import flow_keys, record_words, request_keys

REQUESTS: Final = 24_000_000
"""Requests remembered of a lane, 290 MB: 20 minutes at 20,000 requests a second."""
WORDS: Final = 8_000_000
EVENTS: Final = 8_000_000
"""Events remembered, to distinguish a copy from a late event: those of the last windows."""
MEMORY_SHARE: Final = 192
"""Bytes of the budget for every request, word and event that lanes remember: a quarter in all, at 12 each."""
LEAST: Final = 1_000
"""Events that a lane remembers, however many lanes there are."""
_GROWTH: Final = 3
"""A sorted run is merged into the one before unless that is so many times as long."""
_SPARE: Final = 8
"""Where there are too many, one part in so many goes besides: not each addition is to move them all."""


class KeySet:
    """Hashes, each kept until its window is forgotten. 12 bytes a hash, 24 for a moment while runs merge."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        """Where there are more at an addition, some are forgotten."""
        self._runs: list[tuple[U8, I4]] = []
        """Sorted hashes, and the minute in which the window of each ends; the longest run first."""
        self._first_minute = np.iinfo(np.int32).max

    def __len__(self) -> int:
        return sum(len(keys) for keys, _ in self._runs)

    @property
    def bytes(self) -> int:
        """Held."""
        return 12 * len(self)

    def add(self, keys: U8, window_end_ns: I8) -> None:
        """Remember some. O(new + what is merged), each hash O(log) times in all."""
        if not len(keys):
            return
        minutes = (window_end_ns // NS_PER_MINUTE).astype(np.int32)
        self._first_minute = min(self._first_minute, int(minutes.min()))
        order = np.argsort(keys)
        self._runs.append((keys[order], minutes[order]))
        while len(self._runs) > 1 and len(self._runs[-2][0]) < _GROWTH * len(self._runs[-1][0]):
            self._runs[-2:] = [_merged(self._runs[-2], self._runs[-1])]
        if len(self) > self.capacity:
            self._drop_oldest(self.capacity - self.capacity // _SPARE)

    def has(self, keys: U8) -> B1:
        """[keys] whether each is remembered; fastest where `keys` are sorted."""
        found = np.zeros(len(keys), dtype=np.bool_)
        for known, _ in self._runs:
            place = np.searchsorted(known, keys)
            place[place == len(known)] = 0
            found |= known[place] == keys
        return found

    def forget(self, window_end_ns: int) -> None:
        """Forget the windows that end there or before."""
        self._drop_to(window_end_ns // NS_PER_MINUTE + 1)

    def _drop_to(self, minute: int) -> None:
        if minute <= self._first_minute:
            return
        kept = [(keys[ends >= minute], ends[ends >= minute]) for keys, ends in self._runs]
        self._runs = [run for run in kept if len(run[0])]
        self._first_minute = minute

    def _drop_oldest(self, most: int) -> None:
        """Keep so many: whole windows, and of the oldest of them nearly what was added last."""
        minutes = np.concatenate([ends for _, ends in self._runs])
        oldest = int(np.partition(minutes, len(minutes) - most)[-most])
        self._drop_to(oldest)
        excess = len(self) - most
        for place, (keys, ends) in enumerate(self._runs):  # the longest run is the oldest
            of_oldest = np.flatnonzero(ends == oldest)[:excess]
            excess -= len(of_oldest)
            self._runs[place] = np.delete(keys, of_oldest), np.delete(ends, of_oldest)
        self._runs = [run for run in self._runs if len(run[0])]


def _merged(a: tuple[U8, I4], b: tuple[U8, I4]) -> tuple[U8, I4]:
    keys = np.concatenate((a[0], b[0]))
    order = np.argsort(keys, kind="stable")  # merges two runs in one pass
    return keys[order], np.concatenate((a[1], b[1]))[order]


class ClosedMemory:
    """Requests of one lane that are closed, published or not."""

    def __init__(self) -> None:
        self.requests = KeySet(REQUESTS)
        """By `request_keys.request_keys`."""
        self.words = KeySet(WORDS)
        """Breadcrumbs and ids of their records: what records without a request id would be known by."""
        self.events = KeySet(EVENTS)
        """By `keys.print_events`: what a repeated event is known by."""

    def share(self, memory_bytes: int, lanes: int) -> None:
        """From now on hold no more than one of so many lanes may of a budget."""
        events = max(LEAST, memory_bytes // MEMORY_SHARE // lanes)
        self.requests.capacity, self.words.capacity, self.events.capacity = 2 * events, events, events

    @property
    def bytes(self) -> int:
        """Held."""
        return self.requests.bytes + self.words.bytes + self.events.bytes

    def remember_flows(self, flows: pa.Table, window_length_ns: int) -> None:
        """Requests that the lake has: `request_id`, `kind`, `start_ns` and `response_ns` of flows."""
        if flows.num_rows:
            over = flows["start_ns"].to_numpy() + flows["response_ns"].to_numpy()
            self.requests.add(flow_keys(flows), window_ends(over, window_length_ns))

    def remember_late(self, events: pa.Table, window_length_ns: int) -> None:
        """Requests of events that came when theirs was closed: one that goes on must not begin anew.

        events: EVENT_SCHEMA, one chunk a column.
        """
        first, _ = event_times(events)
        events = events.filter(pa.array(first != NEVER)).combine_chunks()
        if not events.num_rows:
            return
        ends = window_ends(first[first != NEVER], window_length_ns)
        keys, loose = request_keys(events)
        if loose is None:
            loose = np.zeros(len(keys), dtype=np.bool_)
        known, sample = np.unique(keys[~loose], return_index=True)
        self.requests.add(known, ends[~loose][sample])
        rows = np.flatnonzero(loose)
        if len(rows):
            row, word = record_words(events.take(pa.array(rows)).combine_chunks())
            self.words.add(word, ends[rows[row]])

    def forget(self, window_end_ns: int) -> None:
        """Forget the windows that end there or before."""
        for known in (self.requests, self.words, self.events):
            known.forget(window_end_ns)


def window_ends(ts_ns: I8, length_ns: int) -> I8:
    """[times] end of the window that holds each."""
    ends: I8 = ts_ns - ts_ns % length_ns + length_ns
    return ends
