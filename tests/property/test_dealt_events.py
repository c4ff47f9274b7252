"""Dealing splits events into groups of whole requests, every event once, on disk as in memory."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from bench.trace_stream import messages
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.formats import codec_for
from schemas.commits import Segment
from schemas.config import DecodeConfig
from schemas.events import concat_events
from stitch.closing import event_times
from stitch.drivers.build.dealt_events import dealt_in_memory, dealt_on_disk, equal_groups
from stitch.drivers.build.log_follower import LogSegment
from stitch.drivers.build.request_plan import Planned, requests_of
from stitch.drivers.live.keys import request_keys
from stitch.lake.event_log import index_requests

SPANS = 500
DECODED = {
    heavy: codec_for("otlp-proto")
    .decode([*messages(SPANS, heavy=heavy, begin_ns=10**18, batch=100)], DecodeConfig())
    .events
    for heavy in (False, True)
}


def planned(events: pa.Table) -> Planned:
    key, _ = request_keys(events)
    segment = LogSegment(1, 1, Segment(name="s", sha256="", size=0, rows=0), 0)
    return requests_of(segment, index_requests(key, *event_times(events)))


def rows_of(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@settings(max_examples=12, deadline=None)
@given(
    heavy=st.booleans(),
    cuts=st.lists(st.integers(1, SPANS), max_size=6),
    wanted=st.floats(0.05, 1.0),
    rows_at_once=st.sampled_from([4, 40, 300, 1_000]),
    one_large=st.booleans(),
)
def test_groups_are_of_whole_requests_and_hold_every_event_once(
    heavy: bool, cuts: list[int], wanted: float, rows_at_once: int, one_large: bool
) -> None:
    events = DECODED[heavy]
    if one_large:
        ids = events["request_id"].to_pylist()
        ids[:200] = [ids[0]] * 200
        events = events.set_column(1, events.schema.field(1), pa.chunked_array([pa.array(ids, pa.string())]))
    key, _ = request_keys(events)
    requests = planned(events)
    requests = requests[: max(1, int(wanted * len(requests)))]
    bounds = sorted({0, events.num_rows, *(cut for cut in cuts if cut < events.num_rows)})
    tables = [(concat_events([events.slice(a, b - a)]), key[a:b]) for a, b in pairwise(bounds)]
    chosen = np.isin(key, requests["key"])
    expected = rows_of(events.filter(pa.array(chosen)))
    n_groups = -(-int(requests["rows"].sum()) // rows_at_once)
    group_of = equal_groups(requests, n_groups)
    with tempfile.TemporaryDirectory() as folder:
        on_disk = [*dealt_on_disk(requests, group_of, n_groups, tables, rows_at_once, Path(folder) / "deal")]
        assert [path for path in Path(folder).rglob("*") if path.is_file()] == []
    for found in (on_disk, [*dealt_in_memory(requests, group_of, n_groups, tables)]):
        assert [number for number, _, _ in found] == [*range(n_groups)]
        groups = [group for _, group, _ in found]
        for number, group, own in found:
            assert not group.num_rows or (request_keys(group)[0] == own).all()
            assert {*own.tolist()} <= {*requests["key"][group_of == number].tolist()}
        assert rows_of(concat_events([group for group in groups if group.num_rows])) == expected
        of_group = [set(group["request_id"].to_pylist()) for group in groups]
        assert sum(map(len, of_group)) == len(set().union(*of_group))
    largest = int(requests["rows"].max())
    assert all(group.num_rows <= 2 * rows_at_once + largest for _, group, _ in on_disk)
