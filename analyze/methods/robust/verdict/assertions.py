"""Check that the verdict, breakdown, findings and titles of a report do not contradict each other.

A contradiction is a bug. It raises a warning, which the test suite turns into an error; users still get the
report, but no gate passes on it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from analyze.methods.robust.verdict.reasons import NAMES, said
from schemas.report.accounts import Account, ReasonKind, VerdictSection
from schemas.report.findings import Finding

_SAME: Final = 1e-6
"""Tolerance for comparing sums, relative to the sum of absolute changes; allows for rounding errors."""


class ContradictionWarning(UserWarning):
    """Warning that a report contradicts itself."""


def checked(
    section: VerdictSection, accounts: Sequence[Account], findings: Sequence[Finding] = ()
) -> VerdictSection:
    """Check the verdict against the breakdown and the findings, and warn of each contradiction.

    Returns `section`, with outcome "not-explained" if its outcome is "unchanged" although a measure in
    `accounts` changed significantly.
    """
    found = list(contradictions(section, accounts))
    warn((*found, *unsupported(findings)))
    significant = _significant(accounts)
    if section.outcome != "unchanged" or not significant:
        return section
    reasons = (*(one for text in found for one in said(ReasonKind.CONTRADICTION, text)), *section.reasons)
    return section.model_copy(update={"outcome": "not-explained", "reasons": reasons})


def contradictions(section: VerdictSection, accounts: Sequence[Account]) -> Iterator[str]:
    """Yield a sentence for each contradiction between the verdict and the breakdown."""
    if section.outcome == "unchanged" and (names := _significant(accounts)):
        yield f"Unchanged is said beside a significant change of the {', '.join(names)}."
    for account in accounts:
        outside = (
            account.low is not None and account.high is not None and not account.low <= 0 <= account.high
        )
        measure = _measure(account)
        told = {reason.measure for reason in section.reasons if reason.kind is ReasonKind.INSIGNIFICANT}
        if outside and not account.changed and measure not in told:
            name = NAMES[measure]
            yield f"The interval of the {name} excludes 0, and nothing says why it is not significant."
    wanted = {reason.requests for reason in section.reasons} - {None}
    if wanted != {section.missing_requests} - {None}:
        yield "How many requests are missing is not one number."


def unsupported(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a sentence for each finding whose title no test confirms: its confidence interval contains 0, or
    has the opposite sign."""
    for finding in findings:
        low, high = finding.change.low, finding.change.high
        if not (low > 0 if finding.after > finding.before else high < 0):
            yield f"No test supports the title '{finding.title}': its interval is {low:.6g} to {high:.6g}."


def one_sum(mean: Account, findings: Sequence[Finding], left_us: float) -> Iterator[str]:
    """Yield a sentence if findings and breakdown do not add up to the change of the mean response time, and
    one if a row of the breakdown refers to a finding that does not exist.

    left_us: part of the change that no finding accounts for, changed mix of root types included, µs.
    """
    change, gross = mean.after - mean.before, mean.gross_up - mean.gross_down
    listed = sum(finding.contribution_us for finding in findings)
    if abs(listed + left_us - change) > _SAME * max(gross, abs(change)):
        yield f"Findings ({listed:.6g} µs) and what is left ({left_us:.6g} µs) are not the {change:.6g} µs."
    if any(row.finding is not None and not 1 <= row.finding <= len(findings) for row in mean.rows):
        yield "A row of the breakdown names a finding that is not there."


def warn(texts: Iterable[str]) -> None:
    """Issue each text as a `ContradictionWarning`."""
    for text in texts:
        warnings.warn(text, ContradictionWarning, stacklevel=2)


def _significant(accounts: Sequence[Account]) -> list[str]:
    return [NAMES[_measure(account)] for account in accounts if account.changed]


def _measure(account: Account) -> str:
    return "failing" if account.measure == "errors" else account.measure
