"""Change: the result of one test at a call site; and the kinds of change that are treated alike."""

from __future__ import annotations

from dataclasses import dataclass
from math import copysign, inf, log, sqrt
from typing import Final, NamedTuple

from analyze.methods.robust.segments.segment import Segment
from schemas.report.findings import (
    CALL_KINDS,
    ERROR_KINDS,
    ORDER_KINDS,
    PATH_KINDS,
    TIME_KINDS,
    ChangeKind,
    Unit,
)

NO_PATTERN = -1
_LEAST: Final = 1e-3
"""Lower bound of a time in ratios, µs: smaller ones, 0 included, are raised to it."""

ALIKE_KINDS = ERROR_KINDS | ORDER_KINDS
"""Kinds of change that one cause brings about at all operations of a component."""
FAMILIES = (TIME_KINDS, PATH_KINDS, CALL_KINDS, ERROR_KINDS)


class Instance(NamedTuple):
    """Instances of a component to which a change is limited: one host, or all hosts of a version or zone.

    value: of the attribute.
    """

    attribute: str
    """Name of the attribute that distinguishes the instances: `host`, or a resource attribute."""
    value: str
    of: int
    """Number of distinct values of `attribute` among the component's instances."""
    hosts: tuple[int, ...]
    """Indices of the hosts in `Population.hosts`."""
    siblings: float
    """Change at the component's other instances: logarithm of a ratio, or difference of shares."""


@dataclass(frozen=True, slots=True)
class Change:
    """Change tested at a call site.

    site: index in `Names.sites`; before, after, low, high: in `unit`; n0, n1: number of requests before and
    after; q: p adjusted for the false discovery rate.
    """

    kind: ChangeKind
    site: int
    p: float
    z: float
    """Change over its standard error, noise included; positive if it is more, longer or more often."""
    unit: Unit
    before: float
    after: float
    low: float
    high: float
    """low, high: ends of the 95 % confidence interval of after - before."""
    n0: int
    n1: int
    contribution_ns: float
    """Part of the change of the mean response time due to this change, ns per request of the period."""
    weight: float = 0.0
    """Share of requests that a change of structure affects, in [0, 1]: a change that costs little time ranks
    by it."""
    pattern: int = NO_PATTERN
    """Index of the changed call pattern in `Names.patterns`; NO_PATTERN for none."""
    call_ratio: float = 1.0
    """Ratio of calls of the site per request, after to before."""
    threshold_us: float = 0.0
    """Threshold of a change of the tail, µs: calls that take this time or longer are very slow."""
    q: float = 1.0
    noise_p: float = 1.0
    """Two-sided p of a change this large between normal periods."""
    there_before: bool = False
    """True if the problem differs from the history but not from the reference: the change began before the
    problem."""
    of_history: bool = False
    """True if `before` is the history's value because the reference has next to no requests at the site."""
    instance: Instance | None = None
    """Instances to which the change is limited; None: not limited to instances."""
    segment: Segment | None = None
    """Segment of requests to which the change is limited; None: not limited to a segment."""
    of_calls: bool = False
    """True if before and after are shares of a request's calls at the site, averaged over requests; False if
    shares of requests."""

    @property
    def sites(self) -> tuple[int, ...]:
        """Indices of the call sites that show the change: `site`, or all of the segment's."""
        return (self.site,) if self.segment is None else self.segment.sites

    @property
    def middle(self) -> float:
        """Geometric mean of before and after."""
        return sqrt(max(self.before, _LEAST) * max(self.after, _LEAST))

    @property
    def log_ratio(self) -> float:
        """Natural logarithm of after / before; ±inf if one of them is 0, 0 if both are."""
        if self.before > 0 and self.after > 0:
            return log(self.after / self.before)
        return 0.0 if self.before == self.after else copysign(inf, self.after - self.before)

    @property
    def ups(self) -> bool:
        """True if the value rose, False if it fell or is unchanged."""
        return self.after > self.before
