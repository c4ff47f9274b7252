"""Observations of a measure: an estimate for each call site and the conditions under which its change
counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analyze.methods.robust.changes import Instance
from analyze.stats.estimate import Estimate
from schemas.arrays import B1, F8, I8


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of one measure; arrays are [rows], a row is one site, or one call pattern or instance at a
    site."""

    site: I8
    estimate: Estimate
    """Tested change of each row."""
    tested: B1
    """True for rows to test: both periods have enough requests, and the value is one that can change."""
    floor: F8 | float
    """Smallest change that counts, in the unit of `estimate`."""
    matters: B1
    """True for rows that meet the measure's further conditions, e.g. that the change lies on the critical
    path, or that several requests show it."""
    gain_ns: F8
    """Part of the change of the mean response time that is due to the row's change, ns per request."""
    weight: F8
    """Share of requests that changed, in [0, 1]; ranks changes that cost little time."""
    call_ratio: F8
    """Calls of the site per request in the problem, divided by those in the baseline; inf if the baseline has
    none."""
    pattern: I8 | None = None
    """Index of the call pattern of each row; None for measures that do not distinguish patterns."""
    reference: Estimate | None = None
    """Estimate of the change from the reference to the problem; None without a history, where `estimate` is
    that change."""
    plain: Estimate | None = None
    """Estimate of the change from the reference to the problem with thresholds (for very slow calls) taken
    from the reference only; None: `reference` is used instead, or `estimate` without a history."""
    plain_matters: B1 | None = None
    """True for rows that meet the measure's further conditions in the test against the reference alone; None:
    `matters` is used for that test, too."""
    threshold_us: F8 | None = None
    """Time from which a call counts as very slow, µs; None for measures other than very slow calls."""
    instance: Sequence[Instance] | None = None
    """Instance, version or zone that each row is about; None for measures that do not distinguish
    instances."""
    of_calls: B1 | None = None
    """True for rows whose value is the share of a request's calls at the site, averaged over requests (where
    requests make several calls), False for a share of requests; None: all rows are shares of requests."""

    by_p_alone: bool = False
    """True if the estimate has no usable standard error, so that the test uses only p and `matters`."""

    @property
    def against_reference(self) -> Estimate:
        """Estimate of the change from the reference to the problem, without the history: `plain`, `reference`
        or `estimate`, the first that is not None."""
        if self.plain is not None:
            return self.plain
        return self.estimate if self.reference is None else self.reference
