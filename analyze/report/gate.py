"""Gate of a comparison for CI: weighs the results, and decides the exit code of `compare`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import pyarrow as pa

from analyze.report.section_view import Views
from analyze.report.wording import counted
from schemas.errors import ConfigError
from schemas.report.accounts import AccountedMeasure, VerdictSection
from schemas.report.findings import ERROR_KINDS, TIME_KINDS, ChangeKind, Finding
from schemas.report.report import Report
from schemas.windows import parse_duration_ns


@dataclass(frozen=True, slots=True)
class Weighed:
    """Result of a method as the gate sees it: its kind, its size, and whether it is an improvement."""

    kind: str
    """Kind of the result: `structural`, `response-time`, or one of the method's other kinds; a gate selects
    by it."""
    us: float | None
    """Change of the summed response time that the result causes, µs; None: not measured in time (errors)."""
    sure: bool = True
    """True for a confirmed change; False if a change of this kind may have been missed, or a change has no
    finding that explains it."""
    better: bool = False
    """True for a known improvement: the same work in less time, or fewer failures."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a comparison: report, tables, views, and the input of the gate."""

    report: Report
    tables: Mapping[str, pa.Table]
    """Complete tables beside the report, by name."""
    views: Views
    """View of every section of the report, by tag."""
    weighed: Sequence[Weighed]
    """All results of the first method, also results that the report leaves out."""


ANY: Final = "any"
NEVER: Final = "never"
WORSE: Final = "worse"
_ALL: Final = (ANY, "findings", "mutations")
"""Words of --fail-on that mean every result of the method."""

_PERCENT = re.compile(r"^(\d+(?:\.\d+)?)\s*%$")


class GateCode(IntEnum):
    """Exit codes of a completed comparison; 2 is reserved for errors."""

    PASSED = 0
    CHANGED = 1
    """A result fails the gate."""
    UNSURE = 3
    """No result fails the gate, but a change may have been missed or is not explained."""


@dataclass(frozen=True, slots=True)
class FailOn:
    """Criteria by which a result fails the gate."""

    kinds: frozenset[str] | None = None
    """Kinds of results that count; None: all kinds; empty: none."""
    worse: bool = False
    """True if improvements do not fail the gate."""

    def counts(self, found: Weighed) -> bool:
        """True if a result of this kind and direction can fail the gate, whatever its size."""
        return (self.kinds is None or found.kind in self.kinds) and not (self.worse and found.better)


def parse_fail_on(words: Sequence[str], known: Sequence[str]) -> FailOn:
    """Parse the words of --fail-on: `any` (also `findings`, `mutations`), `never`, `worse`, or kinds in
    `known`. Raises ConfigError."""
    if strange := [word for word in words if word not in (*_ALL, WORSE, NEVER, *known)]:
        raise ConfigError(
            f"--fail-on {strange[0]}: the method does not look for that.",
            remedy=f"Write one of: {', '.join((*_ALL, WORSE, *known, NEVER))}.",
        )
    if NEVER in words:
        if len({*words}) > 1:
            raise ConfigError("--fail-on never stands alone.")
        return FailOn(frozenset())
    kinds = frozenset(words) - {WORSE}
    return FailOn(None if not kinds or kinds.intersection(_ALL) else kinds, worse=WORSE in words)


@dataclass(frozen=True, slots=True)
class Floor:
    """Smallest |contribution| that counts: in µs, and as a share of the reference's summed response time."""

    us: float = 0.0
    share: float = 0.0


def parse_floor(text: str) -> Floor:
    """Parse a floor: `500ms` or `2s` of summed response time, `5%` of the reference's. Raises ConfigError."""
    percent = _PERCENT.match(text.strip())
    if percent is not None:
        return Floor(share=float(percent[1]) / 100)
    try:
        return Floor(us=parse_duration_ns(text) / 1000)
    except ConfigError:
        raise ConfigError(
            f"'{text}' is not a contribution.",
            remedy="Write summed response time (500ms, 2s) or a share (5%).",
        ) from None


class Gate(NamedTuple):
    """Decision of a gate: the exit code, and a sentence for people."""

    code: GateCode
    line: str
    """Sentence with the decision, and with the number of findings on which it is based."""


def _fail(n: int) -> str:
    return f"{counted(n, 'finding')} {'makes' if n == 1 else 'make'} it fail"


