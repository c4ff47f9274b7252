"""Rows of the samples of a category."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.populations import category, graph


@pytest.mark.parametrize("sample", [[], [0, 0, 2], [1], [3, 3, 255], [*range(256)]])
def test_rows_of_each_sample_are_those_with_its_code(sample: list[int]) -> None:
    made = category(graph(["a/x", "a/y"]), np.zeros((len(sample), 2), np.int64), np.array(sample))
    for code in range(256):
        assert np.arange(len(sample))[made.rows(code)].tolist() == [
            at for at, one in enumerate(sample) if one == code
        ]
