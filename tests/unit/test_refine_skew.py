"""Clock skew: found from calls between hosts, corrected, and never applied inside a host."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from oracles.refined import (
    MINUTE_NS,
    T0,
    Call,
    call,
    edge_labels,
    only,
    population,
    request_events,
    stored,
    table,
)

from analyze.paths.critical_path import edge_latency_ns
from analyze.population import Sample
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from schemas.events import EventKind


def skewed(
    ahead_us: float, n: int = 40, drift_us_per_request: float = 0.0, out_us: float = 50, back_us: float = 50
) -> list[Call]:
    """web on host a calls db on host b, whose clock is ahead; the network takes `out_us` and `back_us`."""
    rng = np.random.default_rng(3)
    requests = []
    for number in range(n):
        shift = ahead_us + number * drift_us_per_request
        work = 500 + rng.integers(200)
        start = 100 + out_us + shift
        end = start + work
        query = call("db/query", start, end, call("db/scan", start + 10, end - 10, host="b"), host="b")
        reply = 100 + out_us + work + back_us
        fetch = call("web/fetch", 100, reply, query, host="a")
        requests.append(call("web/get", 0, reply + 200, fetch, host="a"))
    return requests


def period(requests: list[Call], at_ns: list[int] | None = None) -> pa.Table:
    """One event batch; requests start a second apart unless told."""
    rows = []
    for number, request in enumerate(requests):
        start = T0 + number * 10**9 if at_ns is None else at_ns[number]
        rows += request_events(request, f"{id(requests):016x}{number:016x}", start)
    return table(rows)


OUT, BACK = ("web/fetch>", "db/query>"), ("db/query<", "web/fetch<")


def latencies(category: object) -> dict[tuple[str, str], list[float]]:
    labels = category.graph.labels  # type: ignore[attr-defined]
    values = edge_latency_ns(category) / 1_000  # type: ignore[arg-type]
    return {
        (labels[src], labels[dst]): values[:, edge].tolist()
        for edge, (src, dst) in enumerate(category.graph.edges.tolist())  # type: ignore[attr-defined]
    }


def test_a_network_delay_is_no_skew() -> None:
    """500 ms more on one leg after a release: all of it on that edge, and nothing said about clocks."""
    for slow in ({"out_us": 500_050}, {"back_us": 500_050}):
        found = population(skewed(0), skewed(0, **slow))
        values = latencies(only(found))
        edge, other = (OUT, BACK) if "out_us" in slow else (BACK, OUT)
        assert values[edge] == [50.0] * 40 + [500_050.0] * 40
        assert values[other] == [50.0] * 80
        assert found.notes == ()
        assert not only(found).skewed_edges.any()


@pytest.mark.parametrize("ahead_us", [2_000, -2_000])
@pytest.mark.parametrize("slow", ["out_us", "back_us"])
def test_a_network_delay_beside_skew_is_not_divided(ahead_us: int, slow: str) -> None:
    """One correction for both periods: the delay is the whole difference of one edge, none of the other's."""
    found = population(skewed(ahead_us), skewed(ahead_us, **{slow: 500_050}))
    values = latencies(only(found))
    edge, other = (OUT, BACK) if slow == "out_us" else (BACK, OUT)
    for name, added in ((edge, 500_000), (other, 0)):
        assert np.allclose(np.array(values[name][40:]) - values[name][:40], added)
    assert np.allclose(np.add(values[OUT], values[BACK])[:40], 100)
    ahead, behind = ("b", "a") if ahead_us > 0 else ("a", "b")
    # The least that removes the contradiction: the 50 µs of one leg stay in doubt.
    assert found.notes == (f"The clock of {ahead} runs at least 1.950 ms ahead of {behind}: corrected.",)


def test_the_smallest_shift_is_taken() -> None:
    """40 µs of 100 would do as well; nothing says which, so the shift is no larger than it must be."""
    values = latencies(only(population(skewed(300))))
    assert values[OUT] == [100.0] * 40
    assert values[BACK] == [0.0] * 40


