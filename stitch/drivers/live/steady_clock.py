"""The time of a live process: what the host's clock says, as far as it can be believed.

Event time follows the clock where a partition is silent, so a clock that is a day ahead for some seconds
would seal that day; one that goes back would make dead letters of good events, and hold every commit until
it has caught up. The counter that a host keeps beside its clock knows no dates, but does not jump. So it
measures what lasts, and where the two part, a moment lies between them until the clock is believed again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND

BELIEVED_NS: Final = 10 * NS_PER_MINUTE
"""A clock that jumped is believed once it went on from there for so long."""
JUMP_NS: Final = NS_PER_SECOND
"""Where clock and counter part by less it is drift, and the clock is believed."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Time of now, ns since the epoch, as an interval."""

    now_ns: int
    """By the counter, from what the clock said first: says how long something takes. Never goes back."""
    earliest_ns: int
    """It is not before this: what is over by now is over for certain."""
    latest_ns: int
    """It is not after this: what is later than now cannot be."""

    @classmethod
    def exactly(cls, now_ns: int) -> Moment:
        """A moment of which there is no doubt."""
        return cls(now_ns, now_ns, now_ns)


Clock = Callable[[], Moment]


def counted_ns() -> int:
    """Since some moment; never jumps. It goes on while the host sleeps, where the system can tell."""
    boot_clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boot_clock is None else time.clock_gettime_ns(boot_clock)


class SteadyClock:
    """A `Clock` of what the host says: `wall`, which may jump, and `counter`, which may not; both in ns.

    Any thread may ask. O(1).
    """

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, counter: Callable[[], int] = counted_ns
    ) -> None:
        self._wall = wall
        self._counter = counter
        self._lock = threading.Lock()
        self._first_ns = wall() - counter()
        """Makes a date of the counter; stays."""
        self._apart_ns = self._first_ns
        """Lead of the clock over the counter, ns, when it was believed last."""
        self._jumped_ns: int | None = None
        """Lead of the clock after a jump, ns; None: it did not jump."""
        self._since_ns = 0
        """By the counter, when that was."""

    def __call__(self) -> Moment:
        """The time now."""
        wall_ns, counted_ns, steady_ns = self._read()
        return Moment(self._first_ns + counted_ns, min(wall_ns, steady_ns), max(wall_ns, steady_ns))

    def steady_ns(self) -> int:
        """Give the time by the clock while it is believed, else by the counter since it was."""
        return self._read()[2]

    def _read(self) -> tuple[int, int, int]:
        with self._lock:
            wall_ns, counted_ns = self._wall(), self._counter()
            if self._is_believed(wall_ns - counted_ns, counted_ns):
                self._apart_ns, self._jumped_ns = wall_ns - counted_ns, None
            return wall_ns, counted_ns, self._apart_ns + counted_ns

    def _is_believed(self, apart_ns: int, counted_ns: int) -> bool:
        """Tell whether the clock counts, and keep where it jumped to."""
        if abs(apart_ns - self._apart_ns) < JUMP_NS:
            return True
        if self._jumped_ns is None or abs(apart_ns - self._jumped_ns) >= JUMP_NS:
            self._jumped_ns, self._since_ns = apart_ns, counted_ns
        return counted_ns - self._since_ns >= BELIEVED_NS
