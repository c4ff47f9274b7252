"""Plan the windows of a log: which requests begin in each window, and a digest of the data from which it is
built.

A request begins at its earliest event, over all segments of all lanes. The digest of a window is a hash of
its requests and of the segments that contain them, independent of the order of segments: a built version is
current if and only if its digest equals that of the log.

Requests are stored by window, so that adding a segment costs only its own requests and the windows that they
belong to. For a segment, only the number of events per window stays in memory; the index in the segment's
footer is read again when requests move to another window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8, U1, U8
from stitch.closing import NEVER
from stitch.columnar.hashing import mix
from stitch.columnar.runs import run_starts
from stitch.drivers.build.log_follower import LogSegment
from stitch.lake.event_log import Index
from stitch.scratch import Scratch

_PLANNED: Final = np.dtype(
    [("key", "<u8"), ("first_ns", "<i8"), ("last_ns", "<i8"), ("rows", "<i8"), ("digest", "<u8")]
)
Planned = npt.NDArray[np.void]
"""Structured array [requests], ascending by key: key, first and last event time (ns), number of events, hash
over the segments that contain the request.
"""
_LANE: Final = np.uint64(0x9E3779B97F4A7C15)
_NO_KEYS: Final = np.zeros(0, np.uint64)
_AT_ONCE: Final = 1 << 18
"""Number of requests in segments that are added to the plan in one batch."""
_SLOTS: Final = 4
"""Minimum number of bits per request in the Bloom filter `_sieve`; the maximum is four times as many, two
bytes per request."""


@dataclass(frozen=True, eq=False)
class PlannedWindow:
    """Requests of a log that begin in one window."""

    start_ns: int
    """Start of the window, ns since the epoch; NEVER for the requests without any time."""
    requests: Planned
    """Requests that begin in the window, ascending by key."""

    def mapped(self, folder: Path) -> PlannedWindow:
        """Copy of the window whose requests are in a memory-mapped file in `folder`, already unlinked; keys
        and totals stay in memory. Raises OSError."""
        path = folder / f"plan-{self.start_ns:d}"
        path.write_bytes(self.requests.tobytes())
        try:
            requests = np.asarray(np.memmap(path, self.requests.dtype, "r+"))
        finally:
            path.unlink()
        window = PlannedWindow(self.start_ns, requests)
        for name in ("keys", "rows", "digest", "first_ns", "last_ns"):
            window.__dict__[name] = getattr(self, name)  # to compute them would read the file
        return window

    @cached_property
    def keys(self) -> U8:
        """[requests] keys of the requests, ascending, as a contiguous array."""
        return np.ascontiguousarray(self.requests["key"])

    @cached_property
    def rows(self) -> int:
        """Total number of events of the window's requests."""
        return int(self.requests["rows"].sum())

    @cached_property
    def digest(self) -> str:
        """Digest, 16 hex digits, of the requests and the segments that contain them; see the module
        docstring."""
        with np.errstate(over="ignore"):
            return f"{int(mix(self.requests['digest'] ^ mix(self.requests['key'])).sum()):016x}"

    @cached_property
    def first_ns(self) -> int:
        """Time of the window's first event, ns."""
        return int(self.requests["first_ns"].min())

    @cached_property
    def last_ns(self) -> int:
        """Time of the last event of the window's requests, ns."""
        return int(self.requests["last_ns"].max())


