"""Observations of a measure: the input of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analyze.methods.robust.changes import Instance
from analyze.stats.estimate import Estimate
from schemas.arrays import B1, F8, I8


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of one measure; arrays are [rows], a row is a site (with a pattern or instance)."""

    site: I8
    estimate: Estimate
    """Tested change of each row."""
    tested: B1
    """True for rows that are tested: both periods have enough requests, and the value can have changed."""
    floor: F8 | float
    """Smallest change that counts, in the unit of `estimate`."""
    matters: B1
    """True for rows for which the measure's further conditions hold, e.g. responses waited for the change, or
    several requests show it."""
    gain_ns: F8
    """Part of the change of the mean response time due to the row's change, ns per request of the period."""
    weight: F8
    """Share of requests that changed, in [0, 1], by which a change without much time is ranked."""
    call_ratio: F8
    """Ratio of calls of the site per request, after to before."""
    pattern: I8 | None = None
    """Index of the call pattern that each row is about; None for measures without patterns."""
    reference: Estimate | None = None
    """Estimate of the change from the reference alone; None without a history."""
    plain: Estimate | None = None
    """Estimate of the change from the reference alone by limits taken from the reference; None: use
    `reference`, or `estimate` without a history."""
    plain_matters: B1 | None = None
    """[rows] True for a change large enough to count, by the floors of the test against the reference alone;
    None: `matters` holds for that test as well."""
    threshold_us: F8 | None = None
    """Threshold of very slow calls, µs: calls that take this time or longer; None for other measures."""
    instance: Sequence[Instance] | None = None
    """Instance to which each row's change is limited; None for measures that do not distinguish instances."""
    of_calls: B1 | None = None
    """True for rows whose share is a share of the calls that a request makes at the site (some requests make
    several), False for a share of requests; None: all are shares of requests."""

    by_p_alone: bool = False
    """True if the estimate has no standard error, so that only p and `matters` decide."""

    @property
    def against_reference(self) -> Estimate:
        """Estimate of the change from reference to problem, without the history."""
        if self.plain is not None:
            return self.plain
        return self.estimate if self.reference is None else self.reference
