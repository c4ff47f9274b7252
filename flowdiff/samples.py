"""Resolve samples: from names, ranges and filters to periods of lakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from analyze.profile.history import NamedSamples, cut_history
from analyze.report.wording import REVERSED
from analyze.scope import LakePeriod, Lakes, refuse_overlap
from schemas.errors import ConfigError, PeriodError
from schemas.periods import Period, format_instant, moment_before, parse_period
from schemas.ranges import SAME_WEEKDAY, parse_ranges, ranges_text, weeks_before


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples to compare, and a history for the comparison, as periods of lakes."""

    compared: NamedSamples
    history: NamedSamples
    notes: tuple[str, ...] = ()
    """Sentences for the reader on how the samples were chosen."""

    @property
    def periods(self) -> list[LakePeriod]:
        """Periods of all samples."""
        return [part for _, parts in (*self.compared, *self.history) for part in parts]


def asked_samples(
    reference: Sequence[str], problem: Sequence[str], named: Sequence[str]
) -> dict[str, list[str]]:
    """Sample name -> texts of the sample's periods, in order. Raises ConfigError.

    named: texts `NAME=PERIOD`; a repeated name adds periods to the same sample.
    """
    pair = {name: list(texts) for name, texts in (("reference", reference), ("problem", problem)) if texts}
    if pair and named:
        raise ConfigError("Give --reference and --problem, or --sample NAME=PERIOD, not both.")
    samples = pair
    for text in named:
        name, equals, period = text.partition("=")
        if not (name and equals and period):
            raise ConfigError(f"--sample {text}: write NAME=PERIOD, for example `monday=2026-11-16/1d`.")
        samples.setdefault(name, []).append(period)
    return samples


def since_samples(text: str, asked: Mapping[str, Sequence[str]], lake: str | None) -> dict[str, list[str]]:
    """Texts of two periods: from an instant to the end of the lake's last sealed window, and equally many
    windows before the instant.

    text: an instant; a time of day, the last such before that end (UTC); or a duration before the end. Raises
    PeriodError for another text or an instant without windows on both sides; ConfigError together with other
    periods, or without a lake.
    """
    if asked:
        raise ConfigError("Give --since, or --reference and --problem, not both.")
    if lake is None:
        raise ConfigError("--since needs a lake.", remedy="Give --lake LAKE.")
    windows = Lakes(lake).sealed(parse_period("all", now_ns=0))
    first_ns, end_ns = windows[0].start_ns, windows[-1].end_ns
    at_ns = moment_before(text, end_ns)
    if not first_ns < at_ns < end_ns:
        held = f"{format_instant(first_ns)}/{format_instant(end_ns)}"
        raise PeriodError(
            f"--since {text}: {format_instant(at_ns)} has no windows on both sides in the lake's {held}.",
            remedy="Name another moment, or --reference and --problem.",
        )
    before = sum(window.start_ns < at_ns for window in windows)
    after = sum(window.end_ns > at_ns for window in windows)
    start_ns = windows[max(before - after, 0)].start_ns
    return {
        REFERENCE: [f"{format_instant(start_ns)}/{format_instant(at_ns)}"],
        PROBLEM: [f"{format_instant(at_ns)}/{format_instant(end_ns)}"],
    }


ONE: Final = "period"
"""Name of the sample of commands that accept a single sample."""


def one_or_two(
    period: Sequence[str], reference: Sequence[str], problem: Sequence[str], own_where: Mapping[str, str]
) -> dict[str, list[str]]:
    """Sample name -> texts of its periods, for a command of one or two samples.

    own_where: filters of `reference` and `problem`; with `period`, they select two parts of that period.
    Without any period there is one sample of everything. Raises ConfigError.
    """
    if period and (reference or problem):
        raise ConfigError("Give --period, or --reference and --problem, not both.")
    if reference or problem:
        for name, texts in (("reference", reference), ("problem", problem)):
            if not texts:
                raise ConfigError(f"--{name} is missing.", remedy="For one period give --period.")
        return asked_samples(reference, problem, ())
    texts = list(period) or ["all"]
    if not own_where:
        return {ONE: texts}
    for name in ("reference", "problem"):
        if name not in own_where:
            raise ConfigError(
                f"A period is parted by two filters, and --{name}-where is missing.",
                remedy="Give both: --reference-where \"host != 'a'\" --problem-where \"host = 'a'\".",
            )
    return {"reference": texts, "problem": texts}


