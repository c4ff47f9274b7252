"""Second stage of the watch: a comparison (`flowdiff compare`, in process) decides whether a candidate is an
incident.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from analyze.calibrate import calibration_sentence
from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.registry import method_of
from analyze.profile.history import cut_history, read_samples
from analyze.refine.settings import RefineSettings
from analyze.report.gate import FailOn, Floor, Outcome, gate
from analyze.scope import Lakes
from schemas.errors import PeriodError
from schemas.periods import Period, parse_filter
from schemas.ranges import united
from schemas.report.findings import Finding, FindingsSection

Range = tuple[int, int]
"""Time range [start, end), ns since the epoch."""
UNCHANGED, CHANGED, UNSURE = 0, 1, 3
NOT_SURE = "not-sure-yet"
"""Outcome: a change was found, but it is not significant at the stricter level that applies to changes
selected by an alarm."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Result of a comparison, reduced to what the watch uses."""

    code: int
    """Exit code of `flowdiff compare`: 0 nothing changed, 1 changed, 3 cannot tell."""
    outcome: str
    """Outcome of the verdict in one word: `changed`, `unchanged`, `cannot-tell`, …"""
    findings: tuple[Finding, ...] = ()
    report: Outcome | None = None
    mean_us: float = 0.0
    """Mean response time of the reference, µs."""
    q: float = 1.0
    """False discovery rate that the comparison controls."""


class Decide(Protocol):
    """Function that compares ranges of a lake with each other."""

    def __call__(
        self,
        reference: Sequence[Range],
        problem: Sequence[Range],
        history: Sequence[Range],
        *,
        where: tuple[str | None, str | None] = (None, None),
        calendar_ns: int = 0,
    ) -> Decision:
        """Compare `problem` with `reference`. where: filters for (reference, problem); calendar_ns: as in
        `cut_history`.
        """
        ...


@dataclass(slots=True)
class Comparer:
    """Runs `flowdiff compare` with its default method on ranges of one lake."""

    lake: str
    refine: RefineSettings
    chosen: Chosen[Any]

    @classmethod
    def of(cls, lake: str, refine: RefineSettings) -> Comparer:
        """Comparer with the default method and settings of `flowdiff compare`."""
        method = method_of("robust")
        return cls(lake, refine, Chosen(method, method.settings()))

    def __call__(
        self,
        reference: Sequence[Range],
        problem: Sequence[Range],
        history: Sequence[Range],
        *,
        where: tuple[str | None, str | None] = (None, None),
        calendar_ns: int = 0,
    ) -> Decision:
        """Compare `problem` with `reference`, as `Decide`. A period without requests gives outcome
        `cannot-tell`.
        """
        lakes = Lakes(self.lake)
        try:
            samples = [
                ("reference", lakes.ranges(_periods(reference, where[0]))),
                ("problem", lakes.ranges(_periods(problem, where[1]))),
            ]
            compared, periods = [parts for _, parts in samples], _periods(history, None)
            usual = cut_history(periods, compared, lakes, calendar_ns=calendar_ns).samples if history else ()
        except PeriodError:
            if not history:
                return Decision(UNSURE, "cannot-tell")
            return self(reference, problem, (), where=where)
        try:
            read = read_samples(samples, usual, self.refine)
            outcome = compare(
                read.compared,
                [self.chosen],
                history=read.history,
                refined=self.refine,
                source=self.lake.rstrip("/").rpartition("/")[2],
                calibration=calibration_sentence(samples[1][1][0].store, self.chosen, self.refine),
            )
        except PeriodError:
            return Decision(UNSURE, "cannot-tell")
        return replace(decision_of(outcome), q=self.chosen.settings.q)


def decision_of(outcome: Outcome) -> Decision:
    """Reduce an outcome of `flowdiff compare` to a Decision, with the command's exit code."""
    sections = (s.findings for s in outcome.report.sections if isinstance(s, FindingsSection))
    first = outcome.report.samples[0]
    return Decision(
        int(gate(outcome, FailOn(), Floor()).code),
        str(outcome.report.verdict.outcome),
        next(sections, ()),
        outcome,
        first.total_us / max(first.requests, 1),
    )


def chance_of(finding: Finding) -> float:
    """Probability of a finding's strongest evidence by chance and normal drift, in [0, 1].

    For each evidence the larger of q and the p-value against the history's noise; of these values the
    smallest.
    """
    return min(max(one.q, one.noise_p or 0.0) for one in finding.evidence)


def sure_enough(decision: Decision, level: float) -> Decision:
    """Copy of a decision with only the findings significant at `level`; code UNSURE if no regression
    remains."""
    if decision.code != CHANGED or all(finding.is_better for finding in decision.findings):
        return decision
    kept = tuple(finding for finding in decision.findings if chance_of(finding) <= level)
    if any(not finding.is_better for finding in kept):
        return replace(decision, findings=kept)
    return replace(decision, code=UNSURE, outcome=NOT_SURE)


def _periods(ranges: Iterable[Range], where: str | None) -> list[Period]:
    condition = None if where is None else parse_filter(where)
    return [*united(Period(None, start, end, condition) for start, end in ranges)]


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Merge adjacent and overlapping ranges; the result is ascending."""
    return [(p.start_ns, p.end_ns) for p in _periods(ranges, None)]
