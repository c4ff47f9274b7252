"""The log of a live lane: its index says what its events are."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.memory_disk import MemoryDisk
from oracles.strategies import Row, record_batches, span_batches, table_of

from schemas.commits import Segment
from schemas.errors import LakeError
from schemas.events import empty_events
from stitch.closing import NEVER
from stitch.drivers.live.keys import log_rows, request_keys
from stitch.lake import event_log
from stitch.lake.event_log import SegmentReader, encode_segment, index_requests, read_segment
from stitch.lake.store import LocalStore


def index_plainly(rows: list[Row], keys: list[int]) -> dict[int, tuple[int, int, int]]:
    """Key -> (first time, last time, events) of requests that are named."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row, key in zip(rows, keys, strict=True):
        times = [row[name] for name in ("ts_ns", "end_ns") if row.get(name) is not None]
        start = row["ts_ns"] if row.get("ts_ns") is not None else row.get("end_ns")
        if row.get("request_id") is not None or row["kind"] >= 16:
            first = int(NEVER) if start is None else start
            found[key].append((first, max(times, default=-int(NEVER))))
    return {k: (min(f for f, _ in t), max(last for _, last in t), len(t)) for k, t in found.items()}


@examples(60)
@given(data=st.data(), rows=st.one_of(span_batches(), record_batches()))
def test_an_index_tells_requests_times_and_events(data: st.DataObject, rows: list[Row]) -> None:
    events = table_of(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_log, "BATCH_ROWS", data.draw(st.sampled_from([1, 3, 16_384])))
        encoded, segment = encode_segment("s", log_rows(events))
    opened = SegmentReader(encoded)
    keys, loose = request_keys(events)
    assert opened.n_loose == (0 if loose is None else int(loose.sum()))
    index = opened.index
    assert (np.diff(index["key"].astype(object)) > 0).all()
    assert {int(r["key"]): (int(r["first_ns"]), int(r["last_ns"]), int(r["rows"])) for r in index} == (
        index_plainly(rows, keys.tolist())
    )
    assert segment.rows == len(rows)
    assert opened.read().replace_schema_metadata(None).to_pylist() == events.to_pylist()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(-5, 5)), max_size=20))
def test_request_ids_of_one_key_are_one_request_of_the_index(rows: list[tuple[int, int, int]]) -> None:
    """Whoever chooses request ids can choose two of one hash."""
    key, number, at = np.array(rows, np.int64).reshape(-1, 3).T
    found = index_requests(key.astype(np.uint64), at, at + 1, 3 * key + number)
    assert np.array_equal(found, index_requests(key.astype(np.uint64), at, at + 1))


def test_a_record_batch_has_its_own_ids_only() -> None:
    rows: list[Row] = [{"kind": 17, "request_id": f"r{i}", "id": b"%08d" % i, "ts_ns": i} for i in range(9)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_log, "BATCH_ROWS", 4)
        encoded, _ = encode_segment("s", log_rows(table_of(rows)))
    batches = [*SegmentReader(encoded).batches(-int(NEVER), int(NEVER))]
    assert [len(batch["request_id"].chunk(0).dictionary) for batch in batches] == [4, 4, 1]
    assert [text for batch in batches for text in batch["request_id"].to_pylist()] == [
        row["request_id"] for row in rows
    ]


def test_a_segment_of_an_older_lake_is_all_open_events() -> None:
    events = table_of([{"kind": 17, "request_id": "r", "id": "00" * 8, "ts_ns": 5}])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, events.schema) as writer:
        writer.write_table(events)
    opened = SegmentReader(sink.getvalue())
    assert not opened.has_index
    assert opened.read(aside=False).num_rows == 1
    assert opened.read(aside=True).num_rows == 0


def test_a_segment_that_is_damaged_is_refused() -> None:
    data, segment = encode_segment("s", log_rows(empty_events()))
    store = LocalStore(MemoryDisk())
    store.put("s", data.to_pybytes()[:-1] + b"!")
    with pytest.raises(LakeError, match="is not what was committed"):
        read_segment(store, segment)
    with pytest.raises(LakeError, match="is missing"):
        read_segment(store, Segment(name="other", sha256="", size=0, rows=0))
