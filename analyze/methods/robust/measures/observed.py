"""Define the observations of a measure, the input of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analyze.methods.robust.changes import Instance
from analyze.stats.estimate import Estimate
from schemas.arrays import B1, F8, I8


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of one measure; arrays are [rows]."""

    site: I8
    estimate: Estimate
    tested: B1
    """True if the row is tested: enough requests on both sides, and a change is possible."""
    floor: F8 | float
    """Smallest change that counts, in the estimate's unit."""
    matters: B1
    """True if the measure's further conditions hold, such as: requests felt the change, several requests show
    it."""
    gain_ns: F8
    """Part of the change of the mean response time, ns a request of the period."""
    weight: F8
    """Share of the requests that changed, by which a change without much time is ranked."""
    call_ratio: F8
    """Calls of the site a request, after over before."""
    pattern: I8 | None = None
    """Call pattern that the row is about."""
    reference: Estimate | None = None
    """Estimate against the reference alone; None without a history."""
    plain: Estimate | None = None
    """Estimate against the reference alone with the reference's own limits; None: `reference`, or without a
    history `estimate`."""
    plain_matters: B1 | None = None
    """`matters` for `plain`; None: the same."""
    threshold_us: F8 | None = None
    """Calls that take this or longer are very slow."""
    instance: Sequence[Instance] | None = None
    """The one instance that shows each change; None for measures without regard to instances."""
    of_calls: B1 | None = None
    """True for shares of the calls that a request makes at the site (some requests make several), False for
    shares of requests; None: all are of requests."""

    by_p_alone: bool = False
    """True if the estimate has no standard error, so that p and `matters` decide."""

    @property
    def against_reference(self) -> Estimate:
        """Change from reference to problem, the history left aside."""
        if self.plain is not None:
            return self.plain
        return self.estimate if self.reference is None else self.reference
