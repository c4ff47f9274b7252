"""How large a change must be to be worth a comparison: larger than what comparisons refute anyway.

Sums of ordinary times whose level jumps pass their threshold more often than the budget has candidates. Of
changes that were none by a comparison, or not worth one, the sizes are remembered. A change is compared if it
is among the largest of them, as many as the budget has candidates for the time they are of. That time grows
with the watch, up to the one for which a false incident is budgeted: a bar that waits for a whole budget of b
refuted ones lets b (1 + ln(n / b)) of the first n pass, as many as are among the b largest when they come.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from math import ceil
from typing import Final

from analyze.watch.settings import WatchSettings

LARGE: Final = 1.0
"""The unit of sizes, no choice: they are parts of what a step of `always_compared` deviations leaves."""


class Ordinary:
    """Sizes of ordinary changes, by the ticks of their onsets."""

    def __init__(
        self, sizes: Iterable[tuple[int, float]], settings: WatchSettings, tick_ns: int, began_ns: int
    ) -> None:
        """began_ns: where the watch began to decide."""
        self._sizes = dict(sizes)
        self._candidates = settings.candidates
        self._period = settings.ns_a_false_alarm / tick_ns
        self._began = began_ns / tick_ns

    @property
    def sizes(self) -> tuple[tuple[int, float], ...]:
        """Onsets and sizes."""
        return tuple(self._sizes.items())

    def add(self, onset: int, size: float) -> None:
        """Remember a change that a comparison refuted, or that was not worth one."""
        self._sizes[onset] = max(self._sizes.get(onset, 0.0), size)

    def worth(self, at: int) -> float:
        """Give the size from which a change is compared at a tick; 0 while fewer than budgeted are known, and
        never more than a large step."""
        since = max(at - self._period, self._began)
        budgeted = max(ceil(self._candidates * (at - since) / self._period), 1)
        known = sorted((size for onset, size in self._sizes.items() if onset > since), reverse=True)
        return min(known[budgeted - 1], LARGE) if len(known) >= budgeted else 0.0

    def rescale(self, ratio: float) -> None:
        """Go on where a large step is so many times smaller: deviations were learned anew."""
        self._sizes = {at: size * ratio for at, size in self._sizes.items()}

    def drop_since(self, onset: int) -> None:
        """Forget what began at a tick or later: it was of a change that a comparison confirmed."""
        self._sizes = {at: size for at, size in self._sizes.items() if at < onset}

    def forget(self, now: int, open_since: int) -> None:
        """Let go of changes that decide nothing any more at a tick: they are too long ago, or as many as are
        budgeted began later and are no smaller. Those from `open_since` on do not count for that: a
        comparison that confirms what goes on may take them away."""
        kept, sizes = dict[int, float](), list[float]()
        for onset, size in sorted(self._sizes.items(), reverse=True):
            if onset > now - self._period and len(sizes) - bisect_left(sizes, size) < self._candidates:
                kept[onset] = size
                if onset < open_since:
                    insort(sizes, size)
        self._sizes = kept
