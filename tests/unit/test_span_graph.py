"""The rules of span graphs, one tiny trace each."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from oracles.span_events import T0, batch, edges, nested, one_flow, span, times

from schemas.config import StitchConfig
from schemas.quality import Quality
from schemas.rejects import Reason
from stitch.kernel import Stitched, stitch

CONFIG = StitchConfig()


def place(*rows: dict[str, Any], config: StitchConfig = CONFIG) -> Stitched:
    """Stitch in every order of arrival (of up to 4 rows; else forth and back): one and the same result."""
    orders = list(permutations(rows)) if len(rows) <= 4 else [rows, rows[::-1]]
    results = [stitch(batch(*order), config) for order in orders]
    for other in results[1:]:
        assert same(other, results[0])
    return results[0]


def same(a: Stitched, b: Stitched) -> bool:
    tables = ("flows", "structures", "params")
    return all(ipc(getattr(a, t)) == ipc(getattr(b, t)) for t in tables) and a.rejects == b.rejects


def ipc(table: pa.Table) -> bytes:
    """Bytes of the rows: the order of a dictionary's words is that of arrival, and no content."""
    for at, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(at, table.column_names[at], column.cast(column.type.value_type))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def quality(stitched: Stitched) -> Quality:
    return Quality(one_flow(stitched)["quality"])


def test_a_span_is_two_nodes_and_children_lie_between() -> None:
    s = place(span("a"), span("b", "a", (10, 20)), span("c", "a", (30, 90)), span("d", "c", (40, 60)))
    assert edges(s) == {"a> b>", "b> b<", "b< a<", "a> c>", "c> d>", "d> d<", "d< c<", "c< a<"}
    assert times(s) == {"a>": 0, "b>": 10, "b<": 20, "c>": 30, "d>": 40, "d<": 60, "c<": 90, "a<": 100}
    flow = one_flow(s)
    assert (flow["root"], flow["start_ns"], flow["response_ns"], flow["quality"]) == ("app/a", T0, 100, 0)
    assert s.structures["responses"].to_pylist() == [[7]]


def test_mates_and_parents_are_positions() -> None:
    s = place(span("a"), span("b", "a", (10, 20)))
    nodes = s.structures.to_pylist()[0]["nodes"]
    assert [(n["point"], n["side"], n["mate"], n["parent"]) for n in nodes] == [
        ("a", 1, 3, -1),
        ("b", 1, 2, 0),
        ("b", 2, 1, 0),
        ("a", 2, 0, -1),
    ]


def test_marks_are_points_between_start_and_end() -> None:
    s = place(span("a", marks=[(30, "miss"), (40, "hit")]), span("b", "a", (10, 20)))
    assert edges(s) == {"a> miss", "miss a<", "a> hit", "hit a<", "a> b>", "b> b<", "b< a<"}
    assert times(s)["hit"] == 40
    assert nested(s) == "a( .hit .miss b( ) )"
    other = place(span("a", marks=[(40, "hit")]), span("b", "a", (10, 20)))
    assert other.structures["category"] != s.structures["category"]


def test_marks_past_the_bound_are_cut_in_time_order() -> None:
    s = place(span("a", marks=[(t, f"m{t}") for t in (5, 3, 4)]), config=StitchConfig(max_events_per_flow=2))
    assert nested(s) == "a( .m3 .m4 )"
    assert quality(s) == Quality.CAPPED


def test_structure_ignores_ids_times_and_the_order_of_siblings() -> None:
    one = [span("a"), span("b", "a", (10, 20)), span("c", "a", (30, 40)), span("d", "b", (11, 12))]
    two = [
        span("a", id="z"),
        span("b", "z", (60, 80), id="q"),
        span("c", "z", (5, 9), id="p"),
        span("d", "q", (61, 62), id="o"),
    ]
    assert place(*one).structures.equals(place(*two).structures)


