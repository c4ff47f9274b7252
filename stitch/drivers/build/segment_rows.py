"""Read the events of some requests from segments of a log, or from this process's cache of young segments."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from schemas.arrays import U8
from stitch.closing import NEVER
from stitch.drivers.build.log_follower import LogFollower, LogSegment
from stitch.drivers.build.loose_records import row_keys
from stitch.drivers.build.request_plan import Planned, among
from stitch.drivers.live.keys import request_keys
from stitch.drivers.live.young_segments import YoungSegments
from stitch.lake.event_log import own_ids


class SegmentRows:
    """Reader of the events of a log. Raises UnreadableSegmentError, OSError."""

    def __init__(self, log: LogFollower, young: YoungSegments) -> None:
        """log: opens the segments that are not in `young`."""
        self._log, self._young = log, young

    def whole(self, segment: LogSegment, columns: list[str]) -> pa.Table:
        """Read the columns `columns` of all events of a segment."""
        young = self._young.get(segment.file.name)
        return self._log.open(segment, columns).read() if young is None else young.events.select(columns)

    def of(
        self, segments: list[LogSegment], requests: Planned, columns: list[str] | None = None
    ) -> Iterator[tuple[LogSegment, pa.Table, U8]]:
        """Yield (segment, events, [events] request key) with the events of `requests` in each of `segments`.
        requests: ascending by key. columns: names of columns to read; None: all."""
        keys = np.ascontiguousarray(requests["key"])
        timed = requests[requests["first_ns"] != NEVER]
        span = (int(timed["first_ns"].min()), int(timed["last_ns"].max())) if len(timed) else (-NEVER, NEVER)
        for segment in segments:
            if segment.first_ns > span[1] or segment.last_ns < span[0]:
                continue
            young, at = self._young.get(segment.file.name), 0
            if young is not None:
                key = row_keys(young.key, young.loose, segment.loose_key)
                kept = among(keys, key)
                events = young.events if columns is None else young.events.select(columns)
                if kept.all():
                    yield segment, events, key
                elif kept.any():
                    yield segment, own_ids(events.filter(pa.array(kept))), key[kept]
                continue
            opened = self._log.open(segment, columns)
            # Records without an id are known by their place among all of them.
            for table in opened.batches(*(span if not segment.n_loose else (-NEVER, NEVER))):
                key, loose = request_keys(table)
                if loose is not None and loose.any():
                    n = int(np.count_nonzero(loose))
                    key[loose] = segment.loose_key[at : at + n]
                    at += n
                kept = among(keys, key)
                if columns is not None:  # as the file has them, until now
                    table = table.select(columns)
                if kept.all():
                    yield segment, table, key
                elif kept.any():
                    yield segment, own_ids(table.filter(pa.array(kept))), key[kept]

    def young(self, segments: list[LogSegment]) -> tuple[list[tuple[pa.Table, U8]], list[LogSegment]]:
        """Divide segments: ((events, [events] request key) of each one in this process's cache, those that
        are not)."""
        found: list[tuple[pa.Table, U8]] = []
        unread: list[LogSegment] = []
        for segment in segments:
            young = self._young.get(segment.file.name)
            if young is None:
                unread.append(segment)
            else:
                found.append((young.events, row_keys(young.key, young.loose, segment.loose_key)))
        return found, unread
