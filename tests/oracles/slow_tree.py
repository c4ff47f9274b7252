"""Splits, rank sums and distances the slow, obvious way: one request, one cut, one permutation at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations


def entropy(affected: float, others: float) -> float:
    """Bits of a request of a node with these class weights."""
    total = affected + others
    return -sum(x / total * math.log2(x / total) for x in (affected, others) if x > 0) if total > 0 else 0.0


def gain(left: Sequence[bool], affected: Sequence[bool], weight1: float, weight0: float) -> float:
    """Bits that an answer gives a request."""
    sides = {True: [0.0, 0.0], False: [0.0, 0.0]}
    for answer, label in zip(left, affected, strict=True):
        sides[bool(answer)][int(label)] += weight1 if label else weight0
    whole = [sides[True][i] + sides[False][i] for i in (0, 1)]
    after = sum(sum(side) * entropy(side[1], side[0]) for side in sides.values()) / sum(whole)
    return entropy(whole[1], whole[0]) - after


def best_number_gain(
    values: Sequence[float], affected: Sequence[bool], weight1: float, weight0: float, least: int
) -> float:
    """Best gain of `value <= t` with missing values on either side."""
    best = 0.0
    for threshold in sorted({v for v in values if not math.isnan(v)}):
        for missing_left in (True, False):
            left = [missing_left if math.isnan(v) else v <= threshold for v in values]
            if min(sum(left), len(left) - sum(left)) >= least:
                best = max(best, gain(left, affected, weight1, weight0))
    return best


def best_word_gain(
    values: Sequence[str | None], affected: Sequence[bool], weight1: float, weight0: float, least: int
) -> float:
    """Best gain of `value is w`, missing as one of the words."""
    best = 0.0
    for word in set(values):
        left = [v == word for v in values]
        if min(sum(left), len(left) - sum(left)) >= least:
            best = max(best, gain(left, affected, weight1, weight0))
    return best


def van_elteren(values: Sequence[float], here: Sequence[bool], strata: Sequence[int]) -> tuple[float, float]:
    """(statistic, variance) of the stratified rank sum, by the definition."""
    statistic = variance = 0.0
    for stratum in sorted(set(strata)):
        rows = [i for i, s in enumerate(strata) if s == stratum]
        n = len(rows)
        ranks = [
            sum(values[j] < values[i] for j in rows) + (1 + sum(values[j] == values[i] for j in rows)) / 2
            for i in rows
        ]
        scores = [rank / (n + 1) - 0.5 for rank in ranks]
        mine = [score for score, i in zip(scores, rows, strict=True) if here[i]]
        statistic += sum(mine)
        if n > 1:
            spread = sum((s - sum(scores) / n) ** 2 for s in scores) / (n - 1)
            variance += len(mine) * (n - len(mine)) / n * spread
    return statistic, variance


def rank_sum_exact_p(values: Sequence[float], here: Sequence[bool]) -> float:
    """Two-sided p over all ways to choose the rows, one stratum."""
    n = len(values)
    observed = abs(van_elteren(values, here, [0] * n)[0])
    draws = [
        abs(van_elteren(values, [i in chosen for i in range(n)], [0] * n)[0])
        for chosen in combinations(range(n), sum(here))
    ]
    return sum(draw >= observed - 1e-9 for draw in draws) / len(draws)


def area(score: Sequence[float], affected: Sequence[bool]) -> float:
    """Probability that an affected request scores higher, ties half, pair by pair."""
    ones = [s for s, label in zip(score, affected, strict=True) if label]
    zeros = [s for s, label in zip(score, affected, strict=True) if not label]
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in ones for b in zeros]
    return sum(pairs) / len(pairs)
