"""Find the start and end of a change within a period: an interval of a sequence of hits and misses.

Model: the share of hits is different in one interval [first, past) of the sequence and as before the change
in the rest. Each request adds a log likelihood ratio, so the most likely interval has the largest sum
(Kadane), and the likelihood of a start is that of the most likely interval from there. The confidence
interval contains all starts whose log likelihood is within `_WITHIN` of the maximum; for change points this
bound is larger than for smooth parameters (measured: `test_onset.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.arrays import B1, F8

_WITHIN: Final = 4.0
"""Maximum drop of the log likelihood below its maximum within the 95 % confidence interval."""
_ROUNDS: Final = 3
"""Maximum number of iterations between finding the interval and estimating the share of hits inside."""


@dataclass(frozen=True, slots=True)
class AffectedRun:
    """Affected interval [first, past) of a sequence of n time slots, with confidence bounds of both ends.

    `first_low` = 0 means that the interval may begin before the sequence, `past_high` = n that it may end
    after the sequence.
    """

    first: int
    """Index of the first affected slot."""
    first_low: int
    """Lower confidence bound of `first`."""
    first_high: int
    """Upper confidence bound of `first`."""
    past: int
    """Index of the last affected slot + 1."""
    past_low: int
    """Lower confidence bound of `past`."""
    past_high: int
    """Upper confidence bound of `past`."""

    @property
    def from_start(self) -> bool:
        """True if the affected interval may begin at the start of the sequence, or before it."""
        return self.first_low == 0


def segment_of(hits: F8 | B1, usual: float, requests: F8 | None = None) -> AffectedRun | None:
    """Find the interval in which the share of hits differs from `usual`; None if there is none that differs
    significantly.

    hits, requests: [n], numbers per time slot; requests None: one request per slot. usual: share of hits
    outside of the interval, in [0, 1]. O(n).
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
    # For each possible start (end), the best segment that begins (ends) there.
    begins = sums[past] - sums[:past]
    ends = sums[first + 1 :] - sums[first]
    low, high = _within(begins)
    past_low, past_high = _within(ends)
    return AffectedRun(first, low, high, past, past_low + first + 1, past_high + first + 1)


def _best(gain: F8) -> tuple[int, int]:
    """Indices (first, past) of the interval [first, past) with the largest sum of `gain`."""
    sums = np.concatenate(([0.0], np.cumsum(gain)))
    lowest = np.minimum.accumulate(sums)
    past = int(np.argmax(sums - lowest))
    first = int(np.argmin(sums[: past + 1]))
    return first, past


def _within(likelihood: F8) -> tuple[int, int]:
    """(first, last) index at which the log likelihood is within `_WITHIN` of the maximum."""
    near = np.flatnonzero(likelihood >= likelihood.max() - _WITHIN)
    return int(near[0]), int(near[-1])
