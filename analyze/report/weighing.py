"""What findings and an unexplained change weigh at a gate: kinds and amounts for `analyze.report.gate`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from analyze.report.outcome import Weighed
from schemas.report.accounts import Measure, VerdictSection
from schemas.report.findings import ChangeKind, Finding

RESPONSE_TIME: Final = "response-time"
STRUCTURAL: Final = "structural"
ERRORS: Final = "errors"
WORKLOAD: Final = "workload"

FINDING_KINDS: Final = (RESPONSE_TIME, STRUCTURAL, ERRORS, WORKLOAD)
"""Kinds of what a method with findings weighs."""

_KIND: Final = {
    ChangeKind.SLOWER: RESPONSE_TIME,
    ChangeKind.FASTER: RESPONSE_TIME,
    ChangeKind.TAIL: RESPONSE_TIME,
    ChangeKind.MORE_CALLS: STRUCTURAL,
    ChangeKind.FEWER_CALLS: STRUCTURAL,
    ChangeKind.PATH: STRUCTURAL,
    ChangeKind.NEW_PATH: STRUCTURAL,
    ChangeKind.LOST_PATH: STRUCTURAL,
    ChangeKind.SERIAL: STRUCTURAL,
    ChangeKind.PARALLEL: STRUCTURAL,
    ChangeKind.ERRORS: ERRORS,
    ChangeKind.FEWER_ERRORS: ERRORS,
    ChangeKind.WORKLOAD: WORKLOAD,
}

_OPEN: Final[dict[Measure, tuple[str, ...]]] = {
    "mean": (RESPONSE_TIME, STRUCTURAL, WORKLOAD),
    "tail": (RESPONSE_TIME, STRUCTURAL, WORKLOAD),
    "errors": (ERRORS,),
}
"""What a change of a measure may have come from."""


class ChangedMeasure(Protocol):
    """A measure of the whole period that changed by test; of the mean in µs."""

    @property
    def measure(self) -> Measure:
        """Which one it is."""
        ...

    @property
    def before(self) -> float:
        """Its value in the reference."""
        ...

    @property
    def after(self) -> float:
        """Its value in the problem period."""
        ...


def weigh(
    findings: Iterable[Finding],
    verdict: VerdictSection,
    changed: Iterable[ChangedMeasure],
    reference_requests: float,
    *,
    mix_changed: bool = False,
    silent: bool = False,
) -> list[Weighed]:
    """All findings, uncut, and what the verdict leaves open.

    A finding counts as the kind that leads it, and as errors where it comes with any. Times are summed over
    as many requests as the reference has (weighted), so that a share of the reference's sum is one of its
    mean, however long the problem period is. silent: nothing was recorded in a stretch of it, so nothing can
    be said of any kind.
    """
    weighed = []
    for finding in findings:
        us = finding.contribution_us * reference_requests
        kinds = {_KIND[kind] for kind in _kinds(finding)}
        leading = _KIND[finding.kind]
        weighed.append(Weighed(leading, _timed(leading, us), better=finding.is_better))
        if leading != ERRORS and ERRORS in kinds:
            weighed.append(Weighed(ERRORS, None, better=ChangeKind.ERRORS not in _kinds(finding)))
    if verdict.outcome == "cannot-tell" or silent:
        weighed += [Weighed(kind, None, sure=False) for kind in FINDING_KINDS]
    # A finding without effect, of another kind or direction, accounts for no change of a measure.
    known = {(found.kind, found.better) for found in weighed if found.sure}
    open_ = [a for a in changed if known.isdisjoint((k, a.after < a.before) for k in _OPEN[a.measure])]
    if open_ or verdict.outcome == "not-explained" or (mix_changed and not known):
        weighed += _unexplained(open_, reference_requests)
    return weighed


def _kinds(finding: Finding) -> set[ChangeKind]:
    return {finding.kind, *(evidence.kind for evidence in finding.evidence)}


def _timed(kind: str, us: float) -> float | None:
    """Errors and another mix are no matter of time."""
    return us if kind in (RESPONSE_TIME, STRUCTURAL) else None


def _unexplained(changed: Iterable[ChangedMeasure], requests: float) -> list[Weighed]:
    """Changes by test that no finding accounts for; of the mix alone where no measure changed."""
    open_ = [
        Weighed(
            kind,
            (a.after - a.before) * requests if a.measure == "mean" else None,
            sure=False,
            better=a.after < a.before,
        )
        for a in changed
        for kind in _OPEN[a.measure]
    ]
    return open_ or [Weighed(WORKLOAD, None, sure=False)]
