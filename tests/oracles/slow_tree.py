"""Splits, rank sums and distances the slow, obvious way: one request, one cut, one permutation at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence


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


def area(score: Sequence[float], affected: Sequence[bool]) -> float:
    """Probability that an affected request scores higher, ties half, pair by pair."""
    ones = [s for s, label in zip(score, affected, strict=True) if label]
    zeros = [s for s, label in zip(score, affected, strict=True) if not label]
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in ones for b in zeros]
    return sum(pairs) / len(pairs)