def test_interchangeable_siblings_go_by_start_time_branch_by_branch() -> None:
    def branch(name: str, at: int) -> list[dict[str, Any]]:
        return [
            span("b", "a", (at, at + 9), id=name),
            span("leaf", name, (at + 1, at + 8 - at // 10), id=name + "leaf"),
        ]

    s = place(span("a"), *branch("late", 30), *branch("early", 10), *branch("mid", 20))
    offsets = one_flow(s)["offset_ns"]
    assert offsets == [0, 10, 11, 17, 19, 20, 21, 26, 29, 30, 31, 35, 39, 100]


def test_different_structures_differ() -> None:
    chain = place(span("a"), span("b", "a"), span("c", "b"))
    fork = place(span("a"), span("b", "a"), span("c", "a"))
    twice = place(span("a"), span("b", "a"), span("c", "a"), span("c", "a", id="c2"))
    keys = {s.structures["category"][0].as_py() for s in (chain, fork, twice)}
    assert len(keys) == 3


def test_kind_and_label_are_part_of_the_structure_and_host_is_not() -> None:
    plain = place(span("a"), span("b", "a")).structures["category"]
    assert place(span("a"), span("b", "a", label="MISS")).structures["category"] != plain
    assert place(span("a"), span("b", "a", kind="client")).structures["category"] != plain
    assert place(span("a", host="h1"), span("b", "a", host="h2")).structures["category"] == plain


def test_exact_duplicates_are_dropped_and_counted() -> None:
    rows = [span("a", params={"k": "v"}), span("b", "a", (10, 20))]
    s = place(*rows, *rows, rows[1])
    assert s.counts["duplicates"] == 3
    assert quality(s) == Quality(0)
    assert nested(s) == "a( b( ) )"
    assert s.params.num_rows == 1


def test_another_content_under_one_id_is_a_conflict() -> None:
    s = place(span("a"), span("b", "a", (10, 20)), span("b", "a", (12, 20)), span("b", "a", (10, 30)))
    assert quality(s) == Quality.CONFLICT
    assert times(s)["b<"] == 20
    assert [r.reason for r in s.rejects] == [Reason.CONFLICT] * 2
    assert s.counts["conflicts"] == 2


def test_conflicting_params_keep_the_same_version_in_any_order() -> None:
    s = place(span("a", params={"k": "1"}), span("a", params={"k": "2"}))
    assert s.params.num_rows == 1
    assert len(s.rejects) == 1


def test_a_partial_report_is_merged_into_the_timed_one() -> None:
    s = place(
        span("a"),
        span("b", at=(10, 20), kind="client", params={"k": "own"}),
        span("b", "a", (None, None), kind="client", params={"k": "late", "m": "late"}),
    )
    assert nested(s) == "a( b( ) )"
    assert quality(s) == Quality(0)
    assert s.counts["merged"] == 1
    assert [(p["key"], p["text"]) for p in s.params.to_pylist()] == [("k", "own"), ("m", "late")]


def test_a_partial_report_without_kind_goes_to_the_side_of_its_component() -> None:
    s = place(
        span("a"),
        span("call", "a", (10, 20), kind="client"),
        span("serve", "a", (12, 18), id="call", kind="server", component="backend"),
        span("", None, (None, None), id="call", kind="", component="backend", params={"late": "1"}),
    )
    assert nested(s) == "a( call( serve( ) ) )"
    assert [p["position"] for p in s.params.to_pylist()] == [2]


def test_params_of_dropped_rows_are_dropped() -> None:
    s = place(
        span("a", params={"k": "in a conflict"}, at=(0, 200)),
        span("a", at=(0, 100)),
        span("a", at=(0, None)),
    )
    assert s.params.num_rows == 0
    assert (s.counts["merged"], s.counts["conflicts"]) == (1, 1)


def test_shared_ids_become_client_and_server() -> None:
    s = place(
        span("a"),
        span("call", "a", (10, 50), kind="client"),
        span("serve", "a", (12, 48), id="call", kind="server", component="backend", shared=True),
        span("query", "call", (20, 30), component="backend"),
        span("retry", "call", (40, 45)),
        span("other", "call", (46, 47), component="elsewhere"),
    )
    assert {"a> call>", "call> serve>", "serve> query>", "call> retry>", "serve> other>"} <= edges(s)
    assert quality(s) == Quality(0)


def test_consumers_of_producers_and_followers_are_deferred() -> None:
    s = place(
        span("a"),
        span("send", "a", (10, 20), kind="producer"),
        span("take", "send", (200, 300), kind="consumer"),
        span("work", "take", (210, 290)),
        span("later", None, (400, 500), follows="a"),
    )
    assert nested(s) == "a( send( take~( work~( ) ) ) later~( ) )"
    assert not {"take< send<", "later< a<"} & edges(s)
    assert {"send> send<", "work< take<", "a> later>"} <= edges(s)
    assert one_flow(s)["response_ns"] == 100


def test_a_consumer_under_another_span_is_waited_for() -> None:
    s = place(span("a"), span("take", "a", (10, 20), kind="consumer"))
    assert "take< a<" in edges(s)


def test_of_several_parents_the_smallest_present_id_counts() -> None:
    s = place(span("a"), span("c", "a"), span("b", "a"), span("d", "c b absent"))
    assert "b> d>" in edges(s)
    assert quality(s) == Quality(0)


def test_a_parent_goes_before_a_followed_span() -> None:
    s = place(span("a"), span("z", "a"), span("d", "z", follows="a"))
    assert "z> d>" in edges(s)
    assert "d< z<" in edges(s)


@pytest.mark.parametrize(
    ("candidate", "taken"),
    [
        ({"component": "svc"}, True),
        ({"component": "proxy", "peer": "svc"}, True),
        ({"component": "proxy", "peer": "other"}, False),
    ],
)
def test_orphans_go_below_the_smallest_enclosing_span_that_fits(
    candidate: dict[str, Any], taken: bool
) -> None:
    s = place(
        span("a"),
        span("big", "a", (5, 95), **candidate),
        span("near", "big", (10, 60), **candidate),
        span("lost", "gone", (20, 30), component="svc"),
        span("child", "lost", (21, 29), component="svc"),
    )
    assert ("near> lost>" in edges(s)) == taken
    assert ("a> missing>" in edges(s)) == (not taken)
    assert ("missing> lost>" in edges(s)) == (not taken)
    assert quality(s) == Quality.ORPHAN


def test_orphans_never_go_below_orphans() -> None:
    s = place(
        span("a", component="gateway"),
        span("x", "gone", (10, 90), component="svc"),
        span("y", "gone", (20, 80), component="svc"),
    )
    assert {"a> missing>", "missing> x>", "missing> y>"} <= edges(s)
    assert quality(s) == Quality.ORPHAN | Quality.INCOMPLETE
    assert (times(s)["missing>"], times(s)["missing<"]) == (10, 90)


def test_without_a_root_the_missing_span_is_the_root() -> None:
    s = place(span("x", "gone", (10, 20)), span("y", "gone", (15, 30)), span("z", "x", (11, 19)))
    assert nested(s) == "missing( x( z( ) ) y( ) )"
    flow = one_flow(s)
    assert (flow["root"], flow["start_ns"] - T0, flow["response_ns"]) == ("?/missing", 10, 20)
    assert quality(s) == Quality.ORPHAN | Quality.INCOMPLETE


def test_a_lone_orphan_is_the_root_of_a_trace_without_one() -> None:
    s = place(span("x", "gone", (10, 20)), span("y", "x", (11, 19)))
    assert nested(s) == "x( y( ) )"
    assert (one_flow(s)["root"], one_flow(s)["response_ns"]) == ("app/x", 10)
    assert quality(s) == Quality.ORPHAN


def test_two_roots_get_a_common_one() -> None:
    s = place(span("x", at=(10, 40)), span("y", at=(30, 70)), span("z", "gone", (50, 60), component="zz"))
    assert {"root> x>", "root> y>", "root> missing>", "missing> z>", "x< root<"} <= edges(s)
    assert (one_flow(s)["start_ns"] - T0, one_flow(s)["response_ns"]) == (10, 60)
    assert quality(s) == Quality.MULTI_ROOT | Quality.ORPHAN


def test_cycles_are_cut_at_the_earliest_span() -> None:
    s = place(span("x", "z", (10, 20)), span("y", "x", (5, 20)), span("z", "y", (7, 20)), span("t", "z"))
    assert "t< z<" in edges(s)
    assert {"y> z>", "z> x>"} <= edges(s)
    assert quality(s) == Quality.CYCLE


def test_a_span_that_is_its_own_parent_is_a_root() -> None:
    s = place(span("x", "x"), span("y", "x", (1, 2)))
    assert nested(s) == "x( y( ) )"
    assert quality(s) == Quality.CYCLE


def test_missing_times_come_from_children_else_from_the_parent() -> None:
    s = place(
        span("a", at=(None, None)),
        span("b", "a", (10, None)),
        span("c", "b", (12, 30)),
        span("d", "b", (None, 25)),
        span("e", "c", (None, None)),
    )
    t = times(s)
    assert (t["b>"], t["b<"], t["a>"], t["a<"]) == (10, 30, 10, 30)
    assert (t["d>"], t["d<"], t["e>"], t["e<"]) == (10, 25, 12, 30)
    assert quality(s) == Quality.UNTIMED


def test_a_trace_without_any_time_is_rejected_and_costs_no_neighbour() -> None:
    s = place(span("a", at=(None, None), trace="t0"), span("b", "a", (None, None), trace="t0"), span("a"))
    assert s.flows["request_id"].to_pylist() == ["t1"]
    assert [r.reason for r in s.rejects] == [Reason.BAD_TIME] * 2


def test_spans_without_ids_are_rejected() -> None:
    s = place(span("a"), span("b", "a") | {"id": None}, span("c", "a") | {"request_id": None})
    assert nested(s) == "a( )"
    assert [r.reason for r in s.rejects] == [Reason.BAD_ID] * 2


def test_a_huge_flow_keeps_its_first_spans() -> None:
    rows = [span("a")] + [span("b", "a", (i, 50), id=f"{i:05}") for i in range(1, 30)]
    s = place(*rows, span("small", trace="t2"), config=StitchConfig(max_events_per_flow=10))
    assert quality(s) == Quality.CAPPED
    assert one_flow(s)["offset_ns"][1::2][:9] == list(range(1, 10))
    assert one_flow(s, "t2")["quality"] == 0


def test_running_backwards_is_flagged_on_one_host_only() -> None:
    skewed = [span("a", host="h1"), span("b", "a", (-10, 20), host="h2")]
    assert quality(place(*skewed)) == Quality(0)
    assert quality(place(skewed[0], skewed[1] | {"host": "h1"})) == Quality.NEGATIVE
    assert quality(place(span("a", at=(10, 5)))) == Quality.NEGATIVE


def test_ids_of_any_form_are_told_apart() -> None:
    rows = [span("a", "ROOT"), span("b", "a") | {"id": "x-1", "parents": ["A"]}]
    rows[0] |= {"id": "A", "parents": None}
    lower = span("c") | {"id": "a", "parents": ["A"]}
    assert edges(place(*rows, lower)) >= {"a> b>", "a> c>"}


def test_upper_and_lower_case_hex_ids_differ() -> None:
    rows = [span("a") | {"id": "AAAAAAAAAAAAAAAA"}, span("b") | {"id": "a" * 16, "parents": ["A" * 16]}]
    assert edges(place(*rows)) == {"a> b>", "b> b<", "b< a<"}
    assert place(*rows).counts["duplicates"] == 0


def test_one_span_id_in_two_traces_is_two_spans() -> None:
    s = place(span("a"), span("a", trace="t2"), span("b", "a", trace="t2"))
    assert nested(s, "t1") == "a( )"
    assert nested(s, "t2") == "a( b( ) )"


def test_deep_chains() -> None:
    n = 10_000
    rows = [span("s", f"{i - 1:05}" if i else None, (i, 2 * n - i), id=f"{i:05}") for i in range(n)]
    flow = one_flow(stitch(batch(*rows), CONFIG))
    assert flow["n_nodes"] == 2 * n
    assert flow["offset_ns"] == list(range(n)) + list(range(n + 1, 2 * n + 1))
