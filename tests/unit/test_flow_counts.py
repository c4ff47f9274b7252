"""Counts of flows in commits: right for any cut into files, exact up to K structures, near beyond."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from oracles.lake_script import flows_table

from schemas.quality import Quality
from stitch.lake.flow_counts import (
    FILE_COUNTS_SCHEMA,
    WINDOW_COUNTS_SCHEMA,
    K,
    by_flag,
    by_window,
    count_flows,
    flags_of,
)


def made(n: int, seed: int, categories: int) -> pa.Table:
    """Flows of random weights, times, ends and flags."""
    rng = np.random.default_rng(seed)
    rows = flows_table([f"r{seed}-{place}" for place in range(n)], [0] * n)
    word = pa.dictionary(pa.int32(), pa.string())
    columns = {
        "weight": pa.array(rng.choice([1.0, 3.7, 1e6 / 3], n)),
        "response_ns": pa.array(rng.integers(1, 10**10, n)),
        "status": pa.array(rng.choice(["ok", "ok", "Timeout"], n)).cast(word),
        "quality": pa.array(rng.choice([0, 0, 1, 2, 3, 64], n), rows.schema.field("quality").type),
        "category": pa.array([hashed(place) for place in rng.integers(0, categories, n).tolist()]).cast(word),
    }
    for name, column in columns.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), column)
    return rows


def hashed(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()[:32]


def files_of(parts: list[tuple[int, pa.Table]]) -> pa.Table:
    rows = [
        {"window_ns": at, "rows": part.num_rows, "counts": count_flows(part).model_dump()}
        for at, part in parts
    ]
    return pa.Table.from_pylist(rows, FILE_COUNTS_SCHEMA)


def plainly(start_ns: int, parts: list[pa.Table]) -> dict[str, object]:
    """What a window's row must say, from its rows."""
    rows = pa.concat_tables(parts).to_pylist()
    weight = sum(row["weight"] for row in rows)
    failed = [row for row in rows if row["status"] != "ok"]
    return {
        "window_start": np.datetime64(start_ns, "ns").astype("datetime64[us]").item(),
        "requests": len(rows),
        "categories": len({row["category"] for row in rows}),
        "categories_estimated": False,
        "mean_us": pytest.approx(sum(row["weight"] * row["response_ns"] for row in rows) / weight / 1e3),
        "errors": len(failed),
        "error_rate": pytest.approx(sum(row["weight"] for row in failed) / weight),
        "flagged": sum(row["quality"] != 0 for row in rows),
    }


def test_a_window_is_the_sum_of_its_files() -> None:
    hour = 3600 * 10**9
    parts = [(hour, made(40, 1, 30)), (0, made(7, 2, 5)), (hour, made(50, 3, 30)), (hour, made(1, 4, 30))]
    files = files_of(parts)
    found = by_window(files)
    assert found.schema.equals(WINDOW_COUNTS_SCHEMA)
    assert found.to_pylist() == [plainly(at, [part for of, part in parts if of == at]) for at in (0, hour)]
    masks = [mask for _, part in parts for mask in part["quality"].to_pylist()]
    flags = {flag: sum(mask & flag != 0 for mask in masks) for flag in Quality}
    assert by_flag(files) == {flag: n for flag, n in flags.items() if n}


@pytest.mark.parametrize("n", [K - 1, K, K + 1, 1000, 20_000])
def test_structures_of_many_files_are_counted_once(n: int) -> None:
    """The same number for any cut; exact below K, within three times 1 / sqrt(K) above."""
    flows = flows_table([str(place) for place in range(n)], [0] * n)
    place = flows.schema.get_field_index("category")
    words = pa.array([hashed(number) for number in range(n)]).dictionary_encode()
    flows = flows.set_column(place, flows.schema.field(place), words)
    halves = [(0, flows.slice(0, 2 * n // 3)), (0, flows.slice(n // 3))]
    (whole,), (cut,) = (
        by_window(files_of(parts))["categories"].to_pylist() for parts in ([(0, flows)], halves)
    )
    assert whole == cut
    assert whole == n if n < K else abs(whole / n - 1) < 3 / np.sqrt(K)


@pytest.mark.parametrize(("n", "estimated"), [(K - 1, False), (K, True), (K + 1, True)])
def test_an_estimate_is_marked_and_never_less_than_what_was_seen(n: int, estimated: bool) -> None:
    """Of windows of different structures, about half would be under-estimated."""
    parts = []
    for window in range(20):
        flows = flows_table([str(place) for place in range(n)], [0] * n)
        place = flows.schema.get_field_index("category")
        words = pa.array([hashed(n * window + number) for number in range(n)]).dictionary_encode()
        parts.append((window, flows.set_column(place, flows.schema.field(place), words)))
    found = by_window(files_of(parts))
    assert found["categories_estimated"].to_pylist() == [estimated] * 20
    assert min(found["categories"].to_pylist()) == min(n, K)


def test_no_file_is_no_window() -> None:
    nothing = FILE_COUNTS_SCHEMA.empty_table()
    assert by_window(nothing).num_rows == 0
    assert by_flag(nothing) == flags_of([]) == {}


def test_the_order_of_rows_does_not_count() -> None:
    flows = made(1000, 5, 300)
    shuffled = flows.take(pa.array(np.random.default_rng(0).permutation(1000)))
    assert count_flows(shuffled) == count_flows(flows)