class RequestPlan:
    """All requests of a log, by window. Memory per request: 50 bytes in recently changed windows, 10 bytes in
    other windows, which are mapped from files.
    """

    def __init__(
        self,
        length_ns: int,
        entries: Callable[[LogSegment], Planned],
        scratch: Scratch | None = None,
        in_memory: int = 0,
    ) -> None:
        """length_ns: length of a window, ns. entries: function that reads the requests of a segment; if it
        raises, the plan must be `reset`. scratch: folder for the windows that exceed `in_memory` requests in
        total (the latest window always stays in memory); None: all windows stay in memory."""
        self._length_ns = length_ns
        self._entries = entries
        self._scratch, self._in_memory = scratch, in_memory
        self._warm: dict[int, None] = {}
        """Starts of windows whose requests are in memory, the least recently changed first (a dict used as an
        ordered set)."""
        self._windows: dict[int, PlannedWindow] = {}
        """Start, ns -> window with at least one request; NEVER -> requests without a time."""
        self._segments: dict[tuple[int, int, int], LogSegment] = {}
        """`LogSegment.place` -> segment that is planned."""
        self._sieve: U1 = np.zeros(1, np.uint8)
        """Bloom filter with one hash function over the keys of all requests: most requests in a new segment
        are new, and need not be searched for in any window."""
        self._moved: dict[int, int] = {}
        """Request key -> start, ns, of the window in which its flow begins, if this is not the window of the
        request's first event."""
        self._bound: tuple[U8, I8] = _NO_KEYS, np.zeros(0, np.int64)
        """([requests] key, ascending; [requests] start, ns, of the window to which the request is bound,
        whatever its first event); set by `bind`."""

    def add(self, segments: Iterable[LogSegment]) -> None:
        """Add the requests of segments to the plan, and set `rows_of` of each segment. O(requests of the
        segments × log requests + requests of the windows concerned)."""
        for some in _batches(segments):
            parts = [self._entries(one) for one in some]
            merged = merge_requests(parts)
            starts = self._place(merged)
            for one, own in zip(some, parts, strict=True):
                one.rows_of = _rows_by_start(starts[np.searchsorted(merged["key"], own["key"])], own["rows"])
                self._segments[one.place] = one
            self._map()

    def _map(self) -> None:
        """Move the least recently changed windows from memory to files until at most `in_memory` requests are
        in memory."""
        if self._scratch is None:
            return
        n = sum(len(self._windows[start].requests) for start in self._warm)
        while n > self._in_memory and len(self._warm) > 1:
            start = next(iter(self._warm))
            del self._warm[start]
            n -= len(self._windows[start].requests)
            self._windows[start] = self._windows[start].mapped(self._scratch.folder)

    def reset(self, segments: Iterable[LogSegment]) -> None:
        """Discard all planned requests, and plan those of the given segments."""
        self._windows, self._segments, self._warm = {}, {}, {}
        self._sieve = np.zeros(1, np.uint8)
        self.add(segments)

    def remove(self, segments: Iterable[LogSegment], is_kept: Callable[[int], bool]) -> None:
        """Remove segments from the plan.

        is_kept: function of a window's start; if True, the window keeps all its requests as long as any
        segment contains one of them. Other windows with requests in the removed segments are planned again
        from the remaining segments.
        """
        touched: set[int] = set()
        for one in segments:
            touched |= {*one.rows_of}
            self._segments.pop(one.place, None)
        there = {start for one in self._segments.values() for start in one.rows_of}
        for start in touched:
            window = self._windows.get(start)
            if window is not None and not (is_kept(start) and start in there):
                own = [one for one in self._segments.values() if start in one.rows_of]
                parts = [self._entries(one) for one in own]
                for one in own:
                    del one.rows_of[start]
                self._keep(start, merge_requests([]))
                mine = [part[among(window.keys, part["key"])] for part in parts]
                merged = merge_requests(mine)
                starts = self._place(merged)
                for one, part in zip(own, mine, strict=True):
                    rows = _rows_by_start(starts[np.searchsorted(merged["key"], part["key"])], part["rows"])
                    one.rows_of = _sum(one.rows_of, rows)

    def move(self, moved: Mapping[int, int]) -> None:
        """Assign requests to other windows than those of their first events, because their flows begin there.

        moved: request key -> start, ns, of the window.
        """
        if moved:
            self._moved |= moved
            self._relocate(np.array(sorted(moved), np.uint64))

    def bind(self, keys: U8, starts: I8) -> None:
        """Bind requests to windows, whatever their first events; replaces the bindings of earlier calls.

        keys: [requests] request keys, ascending. starts: [requests] start, ns, of the window to which each is
        bound.
        """
        before, self._bound = self._bound[0], (keys, starts)
        self._relocate(np.union1d(before, keys))

    def moved_from(self, start_ns: int) -> dict[int, int]:
        """Requests whose first event is in the window at `start_ns` but that were moved elsewhere: key ->
        start of the other window, ns."""
        found = {}
        for key, to in self._moved.items():
            window = self._windows.get(to)
            if window is not None and to != start_ns:
                own = window.requests[among(np.array([key], np.uint64), window.keys)]
                if len(own) and self._window_of(int(own["first_ns"][0])) == start_ns:
                    found[key] = to
        return found

    def windows(self) -> list[PlannedWindow]:
        """Windows with at least one request, ascending, except the one for requests without times.
        O(windows)."""
        return [window for start, window in sorted(self._windows.items()) if start != NEVER]

    def window(self, start_ns: int) -> PlannedWindow | None:
        """Window that starts at `start_ns`; None if no request begins in it."""
        return self._windows.get(start_ns)

    def _window_of(self, first_ns: int) -> int:
        return int(NEVER) if first_ns == NEVER else first_ns // self._length_ns * self._length_ns

    def _starts(self, requests: Planned) -> I8:
        """[requests] start, ns, of the window of each request; NEVER for a request without times."""
        first = requests["first_ns"]
        starts: I8 = np.where(first == NEVER, NEVER, first // self._length_ns * self._length_ns)
        moved = np.array(sorted(self._moved), np.uint64)
        to = np.array([self._moved[key] for key in moved.tolist()], np.int64)
        for keys, own in ((moved, to), self._bound):
            known = among(keys, requests["key"])
            starts[known] = own[np.searchsorted(keys, requests["key"][known])]
        return starts

    def _place(self, requests: Planned) -> I8:
        """Merge requests into the plan; return [requests] start, ns, of the window of each."""
        starts = np.zeros(len(requests), np.int64)
        is_new = np.ones(len(requests), np.bool_)
        keys = np.ascontiguousarray(requests["key"])
        maybe = np.flatnonzero(self._may_know(keys))
        leaving = []
        for start, window in [*self._windows.items()]:
            own_place = np.minimum(np.searchsorted(window.keys, keys[maybe]), len(window.keys) - 1)
            is_known = window.keys[own_place] == keys[maybe]
            known, place = maybe[is_known], own_place[is_known]
            if not len(known):
                continue
            maybe = maybe[~is_known]
            at, more, own = place, requests[known], window.requests
            own["first_ns"][at] = np.minimum(own["first_ns"][at], more["first_ns"])
            own["last_ns"][at] = np.maximum(own["last_ns"][at], more["last_ns"])
            own["rows"][at] += more["rows"]
            own["digest"][at] += more["digest"]
            changed = PlannedWindow(start, own)
            changed.__dict__["keys"] = window.keys
            self._windows[start] = changed
            is_new[known] = False
            starts[known] = self._starts(own[at])
            gone = at[starts[known] != start]
            if len(gone):
                leaving.append((start, own[gone]))
                self._keep(start, np.delete(own, gone))
        for start, gone_requests in leaving:
            self._recount(start, gone_requests)
            self._insert(gone_requests, self._starts(gone_requests))
        fresh = requests[is_new]
        starts[is_new] = self._starts(fresh)
        self._insert(fresh, starts[is_new])
        self._sift(keys[is_new])
        return starts

    def _may_know(self, keys: U8) -> B1:
        """[keys] False if the request is certainly in no window; True if it may be in one (the Bloom filter
        has false positives)."""
        byte, bit = self._slot(keys)
        found: B1 = self._sieve[byte] & bit != 0
        return found

    def _sift(self, keys: U8) -> None:
        """Add keys to the Bloom filter `_sieve`; replace it by a larger one if it is too small."""
        n = sum(len(window.requests) for window in self._windows.values())
        if _SLOTS * n > 8 * len(self._sieve):
            self._sieve = np.zeros(max(1, 1 << (2 * _SLOTS * n - 1).bit_length() >> 3), np.uint8)
            keys = np.concatenate([window.keys for window in self._windows.values()])
        np.bitwise_or.at(self._sieve, *self._slot(keys))

    def _slot(self, keys: U8) -> tuple[I8, U1]:
        """Position of each key in `_sieve`: ([keys] index of the byte, [keys] mask of the bit in that
        byte)."""
        slots = (keys & np.uint64(8 * len(self._sieve) - 1)).astype(np.int64)
        return slots >> 3, np.left_shift(np.uint8(1), (slots & 7).astype(np.uint8))

    def _insert(self, requests: Planned, starts: I8) -> None:
        """Insert requests (ascending by key) that are in no window yet into the windows that start at
        `starts` [requests]."""
        for start in np.unique(starts).tolist():
            own, window = requests[starts == start], self._windows.get(start)
            if window is not None:
                own = np.insert(window.requests, np.searchsorted(window.keys, own["key"]), own)
            self._keep(start, own)

    def _keep(self, start: int, requests: Planned) -> None:
        """Set the requests of the window at `start` and mark the window as changed last; remove it if
        `requests` is empty."""
        self._windows.pop(start, None)
        self._warm.pop(start, None)
        if len(requests):
            self._windows[start] = PlannedWindow(start, requests)
            self._warm[start] = None

    def _relocate(self, keys: U8) -> None:
        """Move the requests `keys` (ascending) to the windows they belong to, after `_moved` or `_bound`
        changed."""
        for start, window in [*self._windows.items()]:
            known = np.flatnonzero(among(keys, window.keys))
            gone = known[self._starts(window.requests[known]) != start]
            if len(gone):
                own = window.requests[gone]
                self._keep(start, np.delete(window.requests, gone))
                self._recount(start, own)
                self._insert(own, self._starts(own))

    def _recount(self, start: int, requests: Planned) -> None:
        """Update `rows_of` of all segments after `requests` (ascending by key) left the window at `start`."""
        keys, starts = np.ascontiguousarray(requests["key"]), self._starts(requests)
        for one in self._segments.values():
            if start in one.rows_of:
                entries = self._entries(one)
                entries = entries[among(keys, entries["key"])]
                rows = _rows_by_start(starts[np.searchsorted(keys, entries["key"])], entries["rows"])
                rows[start] = rows.get(start, 0) - int(entries["rows"].sum())
                one.rows_of = _sum(one.rows_of, rows)


def _batches(segments: Iterable[LogSegment]) -> Iterator[list[LogSegment]]:
    """Split segments into batches of about _AT_ONCE requests at most; a segment's number of events is the
    estimate."""
    held: list[LogSegment] = []
    for one in segments:
        held.append(one)
        if sum(each.file.rows for each in held) >= _AT_ONCE:
            yield held
            held = []
    if held:
        yield held


def _rows_by_start(starts: I8, rows: I8) -> dict[int, int]:
    """Sum `rows` by `starts`: distinct value of `starts` -> sum."""
    distinct, code = np.unique(starts, return_inverse=True)
    sums = np.bincount(code, rows, len(distinct)).astype(np.int64)
    return dict(zip(distinct.tolist(), sums.tolist(), strict=True))


def _sum(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    sums = {start: one.get(start, 0) + other.get(start, 0) for start in chain(one, other)}
    return {start: rows for start, rows in sums.items() if rows}


def among(known: U8, keys: U8) -> B1:
    """[keys] True for each key that is in `known`. O(keys + known)."""
    found = pc.is_in(pa.array(keys), value_set=pa.array(known))
    among_known: B1 = found.to_numpy(zero_copy_only=False)
    return among_known


def requests_of(segment: LogSegment, index: Index) -> Planned:
    """Requests of one segment. index: index of the segment's requests that have a request id; the requests of
    other records come from `segment.loose`."""
    entries = np.concatenate((index, segment.loose)) if len(segment.loose) else index
    found = np.zeros(len(entries), _PLANNED)
    for name in ("key", "first_ns", "last_ns", "rows"):
        found[name] = entries[name]
    with np.errstate(over="ignore"):
        origin = mix(np.array([segment.lane], np.uint64) * _LANE + np.uint64(segment.seq))
        # Rows are counted in: a request that is in both indexes of a segment adds up.
        found["digest"] = mix(entries["key"] ^ origin) * entries["rows"].astype(np.uint64)
    return merge_requests([found]) if len(segment.loose) else found


def merge_requests(parts: Sequence[Planned]) -> Planned:
    """Merge requests of several parts: one entry per key, ascending, with summed events and digests."""
    every = np.concatenate([np.zeros(0, _PLANNED), *parts])
    every = every[np.argsort(every["key"], kind="stable")]
    starts = np.flatnonzero(run_starts(every["key"])) if len(every) else np.zeros(0, np.int64)
    found = every[starts]
    if len(starts):
        found["first_ns"] = np.minimum.reduceat(every["first_ns"], starts)
        found["last_ns"] = np.maximum.reduceat(every["last_ns"], starts)
        found["rows"] = np.add.reduceat(every["rows"], starts)
        found["digest"] = np.add.reduceat(every["digest"], starts)
    return found
