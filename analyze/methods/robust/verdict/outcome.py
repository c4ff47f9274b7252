"""Decide the outcome of a comparison, one of five, and say why.

Nothing passes for want of evidence: "unchanged" needs that no measure of the whole period is significant and
that no change that matters (by the user's bounds) is possible. Else nothing found is "cannot tell", with the
largest change that is possible and the number of requests that lack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final, Literal

from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.verdict.sizes import LargestChange
from analyze.methods.robust.verdict.whole import PeriodMeasure
from analyze.report.wording import change, counted, duration, moves, p_value, percent

Word = Literal["unchanged", "changed", "partly-explained", "not-explained", "cannot-tell"]

NAMES: Final = {
    "mean": "mean response time",
    "tail": "share of slow requests",
    "errors": "share of requests that fail at the root",
    "failing": "share of requests with a failing call",
}


_OPEN: Final = ("unchanged", "cannot-tell")
_UNKNOWN: Final = "there are no earlier windows to compare with (--history)"

_ASK_AGAIN: Final = "Compare with a reference from before it: against this one nothing changed."

_TIMELESS: Final = "how times changed cannot be told"

INSIGNIFICANT: Final = "is not significant"
MORE_REQUESTS: Final = "would tell"
"""Words by which `assertions` finds the sentence on it."""


@dataclass(frozen=True, slots=True)
class VerdictReached:
    """See `VerdictSection` for the fields of the same names."""

    outcome: Word
    reasons: tuple[str, ...]
    external: bool = False
    missing_requests: int | None = None
    by_load: bool = False
    """What changed is what more, or fewer, requests make."""


@dataclass(frozen=True, slots=True)
class ExplainedShare:
    """What findings add to the mean together, and by how much it changed, with its interval; µs."""

    found_us: float
    change_us: float
    """Not 0."""
    interval: tuple[float, float]
    significant: bool = True

    @property
    def share(self) -> float:
        """0 to 1."""
        return min(max(self.found_us / self.change_us, 0.0), 1.0)

    def text(self, said: str, one: bool) -> str:
        """Say `2 findings explain 92 % of the change of the mean (+40 of +43.5 ms).`

        They may explain more than there is, where something else went the other way: that is said only beyond
        what the change itself may be. Of a change that is not significant nothing can be a part.
        """
        low, high = self.interval
        if not self.significant:
            insignificant = f"{said}; the mean response time did not change significantly"
            if not (moves(self.found_us) and isfinite(low) and isfinite(high)):
                return f"{insignificant}."
            whose = "the finding's" if one else "the findings'"
            return (
                f"{insignificant} ({change(low)} to {change(high)}): how large a part of it {whose} "
                f"{change(self.found_us)} are cannot be told."
            )
        amounts = f"({change(self.found_us)} of {change(self.change_us)})"
        verb = "explains" if one else "explain"
        if self.found_us / self.change_us < 0:
            goes = "goes" if one else "go"
            return f"{said} {goes} the other way than the mean {amounts}: what moved it is not explained."
        more = self.found_us / self.change_us > 1 and change(self.found_us) != change(self.change_us)
        if more:
            how_much = "all of" if low <= self.found_us <= high else "more than"
            rest = self.found_us - self.change_us
            other = f"saved {duration(rest)}" if rest > 0 else f"added {duration(-rest)}"
            return f"{said} {verb} {how_much} the change of the mean {amounts}; other changes {other}."
        return f"{said} {verb} {percent(self.share)} of the change of the mean {amounts}."


@dataclass(frozen=True, slots=True)
class VerdictBasis:
    """Everything that the outcome is decided by; what is a function is asked where the outcome, or what is
    said, depends on it."""

    measures: tuple[PeriodMeasure, ...]
    """None: a period has no request."""
    mix_changed: bool
    largest: Callable[[], LargestChange]
    missing: Callable[[], int | None]
    """Problem requests that lack where the outcome is "cannot tell"."""
    findings: int = 0
    has_noise: bool = False
    """A history, or a long reference, says how far ordinary periods differ."""
    timeless: bool = False
    """In a period no request took any time: nothing can be said of times."""
    explained: ExplainedShare | None = None
    """What findings explain of the change of the mean; None where the mean is the same."""
    external: Callable[[], str] = str
    """That clients sent less, and not because answers took longer, a sentence, or none; so are the others."""
    by_load: str = ""
    """What the load explains."""
    incomplete: str = ""
    """What is missing of a period's events."""
    there_before: str = ""
    """That reference and problem differ from the history, not from each other."""
    hidden: str = ""
    """What is significant against the reference alone, and no finding by what ordinary times do."""
    silent: str = ""
    """That nothing was recorded where requests were expected: what happened meanwhile is a change."""


def outcome(basis: VerdictBasis, settings: RobustSettings) -> VerdictReached:
    """Decide the outcome."""
    found = _decided(basis, settings)
    first, last = basis.there_before, ""
    if found.outcome not in ("unchanged", "cannot-tell"):  # what began comes first
        first, last = last, first
    helps = ""
    if found.outcome == "cannot-tell" and not basis.timeless:
        more = "" if basis.has_noise else ", and ordinary times as --history"
        helps = f"What helps: longer periods{more}."
    nothing = not (basis.findings or basis.hidden or any(t.changed or t.hidden for t in basis.measures))
    size = basis.largest().text() if nothing and (found.outcome in _OPEN or basis.silent) else ""
    hidden = "" if basis.hidden in found.reasons else basis.hidden
    reasons = (first, *found.reasons, *_insignificant(basis.measures, settings), hidden, size, helps, last)
    return replace(found, reasons=tuple(filter(None, reasons)))