def test_a_clock_set_between_the_periods_is_a_step() -> None:
    found = population(skewed(5_000), skewed(0))
    category = only(found)
    assert {OUT, BACK} <= edge_labels(category)
    values = latencies(category)
    assert np.allclose(values[OUT], [100.0] * 40 + [50.0] * 40)
    assert np.allclose(np.add(values[OUT], values[BACK]), 100)
    assert found.notes == (
        "The clock of b runs at least 4.950 ms ahead of a: corrected.",
        "From 2025-11-20T01:53:20Z on the clocks of a and b agree.",
    )
    skewed_edges = {
        tuple(category.graph.labels[at] for at in category.graph.edges[edge])
        for edge in np.flatnonzero(category.skewed_edges)
    }
    assert skewed_edges == {OUT, BACK}


def test_a_step_is_placed_where_it_happened() -> None:
    """Inside a sample, between two calls: request 130 of 200, whatever the blocks."""
    requests = [*skewed(0, 130), *skewed(5_000, 70)]
    values = latencies(only(population(requests)))
    assert values[OUT] == [50.0] * 130 + [100.0] * 70


def test_a_short_period_has_its_own_say() -> None:
    """25 calls after a step are under 5 % of 1,025, and yet not clipped to nothing."""
    found = population(skewed(0, 1_000), skewed(5_000, 25))
    values = latencies(only(found))
    assert values[OUT] == [50.0] * 1_000 + [100.0] * 25
    assert len(found.notes) == 2


def test_one_correction_serves_any_number_of_samples() -> None:
    samples = tuple(Sample(name) for name in ("one", "two", "three"))
    for n in (1, 3):
        parts = [skewed(2_000), skewed(2_000, out_us=9_000), skewed(2_000, back_us=9_000)][:n]
        found = refine(*stored([period(part) for part in parts]), RefineSettings(), samples[:n])
        values = latencies(only(found))
        assert [values[BACK][at * 40] for at in range(n)] == [0.0, 0.0, 8_950.0][:n]
        assert len(found.notes) == 1


def test_one_call_in_twenty_may_contradict() -> None:
    """Two of forty callers ended before the reply; four are more than the tail of 5 %."""

    def some_against(n_against: int) -> tuple[str, ...]:
        odd = np.linspace(0, 39, n_against).astype(int).tolist()
        straight, against = skewed(0), skewed(300)
        return population([against[at] if at in odd else straight[at] for at in range(40)]).notes

    assert some_against(2) == ()
    assert "drift" in some_against(4)[0]


def test_time_inside_a_host_is_untouched() -> None:
    corrected = latencies(only(population(skewed(-3_000))))
    straight = latencies(only(population(skewed(0))))
    for edge in (("web/get>", "web/fetch>"), ("db/query>", "db/scan>"), ("db/scan>", "db/scan<")):
        assert corrected[edge] == straight[edge]


def test_switched_off_the_skew_stays_and_is_clipped() -> None:
    category = only(
        population(skewed(5_000), settings=RefineSettings(correct_skew=False, find_asynchrony=False))
    )
    assert latencies(category)[("db/scan>", "db/scan<")] == [0.0] * 40


def test_consistent_clocks_are_left_alone() -> None:
    found = population(skewed(20), skewed(-20))
    assert found.notes == ()
    assert not only(found).skewed_edges.any()


def test_under_drifting_clocks_each_call_is_moved_just_inside_its_caller() -> None:
    found = population(skewed(-40_000, drift_us_per_request=2_000.0))
    values = latencies(only(found))
    assert "drift" in found.notes[0]
    early = [at for at in range(40) if -40_000 + at * 2_000 < -50]
    late = [at for at in range(40) if -40_000 + at * 2_000 > 50]
    assert np.allclose(np.array(values[OUT])[early], 0)
    assert np.allclose(np.array(values[BACK])[early], 100)
    assert np.allclose(np.array(values[OUT])[late], 100)
    assert np.allclose(np.array(values[BACK])[late], 0)


