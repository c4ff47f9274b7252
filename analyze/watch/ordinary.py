"""Minimum size of a change to be worth a comparison: above the sizes that comparisons usually refute.

If the level jumps in normal times, sums pass their threshold more often than the budget allows candidates. So
the sizes of refuted and skipped changes are remembered, and a change is compared only if it is among the b
largest of the budget's time, b being the number of candidates in the budget. That time grows with the watch,
up to the time for which one false incident is budgeted. (If the limit applied only after a whole budget of
refuted changes, of the first n changes b (1 + ln(n / b)) would be compared: all that are among the b largest
so far.)
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from math import ceil
from typing import Final

from analyze.watch.settings import WatchSettings

LARGE: Final = 1.0
"""Size of a large step, the unit of sizes: a step of `always_compared` standard deviations."""


class Ordinary:
    """Sizes of the changes seen in normal times, by onset tick."""

    def __init__(
        self, sizes: Iterable[tuple[int, float]], settings: WatchSettings, tick_ns: int, began_ns: int
    ) -> None:
        """began_ns: time at which the watch began to decide windows, ns since the epoch."""
        self._sizes = dict(sizes)
        self._candidates = settings.candidates
        self._period = settings.ns_a_false_alarm / tick_ns
        self._began = began_ns / tick_ns

    @property
    def sizes(self) -> tuple[tuple[int, float], ...]:
        """(Onset tick, size) of each remembered change."""
        return tuple(self._sizes.items())

    def add(self, onset: int, size: float) -> None:
        """Remember a change that a comparison refuted, or that was too small for a comparison.

        onset: tick; size: in large steps.
        """
        self._sizes[onset] = max(self._sizes.get(onset, 0.0), size)

    def worth(self, at: int) -> float:
        """Minimum size of a change to be compared at tick `at`: 0 while fewer changes than budgeted are
        known, `LARGE` or less."""
        since = max(at - self._period, self._began)
        budgeted = max(ceil(self._candidates * (at - since) / self._period), 1)
        known = sorted((size for onset, size in self._sizes.items() if onset > since), reverse=True)
        return min(known[budgeted - 1], LARGE) if len(known) >= budgeted else 0.0

    def rescale(self, ratio: float) -> None:
        """Multiply all sizes by `ratio`, after the baseline was learned anew."""
        self._sizes = {at: size * ratio for at, size in self._sizes.items()}

    def drop_since(self, onset: int) -> None:
        """Remove changes with onset at tick `onset` or later: they belong to a change that was confirmed."""
        self._sizes = {at: size for at, size in self._sizes.items() if at < onset}

    def forget(self, now: int, open_since: int) -> None:
        """Remove changes that no longer affect a decision at tick `now`: too old, or followed by the budgeted
        number of later changes that are at least as large. Changes with onset at tick `open_since` or later
        do not count as later changes, as confirming the open change may still remove them."""
        kept, sizes = dict[int, float](), list[float]()
        for onset, size in sorted(self._sizes.items(), reverse=True):
            if onset > now - self._period and len(sizes) - bisect_left(sizes, size) < self._candidates:
                kept[onset] = size
                if onset < open_since:
                    insort(sizes, size)
        self._sizes = kept
