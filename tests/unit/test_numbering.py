"""Numbers of things, and blocks of a matrix."""

from __future__ import annotations

import pickle

import pytest

from analyze.cache_blocks import blocks
from analyze.numbering import Numbering


def test_a_number_is_given_once_in_the_order_of_asking() -> None:
    numbers = Numbering[str]()
    assert [numbers[word] for word in ("b", "a", "b", "c", "a")] == [0, 1, 0, 2, 1]
    assert list(numbers) == ["b", "a", "c"]
    assert "d" not in numbers, "who only looks gives no number"
    again = pickle.loads(pickle.dumps(numbers))
    assert again["d"] == 3


@pytest.mark.parametrize(("n", "width", "most"), [(10, 3, 10), (9, 3, 1), (7, 0, 3), (0, 4, 8), (5, 100, 8)])
def test_blocks_make_up_all_and_hold_at_most_so_many_cells_but_one_row(n: int, width: int, most: int) -> None:
    parts = [*blocks(n, width, most)]
    assert [row for part in parts for row in range(part.start, part.stop)] == [*range(n)]
    assert all((part.stop - part.start) * width <= most or part.stop - part.start == 1 for part in parts)