def _decided(basis: VerdictBasis, settings: RobustSettings) -> VerdictReached:
    changed = _once(
        (
            test.name,
            f"The {NAMES[test.name]} changed significantly: {_value(test, test.before)} → "
            f"{_value(test, test.after)}.",
        )
        for test in basis.measures
        if test.changed
    )
    if basis.mix_changed:
        changed.append("Another mix of request types arrived.")
    if basis.findings:
        return _with_findings(basis, changed, settings)
    if basis.incomplete and (changed or basis.by_load):
        return VerdictReached(
            "cannot-tell", (basis.incomplete, *changed, "What is missing may be what changed.")
        )
    if basis.by_load:
        return VerdictReached("not-explained", (basis.by_load, *changed), by_load=True)
    if changed:
        return VerdictReached("not-explained", (*changed, "No finding accounts for it."))
    if not basis.measures:
        return VerdictReached("cannot-tell", ("A period has no request that tests may use.",))
    hidden = [*_once((test.name, _hidden(test)) for test in basis.measures if test.hidden), basis.hidden]
    if any(hidden):
        return VerdictReached("cannot-tell", (basis.silent, *hidden, basis.incomplete))
    if not basis.largest().within(settings):
        missing = basis.missing()
        reasons = (basis.silent, basis.incomplete, _open(basis, missing, settings))
        return VerdictReached("cannot-tell", reasons, missing_requests=missing)
    if basis.there_before:
        return VerdictReached("cannot-tell", (basis.silent, _ASK_AGAIN))
    why = (
        f"Nothing was found, and no change that matters ({_longer(settings.matters_time)}, "
        f"{100 * settings.matters_share:g} points of requests) is possible."
    )
    if basis.silent:
        return VerdictReached("not-explained", (basis.silent, f"Beside it: {why}"))
    external = basis.external()
    return VerdictReached("unchanged", (external, why), external=bool(external))


def _with_findings(basis: VerdictBasis, changed: Sequence[str], settings: RobustSettings) -> VerdictReached:
    said = counted(basis.findings, "finding")
    if basis.timeless:
        return VerdictReached("changed", (*changed, f"{said}; {_TIMELESS}."))
    explained = basis.explained
    if explained is None:
        return VerdictReached("changed", (*changed, f"{said}; the mean response time is the same."))
    partly = explained.significant and explained.share < settings.verdict.explained
    word: Word = "partly-explained" if partly else "changed"
    return VerdictReached(word, (*changed, explained.text(said, basis.findings == 1)))


def _once(said: Iterable[tuple[str, str]]) -> list[str]:
    """Keep the sentences, one a measure: of several levels of the tail that of the lowest, the first."""
    first: dict[str, str] = {}
    for name, text in said:
        first.setdefault(name, text)
    return list(first.values())


def _insignificant(measures: Sequence[PeriodMeasure], settings: RobustSettings) -> list[str]:
    """Say why a change whose interval excludes 0 is not significant."""
    said = []
    changed = {test.name for test in measures if test.changed}
    for test in measures:
        low, high = test.interval(settings.verdict.level)
        if test.name in changed or not (low > 0 or high < 0):  # of what cannot be tested it is no number
            continue
        chance, asked = (f"once in {round(1 / max(p, 1e-9)):,} times" for p in (test.p, test.alpha))
        why = f"chance alone does as much {chance}, and {asked} is asked for"
        if abs(float(test.estimate.change[0])) <= test.floor:
            points = percent(test.floor) if test.name == "mean" else f"{percent(test.floor)[:-1]}points"
            why = f"less than {points} does not count"
        elif test.p < test.alpha:
            why = _UNKNOWN if test.noise_assumed else "ordinary periods differ nearly as much"
        values = f"{_value(test, test.before)} → {_value(test, test.after)}"
        said.append((test.name, f"The change of the {NAMES[test.name]} {INSIGNIFICANT} ({values}): {why}."))
    return _once(said)


def _open(basis: VerdictBasis, missing: int | None, settings: RobustSettings) -> str:
    """Say what may have changed unseen, and how many requests would tell: one number."""
    if basis.timeless:
        return f"Nothing was found, and {_TIMELESS}."
    open_ = basis.largest().over(settings)
    more = "" if missing is None else f"; about {counted(missing, 'more problem request')} {MORE_REQUESTS}"
    if open_:
        first = f"{', '.join(open_[:-1])} or " if open_[1:] else ""
        may = f"{first}{open_[-1]} may have changed by as much as matters"
        few = "Too few requests to tell a change from chance"
        short = "Periods this short cannot decide it, with any number of requests"
        return f"{short if missing is None else few}: {may}{more}."
    if any(test.plain for test in basis.measures):
        unknown = any(test.noise_assumed for test in basis.measures)
        why = _UNKNOWN if unknown else "ordinary periods differ nearly as much"
        return f"The periods differ by more than chance inside of them makes, and {why}{more}."
    return (
        f"The periods differ by more than is assumed of ordinary ones, and by less than is significant{more}."
    )


def _hidden(test: PeriodMeasure) -> str:
    why = _UNKNOWN if test.noise_assumed else f"ordinary periods differ as much (p {p_value(test.p_usual)})"
    return (
        f"Against the reference alone the {NAMES[test.name]} changed (p {p_value(test.p)}): "
        f"{_value(test, test.before)} → {_value(test, test.after)}; {why}."
    )


def _longer(part: float) -> str:
    return "times twice as long" if part == 1 else f"times by {percent(part)}"


def _value(test: PeriodMeasure, value: float) -> str:
    return duration(value) if test.name == "mean" else percent(value)
