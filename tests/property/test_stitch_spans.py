"""The kernel against the plain-Python stitcher on random span forests."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from oracles.agreement import disagreements
from oracles.examples import examples
from oracles.stitcher import read_events, stitch_plainly
from oracles.strategies import Row, span_batches, table_of

from schemas.config import StitchConfig
from stitch.kernel import stitch

LONE_ORPHAN = [{"request_id": "t", "id": "00", "kind": 17, "ts_ns": 7, "end_ns": 8, "follows": ["gone"]}]


@examples(300)
@given(rows=span_batches(), cap=st.sampled_from([20_000, 20_000, 4]))
@example(rows=LONE_ORPHAN, cap=20_000)
def test_kernel_agrees_with_the_oracle(rows: list[Row], cap: int) -> None:
    events = table_of(rows)
    config = StitchConfig(max_events_per_flow=cap)
    result = stitch(events, config)
    oracle = stitch_plainly(read_events(events), config)
    assert list(disagreements(result.flows, result.structures, oracle)) == []
    assert result.counts["duplicates"] == oracle.counts["duplicates"]
    assert result.counts["conflicts"] == oracle.counts["conflicts"]
