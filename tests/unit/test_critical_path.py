"""Critical path, attribution and recoverable time on graphs small enough to work out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.critical_path import walk
from oracles.populations import category, graph

from analyze.paths.critical_path import attribute, critical_path, edge_latency_ns, recoverable_us
from analyze.population import Category

US = 1_000
#   start ─ a ─┐
#         └ b ─┴ end        edges sorted by (dst, src)
DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


def diamond(rows: list[tuple[int, int, int, int]], weight: list[float] | None = None) -> Category:
    """Rows are (period, a, b, end) in µs."""
    table = np.array(rows, dtype=np.int64)
    offsets = np.concatenate((np.zeros((len(rows), 1), dtype=np.int64), table[:, 1:] * US), axis=1)
    return category(
        graph(["r/s", "x/a", "x/b", "r/e"], DIAMOND),
        offsets,
        table[:, 0],
        None if weight is None else np.array(weight),
    )


def test_the_last_arrival_is_critical() -> None:
    found = critical_path(diamond([(0, 10, 30, 50), (0, 30, 10, 50), (1, 20, 20, 40)]))
    assert found.tolist() == [
        [False, True, False, True],
        [True, False, True, False],
        [True, False, True, False],  # a tie: the lower position
    ]


def test_latencies_are_differences_of_columns() -> None:
    latency = edge_latency_ns(diamond([(0, 10, 30, 50), (1, 30, 10, 45)]))
    assert (latency / US).tolist() == [[10, 30, 40, 20], [30, 10, 15, 35]]
    assert latency.dtype == np.int64
    assert latency.flags.f_contiguous


def test_of_several_responses_the_latest_counts() -> None:
    made = diamond([(0, 10, 30, 20), (0, 10, 5, 20)])
    two_sinks = replace(
        made,
        graph=replace(
            made.graph, edges=np.array([(0, 1), (0, 2), (1, 3)], np.int32), responses=np.array([2, 3])
        ),
        response_ns=made.node_ns[2:].max(axis=0),
    )
    assert critical_path(two_sinks).tolist() == [[False, True, False], [True, False, True]]


def test_times_that_do_not_span_the_response_are_refused() -> None:
    made = diamond([(0, 10, 30, 50)])
    with pytest.raises(ValueError, match="response time"):
        critical_path(replace(made, response_ns=made.response_ns + 1))


def test_attribution_by_hand() -> None:
    """Reference: a critical in half, 20 and 40 µs. Problem: b always, 60 µs."""
    made = diamond([(0, 10, 20, 25), (0, 40, 20, 45), (1, 10, 60, 65), (1, 40, 60, 65)])
    parts = attribute(made)
    assert parts.criticality_0.tolist() == [0.5, 0.5, 0.5, 0.5]
    assert parts.criticality_1.tolist() == [0, 1, 0, 1]
    # An edge critical in one period only takes its mean from there: all of it is change of criticality.
    assert parts.critical_mean_0_us.tolist() == [40, 20, 5, 5]
    assert parts.critical_mean_1_us.tolist() == [40, 60, 5, 5]
    assert parts.contribution_us.tolist() == [-20, 50, -2.5, 2.5]
    assert parts.latency_part_us.tolist() == [0, 30, 0, 0]
    assert parts.criticality_part_us.tolist() == [-20, 20, -2.5, 2.5]
    assert parts.contribution_us.sum() == 65 - 35


def test_weights_stand_for_requests() -> None:
    rows = [(0, 10, 20, 25), (0, 40, 20, 45), (1, 10, 60, 65), (1, 40, 70, 75)]
    heavy = attribute(diamond(rows, [3, 1, 1, 2]))
    repeated = attribute(diamond([rows[at] for at in (0, 0, 0, 1, 2, 3, 3)]))
    assert np.allclose(heavy.contribution_us, repeated.contribution_us)
    assert np.allclose(heavy.criticality_0, repeated.criticality_0)


def test_swapping_the_periods_flips_every_sign() -> None:
    rows = [(0, 10, 20, 25), (0, 40, 20, 45), (1, 10, 60, 65)]
    there = attribute(diamond(rows))
    back = attribute(diamond([(1 - period, a, b, end) for period, a, b, end in rows]))
    assert np.allclose(there.contribution_us, -back.contribution_us)
    assert np.allclose(there.latency_part_us, -back.latency_part_us)


def test_an_empty_period_counts_as_zero() -> None:
    parts = attribute(diamond([(1, 10, 60, 65)]))
    assert parts.contribution_us.tolist() == [0, 60, 0, 5]
    assert not parts.latency_part_us.any()


def test_large_categories_walk_as_small_ones() -> None:
    """Enough requests for several blocks."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 100, 40_000), rng.integers(1, 100, 40_000)
    made = diamond([(0, int(x), int(y), 120) for x, y in zip(a, b, strict=True)])
    found = critical_path(made)
    assert [set(np.flatnonzero(row).tolist()) for row in found] == walk(made)
    assert ((edge_latency_ns(made) * found).sum(axis=1) == made.response_ns).all()


def test_recoverable_time_sees_slack() -> None:
    """b slowed from 20 to 60 µs; a takes 40 µs all along: only the 20 µs past a come back."""
    rows = [(0, 40, 20, 45)] * 10 + [(1, 40, 60, 65)] * 10
    made = diamond(rows)
    slowed = np.array([False, True, False, False])
    assert recoverable_us(made, slowed) == pytest.approx(20)
    assert recoverable_us(made, np.array([True, False, False, False])) == 0
    assert recoverable_us(made, np.zeros(4, dtype=np.bool_)) == 0
    assert recoverable_us(diamond(rows[:10]), slowed) == 0


def test_nothing_is_recovered_where_nothing_changed() -> None:
    rng = np.random.default_rng(0)
    rows = [(0, int(a), int(b), 120) for a, b in rng.integers(1, 100, (500, 2))]
    same = diamond([*rows, *((1, a, b, end) for _, a, b, end in rows)])
    assert recoverable_us(same, np.ones(4, dtype=np.bool_)) == pytest.approx(0, abs=1e-9)


def test_recoverable_time_is_sampled_evenly() -> None:
    rows = [(0, 10, 20, 25)] * 50 + [(1, 10, 60, 65)] * 5_000
    saved = recoverable_us(diamond(rows), np.array([False, True, False, False]), max_requests=100)
    assert saved == pytest.approx(40)


def test_the_first_two_of_several_samples_are_compared() -> None:
    """A third sample changes nothing between the first two."""
    first = [(0, 10, 20, 25), (0, 40, 20, 45)]
    second = [(1, 10, 60, 65), (1, 40, 60, 65)]
    third = [(2, 10, 90, 95)]
    slowed = np.array([False, True, False, False])
    two, three = diamond([*first, *second]), diamond([*first, *second, *third])
    assert attribute(two).contribution_us.tolist() == attribute(three).contribution_us.tolist()
    assert recoverable_us(two, slowed) == recoverable_us(three, slowed)
