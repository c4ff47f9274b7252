"""Picture of a comparison: the calls around its first findings, before and after in one graph, and the
response times beside them."""

from __future__ import annotations

from typing import Literal

from schemas.report.findings import ChangeKind, Unit
from schemas.report.parts import Frozen, Histogram


class FlowStep(Frozen):
    """Call site (of activity records: the step to a trace point) in the graph."""

    component: str
    operation: str
    above: int | None
    """Index in the picture of the preceding or calling step; None: the first of a request."""
    skipped: int = 0
    """Number of steps between `above` and this one that are not drawn."""
    hidden: int = 0
    """Number of steps after this one that are not drawn."""
    only: Literal["", "before", "after"] = ""
    """The only period with the step; empty: both."""
    change: ChangeKind | None = None
    """Significant change at the step; None without one."""
    finding: int | None = None
    """Rank of the finding that the change belongs to."""
    leads: bool = False
    """True if the change leads its finding."""
    where: str = ""
    """Instance or segment to which the change is limited; empty: all show it."""
    unit: Unit | None = None
    """Unit of `before` and `after`."""
    before: float | None = None
    """Changed value in the reference, as in the finding's evidence; None without a change."""
    after: float | None = None
    calls0: float | None
    """Mean number of times that the step follows a pass of `above`, in the reference; None for a first
    step."""
    calls1: float | None
    time0_us: float | None
    """Median own time per request in the reference; None without a value."""
    time1_us: float | None


class FlowPicture(Frozen):
    """Graph of the first findings and the response times of the root types that they occur in."""

    roots: tuple[str, ...]
    """Root types of the findings, those with most requests first."""
    roots_total: int
    nested: bool
    """True: steps are calls, each inside the call `above`; False: each step follows the step `above`."""
    steps: tuple[FlowStep, ...]
    """Steps, each after its `above`; of several with the same `above`, the one on the path to the first
    finding comes last."""
    responses: Histogram
    """Response times of all root types in which the first finding occurs."""
