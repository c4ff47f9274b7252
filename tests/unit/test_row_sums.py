"""Rows of a profile's table: those of equal keys are added up, whichever batches they come in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from analyze.profile import sums
from analyze.profile.sums import RowSums, _added_up, _Part


def origins(*batches: tuple[list[int], list[int]]) -> list[tuple[int, float]]:
    """(site, number) of the table of batches, each (site of each place, place of each row)."""
    rows = RowSums("origins")
    for sites, places in batches:
        place = np.array(places)
        rows.add((0, np.array(sites), 0), place, np.zeros_like(place), 0, [np.ones(len(place))] * 2)
    table = rows.table()
    return list(zip(table["site"].to_pylist(), table["n"].to_pylist(), strict=True))


def test_a_place_may_have_no_row() -> None:
    """The first batch names site 1, of which the second one has the only row."""
    assert origins(([0, 1], [0]), ([1, 2], [0, 1])) == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert origins(([0, 1], [0]), ([1, 0], [0, 1]), ([1], [0])) == [(0, 2.0), (1, 2.0)]


def test_a_key_may_have_several_places() -> None:
    assert origins(([5, 5], [0, 1]), ([5], [0])) == [(5, 3.0)]


def test_a_row_is_merged_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten places of a batch nine are its own, so that sums stay as many as rows were added."""
    merged = 0

    def counted(parts: Sequence[_Part]) -> list[_Part]:
        nonlocal merged
        merged += sum(len(part.row) for part in parts)
        return _added_up(parts)

    monkeypatch.setattr(sums, "_added_up", counted)
    monkeypatch.setattr(sums, "_PENDING", 10)
    rows, n_batches = RowSums("origins"), 2_000
    for number in range(n_batches):
        site = np.arange(10) + 10 * number
        site[0] = 0
        rows.add((0, site, 0), np.arange(10), np.zeros(10, np.int64), 0, [np.ones(10)] * 2)
    table = rows.table()
    assert table["site"].to_pylist() == sorted({0, *(n for n in range(10 * n_batches) if n % 10)})
    assert table["n"].to_pylist() == [n_batches, *([1] * (table.num_rows - 1))]
    assert merged < 10 * 10 * n_batches
