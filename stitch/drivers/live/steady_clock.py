"""Time of a live process: the host's clock, checked against its monotonic counter.

Watermarks follow the clock while a partition is silent. So a clock that is a day ahead for some seconds would
seal that day; one that goes back would make dead letters of good events, and block every commit until it has
caught up. The host's monotonic counter has no date, but does not jump. So it measures durations, and while
clock and counter disagree, the time is an interval between them, until the clock is trusted again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND

BELIEVED_NS: Final = 10 * NS_PER_MINUTE
"""Time, ns, that a clock must run steadily after a jump to be trusted again."""
JUMP_NS: Final = NS_PER_SECOND
"""Minimum difference from the counter, ns, that counts as a jump of the clock; less is drift."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The current time as an interval, ns since the epoch."""

    now_ns: int
    """Time by the counter, ns, for measuring durations: counter plus the clock's offset at the start. Never
    goes back.
    """
    earliest_ns: int
    """Lower bound of the current time, ns: an interval that ended before it has certainly ended."""
    latest_ns: int
    """Upper bound of the current time, ns: an event with a later time has a wrong clock."""

    @classmethod
    def exactly(cls, now_ns: int) -> Moment:
        """Moment with bounds equal to `now_ns`."""
        return cls(now_ns, now_ns, now_ns)


Clock = Callable[[], Moment]


def counted_ns() -> int:
    """Monotonic counter, ns since an arbitrary origin. Includes the host's sleep where the system supports
    it."""
    boot_clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boot_clock is None else time.clock_gettime_ns(boot_clock)


class SteadyClock:
    """`Clock` made of the host's clock `wall`, which may jump, and of `counter`, which may not; both return
    ns.

    Thread-safe. O(1).
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, counter: Callable[[], int] = counted_ns
    ) -> None:
        self._wall = wall
        self._counter = counter
        self._lock = threading.Lock()
        self._first_ns = wall() - counter()
        """Offset that converts the counter to ns since the epoch; constant."""
        self._apart_ns = self._first_ns
        """Clock minus counter, ns, when the clock was last trusted."""
        self._jumped_ns: int | None = None
        """Clock minus counter after a jump, ns; None: no jump."""
        self._since_ns = 0
        """Counter at the time of the jump, ns."""

    def __call__(self) -> Moment:
        """Current time, as an interval while the clock is not trusted."""
        wall_ns, counted_ns, steady_ns = self._read()
        return Moment(self._first_ns + counted_ns, min(wall_ns, steady_ns), max(wall_ns, steady_ns))

    def steady_ns(self) -> int:
        """Clock time while the clock is trusted; else the counter plus the last trusted offset."""
        return self._read()[2]

    def _read(self) -> tuple[int, int, int]:
        with self._lock:
            wall_ns, counted_ns = self._wall(), self._counter()
            if self._is_believed(wall_ns - counted_ns, counted_ns):
                self._apart_ns, self._jumped_ns = wall_ns - counted_ns, None
            return wall_ns, counted_ns, self._apart_ns + counted_ns

    def _is_believed(self, apart_ns: int, counted_ns: int) -> bool:
        """True if the clock is trusted, given clock minus counter; records a jump."""
        if abs(apart_ns - self._apart_ns) < JUMP_NS:
            return True
        if self._jumped_ns is None or abs(apart_ns - self._jumped_ns) >= JUMP_NS:
            self._jumped_ns, self._since_ns = apart_ns, counted_ns
        return counted_ns - self._since_ns >= BELIEVED_NS
