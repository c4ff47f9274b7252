"""Say what happened in the title of a report: nothing that no test supports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from analyze.methods.robust.verdict.data_quality import THERE_BEFORE
from analyze.methods.robust.verdict.judgement import ChangedShare
from analyze.report import wording
from schemas.report.accounts import Account, VerdictSection
from schemas.report.findings import Finding

_SHARES: Final = {"tail": "Slow requests", "errors": "Requests with a failing call"}


def headline_of(
    verdict: VerdictSection, mean: Account, changed: Sequence[ChangedShare], findings: Sequence[Finding]
) -> str:
    """Name what changed significantly: more failures, then the mean, else the first finding; else what was
    measured. changed: the shares that did."""
    shares = [
        wording.moved_sentence(
            _SHARES[measure], wording.percent(before), wording.percent(after), up=after > before
        )
        for measure, before, after in changed
    ]
    if mean.changed:
        said = [wording.mean_sentence(mean.before, mean.after), *shares[-1:]]
        if any(measure == "errors" and after > before for measure, before, after in changed):
            said.reverse()
        return f"{'; '.join([said[0], *(one[:1].lower() + one[1:] for one in said[1:])])}."
    if findings:
        more = f"; and {wording.counted(len(findings) - 1, 'more finding')}" if len(findings) > 1 else ""
        times = wording.moved_duration(mean.before, mean.after)
        return f"{findings[0].title}{more}; the mean response time did not change significantly ({times})."
    if shares:
        return f"{shares[-1]}."
    if verdict.outcome == "not-explained" or not mean.before or not mean.after:
        return ""
    if any(THERE_BEFORE in reason for reason in verdict.reasons):
        times = wording.moved_duration(mean.before, mean.after)
        return (
            f"What is wrong was {THERE_BEFORE}: reference and problem differ from the history, and not "
            f"significantly from each other ({times} on average)."
        )
    nothing = (
        "Nothing changed significantly"
        if verdict.outcome == "unchanged"
        else "No significant change was found"
    )
    return f"{nothing}: mean response time {wording.moved_duration(mean.before, mean.after)}."
