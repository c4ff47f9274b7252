"""Find when within a period something began, and whether it ended: a segment of a sequence of yes and no.

The likelihood of one segment [first, past) with a share of its own, the rest with the share of before: what
a request adds to it is the logarithm of a ratio, so the best segment is the one of the largest sum (Kadane),
and a begin is as likely as the best segment from there. The interval is of all begins whose likelihood is
within `_WITHIN` of the best: of change points more than of smooth parameters (measured: `test_onset.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.arrays import B1, F8

_WITHIN: Final = 4.0
"""Logarithm of the ratio of likelihoods at the ends of an interval of 95 %."""
_ROUNDS: Final = 3
"""Until the segment and its share agree."""


@dataclass(frozen=True, slots=True)
class AffectedRun:
    """Positions in a sequence of n; a begin at 0 lies at its start or before, an end at n at its end or
    after."""

    first: int
    first_low: int
    first_high: int
    past: int
    past_low: int
    past_high: int

    @property
    def from_start(self) -> bool:
        """Whether it may have been so from the start."""
        return self.first_low == 0


def segment_of(hits: F8 | B1, usual: float, requests: F8 | None = None) -> AffectedRun | None:
    """Find the segment in which another share of requests is hit than usual; None where there is none.

    hits, requests [n]: those of a slot of time; None: one request each. usual: the share of before, by which
    what lies outside of the segment goes. O(n).
    """
    n = len(hits)
    requests = np.ones(n) if requests is None else requests
    if not requests.any():
        return None
    least = 0.5 / (float(requests.sum()) + 1)
    before = min(max(usual, least), 1 - least)
    first, past = 0, n
    gain = np.zeros(n)
    for _ in range(_ROUNDS):
        inside = float(requests[first:past].sum())
        share = min(max(float(hits[first:past].sum()) / max(inside, 1e-300), least), 1 - least)
        gain = hits * np.log(share / before) + (requests - hits) * np.log((1 - share) / (1 - before))
        first, past = _best(gain)
        if past <= first:
            return None
    sums = np.concatenate(([0.0], np.cumsum(gain)))
    if sums[past] - sums[first] <= _WITHIN:
        return None
    # Of a begin (an end) the best that can follow (precede) it.
    begins = sums[past] - sums[:past]
    ends = sums[first + 1 :] - sums[first]
    low, high = _within(begins)
    past_low, past_high = _within(ends)
    return AffectedRun(first, low, high, past, past_low + first + 1, past_high + first + 1)


def _best(gain: F8) -> tuple[int, int]:
    """Give the segment [first, past) of the largest sum."""
    sums = np.concatenate(([0.0], np.cumsum(gain)))
    lowest = np.minimum.accumulate(sums)
    past = int(np.argmax(sums - lowest))
    first = int(np.argmin(sums[: past + 1]))
    return first, past


def _within(likelihood: F8) -> tuple[int, int]:
    """Give the first and the last position that is nearly as likely as the best."""
    near = np.flatnonzero(likelihood >= likelihood.max() - _WITHIN)
    return int(near[0]), int(near[-1])
