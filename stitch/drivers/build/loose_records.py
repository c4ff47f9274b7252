"""Assign request keys to records without a request id: records that are linked to each other, in any segments
of a log, belong to one request.

Applies `assign_requests` to the linking columns of all records of the log, which takes about 300 bytes of
memory per record; nothing is read if every record has a request id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.events import SPAN_KIND_BASE
from stitch.closing import event_times
from stitch.columnar.runs import whole
from stitch.drivers.build.log_follower import LogSegment
from stitch.drivers.live.keys import LINKING_COLUMNS, loose_keys
from stitch.lake.event_log import index_requests, own_ids

COLUMNS = [*LINKING_COLUMNS, "ts_ns", "end_ns"]


class LooseRecords:
    """Linking columns and times of all activity records of a log, by segment."""

    def __init__(self, read: Callable[[LogSegment, list[str]], pa.Table]) -> None:
        """read: function that reads the named columns of all events of a segment."""
        self._read = read
        self._records: dict[tuple[int, int, str], pa.Table] = {}

    def name(self, segments: Iterable[LogSegment]) -> list[LogSegment]:
        """Set `loose_key` and `loose` of each segment: keys and index of its records without a request id.

        Returns the segments of which a record has another request than before, or one for the first time.
        """
        every = [*segments]
        if not any(one.n_loose for one in every):
            self._records = {}
            return []
        known = {(one.lane, one.seq, one.file.name): one for one in every}
        self._records = {
            at: self._records[at] if at in self._records else self._of(one) for at, one in known.items()
        }
        tables = [table.select(LINKING_COLUMNS) for table in self._records.values()]
        key = loose_keys(pa.concat_tables(tables).combine_chunks())
        start, changed = 0, []
        for at, table in self._records.items():
            own = key[start : start + table.num_rows]
            start += table.num_rows
            loose = whole(table["request_id"]).is_null().to_numpy(zero_copy_only=False)
            first, last = event_times(table)
            if np.array_equal(known[at].loose_key, own[loose]):
                continue
            known[at].loose_key = own[loose]
            known[at].loose = index_requests(own[loose], first[loose], last[loose])
            changed.append(known[at])
        return changed

    def _of(self, segment: LogSegment) -> pa.Table:
        table = self._read(segment, COLUMNS)
        return own_ids(table.filter(pc.less(table["kind"], SPAN_KIND_BASE)).combine_chunks())


def row_keys(key: np.ndarray, loose: np.ndarray | None, named: np.ndarray) -> np.ndarray:
    """[events] request keys: `key`, with the entries where `loose` [events] is True replaced by `named`, in
    order."""
    if loose is None or not loose.any():
        return key
    key = key.copy()
    key[loose] = named
    return key
