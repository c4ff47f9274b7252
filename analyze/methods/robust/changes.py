"""Change: the result of one test at a call site. Also sets of kinds of change that are treated alike."""

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
"""Smallest time in a ratio, µs: smaller times, also 0, are raised to it."""

ALIKE_KINDS = ERROR_KINDS | ORDER_KINDS
"""Kinds of change that a single cause can produce at several operations of one component."""
FAMILIES = (TIME_KINDS, PATH_KINDS, CALL_KINDS, ERROR_KINDS)


class Instance(NamedTuple):
    """Instances of a component to which a change is limited: one host, or all hosts of one version or
    zone."""

    attribute: str
    """Name of the attribute by which instances are compared: `host`, or a resource attribute, e.g. a
    version."""
    value: str
    """Value of `attribute` at the changed instances, e.g. the host's name."""
    of: int
    """Number of distinct values of `attribute` among the component's instances, the changed ones included."""
    hosts: tuple[int, ...]
    """Indices in `Population.hosts` of the changed instances."""
    siblings: float
    """Change on the component's other instances. Of times: log ratio. Of failures: share of requests that
    fail there in the problem, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Change:
    """Significant (or nearly significant) change of one measure at one call site."""

    kind: ChangeKind
    site: int
    """Index of the call site in `Names.sites`."""
    p: float
    z: float
    """Change divided by its standard error, noise between windows included; positive for an increase."""
    unit: Unit
    before: float
    """Value in the reference (or the baseline, see `of_history`), in `unit`."""
    after: float
    """Value in the problem, in `unit`."""
    low: float
    """Lower end of the 95 % confidence interval of after - before, in `unit`."""
    high: float
    """Upper end of the 95 % confidence interval of after - before, in `unit`."""
    n0: int
    """Number of requests before at the site."""
    n1: int
    """Number of requests after at the site."""
    contribution_ns: float
    """Part of the change of the mean response time that is due to this change, ns per request."""
    weight: float = 0.0
    """Share of requests that a change of paths, calls or errors affects, in [0, 1]; ranks changes that cost
    little time."""
    pattern: int = NO_PATTERN
    """Index of the changed call pattern in `Names.patterns`; NO_PATTERN for none."""
    call_ratio: float = 1.0
    """Calls of the site per request after, divided by those before; inf if there were none before."""
    threshold_us: float = 0.0
    """Own time from which a call counts as very slow, µs, for a change of the tail; 0 for other kinds."""
    q: float = 1.0
    """p corrected for multiple testing (false discovery rate)."""
    noise_p: float = 1.0
    """Two-sided p of a difference this large between two normal periods."""
    there_before: bool = False
    """True if the problem differs from the history, but not from the reference: the change began before the
    problem."""
    of_history: bool = False
    """True if `before` comes from the history, because the reference has too few requests at the site."""
    instance: Instance | None = None
    """Instance, version or zone to which the change is limited; None if it is not limited to one."""
    segment: Segment | None = None
    """Attribute segment (requests with one attribute value, or two) to which the change is limited; None if
    it is not limited to one."""
    of_calls: bool = False
    """True if `before` and `after` are shares of a request's calls at the site, averaged over requests; False
    if they are shares of requests."""

    @property
    def sites(self) -> tuple[int, ...]:
        """Indices of the call sites that show the change: `site`, or all sites of the attribute segment."""
        return (self.site,) if self.segment is None else self.segment.sites

    @property
    def middle(self) -> float:
        """Geometric mean of `before` and `after`."""
        return sqrt(max(self.before, _LEAST) * max(self.after, _LEAST))

    @property
    def log_ratio(self) -> float:
        """Natural logarithm of `after` / `before`; ±inf if one of them is 0, 0 if both are."""
        if self.before > 0 and self.after > 0:
            return log(self.after / self.before)
        return 0.0 if self.before == self.after else copysign(inf, self.after - self.before)

    @property
    def ups(self) -> bool:
        """True if the value rose, False if it fell or is unchanged."""
        return self.after > self.before
