"""Every event is accounted for once, whatever comes in (I1 of `flowdiff fsck`)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.strategies import Row, record_batches, span_batches, table_of

from schemas.config import StitchConfig
from stitch.kernel import place_events, stitch

batches = st.one_of(
    span_batches(),
    record_batches(),
    st.tuples(span_batches(), record_batches()).map(lambda two: [*two[0], *two[1]]),
)


@examples(75)
@given(rows=batches, cap=st.sampled_from([20_000, 3]))
def test_events_in_are_events_out(rows: list[Row], cap: int) -> None:
    config = StitchConfig(max_events_per_flow=cap)
    events = table_of(rows)
    result = stitch(events, config)
    placed, _ = place_events(events, config)
    n_placed = len({event for event in placed.event.tolist() if event >= 0})
    counts = result.counts
    elsewhere = [counts[name] for name in ("duplicates", "merged", "rejected", "capped")]
    assert counts["events"] == len(rows) == n_placed + sum(elsewhere)
    assert min(elsewhere) >= 0
    assert counts["rejected"] == len(result.rejects)
    assert counts["flows"] == result.flows.num_rows
    if cap > len(rows):
        assert counts["capped"] == 0


@examples(40)
@given(rows=batches)
def test_rows_of_a_table_fit_each_other(rows: list[Row]) -> None:
    result = stitch(table_of(rows), StitchConfig())
    for table in (result.flows, result.structures, result.params):
        table.validate(full=True)
    structures = {row["category"]: row for row in result.structures.to_pylist()}
    assert structures.keys() == set(result.flows["category"].to_pylist())
    for flow in result.flows.to_pylist():
        structure = structures[flow["category"]]
        assert flow["n_nodes"] == structure["n_nodes"] == len(flow["offset_ns"]) == len(flow["host"])
        assert flow["root"] == structure["root"]
        assert flow["offset_ns"][0] == 0
        assert flow["response_ns"] == max(flow["offset_ns"][i] for i in structure["responses"])
        edges = [(edge["dst"], edge["src"]) for edge in structure["in_edges"]]
        assert edges == sorted(set(edges))
        assert all(src < dst for dst, src in edges)
        assert {dst for dst, _ in edges} == set(range(1, flow["n_nodes"]))
    request_ids = result.flows["request_id"].to_pylist()
    assert len(set(request_ids)) == len(request_ids)
