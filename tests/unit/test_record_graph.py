"""The rules of record graphs (stitch.records), one a test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles.record_events import Flow, place, read, record, table

from schemas.config import StitchConfig
from schemas.quality import Quality
from stitch.records.record_graphs import place_records


def one(*rows: dict[str, Any], config: StitchConfig | None = None) -> Flow:
    """The only flow, the same for records forth and back."""
    flows = place(*rows, config=config)
    back = place(*rows[::-1], config=config)
    assert len(flows) == 1
    (flow,), (other,) = flows.values(), back.values()
    assert flow.order == other.order
    assert flow.times == other.times
    assert (flow.edges, flow.response, flow.deferred, flow.quality) == (
        other.edges,
        other.response,
        other.deferred,
        other.quality,
    )
    return flow


FORK = (
    record("A", "in", 0),
    record("A", "fork", 10, "split", "B C"),
    record("B", "b1", 20),
    record("B", "b2", 30),
    record("C", "c1", 25),
    record("A", "join", 40, "join", "B C"),
    record("A", "out", 50, "end"),
)


def test_fork_and_join() -> None:
    flow = one(*FORK)
    assert flow.edges == {"in fork", "fork b1", "fork c1", "b1 b2", "b2 join", "c1 join", "join out"}
    assert flow.order[:2] == ["in", "fork"]
    assert flow.order[-2:] == ["join", "out"]
    assert dict(zip(flow.order, flow.times, strict=True))["b2"] == 30
    assert (flow.response, flow.deferred, flow.quality) == ({"out"}, set(), Quality(0))


def test_the_strand_may_go_on_beside_what_it_split() -> None:
    flow = one(
        record("A", "fork", 0, "split", "B"),
        record("A", "a", 10),
        record("B", "b", 20),
        record("A", "join", 30, "join", "B"),
        record("A", "out", 40, "end"),
    )
    assert flow.edges == {"fork a", "fork b", "a join", "b join", "join out"}


def test_an_edge_with_another_path_goes() -> None:
    flow = one(record("A", "fork", 0, "split", "B"), record("B", "b", 1), record("A", "join", 2, "join", "B"))
    assert flow.edges == {"fork b", "b join"}


def test_seq_decides_before_time() -> None:
    flow = one(record("A", "x", 5, seq=0), record("A", "y", 3, seq=1), record("A", "z", 4, "end", seq=2))
    assert flow.order == ["x", "y", "z"]
    assert flow.quality == Quality(0)


def test_time_decides_where_some_have_no_seq() -> None:
    flow = one(record("A", "x", 5, seq=0), record("A", "y", 3), record("A", "z", 9, "end", seq=1))
    assert flow.order == ["y", "x", "z"]
    assert flow.quality == Quality.MIXED_SEQ


def test_records_without_breadcrumb_share_no_strand_on_which_seq_could_be_mixed() -> None:
    flow = one(record(None, "x", 0), record(None, "y", 1, seq=3))
    assert flow.quality == Quality.MULTI_ROOT


def test_time_decides_among_equal_seq() -> None:
    flow = one(record("A", "x", 5, seq=1), record("A", "y", 3, seq=1), record("A", "z", 1, "end", seq=7))
    assert flow.order == ["y", "x", "z"]


def test_content_decides_among_equal_times() -> None:
    rows = [record("A", p, 5) for p in "pqrs"] + [record("A", "z", 6, "end")]
    assert one(*rows).order == one(*rows[2:], *rows[:2]).order


def test_other_requests_do_not_matter() -> None:
    others = [record("A", f"other{i}", i, request=f"q{i}", seq=i) for i in range(3)]
    flows = place(*others, *FORK, *others[:1])
    assert flows["r"].edges == one(*FORK).edges
    assert set(flows) == {"r", "q0", "q1", "q2"}


def test_copies_are_dropped_and_counted() -> None:
    events = table(*FORK, *FORK, FORK[2])
    placed = place_records(events, StitchConfig())
    assert len(placed.copies) == 8
    assert read(placed, events)["r"].edges == one(*FORK).edges
    assert read(placed, events)["r"].quality == Quality(0)


def test_records_alike_but_for_params_are_both_kept() -> None:
    params = [{"key": "k", "num": 1.0, "text": None}]
    flow = one(record("A", "x", 1), record("A", "x", 1, params=params), record("A", "y", 2, "end"))
    assert flow.order == ["x", "x", "y"]


def test_of_versions_of_one_time_the_one_with_most_parents_is_kept() -> None:
    first = record(None, "a", 1, id="1", parents="")
    side = record(None, "b", 2, id="2", parents="1")
    versions = [record(None, "c", 3, id="3", parents=p) for p in ("", "1 2", "1", "2")]
    for rows in (versions, versions[::-1], [*versions[2:], *versions[:2]]):
        flow = one(first, side, *rows)
        assert flow.quality == Quality.CONFLICT
        assert flow.edges == one(first, side, versions[1]).edges


def test_one_version_of_an_id_is_kept() -> None:
    rows = [record("A", "x", 3, id="1"), record("A", "y", 2, id="1"), record("A", "z", 9, "end", id="2")]
    assert one(*rows).order == ["y", "z"]
    assert one(*rows).quality == Quality.CONFLICT
    placed = place_records(table(*rows, rows[0], rows[1]), StitchConfig())
    assert placed.conflicts is not None
    assert placed.conflicts.tolist() == [0]
    assert len(placed.copies) == 2


def test_the_same_id_in_another_request_is_another() -> None:
    flows = place(record("A", "x", 1, "end", id="1"), record("A", "y", 2, "end", id="1", request="s"))
    assert [flow.quality for flow in flows.values()] == [Quality(0), Quality(0)]


def test_a_link_without_records_is_flagged() -> None:
    flow = one(
        record("A", "fork", 0, "split", "B C"), record("B", "b", 1, "end"), record("A", "out", 2, "end")
    )
    assert flow.edges == {"fork b", "fork out"}
    assert flow.quality == Quality.LOST_STRAND
    assert flow.deferred == {"b"}


def test_a_link_to_itself_means_nothing() -> None:
    flow = one(record("A", "fork", 0, "split", "A"), record("A", "out", 2, "end"))
    assert (flow.edges, flow.quality) == ({"fork out"}, Quality(0))


def test_links_of_plain_records_mean_nothing() -> None:
    flow = one(record("A", "a", 0, "", "B"), record("A", "out", 1, "end"), record("B", "b", 2))
    assert flow.quality & Quality.MULTI_ROOT


def test_work_behind_the_response_is_deferred() -> None:
    flow = one(
        record("A", "fork", 0, "split", "B"),
        record("B", "b1", 5),
        record("A", "out", 7, "end"),
        record("A", "after", 8),
        record("B", "b2", 9, "end"),
    )
    assert flow.response == {"out"}
    assert flow.deferred == {"b1", "b2", "after"}
    assert flow.quality == Quality(0)


def test_an_open_strand_is_flagged() -> None:
    flow = one(record("A", "fork", 0, "split", "B"), record("B", "b", 5), record("A", "out", 7, "end"))
    assert flow.quality == Quality.UNCLOSED


@pytest.mark.parametrize(("host", "expected"), [("h", Quality.UNCLOSED), ("other", Quality(0))])
def test_records_after_the_join_are_flagged_on_one_host(host: str, expected: Quality) -> None:
    flow = one(
        record("A", "fork", 0, "split", "B", host="h"),
        record("B", "b", 20, host=host),
        record("A", "join", 10, "join", "B", host="h"),
        record("A", "out", 30, "end", host="h"),
    )
    assert flow.quality == expected
    assert "b join" in flow.edges


def test_without_end_the_entry_strand_answers() -> None:
    flow = one(record("A", "fork", 0, "split", "B"), record("A", "out", 7), record("B", "b", 9))
    assert (flow.response, flow.deferred) == ({"out"}, {"b"})
    assert flow.quality == Quality.NO_END | Quality.UNCLOSED


def test_an_end_elsewhere_answers_if_the_entry_strand_has_none() -> None:
    flow = one(record("A", "fork", 0, "split", "B"), record("A", "last", 7), record("B", "b", 9, "end"))
    assert (flow.response, flow.quality) == ({"b"}, Quality(0))


def test_the_first_end_of_the_entry_strand_answers() -> None:
    flow = one(record("A", "x", 0), record("A", "e1", 1, "end"), record("A", "e2", 2, "end"))
    assert (flow.response, flow.deferred) == ({"e1"}, {"e2"})


def test_several_sources_get_a_root() -> None:
    flow = one(record("A", "a", 5), record("A", "out", 9, "end"), record("B", "b", 3))
    assert flow.order[0] == "?root"
    assert flow.times[0] == 3
    assert flow.edges == {"?root a", "?root b", "a out"}
    assert flow.response == {"out"}
    assert flow.quality == Quality.MULTI_ROOT


def test_explicit_parents_replace_the_order_of_the_breadcrumb() -> None:
    flow = one(
        record("A", "a", 0, id="1"),
        record("A", "b", 1, id="2", parents="1"),
        record("A", "c", 2, id="3", parents="1"),
        record("A", "d", 3),
        record("A", "e", 4, id="5", parents="2 3"),
    )
    assert flow.edges == {"a b", "a c", "c d", "b e", "c e"}
    assert flow.response == {"d", "e"}
    assert (flow.deferred, flow.quality) == (set(), Quality(0))


def test_records_without_breadcrumb_have_explicit_edges_only() -> None:
    flow = one(
        record(None, "a", 0, id="1", parents=""),
        record(None, "b", 1, id="2", parents="1"),
        record(None, "c", 2, id="3", parents="1"),
    )
    assert flow.edges == {"a b", "a c"}
    assert flow.response == {"b", "c"}


def test_present_parents_are_kept_where_others_miss() -> None:
    flow = one(record(None, "a", 0, id="1"), record(None, "b", 1, id="2", parents="1 99"))
    assert (flow.edges, flow.quality) == ({"a b"}, Quality.ORPHAN)


def test_orphans_hang_from_missing_below_the_root() -> None:
    rows = [record(None, "a", 0, id="1"), record(None, "o", 7, id="2", parents="98")]
    flow = one(*rows)
    assert flow.edges == {"a ?missing", "?missing o"}
    assert flow.times[flow.order.index("?missing")] == 7
    assert flow.quality == Quality.ORPHAN
    more = one(*rows, record(None, "p", 6, id="3", parents="97"))
    assert more.edges == {"a ?missing", "?missing o", "?missing p"}
    assert more.times[more.order.index("?missing")] == 6
    assert more.quality == Quality.ORPHAN | Quality.INCOMPLETE


def test_missing_is_the_root_where_nothing_else_is() -> None:
    flow = one(
        record("A", "o", 7, id="2", parents="98"),
        record("A", "x", 8, "end"),
        record("B", "p", 9, id="3", parents="97"),
    )
    assert flow.order[0] == "?missing"
    assert {"?missing o", "?missing p"} <= flow.edges
    assert flow.quality & (Quality.ORPHAN | Quality.INCOMPLETE) == Quality.ORPHAN | Quality.INCOMPLETE


def test_a_lone_orphan_is_the_root_of_a_request_without_one() -> None:
    flow = one(record("A", "o", 7, id="2", parents="98"), record("A", "x", 8, "end"))
    assert flow.order == ["o", "x"]
    assert flow.response == {"x"}
    assert flow.quality == Quality.ORPHAN


def test_missing_hangs_from_a_synthetic_root() -> None:
    flow = one(
        record(None, "a", 5, id="1"), record(None, "b", 6, id="2"), record(None, "o", 2, id="3", parents="9")
    )
    assert flow.edges == {"?root a", "?root b", "?root ?missing", "?missing o"}
    assert flow.times[0] == 2
    assert flow.quality == Quality.ORPHAN | Quality.MULTI_ROOT


def test_cycles_are_cut() -> None:
    flow = one(
        record(None, "a", 0, id="1"),
        record(None, "b", 1, id="2", parents="1 3"),
        record(None, "c", 2, id="3", parents="2"),
        record(None, "d", 3, id="4", parents="1"),
    )
    assert flow.edges == {"a b", "a d", "?root a", "?root c"}
    assert flow.quality == Quality.CYCLE | Quality.MULTI_ROOT


def test_a_flow_that_is_one_cycle_survives() -> None:
    flow = one(record(None, "a", 0, id="1", parents="2"), record(None, "b", 1, id="2", parents="1"))
    assert flow.edges == {"?root a", "?root b"}
    alone = one(record(None, "a", 0, id="1", parents="1"))
    assert (alone.order, alone.quality) == (["a"], Quality.CYCLE)


def test_cycles_of_splits_and_joins_are_cut_and_leave_neighbours_alone() -> None:
    knot = [
        record("A", "a1", 0, "split", "B", request="k"),
        record("A", "a2", 1, "join", "B", request="k"),
        record("A", "a3", 2, "split", "B", request="k"),
        record("B", "b", 9, request="k"),
    ]
    flows = place(*FORK, *knot)
    assert flows["r"].quality == Quality(0)
    assert flows["k"].quality & Quality.CYCLE
    assert sorted(n for n in flows["k"].order if n[0] != "?") == ["a1", "a2", "a3", "b"]


def test_the_first_in_time_are_kept_up_to_the_cap() -> None:
    rows = [record("A", f"p{i}", i // 2) for i in range(10)]
    flow = one(*rows, config=StitchConfig(max_events_per_flow=5))
    assert len(flow.order) == 5
    assert set(flow.order) < {f"p{i}" for i in range(6)}
    assert {"p0", "p1", "p2", "p3"} < set(flow.order)
    assert flow.quality == Quality.CAPPED | Quality.NO_END


def test_records_without_time_are_given_back() -> None:
    events = table(record("A", "lost", None), *FORK)
    placed = place_records(events, StitchConfig())
    assert placed.timeless is not None
    assert placed.timeless.tolist() == [0]
    flow = read(placed, events)["r"]
    assert flow.edges == one(*FORK).edges
    assert sorted(flow.events) == list(range(1, 8))


def test_nothing_gives_nothing() -> None:
    placed = place_records(table(), StitchConfig())
    assert placed.n_flows == 0
    assert placed.first_node.tolist() == placed.first_edge.tolist() == [0]


def test_interchangeable_branches_go_by_start_time_as_a_whole() -> None:
    def flow(first: str, second: str) -> Flow:
        rows = [record("A", "fork", 0, "split", "B C")]
        for crumb, start in ((first, 10), (second, 20)):
            # The later branch is the faster one: its second step comes first.
            rows += [
                record(crumb, "x", start, "split", f"{crumb}1 {crumb}2"),
                record(f"{crumb}1", "y", 100 - 2 * start),
                record(f"{crumb}2", "y", 101 - 2 * start),
                record(crumb, "z", 200 - 2 * start, "join", f"{crumb}1 {crumb}2"),
            ]
        rows += [record("A", "join", 300, "join", "B C"), record("A", "out", 400, "end")]
        return one(*rows)

    for one_way in (flow("B", "C"), flow("C", "B")):
        by_name = {n: [t for m, t in zip(one_way.order, one_way.times, strict=True) if m == n] for n in "xyz"}
        assert by_name == {"x": [10, 20], "y": [80, 81, 60, 61], "z": [180, 160]}


def test_a_large_flow_takes_neither_minutes_nor_gigabytes() -> None:
    rows = []
    for i in range(2_500):
        rows += [
            record("A", "fork", 10 * i, "split", f"B{i} C{i}"),
            record(f"B{i}", "x", 10 * i + 1),
            record(f"C{i}", "x", 10 * i + 2),
            record("A", "join", 10 * i + 3, "join", f"B{i} C{i}"),
        ]
    events = table(*rows)
    placed = place_records(events, StitchConfig())
    assert len(placed.event) == 10_000
    assert len(placed.src) == 2_500 * 4 + 2_499
    starts = placed.ts_ns[np.flatnonzero(np.array(events["point"].to_pylist())[placed.event] == "x")]
    assert (np.diff(starts) > 0).all()
