"""Where the time went, step by step, before and after."""

from __future__ import annotations

from schemas.report.parts import Frozen, NodeName


class StepRow(Frozen):
    """One step of the reference beside its counterpart of the problem, or a run of `steps` without names.

    A step's time is what the response waited for it, from the step before it on the critical path, as the
    mean over all requests (0 in those in which it was not on the path).
    """

    before: NodeName | None
    """None: only after, or a run."""
    after: NodeName | None
    """None: only before, or a run."""
    before_us: float
    after_us: float
    tested: bool = False
    """The test rejected for an edge into it; response-time mutations only."""
    steps: int = 1

    @property
    def part_us(self) -> float:
        """Its part of the change of the mean."""
        return self.after_us - self.before_us


class StepAccount(Frozen):
    """Where the time went, step by step, before and after; adds up to both means exactly (to rounding)."""

    category0: str
    category1: str
    """Structural: precursor and mutation; response time, or no precursor: the same."""
    requests0: int
    """Requests of `category0` in the reference."""
    requests1: int
    """Requests of `category1` in the problem."""
    mean0_us: float
    mean1_us: float
    """Sums of the rows: mean response times of these requests."""
    rows: tuple[StepRow, ...]
    """In the order of happening. Of large graphs the steps with the smallest parts are runs."""
