"""Rows of a profile's table: those of equal keys are added up, whichever batches they come in."""

from __future__ import annotations

from collections import defaultdict
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyze.profile import sums
from analyze.profile.sums import Grouped, RowSums

N_SLOTS = 3
KEYS = [(0, 4, 1), (2, 4, 0), (0, 4, 1), (1, 0, 7), (0, 5, 0)]
"""(measure, site, pattern); the first and the third are equal."""
VOTES = st.tuples(
    st.integers(0, len(KEYS) - 1),
    st.integers(0, N_SLOTS - 1),
    st.lists(st.tuples(st.integers(0, 2047), st.sampled_from([1.0, 2.0, 2.5])), max_size=5),
)
"""(key, slot, (bin, weight) of each request) of consecutive requests."""


def table_of(rows: RowSums) -> dict[tuple[int, ...], tuple[float, ...]]:
    """Mapping key -> sums, of a table whose keys must ascend."""
    found = [tuple(row.values()) for row in rows.table().to_pylist()]
    keys = [row[:5] for row in found]
    assert keys == sorted(set(keys))
    return {row[:5]: row[5:] for row in found}


@pytest.mark.parametrize("most", [1, 1 << 20])
@pytest.mark.parametrize("few", [0, 8])
@given(batches=st.lists(st.lists(VOTES, max_size=4), max_size=6))
def test_rows_are_plain_sums(most: int, few: int, batches: list[list[tuple[int, int, list]]]) -> None:  # type: ignore[type-arg]
    """Requests that are counted, and rows that are added, are the sums of a loop over them."""
    expected: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    with patch.multiple(sums, _PENDING=most, _UNCOUNTED=most, _FEW_WEIGHTS=few):
        counted, added = (RowSums("votes", N_SLOTS, np.array(KEYS).T) for _ in range(2))  # type: ignore[arg-type]
        for batch in batches:
            requests = [(key, slot, *request) for key, slot, mine in batch for request in mine]
            for key, slot, in_bin, weight in requests:
                one = expected[*KEYS[key], slot, in_bin]
                one[:] = [one[0] + 1, one[1] + weight, one[2] + weight * weight]
            columns = [(key, slot, len(mine)) for key, slot, mine in batch]
            keys, slots, size = np.array(columns, np.int64).reshape(-1, 3).T
            bins, weight = (np.array([r[n] for r in requests], to) for n, to in ((2, np.int64), (3, float)))
            weights = np.array([1.0, 2.0, 2.5])
            counted.count(counted.places[keys], slots, size, bins, weight, weights)
            key, slot = np.repeat(keys, size), np.repeat(slots, size)
            added.add(added.places[key], slot, bins, [np.ones(len(weight)), weight, weight * weight])
        plain = {key: tuple(values) for key, values in expected.items()}
        assert table_of(counted) == table_of(added) == plain


def test_a_number_of_four_bytes_that_does_not_fit_takes_eight() -> None:
    n = 2**21
    rows = RowSums("votes", 1, [np.zeros(n, np.int64), np.arange(n), np.zeros(n, np.int64)])
    one = np.ones(1, np.int64)
    rows.count(np.array([n - 1]), 0 * one, one, np.array([2047]), None, np.ones(1))
    assert table_of(rows) == {(0, n - 1, 0, 0, 2047): (1, 1, 1)}


def test_a_row_is_added_up_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten places of a batch nine are its own, so that sums stay as many as rows were added."""
    added_up = 0
    whole = sums._added_up

    def counted(parts: list[sums._Numbered]) -> sums._Numbered:
        nonlocal added_up
        added_up += sum(len(row) for row, _ in parts)
        return whole(parts)

    monkeypatch.setattr(sums, "_added_up", counted)
    monkeypatch.setattr(sums, "_PENDING", 10)
    n_batches = 2_000
    zeros = np.zeros(10 * n_batches, np.int64)
    rows = RowSums("origins", 1, [zeros, np.arange(10 * n_batches), zeros])
    for number in range(n_batches):
        site = np.arange(10) + 10 * number
        site[0] = 0
        rows.add(site, np.zeros(10, np.int64), 0, [np.ones(10)] * 2)
    table = rows.table()
    assert table["site"].to_pylist() == sorted({0, *(n for n in range(10 * n_batches) if n % 10)})
    assert table["n"].to_pylist() == [n_batches, *([1] * (table.num_rows - 1))]
    assert added_up < 10 * 10 * n_batches


@given(
    st.lists(st.integers(-3, 3), max_size=20),
    st.integers(0, 3),
    st.sampled_from([np.float64, np.uint16, np.bool_]),
    st.sampled_from([0, 1 << 20]),
)
def test_rows_of_a_code_are_added_up(codes: list[int], n_columns: int, of: type, many: int) -> None:
    values = np.random.default_rng(len(codes)).integers(0, 60_000, (len(codes), n_columns)).astype(of)
    code = np.array(codes, np.int64)
    with patch.object(sums, "_MANY_COLUMNS", many):
        grouped = Grouped(code)
        found = grouped.sums(values)
    assert grouped.codes.tolist() == sorted(set(codes))
    assert grouped.sizes.tolist() == [codes.count(one) for one in sorted(set(codes))]
    assert found.shape == (len(grouped.codes), n_columns)
    expected = [values[code == one].astype(np.float64).sum(axis=0).tolist() for one in grouped.codes]
    assert found.tolist() == expected
