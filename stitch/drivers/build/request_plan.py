"""Plan of the windows of a log: the requests that begin in each, and a digest of the data each is built from.

A request begins at its earliest event, over all segments of all lanes. The digest of a window is a hash of
its requests and of the segments that contain them, independent of the order of segments: a built version is
current if and only if its digest equals that of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from schemas.arrays import B1, I8, U8
from stitch.closing import NEVER
from stitch.columnar.hashing import mix
from stitch.columnar.runs import run_starts
from stitch.drivers.build.log_follower import LogSegment

_PLANNED: Final = np.dtype(
    [("key", "<u8"), ("first_ns", "<i8"), ("last_ns", "<i8"), ("rows", "<i8"), ("digest", "<u8")]
)
Planned = npt.NDArray[np.void]
"""Structured array [requests], ascending by key: key, first and last event time (ns), number of events, hash
over the segments that contain the request.
"""
_LANE: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class PlannedWindow:
    """Requests of a log that begin in one window."""

    start_ns: int
    requests: Planned
    """The window's requests, ascending by key."""

    @property
    def rows(self) -> int:
        """Number of events of the window's requests."""
        return int(self.requests["rows"].sum())

    @property
    def digest(self) -> str:
        """Digest of requests and segments, 16 hex digits; see the module docstring."""
        with np.errstate(over="ignore"):
            return f"{int(mix(self.requests['digest'] ^ mix(self.requests['key'])).sum()):016x}"


class RequestPlan:
    """All requests of a log, 40 bytes each. Adding a segment copies the whole array."""

    def __init__(self, length_ns: int) -> None:
        self._length_ns = length_ns
        self.requests: Planned = np.zeros(0, _PLANNED)
        self._moved: dict[int, int] = {}
        """Request key -> start, ns, of the window in which its flow begins, if not the window of its first
        event.
        """

    def add(self, segments: Iterable[LogSegment]) -> None:
        """Add segments. O(requests log requests)."""
        self.requests = _merged([self.requests, *(_entries(one) for one in segments)])

    def reset(self, segments: Iterable[LogSegment]) -> None:
        """Replace all requests of the plan by those of the given segments."""
        self.requests = np.zeros(0, _PLANNED)
        self.add(segments)

    def move(self, moved: Mapping[int, int]) -> None:
        """Record requests whose window is not that of their first event: key -> start of their window."""
        self._moved |= moved

    def moved_from(self, start_ns: int) -> dict[int, int]:
        """Requests moved out of a window that contains their first event: key -> start of the new window."""
        found = {}
        for key, to in self._moved.items():
            place = int(np.searchsorted(self.requests["key"], np.uint64(key)))
            if place < len(self.requests) and self.requests["key"][place] == key:
                first = int(self.requests["first_ns"][place])
                if first // self._length_ns * self._length_ns == start_ns != to:
                    found[key] = to
        return found

    def starts_ns(self) -> I8:
        """[requests] start of the window in which each request begins, ns; NEVER without a time."""
        first = self.requests["first_ns"]
        starts = np.where(first == NEVER, NEVER, first // self._length_ns * self._length_ns)
        for key, start_ns in self._moved.items():
            place = int(np.searchsorted(self.requests["key"], np.uint64(key)))
            if place < len(starts) and self.requests["key"][place] == key:
                starts[place] = start_ns
        return starts

    def windows(self, without: U8) -> list[PlannedWindow]:
        """Windows with requests, ascending, leaving out the requests `without` (keys, ascending). O(requests
        log requests)."""
        starts = self.starts_ns()
        kept = np.flatnonzero((starts != NEVER) & ~among(without, self.requests["key"]))
        order = kept[np.argsort(starts[kept], kind="stable")]
        begins = np.flatnonzero(run_starts(starts[order])) if len(order) else np.zeros(0, np.int64)
        parts = np.split(order, begins[1:])
        return [PlannedWindow(int(starts[own[0]]), self.requests[own]) for own in parts if len(own)]


def among(known: U8, keys: U8) -> B1:
    """[keys] True for keys that `known` (ascending) contains. O(keys log known)."""
    if not len(known):
        return np.zeros(len(keys), dtype=np.bool_)
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found: B1 = known[place] == keys
    return found


def _entries(segment: LogSegment) -> Planned:
    entries = segment.entries
    found = np.zeros(len(entries), _PLANNED)
    for name in ("key", "first_ns", "last_ns", "rows"):
        found[name] = entries[name]
    with np.errstate(over="ignore"):
        origin = mix(np.array([segment.lane], np.uint64) * _LANE + np.uint64(segment.seq))
        # Rows are counted in: a request that is in both indexes of a segment adds up.
        found["digest"] = mix(entries["key"] ^ origin) * entries["rows"].astype(np.uint64)
    return found


def _merged(parts: Sequence[Planned]) -> Planned:
    every = np.concatenate(parts)
    every = every[np.argsort(every["key"], kind="stable")]
    starts = np.flatnonzero(run_starts(every["key"])) if len(every) else np.zeros(0, np.int64)
    found = every[starts]
    if len(starts):
        found["first_ns"] = np.minimum.reduceat(every["first_ns"], starts)
        found["last_ns"] = np.maximum.reduceat(every["last_ns"], starts)
        found["rows"] = np.add.reduceat(every["rows"], starts)
        found["digest"] = np.add.reduceat(every["digest"], starts)
    return found
