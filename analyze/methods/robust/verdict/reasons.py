"""Reasons for a verdict: one function per kind of reason, which builds its sentence and values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.verdict.sizes import LargestChange
from analyze.methods.robust.verdict.whole import PeriodMeasure
from analyze.report.wording import change, counted, duration, moves, p_value, percent
from schemas.periods import Period
from schemas.report.accounts import Account, HiddenChange, Reason, ReasonKind

NAMES: Final = {
    "mean": "mean response time",
    "tail": "share of slow requests",
    "errors": "share of requests that fail at the root",
    "failing": "share of requests with a failing call",
}
_UNKNOWN: Final = "there are no earlier windows to compare with (--history)"
_TIMELESS: Final = "how times changed cannot be told"
_MOST_NAMED: Final = 2
_MOST_WINDOWS: Final = 4

MIX: Final = Reason(kind=ReasonKind.MIX, text="Another mix of request types arrived.")
NO_FINDING: Final = Reason(kind=ReasonKind.NO_FINDING, text="No finding accounts for it.")
NO_REQUESTS: Final = Reason(kind=ReasonKind.NO_REQUESTS, text="A period has no request that tests may use.")
MAY_BE_MISSING: Final = Reason(kind=ReasonKind.INCOMPLETE, text="What is missing may be what changed.")
ASK_AGAIN: Final = Reason(
    kind=ReasonKind.ASK_AGAIN,
    text="Compare with a reference from before it: against this one nothing changed.",
)


@dataclass(frozen=True, slots=True)
class ExplainedShare:
    """Share of the change of the mean response time that findings explain."""

    found_us: float
    """Part of the change of the mean response time that the findings account for, µs."""
    change_us: float
    """Change of the mean response time, problem minus reference, µs; not 0."""
    interval: tuple[float, float]
    """95 % confidence interval of `change_us`, µs."""
    significant: bool = True

    @property
    def share(self) -> float:
        """Share of the change of the mean response time that the findings account for, limited to [0, 1]."""
        return min(max(self.found_us / self.change_us, 0.0), 1.0)

    def text(self, said: str, one: bool) -> str:
        """Sentence about the share, e.g. `2 findings explain 92 % of the change of the mean (+40 of +43.5
        ms).`

        said: subject of the sentence, e.g. `2 findings`; one: True if the subject is singular. Findings may
        account for more than the change if other changes offset them; the sentence says so only if their sum
        exceeds the confidence interval of the change. If the change is not significant, no share is given.
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


def said(kind: ReasonKind, text: str) -> tuple[Reason, ...]:
    """Tuple with one reason that has the sentence `text`; empty if `text` is empty."""
    return (Reason(kind=kind, text=text),) if text else ()


def changed(measures: Sequence[PeriodMeasure]) -> list[Reason]:
    """Reasons for measures of whole periods that changed significantly, one per measure."""
    return _once(
        _about(
            test,
            ReasonKind.CHANGED,
            f"The {NAMES[test.name]} changed significantly: {_values(test)}.",
        )
        for test in measures
        if test.changed
    )


def insignificant(measures: Sequence[PeriodMeasure], settings: RobustSettings) -> list[Reason]:
    """Reasons, one per measure, for measures of whole periods whose change is not significant although its
    confidence interval excludes 0."""
    reasons = []
    significant = {test.name for test in measures if test.changed}
    for test in measures:
        low, high = test.interval(settings.verdict.level)
        if test.name in significant or not (low > 0 or high < 0):  # NaN if untestable
            continue
        chance, asked = (f"once in {round(1 / max(p, 1e-9)):,} times" for p in (test.p, test.alpha))
        why = f"chance alone does as much {chance}, and {asked} is asked for"
        if abs(float(test.estimate.change[0])) <= test.floor:
            points = percent(test.floor) if test.name == "mean" else f"{percent(test.floor)[:-1]}points"
            why = f"less than {points} does not count"
        elif test.p < test.alpha:
            why = _UNKNOWN if test.noise_assumed else "ordinary periods differ nearly as much"
        text = f"The change of the {NAMES[test.name]} is not significant ({_values(test)}): {why}."
        reasons.append(_about(test, ReasonKind.INSIGNIFICANT, text))
    return _once(reasons)


