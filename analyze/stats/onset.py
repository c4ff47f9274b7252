"""Find the start and end of a change within a period: a segment of a sequence of hits and misses.

Model: one segment [first, past) with its own share of hits, the rest with the share before the change. Each
request adds a log likelihood ratio, so the best segment has the largest sum (Kadane), and the likelihood of a
start is that of the best segment from there. The interval contains all starts whose likelihood is within
`_WITHIN` of the best: for change points that is wider than for smooth parameters (measured: `test_onset.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.arrays import B1, F8

_WITHIN: Final = 4.0
"""Drop of the log likelihood from its maximum that bounds a 95 % interval."""
_ROUNDS: Final = 3
"""Maximum number of iterations, enough for the segment and its share of hits to agree."""


@dataclass(frozen=True, slots=True)
class AffectedRun:
    """Affected segment [first, past) of a sequence of n slots, with interval bounds of both ends.

    A lower bound of 0 means that the segment may begin before the sequence, an upper bound of n that it may
    end after it.
    """

    first: int
    first_low: int
    first_high: int
    past: int
    past_low: int
    past_high: int

    @property
    def from_start(self) -> bool:
        """True if the segment may begin at the start of the sequence, or before it."""
        return self.first_low == 0


def segment_of(hits: F8 | B1, usual: float, requests: F8 | None = None) -> AffectedRun | None:
    """Find the segment whose share of hits differs from `usual`; None if none differs significantly.

    hits, requests: [n] counts per slot of time; requests None: 1 each. usual: share of hits outside of the
    segment. O(n).
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
    # For a start (an end) the best segment that begins (ends) there.
    begins = sums[past] - sums[:past]
    ends = sums[first + 1 :] - sums[first]
    low, high = _within(begins)
    past_low, past_high = _within(ends)
    return AffectedRun(first, low, high, past, past_low + first + 1, past_high + first + 1)


def _best(gain: F8) -> tuple[int, int]:
    """Indices [first, past) of the segment with the largest sum of `gain`."""
    sums = np.concatenate(([0.0], np.cumsum(gain)))
    lowest = np.minimum.accumulate(sums)
    past = int(np.argmax(sums - lowest))
    first = int(np.argmin(sums[: past + 1]))
    return first, past


def _within(likelihood: F8) -> tuple[int, int]:
    """First and last index at which the log likelihood is within `_WITHIN` of its maximum."""
    near = np.flatnonzero(likelihood >= likelihood.max() - _WITHIN)
    return int(near[0]), int(near[-1])
