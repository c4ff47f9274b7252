"""Second stage of the watch: compare the time since an alarm with the time before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analyze.profile.history import LEAST_BLOCKS
from analyze.watch.decide import UNSURE, Decide, Decision, Range, joined, sure_enough
from analyze.watch.detect import HOUR, Detector
from analyze.watch.incidents import Book, quiet_ticks
from analyze.watch.settings import WatchSettings
from schemas.arrays import I8
from schemas.windows import NS_PER_DAY

WindowsOf = Callable[[int, int], Sequence[Range]]
"""Function (start, end), ns since the epoch -> sealed windows of the lake in that range."""


class Confirmation:
    """Comparison of the time since an alarm with quiet time before it."""

    def __init__(
        self,
        detector: Detector,
        book: Book,
        settings: WatchSettings,
        decide: Decide,
        windows_of: WindowsOf,
    ) -> None:
        """windows_of: lists sealed windows, for a history older than the detector's ring buffer of ticks."""
        self._detector = detector
        self._book = book
        self._settings = settings
        self.decide_by = decide
        self._windows_of = windows_of
        self.window_ns = detector.tick_ns
        """Length of the windows, ns."""

    def compared(self, onset: int, at: int) -> Decision:
        """Compare the ticks since the onset with quiet ticks before it: equally many, but at most half of the
        known ones and at least `reference_ticks`.

        Earlier ticks are the history. onset: first tick of the change; at: tick of the alarm.
        """
        settings, detector = self._settings, self._detector
        ticks = detector.ring.at[detector.needed(at)]
        before = ticks[(ticks < onset) & quiet_ticks(ticks, self._book.tracked)]
        if not len(before):
            return Decision(UNSURE, "cannot-tell")
        problem = ticks[(ticks >= onset) & (ticks <= at)]
        n = max(settings.reference_ticks, min(len(problem), len(before) // 2))
        reference, rest = before[-n:], before[:-n]
        history = self._same_hours(onset)
        if len(rest) >= settings.warm_ticks:
            history += self._windows_before(int(reference[0]), len(problem) * detector.tick_ns)
        found = self.decide_by(self._ranges(reference), self._ranges(problem), joined(history))
        # It was selected because it is unusual: so the level is corrected for the number of stretches of this
        # length in the budget's time, and grows with the length.
        part = (at + 1 - onset) * detector.tick_ns / settings.ns_a_false_alarm
        return sure_enough(found, settings.level_share * part)

    def _windows_before(self, tick: int, long_ns: int) -> list[Range]:
        """Quiet windows of the baseline's time before a tick, as history of a comparison.

        Thinned evenly if there are more than needed, in runs as long as the problem if enough runs remain as
        blocks.
        """
        tick_ns, most = self._detector.tick_ns, self._settings.history_windows
        every = self._windows_of((tick - self._detector.span) * tick_ns, tick * tick_ns)
        quiet = self._book.quiet(every)
        stride = 1 << max(-(-len(quiet) // most) - 1, 0).bit_length()
        longest = max(min(long_ns // self.window_ns, most // LEAST_BLOCKS), 1)
        run = 1 << longest.bit_length() - 1
        return [one for one in quiet if one[0] // self.window_ns // run % stride == 0]

    def _same_hours(self, onset: int) -> list[Range]:
        """Sealed windows without an incident around the same time of day on preceding days."""
        at, found = onset * self._detector.tick_ns, list[Range]()
        around = max(HOUR // 2, self.window_ns)
        for days in range(1, self._settings.season_days + 1):
            middle = at - days * NS_PER_DAY
            found += self._windows_of(middle - around, middle + around)
        return self._book.quiet(found)

    def _ranges(self, ticks: I8) -> list[Range]:
        tick_ns = self._detector.tick_ns
        return joined((int(at) * tick_ns, (int(at) + 1) * tick_ns) for at in ticks)
