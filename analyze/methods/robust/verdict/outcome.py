"""The outcome of a comparison, of five (ALGORITHMS L.6), and why.

Nothing passes for want of evidence: "unchanged" needs response times shown to be equivalent and no measure of
the whole period open, or that no change that matters (by the user's bounds) is possible. Else nothing found
is "cannot tell", with the largest change that is possible and the number of requests that lack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from analyze.methods.robust.verdict.load import ExternalCause
from analyze.methods.robust.verdict.period_tests import ALPHA, NEEDED_SHARE, Equivalence, PeriodTest
from analyze.methods.robust.verdict.sizes import (
    Bounds,
    LargestChange,
    missing_for_equivalence,
    missing_for_test,
)
from analyze.report.wording import change, duration, percent

Word = Literal["unchanged", "changed", "partly-explained", "not-explained", "cannot-tell"]

EXPLAINED: Final = 0.7
"""Share of the change from which it counts as explained."""
_NAMES: Final = {"mean": "mean response time", "tail": "share of slow requests", "errors": "error rate"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """See `VerdictSection` for the fields of the same names."""

    outcome: Word
    external: bool
    reasons: tuple[str, ...]
    missing_requests: int | None
    by_load: bool = False
    """What changed is what more, or fewer, requests make."""


@dataclass(frozen=True, slots=True)
class Explained:
    """What findings add to the mean together, and by how much it changed; µs."""

    found_us: float
    change_us: float
    """Not 0."""

    @property
    def share(self) -> float:
        """0 to 1."""
        return min(max(self.found_us / self.change_us, 0.0), 1.0)

    def text(self, said: str, one: bool) -> str:
        """`2 findings explain 92 % of the change of the mean (+40 of +43.5 ms).`

        They may explain more than there is, where something else went the other way.
        """
        amounts = f"({change(self.found_us)} of {change(self.change_us)})"
        verb = "explains" if one else "explain"
        if change(self.found_us) != change(self.change_us) and self.found_us / self.change_us > 1:
            other = "took time away" if self.change_us > 0 else "added time"
            return f"{said} {verb} more than the change of the mean {amounts}: the rest {other}."
        return f"{said} {verb} {percent(self.share)} of the change of the mean {amounts}."


def outcome(
    *,
    findings: int,
    explained: Explained | None,
    tests: Sequence[PeriodTest],
    mix_changed: bool,
    equivalent: Equivalence,
    external: ExternalCause | None = None,
    places_share: float = 0.0,
    largest: LargestChange | None = None,
    bounds: Bounds | None = None,
    by_load: str = "",
    torn: str = "",
    silent: str = "",
    n1: float | None = None,
) -> Outcome:
    """Decide.

    findings: how many there are. explained: what of the change of the mean they explain; None where the mean
    did not change by test. tests: of `period_tests`; none means that a period has no
    request. places_share: share of the time at places as fast as before. largest: what may have
    changed unseen, held against bounds. by_load: what the load explains, a sentence. torn: what is missing of
    a period's events, a sentence. silent: that nothing was recorded where requests were expected, a
    sentence: what happened meanwhile is a change that nothing explains. n1: effective problem requests; None:
    as the tests say.
    """
    changed = [test for test in tests if test.changed]
    told = _once([(test, _changed_text(test)) for test in changed])
    if mix_changed:
        told.append("Another mix of request types arrived.")
    if findings:
        return _with_findings(findings, explained, changed, told)
    if changed or mix_changed or by_load:
        return _without_findings(told, by_load, torn)
    if not tests:
        return Outcome("cannot-tell", False, ("A period has no request that tests may use.",), None)
    still = [test for test in tests if test.open]
    known = _unchanged(equivalent, still, places_share)
    from_outside = external is not None and external.external
    if known and silent:
        return Outcome("not-explained", False, _with_size((silent, f"Beside it: {known}"), largest), None)
    outside = (external.text,) if external is not None and from_outside else ()
    if known:
        return Outcome("unchanged", from_outside, _with_size((*outside, known), largest), None)
    if largest is not None and largest.within(bounds or Bounds()) and largest.usual:
        matters = bounds or Bounds()
        why = (
            f"Nothing was found, and no change that matters (times by {percent(matters.time)}, "
            f"{100 * matters.share:g} points of requests) is possible."
        )
        if silent:
            return Outcome("not-explained", False, _with_size((silent, f"Beside it: {why}"), largest), None)
        return Outcome("unchanged", from_outside, _with_size((*outside, why), largest), None)
    found = _cannot_tell(still, equivalent, tests[0].n1 if n1 is None else n1)
    reasons = tuple(filter(None, (silent, torn, *found.reasons)))
    return replace(found, reasons=_with_size(reasons, largest))


def _without_findings(told: Sequence[str], by_load: str, torn: str) -> Outcome:
    """Something changed by test, and no finding is left to say what."""
    if torn:
        why = "What is missing may be what changed."
        return Outcome("cannot-tell", False, (torn, *told, why), None)
    if by_load:
        return Outcome("not-explained", False, (by_load, *told), None, by_load=True)
    return Outcome("not-explained", False, (*told, "No finding accounts for it."), None)


def _unchanged(equivalent: Equivalence, still: Sequence[PeriodTest], places_share: float) -> str:
    """The positive evidence that nothing changed, a sentence; empty where there is none."""
    if equivalent.holds and not still:
        return (
            f"Mean response times of root types with {percent(equivalent.share)} of the time are the same to "
            f"within {percent(equivalent.band)}, and nothing was found."
        )
    # A mean is open where a few slow requests blur it; they are not more, and all places are as fast.
    if places_share >= NEEDED_SHARE and all(test.measure == "mean" for test in still):
        return (
            f"Places with {percent(places_share)} of the time are as fast as before to within "
            f"{percent(equivalent.band)}, no more requests are slow, and nothing was found."
        )
    return ""


def _with_size(reasons: Sequence[str], largest: LargestChange | None) -> tuple[str, ...]:
    told = "" if largest is None else largest.text()
    return (*reasons, told) if told else tuple(reasons)


def _with_findings(
    findings: int, explained: Explained | None, changed: Sequence[PeriodTest], told: Sequence[str]
) -> Outcome:
    said = "1 finding" if findings == 1 else f"{findings} findings"
    if explained is None:
        mean = next((test for test in changed if test.measure == "mean"), None)
        if mean is None:
            return Outcome("changed", False, (*told, f"{said}; the mean did not change by test."), None)
        explained = Explained(0.0, mean.after - mean.before)
    reasons = (*told, explained.text(said, findings == 1))
    word: Word = "changed" if explained.share >= EXPLAINED else "partly-explained"
    return Outcome(word, False, reasons, None)


def _cannot_tell(still: Sequence[PeriodTest], equivalent: Equivalence, n1: float) -> Outcome:
    said: list[tuple[PeriodTest, str]] = []
    missing: list[int | None] = []
    for test in still:
        more = missing_for_test(test, alpha=ALPHA)
        said.append((test, _open_text(test, more)))
        missing.append(more)
    reasons = _once(said)
    if not equivalent.holds:
        more = missing_for_equivalence(equivalent, n1)
        missing.append(more)
        reasons.append(
            f"Mean response times are shown to be the same (to within {percent(equivalent.band)}) for root "
            f"types with {percent(equivalent.share)} of the time only; {percent(NEEDED_SHARE)} are needed"
            f"{_more_text(more)}."
        )
    known = [more for more in missing if more is not None]
    return Outcome("cannot-tell", False, tuple(reasons), max(known) if known else None)


def _once(said: Sequence[tuple[PeriodTest, str]]) -> list[str]:
    """The sentences, one a measure: of several levels of the tail that of the lowest, the first."""
    first: dict[str, str] = {}
    for test, text in said:
        first.setdefault(test.measure, text)
    return list(first.values())


def _changed_text(test: PeriodTest) -> str:
    name = _NAMES[test.measure]
    return f"The {name} changed by test: {_value(test, test.before)} → {_value(test, test.after)}."


def _open_text(test: PeriodTest, more: int | None) -> str:
    return (
        f"The {_NAMES[test.measure]} is {_value(test, test.after)} after {_value(test, test.before)}: "
        f"too few requests to tell a change from chance{_more_text(more)}."
    )


def _more_text(more: int | None) -> str:
    if more is None:
        return ""
    noun = "request" if more == 1 else "requests"
    return f" (about {more:,} more problem {noun} would tell, with the reference grown in proportion)"


def _value(test: PeriodTest, value: float) -> str:
    return duration(value) if test.measure == "mean" else percent(value)
