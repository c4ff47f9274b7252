"""Response times and failures of the compared samples, tick by tick, as a report draws them."""

from __future__ import annotations

from schemas.report.parts import Frozen


class Course(Frozen):
    """One sample over time, in ticks of equal length; lists are [ticks], None where no request began."""

    start_ns: int
    """Start of the first tick, ns since the epoch."""
    tick_ns: int
    """Length of a tick, ns."""
    requests: tuple[int, ...]
    """Requests that began in each tick, as recorded."""
    mean_us: tuple[float | None, ...]
    """[ticks] weighted mean response time, µs."""
    p95_us: tuple[float | None, ...]
    """95th percentile of the response times as recorded."""
    failed_share: tuple[float | None, ...]
    """Weighted share of requests whose root failed, 0 to 1."""

    @property
    def end_ns(self) -> int:
        """End of the last tick."""
        return self.start_ns + len(self.requests) * self.tick_ns


class Mark(Frozen):
    """Deployment within or between the samples."""

    at_ns: int
    text: str
    """Deployed component and version, or a person's own text."""


class TimeStrip(Frozen):
    """Course of each of two samples."""

    before: Course
    after: Course
    marks: tuple[Mark, ...] = ()
