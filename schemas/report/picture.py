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
    """Place in the picture of the step that leads here; None: the first of a request."""
    skipped: int = 0
    """Steps between `above` and this one that are not drawn."""
    hidden: int = 0
    """Further steps from here that are not drawn."""
    only: Literal["", "before", "after"] = ""
    """Period that has it alone."""
    change: ChangeKind | None = None
    """Significant change here; None: there is none."""
    finding: int | None = None
    """Rank of the finding that the change belongs to."""
    leads: bool = False
    """True if the change leads its finding."""
    where: str = ""
    """Instance or segment that alone shows the change; empty: all do."""
    unit: Unit | None = None
    """Unit of `before` and `after`."""
    before: float | None = None
    """Value that changed, as in the evidence of the finding; None without a change."""
    after: float | None = None
    calls0: float | None
    """Mean number of times that it follows a pass of `above`; None for a first step."""
    calls1: float | None
    time0_us: float | None
    """Median own time a request; None without a value."""
    time1_us: float | None


class FlowPicture(Frozen):
    """Graph of the first findings and the response times of the root types that they occur in."""

    roots: tuple[str, ...]
    """Root types, those of most requests first."""
    roots_total: int
    nested: bool
    """True: steps are calls, each within the one above it; False: one comes after the other."""
    steps: tuple[FlowStep, ...]
    """Steps, each after the one that it follows; of several after one, that on the path to the first finding
    comes last."""
    responses: Histogram
    """Response times of all root types that the first finding occurs in."""
