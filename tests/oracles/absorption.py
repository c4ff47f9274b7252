"""Mean time to absorption of a Markov chain, in exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def mean_absorption_time(chances: Sequence[Sequence[Fraction]]) -> Fraction:
    """Mean number of steps from state 0, by Gauss-Jordan elimination of (D - P) t = 1.

    chances: [states][states + absorption]. D is what leaves a state, itself included, so that rows need not
    sum to 1 exactly.
    """
    size = len(chances)
    rows = [
        [(sum(row) if i == j else Fraction(0)) - row[j] for j in range(size)] + [Fraction(1)]
        for i, row in enumerate(chances)
    ]
    for k in range(size):
        pivot = next(i for i in range(k, size) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(size):
            if i != k and rows[i][k] != 0:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return rows[0][size]