def hidden(measures: Sequence[PeriodMeasure]) -> list[Reason]:
    """Reasons, one per measure, for measures of whole periods that changed significantly against the
    reference alone, but within normal variation."""
    reasons = []
    for test in measures:
        if test.hidden:
            usual = f"ordinary periods differ as much (p {p_value(test.p_usual)})"
            text = (
                f"Against the reference alone the {NAMES[test.name]} changed (p {p_value(test.p)}): "
                f"{_values(test)}; {_UNKNOWN if test.noise_assumed else usual}."
            )
            reasons.append(_about(test, ReasonKind.HIDDEN, text))
    return _once(reasons)


def explained(findings: int, share: ExplainedShare | None, *, timeless: bool) -> Reason:
    """Reason that states the number of findings, and the share of the change of the mean response time that
    they account for. share: None if the mean did not change at all."""
    count = counted(findings, "finding")
    if timeless:
        text = f"{count}; {_TIMELESS}."
    elif share is None:
        text = f"{count}; the mean response time is the same."
    else:
        text = share.text(count, findings == 1)
    return Reason(kind=ReasonKind.EXPLAINED, text=text)


def too_few(
    largest: LargestChange,
    missing: int | None,
    measures: Sequence[PeriodMeasure],
    settings: RobustSettings,
    *,
    timeless: bool,
) -> Reason:
    """Reason that a change which matters may have gone undetected, with the number of additional requests
    needed. missing: that number; None if no number suffices."""
    if timeless:
        return Reason(kind=ReasonKind.TOO_FEW, text=f"Nothing was found, and {_TIMELESS}.")
    open_ = largest.over(settings)
    if open_:
        first = f"{', '.join(open_[:-1])} or " if open_[1:] else ""
        may = f"{first}{open_[-1]} may have changed by as much as matters"
        few = "Too few requests to tell a change from chance"
        short = "Periods this short cannot decide it, with any number of requests"
        text = f"{short if missing is None else few}: {may}"
    elif any(test.plain for test in measures):
        unknown = any(test.noise_assumed for test in measures)
        why = _UNKNOWN if unknown else "ordinary periods differ nearly as much"
        text = f"The periods differ by more than chance inside of them makes, and {why}"
    else:
        text = "The periods differ by more than is assumed of ordinary ones, and by less than is significant"
    more = "" if missing is None else f"; about {counted(missing, 'more problem request')} would tell"
    return Reason(kind=ReasonKind.TOO_FEW, text=f"{text}{more}.", requests=missing)


def nothing(settings: RobustSettings) -> Reason:
    """Reason that no change as large as the user's bounds (`matters_time`, `matters_share`) is possible."""
    times, points = settings.matters_time, 100 * settings.matters_share
    longer = "times twice as long" if times == 1 else f"times by {percent(times)}"
    size = f"{longer}, {points:g} points of requests"
    text = f"Nothing was found, and no change that matters ({size}) is possible."
    return Reason(kind=ReasonKind.NOTHING, text=text)


def what_helps(*, has_noise: bool) -> Reason:
    """Reason that names the data that would allow a decision: longer periods or, if `has_noise` is False,
    also a history."""
    more = "" if has_noise else ", and ordinary times as --history"
    return Reason(kind=ReasonKind.HELP, text=f"What helps: longer periods{more}.")


