"""Parts that several sections of a report share.

Times are float microseconds unless a name says ns; 0 in a name is the reference, 1 the problem. Lists that
are cut say `shown of total` in a `*_total` field.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Base of the report's parts: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class NodeName(Frozen):
    """What a node of a request-flow graph is called: fields, and the words made of them."""

    component: str
    point: str
    """Trace point or operation."""
    label: str | None = None
    """Semantic label."""
    host: str = ""
    """Host, where the label policy asks for it."""
    side: Literal["", "start", "end"] = ""
    """Which side of a span; empty for an activity record or span event."""

    @property
    def where(self) -> str:
        """`[host/]component`, for display."""
        return f"{self.host}/{self.component}" if self.host else self.component

    @property
    def what(self) -> str:
        """`point[/label]`, for display; may be empty."""
        return self.point if self.label is None else f"{self.point}/{self.label}"

    @property
    def happens(self) -> str:
        """What a side of a span does: `starts`, `ends`; empty for a point in time."""
        return f"{self.side}s" if self.side else ""

    @property
    def text(self) -> str:
        """All of it on one line, without the side: `[host/]component/point[/label]`."""
        return f"{self.where}/{self.what}" if self.what else self.where


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
