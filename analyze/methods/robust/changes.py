"""Define a change at a call site: one thing that was tested, what came out, and the families of its kinds."""

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
"""µs: what is less is none."""

ALIKE_KINDS = ERROR_KINDS | ORDER_KINDS
"""Kinds of change that one cause makes at all operations of a component."""
FAMILIES = (TIME_KINDS, PATH_KINDS, CALL_KINDS, ERROR_KINDS)


class Instance(NamedTuple):
    """Instances of a component at which alone a change is: one host, or all of a version, a zone."""

    attribute: str
    """`host`, or a resource attribute."""
    value: str
    of: int
    """Number of values that the component's instances have of it."""
    hosts: tuple[int, ...]
    """Indices into the population's hosts."""
    siblings: float
    """By how much those of other values changed: the logarithm of a ratio, a share."""


@dataclass(frozen=True, slots=True)
class Change:
    """One candidate of a family of tests; numbers are those of the profile's names."""

    kind: ChangeKind
    site: int
    p: float
    z: float
    """Effect over its standard error, noise included; positive: more, longer, more often."""
    unit: Unit
    before: float
    after: float
    low: float
    high: float
    """95 % interval of after - before."""
    n0: int
    n1: int
    contribution_ns: float
    """Part of the change of the mean response time, ns a request of the period."""
    weight: float = 0.0
    """Structure: share of the requests that changed, by which a change without much time is ranked."""
    pattern: int = NO_PATTERN
    """Number of the call pattern among `Names.patterns`."""
    call_ratio: float = 1.0
    """Calls of the site a request, after over before."""
    threshold_us: float = 0.0
    """Tail: calls that take this or longer are very slow."""
    q: float = 1.0
    noise_p: float = 1.0
    """Two-sided, of no change beyond what ordinary times do by themselves."""
    there_before: bool = False
    """It differs from the history, and not from the reference alone."""
    of_history: bool = False
    """The value before is the history's: the reference has next to no request there."""
    instance: Instance | None = None
    """It is there alone; None: wherever the site is."""
    segment: Segment | None = None
    """Requests whose it is alone; None: of any."""
    of_calls: bool = False
    """Shares: of the calls that a request makes at the site, each request counting once; else of requests."""

    @property
    def sites(self) -> tuple[int, ...]:
        """Call sites at which it is: one, but of a segment."""
        return (self.site,) if self.segment is None else self.segment.sites

    @property
    def middle(self) -> float:
        """Value of a request between those of before and after, on a log scale."""
        return sqrt(max(self.before, _LEAST) * max(self.after, _LEAST))

    @property
    def log_ratio(self) -> float:
        """Logarithm of after over before; infinite where one of them is none, 0 where both are."""
        if self.before > 0 and self.after > 0:
            return log(self.after / self.before)
        return 0.0 if self.before == self.after else copysign(inf, self.after - self.before)

    @property
    def ups(self) -> bool:
        """Tell whether it became more."""
        return self.after > self.before
