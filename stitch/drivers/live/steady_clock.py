"""Time of a live process: the host's clock, checked against its monotonic counter.

Watermarks follow the clock while a partition is silent. So a clock that is a day ahead for some seconds would
cause that day's windows to be built; a clock that goes back would turn valid events into dead letters, and
block every commit until it has caught up. The host's monotonic counter has no date, but does not jump, so it
measures durations. While clock and counter disagree, the current time is an interval between the two, until
the clock is trusted again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND

BELIEVED_NS: Final = 10 * NS_PER_MINUTE
"""Time, ns, for which the clock must run steadily after a jump until it is trusted again."""
JUMP_NS: Final = NS_PER_SECOND
"""Minimum change of the difference between clock and counter, ns, that counts as a jump of the clock; a
smaller one is drift."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The current time as an interval, ns since the epoch."""

    now_ns: int
    """Time for measuring durations, ns: the counter plus its offset to the clock when the process started.
    Never goes back."""
    earliest_ns: int
    """Lower bound of the current time, ns: use it to decide that an interval has ended."""
    latest_ns: int
    """Upper bound of the current time, ns: use it to decide that an event's time lies in the future, so that
    its clock is wrong."""

    @classmethod
    def exactly(cls, now_ns: int) -> Moment:
        """Moment that is known exactly: both bounds are `now_ns`."""
        return cls(now_ns, now_ns, now_ns)


Clock = Callable[[], Moment]


def counted_ns() -> int:
    """Read the monotonic counter, ns since an arbitrary origin. It includes the time for which the host
    sleeps, where the system supports that."""
    boot_clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boot_clock is None else time.clock_gettime_ns(boot_clock)


class SteadyClock:
    """`Clock` that combines the host's clock `wall`, which may jump, with the counter `counter`, which does
    not; both are functions that return ns.

    Thread-safe. O(1).
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, counter: Callable[[], int] = counted_ns
    ) -> None:
        self._wall = wall
        self._counter = counter
        self._lock = threading.Lock()
        self._first_ns = wall() - counter()
        """Clock minus counter at the start, ns: added to the counter it gives ns since the epoch.
        Constant."""
        self._apart_ns = self._first_ns
        """Clock minus counter, ns, when the clock was last trusted."""
        self._jumped_ns: int | None = None
        """Clock minus counter, ns, right after the clock jumped; None: the clock is trusted."""
        self._since_ns = 0
        """Reading of the counter when the clock jumped, ns."""

    def __call__(self) -> Moment:
        """Current time; an interval of positive length while the clock is not trusted."""
        wall_ns, counted_ns, steady_ns = self._read()
        return Moment(self._first_ns + counted_ns, min(wall_ns, steady_ns), max(wall_ns, steady_ns))

    def steady_ns(self) -> int:
        """Current time, ns: the clock while it is trusted, else the counter plus the last trusted
        difference."""
        return self._read()[2]

    def _read(self) -> tuple[int, int, int]:
        with self._lock:
            wall_ns, counted_ns = self._wall(), self._counter()
            if self._is_believed(wall_ns - counted_ns, counted_ns):
                self._apart_ns, self._jumped_ns = wall_ns - counted_ns, None
            return wall_ns, counted_ns, self._apart_ns + counted_ns

    def _is_believed(self, apart_ns: int, counted_ns: int) -> bool:
        """True if the clock is trusted. apart_ns: clock minus counter; counted_ns: counter. Records a
        jump."""
        if abs(apart_ns - self._apart_ns) < JUMP_NS:
            return True
        if self._jumped_ns is None or abs(apart_ns - self._jumped_ns) >= JUMP_NS:
            self._jumped_ns, self._since_ns = apart_ns, counted_ns
        return counted_ns - self._since_ns >= BELIEVED_NS