def likely_place(mean: Account, least: float) -> Iterator[Reason]:
    """Yield a reason that names the component with at least `least` of a significant change of the mean
    response time that no finding explains, counting its own time and its callers' waits for it.

    Needed for short references, against which no call site may be significant.
    """
    moved = mean.after - mean.before
    if not mean.changed or not moved:
        return
    parts: dict[str, float] = defaultdict(float)
    for row in mean.rows:
        parts[row.site.operation.partition(" -> ")[2] or row.site.component] += row.total
    name, part = max(parts.items(), key=lambda item: item[1] / moved, default=("", 0.0))
    if part / moved >= least:
        amounts = f"{change(part)} of {change(moved)}"
        yield Reason(
            kind=ReasonKind.LIKELY_PLACE,
            text=f"Likely at {name}: {percent(min(part / moved, 1.0))} of the change of the mean lies there "
            f"({amounts}), though no finding is there.",
        )


def largest_rest(share: ExplainedShare, mean: Account, least: float) -> Iterator[Reason]:
    """Yield a reason that names the operations with the largest parts of a significant change of the mean
    response time that findings do not explain.

    These may be callers that wait for a slow operation, whose own change is not significant.
    """
    moved = mean.after - mean.before
    if not share.significant or (moved - share.found_us) / moved < least:
        return
    parts: dict[str, float] = defaultdict(float, {"the mix of requests": mean.mix})
    for row in mean.rows:
        if row.finding is None:
            parts[f"{row.site.component}/{row.site.operation}"] += row.total
    largest = sorted(parts.items(), key=lambda item: -item[1] / moved)[:_MOST_NAMED]
    named = [f"{name} ({change(part)})" for name, part in largest if part / moved > 0]
    if named:
        text = f"Largest other parts, without a finding: {', '.join(named)}."
        yield Reason(kind=ReasonKind.REST, text=text)


def hidden_places(found: Sequence[HiddenChange], total: int) -> tuple[Reason, ...]:
    """Reason about call sites whose change is significant against the reference alone: why it is no finding,
    and which windows of the baseline had similar values. found: the largest such changes; total: number of
    all such changes."""
    if not found:
        return ()
    first = found[0]
    text = f"Against the reference alone significant (p {p_value(first.p)}), and no finding: {first.title}"
    usual = f"p {p_value(first.p_usual)}"
    if first.assumed:
        text += f". {_UNKNOWN[:1].upper()}{_UNKNOWN[1:]} ({usual} by what is assumed of them)"
    elif not first.windows:
        text += f". Ordinary windows differ by nearly as much ({usual})"
    else:
        when = [Period(None, w.start_ns, w.end_ns).text for w in first.windows[:_MOST_WINDOWS]]
        rest = len(first.windows) - len(when)
        text += (
            f". {len(first.windows)} of {counted(first.windows_of, 'ordinary window')} "
            f"{'is' if len(first.windows) == 1 else 'are'} like it ({usual}): "
            f"{', '.join(when)}{f' and {rest} more' if rest else ''}"
        )
        where = "history" if any(w.in_history for w in first.windows) else "reference"
        if 2 * len(first.windows) > first.windows_of:
            text += ". Most are: so it may be the reference that is odd"
        else:
            text += f". Were these incidents, leave them out of the {where}"
    others = f"; the same of {counted(total - 1, 'other place')}" if total > 1 else ""
    return (Reason(kind=ReasonKind.HIDDEN, text=f"{text}{others}."),)


def _about(test: PeriodMeasure, kind: ReasonKind, text: str) -> Reason:
    return Reason(kind=kind, text=text, measure=test.name, before=test.before, after=test.after)


def _once(reasons: Iterable[Reason]) -> list[Reason]:
    """Reasons without all but the first of each measure; for the tail, the first is that of the lowest
    threshold."""
    first: dict[str | None, Reason] = {}
    for reason in reasons:
        first.setdefault(reason.measure, reason)
    return list(first.values())


def _values(test: PeriodMeasure) -> str:
    show = duration if test.name == "mean" else percent
    return f"{show(test.before)} → {show(test.after)}"
