"""The kernel against the plain-Python stitcher on random programs of activity records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from oracles.agreement import disagreements
from oracles.examples import examples
from oracles.stitcher import read_events, stitch_plainly
from oracles.strategies import Row, record_batches, span_rows, table_of

from schemas.config import StitchConfig
from stitch.kernel import stitch


@examples(300)
@given(rows=record_batches(), cap=st.sampled_from([20_000, 20_000, 7]))
def test_kernel_agrees_with_the_oracle(rows: list[Row], cap: int) -> None:
    check(rows, cap)


@examples(30)
@given(spans=span_rows(request_id="r0"), records=record_batches())
def test_records_and_spans_of_one_id_are_two_flows(spans: list[Row], records: list[Row]) -> None:
    check(spans + records, 20_000)


def check(rows: list[Row], cap: int) -> None:
    events = table_of(rows)
    config = StitchConfig(max_events_per_flow=cap)
    result = stitch(events, config)
    oracle = stitch_plainly(read_events(events), config)
    assert list(disagreements(result.flows, result.structures, oracle)) == []
    assert result.counts["duplicates"] == oracle.counts["duplicates"]
    assert result.counts["conflicts"] == oracle.counts["conflicts"]
