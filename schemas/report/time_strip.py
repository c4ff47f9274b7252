"""Response times and failures of the compared samples, tick by tick, as a report draws them."""

from __future__ import annotations

from schemas.report.parts import Frozen


class Course(Frozen):
    """One sample over time, in ticks (intervals of equal length); lists have one value per tick, None without
    a request.
    """

    start_ns: int
    """Start of the first tick, ns since the epoch."""
    tick_ns: int
    """Length of a tick, ns."""
    requests: tuple[int, ...]
    """Requests that began in each tick, as recorded."""
    mean_us: tuple[float | None, ...]
    """[ticks] weighted mean response time, µs."""
    p95_us: tuple[float | None, ...]
    """[ticks] 95th percentile of the response times, unweighted, µs."""
    failed_share: tuple[float | None, ...]
    """[ticks] weighted share of requests whose root failed, 0 to 1."""

    @property
    def end_ns(self) -> int:
        """End of the last tick, ns since the epoch."""
        return self.start_ns + len(self.requests) * self.tick_ns


class Mark(Frozen):
    """Deployment within or between the samples."""

    at_ns: int
    text: str
    """Deployed component and version, or a person's own text."""


class TimeStrip(Frozen):
    """Courses of the two samples over time, and deployments."""

    before: Course
    after: Course
    marks: tuple[Mark, ...] = ()
