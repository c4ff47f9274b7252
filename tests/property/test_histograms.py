"""Rows added up in arrays or by sorting are those added up one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from oracles import histograms as oracle

from analyze.stats.histograms import summed_rows
from analyze.stats.sums import numbered

ROWS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(0, 2),
        st.integers(-2, 40) | st.integers(8_180, 9_000),
        st.integers(1, 9),
    ),
    max_size=60,
)


@given(ROWS, st.sampled_from(["mixed", "by site", "by key"]))
def test_summed_rows(rows: list[tuple[int, int, int, int]], order: str) -> None:
    if order != "mixed":
        rows = sorted(rows, key=lambda row: row[: 1 if order == "by site" else 3])
    site, slot, place, tenths = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    found = summed_rows(site, slot, place, tenths / 10)
    wanted = oracle.summed_rows(site, slot, place, tenths / 10)
    # Bit by bit: equal ones are added in their order, whichever way is taken.
    assert [column.tolist() for column in found] == [column.tolist() for column in wanted]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30), st.booleans())
def test_numbers_of_keys_are_those_of_unique(rows: list[tuple[int, int]], ascending: bool) -> None:
    first, last = np.array(sorted(rows) if ascending else rows, dtype=np.int64).reshape(-1, 2).T
    numbers, members = numbered((first, last))
    _, wanted, inverse = np.unique(first * 4 + last, return_index=True, return_inverse=True)
    assert (numbers.tolist(), members.tolist()) == (inverse.tolist(), wanted.tolist())
