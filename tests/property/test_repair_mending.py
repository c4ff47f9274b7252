"""Whatever comes late, and however it is tied: mended flows are those of all events at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.strategies import Row, record_batches, span_batches, table_of

from schemas.config import StitchConfig
from schemas.events import (
    EVENT_SCHEMA,
    SPAN_KIND_BASE,
    concat_events,
    empty_events,
    with_binary_ids,
    with_text_ids,
)
from stitch.drivers.live.due import log_rows
from stitch.drivers.repair.kept_events import Wants, related
from stitch.drivers.repair.mending import Bounds, LateOutcome, Mended, mend
from stitch.kernel import Stitched, stitch
from stitch.lake.event_log import SegmentReader, encode_segment
from stitch.lake.windowing import flow_names

CONFIG = StitchConfig()
LANE = 3
EVERYTHING = Bounds(
    length_ns=60 * 10**9,
    reach_ns=0,
    open_ns=0,
    sealed_to_ns=None,
    retired_to_ns=None,
    unsure=np.zeros(0, dtype=np.int64),
)


def rows_of(*tables: pa.Table) -> Counter[str]:
    return Counter(repr(row) for table in tables for row in table.to_pylist())


def without(table: pa.Table, gone: pa.Array) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(flow_names(table), gone)))


def placeable(row: Row) -> bool:
    """What a live lane does not refuse at once."""
    if row["kind"] >= SPAN_KIND_BASE:
        return row["request_id"] is not None and row["id"] is not None
    return row["ts_ns"] is not None


def mended(late: pa.Table, kept: pa.Table, lake: Stitched) -> list[Mended]:
    def stored(_: pa.ChunkedArray, request_ids: pa.Array) -> pa.Table:
        return lake.flows.filter(pc.is_in(lake.flows["request_id"], request_ids))

    return [*mend(LANE, late, kept, stored, CONFIG, 1.0, EVERYTHING)]


@examples(50)
@given(data=st.data(), rows=st.one_of(span_batches(), record_batches()))
def test_mended_flows_are_those_of_all_events(data: st.DataObject, rows: list[Row]) -> None:
    rows = [row for row in rows if placeable(row)]
    if not rows:
        return
    is_late = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    if not is_late.any():
        return
    every = table_of(rows)
    kept = every.filter(pa.array(~is_late)).combine_chunks()
    late = with_binary_ids(with_text_ids(every.filter(pa.array(is_late)).combine_chunks())).combine_chunks()
    assert late.schema.equals(EVENT_SCHEMA)
    lake = stitch(kept, CONFIG, lane=LANE)
    expected = stitch(every, CONFIG, lane=LANE)
    cut = data.draw(st.integers(0, kept.num_rows))

    def segments(wants: Wants) -> Iterator[pa.Table]:
        for part in (kept.slice(0, cut), kept.slice(cut)):
            data, _ = encode_segment("s", log_rows(part.combine_chunks(), empty_events()))
            opened = SegmentReader(data)
            if wants(opened.index, opened.n_loose):
                yield concat_events([opened.read()])

    found = mended(late, related(late, segments), lake)
    assert {int(v) for part in found for v in part.verdict} <= {LateOutcome.FOLDED, LateOutcome.SAME}
    assert sum(part.late.num_rows for part in found) == late.num_rows
    gone = pa.concat_arrays([flow_names(part.gone) for part in found])
    assert rows_of(without(lake.flows, gone), *(part.flows for part in found)) == rows_of(expected.flows)
    assert rows_of(without(lake.params, gone), *(part.params for part in found)) == rows_of(expected.params)
    categories = {c for part in found for c in part.structures["category"].to_pylist()}
    assert {c for part in found for c in part.flows["category"].to_pylist()} <= categories
    again = mended(late, every, expected)  # as if nobody had noted what was done
    assert {int(v) for part in again for v in part.verdict} == {LateOutcome.SAME}


@examples(25)
@given(data=st.data(), rows=st.one_of(span_batches(), record_batches()))
def test_what_is_missing_is_noticed(data: st.DataObject, rows: list[Row]) -> None:
    """Some kept events are gone: no request of theirs is touched, and the others are mended."""
    rows = [row for row in rows if placeable(row)]
    if len(rows) < 3:
        return
    part_of = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))))
    late, kept, lost = (table_of([r for r, p in zip(rows, part_of, strict=True) if p == n]) for n in range(3))
    if not late.num_rows:
        return
    lake = stitch(table_of([r for r, p in zip(rows, part_of, strict=True) if p]), CONFIG, lane=LANE)
    expected = stitch(table_of(rows), CONFIG, lane=LANE)
    whole = Counter(repr(row) for row in expected.flows.to_pylist())
    for part in mended(late, kept, lake):
        settled = np.isin(part.verdict, (LateOutcome.FOLDED, LateOutcome.SAME))
        assert settled.all() or lost.num_rows
        if not lost.num_rows:
            assert not rows_of(part.flows) - whole
        # What is taken out was reproduced to the byte, so nothing of it was lost.
        untouched = without(lake.flows, flow_names(part.gone))
        assert rows_of(untouched, part.gone) == rows_of(lake.flows)
