"""Limits of very slow calls, slow and obvious: every vote by itself, in order."""

from __future__ import annotations

from collections.abc import Sequence

_PER_OCTAVE = 32
_THREE_TIMES = 51
"""Bins from a time to three times as much."""


def slow_from(ordinary: Sequence[int]) -> int:
    """The bin from which on a call is very slow, of the bins of all ordinary calls: the one behind that which
    holds the 98th percentile, or three times the median."""
    held = sorted(ordinary)
    return 1 + max(_holds(held, 98), _holds(held, 50) + _THREE_TIMES)


def begins_us(place: int) -> float:
    """The least time in a bin, µs."""
    return float(2.0 ** (place / _PER_OCTAVE) / 1e3)


def _holds(held: Sequence[int], percent: int) -> int:
    """The first bin up to which so many of a hundred lie."""
    return next(place for at, place in enumerate(held, 1) if 100 * at >= percent * len(held))