def gate(outcome: Outcome, on: FailOn, floor: Floor) -> Gate:
    """Decide whether a result that counts reaches the floor.

    floor: its share refers to the first sample's summed response time. All results are weighed, also results
    that the report does not list: they may be larger than listed ones of the other direction, or the only
    ones of a kind. Results that are not measured in time have no floor.
    """
    least = max(floor.us, floor.share * outcome.report.samples[0].total_us)

    def counts(found: Weighed) -> bool:
        return on.counts(found) and (found.us is None or abs(found.us) >= least)

    counting = [found for found in outcome.weighed if counts(found)]
    sure = sum(found.sure for found in counting)
    left = sum(found.sure for found in outcome.weighed) - sure
    if on.kinds is not None and not on.kinds:
        return Gate(GateCode.PASSED, "gate: off (--fail-on never), exit 0")
    others = (
        f"; {counted(left, 'other', 'others')} would not: for the better, too small, or of another kind"
        if left
        else ""
    )
    if sure:
        return Gate(GateCode.CHANGED, f"gate: FAIL, exit 1; {_fail(sure)}{others}")
    if counting:
        why = "what may have changed, or changed without a finding, could make it fail"
        return Gate(GateCode.UNSURE, f"gate: UNSURE, exit 3; {why}{others}")
    return Gate(GateCode.PASSED, f"gate: PASS, exit 0; no finding makes it fail{others}")


RESPONSE_TIME: Final = "response-time"
STRUCTURAL: Final = "structural"
ERRORS: Final = "errors"
WORKLOAD: Final = "workload"

FINDING_KINDS: Final = (RESPONSE_TIME, STRUCTURAL, ERRORS, WORKLOAD)
"""Kinds of results of a method that makes findings."""

_OPEN: Final[dict[AccountedMeasure, tuple[str, ...]]] = {
    "mean": (RESPONSE_TIME, STRUCTURAL, WORKLOAD),
    "tail": (RESPONSE_TIME, STRUCTURAL, WORKLOAD),
    "errors": (ERRORS,),
}
"""Measure of the whole period -> kinds of results that can explain its change."""


class ChangedMeasure(NamedTuple):
    """Measure of the whole period that changed significantly: mean in µs, tail or errors as shares."""

    measure: AccountedMeasure
    before: float
    after: float


def weigh(
    findings: Iterable[Finding],
    verdict: VerdictSection,
    changed: Iterable[ChangedMeasure],
    reference_requests: float,
    *,
    mix_changed: bool = False,
    silent: bool = False,
    hidden: Iterable[tuple[ChangeKind, float]] = (),
) -> list[Weighed]:
    """Make the results that a gate weighs: all findings, listed or not, and the changes without an
    explanation.

    A finding counts as its leading kind, and also as errors if it includes any. Times are scaled to the
    number of requests in the reference (weighted), so that a share of the reference's sum equals a share of
    its mean, however long the problem period is. silent: a part of the problem period has no data, so that no
    kind of change can be excluded. hidden: (kind, change of the mean in µs) of each change that is
    significant against the reference alone.
    """
    weighed = []
    for finding in findings:
        us = finding.contribution_us * reference_requests
        kinds = {_weighed_as(kind) for kind in _kinds(finding)}
        leading = _weighed_as(finding.kind)
        weighed.append(Weighed(leading, None if leading == ERRORS else us, better=finding.is_better))
        if leading != ERRORS and ERRORS in kinds:
            weighed.append(Weighed(ERRORS, None, better=ChangeKind.ERRORS not in _kinds(finding)))
    if verdict.outcome == "cannot-tell" or silent:
        weighed += [Weighed(kind, None, sure=False) for kind in FINDING_KINDS]
    for kind, us in hidden:
        word = _weighed_as(kind)
        weighed.append(Weighed(word, None if word == ERRORS else us * reference_requests, sure=False))
    # A finding of another kind or direction does not account for the change of a measure.
    known = {(w.kind, w.better if w.us is None else w.us < 0) for w in weighed if w.sure}
    open_ = [a for a in changed if known.isdisjoint((k, a.after < a.before) for k in _OPEN[a.measure])]
    if open_ or verdict.outcome == "not-explained" or (mix_changed and not known):
        weighed += _unexplained(open_, reference_requests)
    return weighed


def _weighed_as(kind: ChangeKind) -> str:
    if kind in ERROR_KINDS:
        return ERRORS
    return RESPONSE_TIME if kind in TIME_KINDS else STRUCTURAL


def _kinds(finding: Finding) -> set[ChangeKind]:
    return {finding.kind, *(evidence.kind for evidence in finding.evidence)}


def _unexplained(changed: Iterable[ChangedMeasure], requests: float) -> list[Weighed]:
    """Results for significant changes of the whole period without a finding; a changed mix counts only if no
    measure changed.

    A fall of the mean without a finding is not taken for an improvement, as the work may have changed; a fall
    of failures is.
    """
    open_ = [
        Weighed(
            kind,
            (a.after - a.before) * requests if a.measure == "mean" else None,
            sure=False,
            better=a.measure == "errors" and a.after < a.before,
        )
        for a in changed
        for kind in _OPEN[a.measure]
    ]
    return open_ or [Weighed(WORKLOAD, None, sure=False)]