def test_few_calls_are_moved_one_by_one() -> None:
    values = latencies(only(population([*skewed(-3_000, 5), *skewed(0, 5)])))
    assert values[OUT] == [0.0] * 5 + [50.0] * 5


def test_a_server_span_longer_than_its_callers_is_not_moved() -> None:
    """No shift puts it inside: it went on after the reply, and its start says nothing against the clock."""
    query = call("db/query", 50, 1_500, call("db/scan", 400, 500, host="b"), host="b")
    odd = call("web/get", 0, 1_200, call("web/fetch", 100, 900, query, host="a"), host="a")
    category = only(population([*skewed(-3_000, 5), odd]))
    assert category.node_ns[category.graph.labels.index("db/scan>"), 5] == 400_000


def test_a_drift_is_followed_minute_by_minute() -> None:
    """400 calls a second apart, 1 ms a minute in steps: no four pieces fit, every minute does."""
    requests = [request for minute in range(7) for request in skewed(minute * 1_000, 60)]
    at_ns = [T0 - T0 % MINUTE_NS + number * 10**9 for number in range(len(requests))]
    found = refine(*stored([period(requests, at_ns)]), RefineSettings(), (Sample("all"),))
    assert found.notes == ("The clock of b drifts against a: -5.950 to +0.000 ms added, minute by minute.",)
    assert np.allclose(latencies(only(found))[OUT], [50.0] * 60 + [100.0] * 360)


def test_offsets_are_added_up_along_calls() -> None:
    """c's clock is seen from b only, b's from a: c is corrected by both."""

    def request(work: int) -> Call:
        far = call("c/leaf", 7_100, 7_100 + work, host="c")
        near = call("b/mid", 3_050, 3_150 + work, far, host="b")
        return call("a/top", 0, 200 + work, near, host="a")

    rng = np.random.default_rng(0)
    category = only(population([request(int(500 + rng.integers(100))) for _ in range(30)]))
    values = latencies(category)
    assert values["a/top>", "b/mid>"] == pytest.approx([100.0] * 30)
    assert values["b/mid>", "c/leaf>"] == pytest.approx([100.0] * 30)


def test_work_left_behind_on_another_host_is_not_taken_for_skew() -> None:
    """Fire and forget: the child starts after its parent's end, in 40 of 40 requests, on another host."""
    rng = np.random.default_rng(0)
    requests = [
        call(
            "web/get",
            0,
            1_000,
            call("web/load", 10, 500, host="a"),
            call("log/write", 1_100 + jitter, 1_300 + jitter, host="b"),
            host="a",
        )
        for jitter in rng.integers(0, 50, 40).tolist()
    ]
    found = population(requests)
    assert not any("clock" in note for note in found.notes)
    assert "log/write>" not in only(found).graph.labels


def test_a_correction_goes_with_the_branch_that_is_sorted() -> None:
    """A clock ahead made the first of two calls alike the second one: its edges are corrected, no others."""
    local = call("db/read", 950, 990, host="a")
    requests = [
        call(
            "app/get",
            0,
            1_000,
            call("db/read", 5_100, 5_400 + at, host="b"),
            local,
            host="a",
            kind=EventKind.SPAN_CLIENT,
        )
        for at in range(40)
    ]
    category = only(population(requests, settings=RefineSettings(host_policy="none")))
    first, second = np.flatnonzero([label == "db/read>" for label in category.graph.labels])
    assert (category.node_ns[first] < 950_000).all()
    assert (category.node_ns[second] == 950_000).all()
    of_edge = dict(zip(map(tuple, category.graph.edges.tolist()), category.skewed_edges, strict=True))
    assert of_edge[0, first]
    assert not of_edge[0, second]
