"""Rows cut from a segment keep no request ids of others in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from oracles.memory_disk import MemoryDisk
from oracles.strategies import Row, table_of

from schemas.commits import Segment
from schemas.events import concat_events
from stitch.closing import event_times
from stitch.columnar.runs import whole
from stitch.drivers.build.dealt_events import dealt_in_memory
from stitch.drivers.build.log_follower import LogFollower, LogSegment
from stitch.drivers.build.loose_records import LooseRecords
from stitch.drivers.build.request_plan import Planned, requests_of
from stitch.drivers.build.segment_rows import SegmentRows
from stitch.drivers.live.keys import log_rows
from stitch.drivers.live.young_segments import YoungSegments
from stitch.lake.event_log import index_requests
from stitch.lake.store import LocalStore

SPANS: list[Row] = [{"kind": 17, "request_id": f"r{i}", "id": b"%08d" % i, "ts_ns": i} for i in range(50)]
LOOSE: Row = {"kind": 0, "breadcrumb": "b", "ts_ns": 50}
ROWS = log_rows(concat_events([table_of([*SPANS, LOOSE])]))


def segment(name: str = "s") -> LogSegment:
    return LogSegment(1, 1, Segment(name=name, sha256="", size=0, rows=len(SPANS) + 1), 1)


def planned() -> Planned:
    return requests_of(
        segment(), index_requests(ROWS.key[:-1], *(at[:-1] for at in event_times(ROWS.events)))
    )


def ids(events: pa.Table) -> list[str]:
    found: list[str] = whole(events["request_id"]).dictionary.to_pylist()
    return found


def test_rows_of_few_requests_have_their_ids() -> None:
    young, one = YoungSegments(2**20), segment()
    young.add("s", ROWS)
    one.loose_key = np.zeros(1, np.uint64)
    requests = planned()
    for wanted in (requests[:1], requests[7:9]):
        ((_, events, key),) = SegmentRows(LogFollower(LocalStore(MemoryDisk())), young).of([one], wanted)
        assert ids(events) == events["request_id"].to_pylist()
        assert sorted(key) == wanted["key"].tolist()


def test_groups_in_memory_have_their_ids() -> None:
    requests = planned()
    group_of = np.arange(len(requests)) % 5
    for _, events, _ in dealt_in_memory(requests, group_of, 5, [(ROWS.events, ROWS.key)]):
        assert len(ids(events)) == events.num_rows == 10


def test_records_that_are_remembered_have_their_ids() -> None:
    """Spans of the same segments are not remembered, nor are their ids."""
    records = LooseRecords(lambda _, columns: ROWS.events.select(columns))
    assert records.name([segment()])
    (table,) = records._records.values()
    assert (table.num_rows, ids(table)) == (1, [])
