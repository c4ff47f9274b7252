"""Define a change: result of one test at a call site; and the kinds of change that are treated alike."""

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
"""µs: smaller values count as 0."""

ALIKE_KINDS = ERROR_KINDS | ORDER_KINDS
"""Kinds of change that one cause makes at all operations of a component."""
FAMILIES = (TIME_KINDS, PATH_KINDS, CALL_KINDS, ERROR_KINDS)


class Instance(NamedTuple):
    """Instances of a component that alone show a change: one host, or all hosts of a version or zone."""

    attribute: str
    """Name of the attribute: `host`, or a resource attribute."""
    value: str
    of: int
    """Number of distinct values of `attribute` among the component's instances."""
    hosts: tuple[int, ...]
    """Indices into the population's hosts."""
    siblings: float
    """Change at the component's other instances: the logarithm of a ratio, or a difference of shares."""


@dataclass(frozen=True, slots=True)
class Change:
    """A tested change at a call site; `site`, `pattern` are indices into the profile's names."""

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
    """Upper end of the 95 % interval of after - before; `low`: the lower end."""
    n0: int
    n1: int
    contribution_ns: float
    """Part of the change of the mean response time, ns a request of the period."""
    weight: float = 0.0
    """Structure: share of the requests that changed, by which a change without much time is ranked."""
    pattern: int = NO_PATTERN
    """Index of the call pattern in `Names.patterns`."""
    call_ratio: float = 1.0
    """Calls of the site a request, after over before."""
    threshold_us: float = 0.0
    """Tail: calls that take this or longer are very slow."""
    q: float = 1.0
    noise_p: float = 1.0
    """Two-sided p of a change this large between ordinary periods."""
    there_before: bool = False
    """True if the problem differs from the history but not from the reference."""
    of_history: bool = False
    """True if `before` is the history's: the reference has next to no request there."""
    instance: Instance | None = None
    """The instances that alone show the change; None: it shows wherever the site is."""
    segment: Segment | None = None
    """The segment whose requests alone show the change; None: any request does."""
    of_calls: bool = False
    """True for a share of the calls that a request makes at the site (a request counts once); False: of
    requests."""

    @property
    def sites(self) -> tuple[int, ...]:
        """Call sites that show the change: one, or several for a segment."""
        return (self.site,) if self.segment is None else self.segment.sites

    @property
    def middle(self) -> float:
        """Geometric middle of before and after."""
        return sqrt(max(self.before, _LEAST) * max(self.after, _LEAST))

    @property
    def log_ratio(self) -> float:
        """Logarithm of after over before; ±infinite if one of them is 0, 0 if both are."""
        if self.before > 0 and self.after > 0:
            return log(self.after / self.before)
        return 0.0 if self.before == self.after else copysign(inf, self.after - self.before)

    @property
    def ups(self) -> bool:
        """True if the value rose."""
        return self.after > self.before
