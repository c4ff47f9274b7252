"""Maximal tandem repeats X^n in a sequence of symbols (A.4)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq
from typing import NamedTuple

import numpy as np

_VECTORISE_FROM = 128
"""Shorter sequences are quicker in plain Python than through numpy's call overhead."""


class Repeat(NamedTuple):
    """`copies` times `period` symbols from `start` on."""

    start: int
    period: int
    copies: int


def repeats(symbols: Sequence[int], period: int) -> list[Repeat]:
    """Repeats of one period that do not overlap, longest in total first chosen, in order of start.

    Each is left-aligned in its maximal run. O(len(symbols)).
    """
    n = len(symbols)
    # A repeat needs a period of equal pairs. Most periods have fewer, and counting runs in C.
    if sum(map(eq, symbols, symbols[period:])) < period:
        return []
    runs: list[Repeat] = []
    for begin, length in _equal_runs(symbols, period):
        if length >= period:
            runs.append(Repeat(begin, period, (length + period) // period))
    if len(runs) < 2:
        return runs
    taken = np.zeros(n, dtype=np.bool_)
    chosen = []
    for run in sorted(runs, key=lambda run: (-run.copies, run.start)):
        span = taken[run.start : run.start + run.copies * period]
        if not span.any():
            span[:] = True
            chosen.append(run)
    return sorted(chosen)


def _equal_runs(symbols: Sequence[int], period: int) -> list[tuple[int, int]]:
    """Maximal runs `(begin, length)` of indices i at which symbols[i] == symbols[i + period]."""
    n = len(symbols) - period
    runs: list[tuple[int, int]] = []
    if n >= _VECTORISE_FROM:
        array = np.asarray(symbols)
        equal = np.zeros(n + 2, dtype=np.int8)
        equal[1:-1] = array[period:] == array[:-period]
        edges = np.flatnonzero(np.diff(equal))
        return list(zip(edges[::2].tolist(), (edges[1::2] - edges[::2]).tolist(), strict=True))
    begin = -1
    for i in range(n):
        if symbols[i] == symbols[i + period]:
            if begin < 0:
                begin = i
        elif begin >= 0:
            runs.append((begin, i - begin))
            begin = -1
    if begin >= 0:
        runs.append((begin, n - begin))
    return runs
