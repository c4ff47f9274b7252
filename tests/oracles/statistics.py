"""Statistics by their definitions: sums over all cases, loops over requests. Slow and obvious."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction


def midranks(values: Sequence[float]) -> list[Fraction]:
    """Rank of each value; equal ones share the mean of theirs."""
    return [
        Fraction(sum(v < x for v in values)) + Fraction(sum(v == x for v in values) + 1, 2) for x in values
    ]


def rank_p(reference: Sequence[float], problem: Sequence[float]) -> tuple[float, float]:
    """(P(rank sum of the problem >= seen), P(<= seen)) over every way to pick it from the pooled values."""
    ranks = midranks([*reference, *problem])
    seen = sum(ranks[len(reference) :])
    sums = [sum(pick) for pick in itertools.combinations(ranks, len(problem))]
    return sum(s >= seen for s in sums) / len(sums), sum(s <= seen for s in sums) / len(sums)


def auc(reference: Sequence[float], problem: Sequence[float]) -> float:
    """P(problem > reference) + P(equal)/2 over all pairs."""
    wins = sum((b > a) + (b == a) / 2 for a in reference for b in problem)
    return wins / (len(reference) * len(problem))


def hypergeometric_tail(k0: int, n0: int, k1: int, n1: int) -> Fraction:
    """P(X >= k1) when n1 of n0 + n1 are drawn and k0 + k1 of them count."""
    marked, total = k0 + k1, n0 + n1
    ways = sum(
        math.comb(marked, x) * math.comb(total - marked, n1 - x) for x in range(k1, min(marked, n1) + 1)
    )
    return Fraction(ways, math.comb(total, n1))


def bh_rejected(p: Sequence[float], level: float) -> list[bool]:
    """Benjamini-Hochberg step up, as it is told in words."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    last = max((k for k, i in enumerate(order, 1) if p[i] <= level * k / len(p)), default=0)
    return [i in order[:last] for i in range(len(p))]
