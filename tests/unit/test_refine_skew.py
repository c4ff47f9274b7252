"""Clock skew: found from calls between hosts, corrected, and never applied inside a host."""

from __future__ import annotations

import numpy as np
from oracles.refined import Call, call, edge_labels, only, population

from analyze.paths.critical_path import edge_latency_ns
from analyze.refine.settings import RefineSettings


def skewed(ahead_us: float, n: int = 40, drift_us_per_request: float = 0.0) -> list[Call]:
    """web on host a calls db on host b, whose clock is ahead; the network takes 50 µs each way."""
    rng = np.random.default_rng(3)
    requests = []
    for number in range(n):
        shift = ahead_us + number * drift_us_per_request
        work = 500 + rng.integers(200)
        start, end = 150 + shift, 150 + shift + work
        query = call("db/query", start, end, call("db/scan", start + 10, end - 10, host="b"), host="b")
        fetch = call("web/fetch", 100, 200 + work, query, host="a")
        requests.append(call("web/get", 0, 400 + work, fetch, host="a"))
    return requests


def latencies(category: object) -> dict[tuple[str, str], list[float]]:
    labels = category.graph.labels  # type: ignore[attr-defined]
    values = edge_latency_ns(category) / 1_000  # type: ignore[arg-type]
    return {
        (labels[src], labels[dst]): values[:, edge].tolist()
        for edge, (src, dst) in enumerate(category.graph.edges.tolist())  # type: ignore[attr-defined]
    }


def test_a_clock_ahead_is_put_back() -> None:
    found = population(skewed(5_000), skewed(0))
    category = only(found)
    assert {("web/fetch>", "db/query>"), ("db/query<", "web/fetch<")} <= edge_labels(category)
    there = latencies(category)[("web/fetch>", "db/query>")]
    back = latencies(category)[("db/query<", "web/fetch<")]
    # Only the sum is known: 100 µs; centred by the bounds, both halves are near 50 µs.
    assert np.allclose(np.add(there, back), 100)
    assert 30 < np.mean(there[:40]) < 70
    assert len(found.notes) == 1
    assert "reference" in found.notes[0]
    assert "clock of b runs 5.000 ms ahead of a" in found.notes[0]
    skewed_edges = {
        tuple(category.graph.labels[at] for at in category.graph.edges[edge])
        for edge in np.flatnonzero(category.skewed_edges)
    }
    assert skewed_edges == {("web/fetch>", "db/query>"), ("db/query<", "web/fetch<")}


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


def test_drifting_clocks_are_centred_trace_by_trace() -> None:
    found = population(skewed(-40_000, drift_us_per_request=2_000.0))
    there = latencies(only(found))[("web/fetch>", "db/query>")]
    back = latencies(only(found))[("db/query<", "web/fetch<")]
    assert "drift" in found.notes[0]
    outside = [at for at in range(40) if abs(-40_000 + at * 2_000) > 50]
    assert np.allclose(np.array(there)[outside], 50)
    assert np.allclose(np.array(back)[outside], 50)


def test_offsets_are_added_up_along_calls() -> None:
    """c's clock is seen from b only, b's from a: c is corrected by both."""

    def request(work: int) -> Call:
        far = call("c/leaf", 7_100, 7_100 + work, host="c")
        near = call("b/mid", 3_050, 3_150 + work, far, host="b")
        return call("a/top", 0, 200 + work, near, host="a")

    rng = np.random.default_rng(0)
    category = only(population([request(int(500 + rng.integers(100))) for _ in range(30)]))
    values = latencies(category)
    assert all(30 < value < 70 for value in values["b/mid>", "c/leaf>"])
    assert all(30 < value < 70 for value in values["a/top>", "b/mid>"])


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
    assert found.notes == ()
    assert "log/write>" not in only(found).graph.labels
