"""Assert in every report that the verdict does not contradict the breakdown beside it (L.10, point 2).

A contradiction is a defect of ours: it is a warning, which tests turn into an error. A person still gets a
report, and no gate passes on it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

from analyze.methods.robust.verdict.outcome import INSIGNIFICANT, MORE_REQUESTS, NAMES
from schemas.report.accounts import Account, VerdictSection


class ContradictionWarning(UserWarning):
    """A report contradicts itself."""


def checked(section: VerdictSection, accounts: Sequence[Account]) -> VerdictSection:
    """Give the section; "not explained" where "unchanged" stands beside a significant row."""
    found = list(contradictions(section, accounts))
    for text in found:
        warnings.warn(text, ContradictionWarning, stacklevel=2)
    significant = _significant(accounts)
    if section.outcome != "unchanged" or not significant:
        return section
    return section.model_copy(update={"outcome": "not-explained", "reasons": (*found, *section.reasons)})


def contradictions(section: VerdictSection, accounts: Sequence[Account]) -> Iterator[str]:
    """Find what does not agree, a sentence each."""
    if section.outcome == "unchanged" and (names := _significant(accounts)):
        yield f"Unchanged is said beside a significant change of the {', '.join(names)}."
    for account in accounts:
        outside = (
            account.low is not None and account.high is not None and not account.low <= 0 <= account.high
        )
        name = NAMES[_measure(account)]
        if (
            outside
            and not account.changed
            and not any(name in reason and INSIGNIFICANT in reason for reason in section.reasons)
        ):
            yield f"The interval of the {name} excludes 0, and nothing says why it is not significant."
    told = [reason for reason in section.reasons if MORE_REQUESTS in reason]
    if len(told) > 1 or bool(told) != (section.missing_requests is not None):
        yield "How many requests are missing is not one number."


def _significant(accounts: Sequence[Account]) -> list[str]:
    return [NAMES[_measure(account)] for account in accounts if account.changed]


def _measure(account: Account) -> str:
    return "failing" if account.measure == "errors" else account.measure
