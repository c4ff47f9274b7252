"""A heavy tail of the response time, and weights by cost for it (DIST §3.1, §5.2.1; ALGORITHMS G.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.arrays import F8

HEAVY: Final = 0.011
"""Share outside of mean ± 3 sigma from which a tail is heavy: four times that of a normal distribution."""
MOST_WEIGHT: Final = 1000.0
_TAIL_QUANTILE: Final = 0.98


@dataclass(frozen=True, slots=True)
class Tail:
    """What the tail of P looks like."""

    outside: float
    """Share of the instances outside of mean ± 3 sigma."""
    half_us: float
    """The h of the weights: P of this much counts twice."""

    @property
    def heavy(self) -> bool:
        """Whether weights are worth thinking of."""
        return self.outside > HEAVY


def tail_of(performance_us: F8, weight: F8, half_us: float = 0.0) -> Tail:
    """The tail of P over all instances; half_us: h, 0 for the 98th percentile."""
    mean = np.average(performance_us, weights=weight)
    sigma = np.sqrt(np.average((performance_us - mean) ** 2, weights=weight))
    outside = np.average(np.abs(performance_us - mean) > 3 * sigma, weights=weight)
    if half_us <= 0:
        half_us = float(np.quantile(performance_us, _TAIL_QUANTILE))
    return Tail(float(outside), half_us)


def tail_weights(performance_us: F8, tail: Tail) -> F8:
    """[instances] floor(2^(P/h)), 1 to 1000."""
    power = np.minimum(performance_us / max(tail.half_us, 1e-9), np.log2(MOST_WEIGHT) + 1)
    return np.asarray(np.clip(np.floor(2.0**power), 1.0, MOST_WEIGHT))
