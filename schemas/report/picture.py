"""Picture of a comparison: the calls around its first findings, before and after in one graph, and the
response times beside them."""

from __future__ import annotations

from typing import Literal

from schemas.report.findings import ChangeKind, Unit
from schemas.report.parts import Frozen, Histogram


class FlowStep(Frozen):
    """Box in the graph: a call site, or for activity records the step to a trace point."""

    component: str
    operation: str
    above: int | None
    """Index in `FlowPicture.steps` of the step that calls or precedes this one; None: first step of a
    request."""
    skipped: int = 0
    """Number of undrawn steps between `above` and this step."""
    hidden: int = 0
    """Number of undrawn steps after this step."""
    only: Literal["", "before", "after"] = ""
    """`before` or `after` if the step occurs in that period only; empty: in both."""
    change: ChangeKind | None = None
    """Significant change at the step; None without one."""
    finding: int | None = None
    """Rank of the finding to which the change belongs; None without a change."""
    leads: bool = False
    """True if the change is the leading evidence of its finding."""
    where: str = ""
    """Instance or attribute segment to which the change is limited; empty if the change is not limited."""
    unit: Unit | None = None
    """Unit of `before` and `after`; None without a change."""
    before: float | None = None
    """Value before the change, in `unit`, as in the finding's evidence; None without a change."""
    after: float | None = None
    """Value after the change, in `unit`; None without a change."""
    calls0: float | None
    """Mean number of occurrences of the step per occurrence of `above`, in the reference; None for a first
    step.
    """
    calls1: float | None
    """Mean number of occurrences of the step per occurrence of `above`, in the problem; None for a first
    step."""
    time0_us: float | None
    """Median own time of the step per request in the reference, µs; None without a value."""
    time1_us: float | None
    """Median own time of the step per request in the problem, µs; None without a value."""


class FlowPicture(Frozen):
    """Graph of the calls around the first findings, and the response times of the root types in which they
    occur."""

    roots: tuple[str, ...]
    """Root types of the findings, by number of requests, descending."""
    roots_total: int
    nested: bool
    """True: steps are calls, each inside the call `above`; False: each step follows the step `above`."""
    steps: tuple[FlowStep, ...]
    """Steps in drawing order, each after its `above`; among siblings, the step that leads to the first
    finding is last."""
    responses: Histogram
    """Response times of all root types in which the first finding occurs."""