REFERENCE: Final = "reference"
PROBLEM: Final = "problem"
EARLIER_WEEKS: Final = (2, 3, 4)
"""Numbers of weeks, counted back from the problem, that form the history for `same-weekday` if the lake has
data there."""


def find_samples(
    asked: Mapping[str, Sequence[str]],
    history: Sequence[str],
    *,
    now_ns: int,
    lake: str | None = None,
    where: str | None = None,
    own_where: Mapping[str, str] | None = None,
    provisional: Path | None = None,
) -> Samples:
    """Find the samples in their lakes, which are opened once, and cut the history into noise samples.

    asked: as from `asked_samples`. history: texts of periods. where: filter of all samples; own_where: sample
    name -> filter. provisional: see `Lakes`. `same-weekday` is a week before the problem; if it is the
    reference and no history is given, the weeks before that are the history. Raises PeriodError for an
    invalid period, one without windows, or overlapping samples; ConfigError for a filter of a sample that is
    not given; LakeError.
    """
    own = {} if own_where is None else own_where
    for name in own:
        if name not in asked:
            raise ConfigError(f"--{name}-where is given, and no --{name}.")
    lakes = Lakes(lake, provisional=provisional)
    asked = {name: [lakes.dated(text) for text in texts] for name, texts in asked.items()}
    history = [lakes.dated(text) for text in history]
    # The sample that `same-weekday` refers to.
    anchor = parse_ranges(asked[PROBLEM], now_ns=now_ns) if PROBLEM in asked else ()
    compared = tuple(
        (
            name,
            lakes.ranges(
                parse_ranges(texts, now_ns=now_ns, where=_both(where, own.get(name)), beside=anchor)
            ),
        )
        for name, texts in asked.items()
    )
    refuse_overlap([parts for _, parts in compared])
    notes = tuple(_swapped(dict(compared)))
    if history:
        past = parse_ranges(history, now_ns=now_ns, where=where, beside=anchor, weeks=(1, *EARLIER_WEEKS))
    elif anchor and SAME_WEEKDAY in [text.strip().lower() for text in asked.get(REFERENCE, ())]:
        past = tuple(p for p in weeks_before(anchor, EARLIER_WEEKS, where=where) if _is_there(lakes, p))
    else:
        past = ()
    if not past:
        return Samples(compared, (), notes)
    usual = cut_history(past, [parts for _, parts in compared], lakes)
    if usual.left_out:
        notes += (f"Left out of the history, as they are compared: {ranges_text(usual.left_out)}.",)
    return Samples(compared, usual.samples, notes)


def _swapped(compared: Mapping[str, Sequence[LakePeriod]]) -> Iterator[str]:
    """Yield a warning for the reader if the reference is later than the problem."""
    before, after = (compared.get(name, ()) for name in (REFERENCE, PROBLEM))
    if before and after:
        first = min(part.period.start_ns for part in before)
        last = max(part.period.end_ns for part in after)
        if last <= first:
            yield REVERSED


def _is_there(lakes: Lakes, period: Period) -> bool:
    """True if the lake has sealed windows in the period."""
    try:
        return bool(lakes.sealed(period))
    except PeriodError:
        return False


def _both(where: str | None, own: str | None) -> str | None:
    """Conjunction of the filter of all samples (`where`) and the filter of one sample (`own`); None if
    neither is set."""
    parts = [part for part in (where, own) if part is not None]
    return " and ".join(parts) if parts else None
