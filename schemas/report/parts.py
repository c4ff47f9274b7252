"""Parts that several sections of a report share.

Times are float microseconds unless a name says ns; 0 in a name is the reference, 1 the problem. Lists that
are cut say `shown of total` in a `*_total` field.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Base of the report's parts: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Moments(Frozen):
    """Response times of one category in one period."""

    count: int
    mean_us: float | None
    """Weighted mean; None for an empty category."""
    variance_us2: float | None
    """Weighted population variance; None below two requests."""
    c2: float | None
    """Squared coefficient of variation, variance / mean²; shown for count > 10 only (E tier 1)."""


class KsResult(Frozen):
    """Two-sample Kolmogorov-Smirnov test; None fields where it was not run (too few values)."""

    n0: int
    n1: int
    d: float | None
    p: float | None


class Histogram(Frozen):
    """Counts of both periods over the same log-spaced bins."""

    title: str
    edges_us: tuple[float, ...]
    """[bins + 1] ascending, > 0 but for the first, which may be 0."""
    counts0: tuple[int, ...]
    counts1: tuple[int, ...]
