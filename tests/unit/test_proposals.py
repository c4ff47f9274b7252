"""The step of response times that is proposed for a comparison is the largest, root by root."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.largest_step import Roots, size

from flowdiff.serve.proposals import largest_step
from flowdiff.serve.window_rows import RESPONSES as SCHEMA

MINUTE_NS = 60 * 10**9


def rows(roots: Roots) -> pa.Table:
    """Response times: (requests, mean µs) of each root by window."""
    told = [
        {"start_ns": at * MINUTE_NS, "root": root, "requests": int(n), "weighted": n, "mean_us": mean}
        for root, windows in roots.items()
        for at, (n, mean) in enumerate(windows)
    ]
    return pa.Table.from_pylist(told, SCHEMA)


WINDOW = st.tuples(st.integers(1, 100).map(float), st.floats(1.0, 1e6))


@given(st.lists(st.tuples(WINDOW, WINDOW), min_size=2, max_size=12))
def test_the_step_is_that_of_every_root_alone(windows: list[tuple[tuple[float, float], ...]]) -> None:
    roots = {name: [window[at] for window in windows] for at, name in enumerate(("a", "b"))}
    found = largest_step(rows(roots))
    assert found is not None
    sizes = [size(roots, at) for at in range(1, len(windows))]
    # Of two that are equal but for rounding either is taken.
    assert sizes[found // MINUTE_NS - 1] == pytest.approx(max(sizes), rel=1e-9, abs=1e-9)


def test_another_mix_of_roots_is_no_step() -> None:
    mixed = {"fast": [(90.0, 1e3)] * 3 + [(10.0, 1e3)] * 5, "slow": [(10.0, 1e5)] * 3 + [(90.0, 1e5)] * 5}
    slower = {**mixed, "slow": [(10.0, 1e5)] * 3 + [(90.0, 1e5)] * 3 + [(90.0, 2e5)] * 2}
    assert largest_step(rows(slower)) == 6 * MINUTE_NS


@pytest.mark.parametrize("n", [0, 1])
def test_one_window_has_no_step(n: int) -> None:
    assert largest_step(rows({"a": [(1.0, 1.0)] * n})) is None
