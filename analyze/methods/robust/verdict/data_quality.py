"""Rows of the report on data quality: limits of the data that a reader must know before the findings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from analyze.methods.robust.period_blocks import PeriodBlocks, counted_columns
from analyze.methods.robust.settings import VerdictSettings
from analyze.methods.robust.verdict.load import MixChange, RateChange
from analyze.population import Population, Sample
from analyze.report.wording import counted, duration, percent
from analyze.stats.estimate import share_change
from analyze.stats.noise import LEAST_FOR_ENVELOPE, LogMedians, window_noise
from analyze.stats.proportions import exact_p
from analyze.stats.silences import Silence
from schemas.periods import format_instant
from schemas.quality import MEANINGS, Quality
from schemas.report.accounts import QualityRow
from schemas.windows import NS_PER_SECOND

_MOST_ROOTS: Final = 3
"""Maximum number of root types that a sentence names."""


def quality_rows(
    population: Population,
    before: PeriodBlocks,
    after: PeriodBlocks,
    roots: Sequence[str],
    settings: VerdictSettings,
    mix: MixChange,
    rates: Sequence[RateChange],
    history: PeriodBlocks | None = None,
) -> tuple[QualityRow, ...]:
    """Rows on names, sampling, excluded flows, load, mix of root types and history, for those that have a
    problem.

    roots: root types in the order of the blocks' columns; rates: change of the arrival rate of all requests,
    then of each root type; history: sums with one block per window of the history, None without a history.
    """
    kept = before.n_requests, after.n_requests
    weights = [float(side.weight.sum()) / max(side.n_requests, 1) for side in (before, after)]
    return (
        *label_rows(population, settings),
        *useless_rows(before, after, settings),
        *sampling_rows(weights[0], weights[1], population.weight_known, settings),
        *excluded_rows(population.excluded, kept, settings),
        *load_rows(rates, settings),
        *mix_rows(mix, roots, settings),
        *history_rows(before, after, history, settings),
        *(QualityRow(kind="skew", severe=False, text=note) for note in population.skew_notes),
        *(QualityRow(kind="asynchrony", severe=False, text=note) for note in population.asynchrony_notes),
    )


def label_rows(population: Population, settings: VerdictSettings) -> Iterator[QualityRow]:
    """Yield rows on root types, or components, whose names contain ids, but that are too few for refinement
    to fold their names.

    If names contain ids, as in `User: fs -mkdir dir_17`, every directory is a root type of its own, and
    nothing can be compared.
    """
    traces = sum(category.n_requests for category in population.categories)
    roots = {category.graph.root for category in population.categories}
    of_components = {
        (n.component, n.point) for category in population.categories for n in category.graph.nodes
    }
    names_of = Counter(component for component, _ in of_components)
    # Names of points are folded within a component, names of components together.
    together = max([len(names_of), *names_of.values()])
    for noun, names in (("root types", roots), ("components", names_of)):
        if hold_ids(names, traces, settings):
            fewer = max(min(settings.names_least, together - 1), 1)
            yield QualityRow(
                kind="labels",
                severe=True,
                text=f"{len(names):,} {noun} in {traces:,} traces: names hold ids, so that little can be "
                f"compared. A smaller refine.max_names, say {fewer}, folds what differs in them.",
            )


def useless_rows(
    before: PeriodBlocks, after: PeriodBlocks, settings: VerdictSettings
) -> Iterator[QualityRow]:
    """Yield rows on periods that cannot be compared: many requests fail in both, or no request of a period
    took any time."""
    sides = before.whole(), after.whole()
    weight = [float(side.weight.sum()) for side in sides]
    if not all(weight):
        return
    failed = [float(side.failed.sum()) / n for side, n in zip(sides, weight, strict=True)]
    if min(failed) >= settings.failed_both:
        yield QualityRow(
            kind="quality",
            severe=True,
            text=f"{percent(failed[0])} and {percent(failed[1])} of the requests fail in both "
            "periods: both may be of one incident. Compare with a reference in which they do not.",
        )
    named = zip(("reference", "problem"), sides, strict=True)
    if timeless := [name for name, side in named if not side.time_us.sum()]:
        yield QualityRow(
            kind="quality",
            severe=True,
            text=f"No request of the {' or of the '.join(timeless)} took any time: spans end as they begin, "
            "so nothing can be said of times.",
        )


def hold_ids(names: Collection[str], traces: int, settings: VerdictSettings) -> bool:
    """True if there are so many distinct names (of root types, or components) for the number of traces that
    names must contain ids."""
    return len(names) >= max(settings.names_least, settings.names_many * traces)


def sampling_rows(
    mean0: float, mean1: float, known: Sequence[float], settings: VerdictSettings
) -> Iterator[QualityRow]:
    """Yield rows on sampling that differs between the periods, or that is not recorded.

    mean0, mean1: mean sampling weight of the requests of reference and problem; known: share of each period's
    requests with a recorded sampling weight, in [0, 1].
    """
    if len(known) >= 2 and abs(known[1] - known[0]) > settings.excluded_floor:
        yield QualityRow(
            kind="sampling",
            severe=True,
            text=f"{percent(known[0])} of the reference and {percent(known[1])} of the problem requests say "
            "how they were sampled; the others count once, so rates and shares of the two do not compare.",
        )
    elif len(known) >= 2 and 0 < min(known[:2]) < 1:
        yield QualityRow(
            kind="sampling",
            severe=False,
            text=f"{percent(1 - min(known[:2]))} of the requests do not say how they were sampled; "
            "those count once.",
        )
    elif len(known) >= 2 and max(known[:2]) == 0:
        yield QualityRow(
            kind="sampling",
            severe=False,
            text="No request says how it was sampled; each counts once, and rates are of what was recorded.",
        )
    if mean0 and mean1 and not 1 / settings.weight_floor < mean1 / mean0 < settings.weight_floor:
        yield QualityRow(
            kind="sampling",
            severe=False,
            text=f"A recorded request stands for {mean0:.3g} in the reference and {mean1:.3g} in the "
            "problem; counts are weighted, and rare paths of the thinner period are less sure.",
        )


def excluded_rows(
    excluded: Mapping[str, Sequence[int]], kept: tuple[int, int], settings: VerdictSettings
) -> Iterator[QualityRow]:
    """Yield rows on flows excluded from tests, if they are many, or significantly more in one period than in
    the other.

    excluded: quality flag -> number of flows per sample (a flow may have several flags); kept: number of
    tested requests in (reference, problem).
    """
    for flag, counts in sorted(excluded.items()):
        left = int(counts[0]), int(counts[1])
        total = kept[0] + left[0], kept[1] + left[1]
        if not all(total):
            continue
        shares = left[0] / total[0], left[1] / total[1]
        differs = (
            abs(shares[1] - shares[0]) >= settings.excluded_floor
            and exact_p(left[0], total[0], left[1], total[1]) < settings.sure
        )
        if not differs and max(shares) < settings.excluded_many:
            continue
        what = MEANINGS[Quality[flag]].split(".")[0] if flag in Quality.__members__ else ""
        yield QualityRow(
            kind="quality",
            severe=differs,
            text=f"{flag}{f' ({what})' if what else ''}: {percent(shares[0])} of the reference and "
            f"{percent(shares[1])} of the problem flows are left out of tests"
            + ("; what is missing may be what changed." if differs else "."),
        )


def load_rows(rates: Sequence[RateChange], settings: VerdictSettings) -> Iterator[QualityRow]:
    """Yield one row if the arrival rate changed: of all requests, then of the root types that changed
    most."""
    whole, *parts = rates
    moved = sorted((rate for rate in parts if rate.changed), key=lambda rate: -abs(_log(rate)))
    if not whole.changed and not moved:
        return
    said = [f"{rate.root} {_rate(rate)}" for rate in moved[:_MOST_ROOTS]]
    if len(moved) > _MOST_ROOTS:
        said.append(f"{len(moved) - _MOST_ROOTS} more")
    if whole.changed:
        text = f"Load differs: {_rate(whole)} requests a second; response times depend on it."
        if said and len(parts) > 1:
            text += f" Most: {', '.join(said)}."
    else:
        text = f"Load is the same in all, but not of: {', '.join(said)} requests a second."
    severe = whole.changed and not 1 / settings.load_severe < whole.ratio < settings.load_severe
    yield QualityRow(kind="load", severe=severe, text=text)


def _log(rate: RateChange) -> float:
    return math.log(max(rate.rate1, 1e-12) / max(rate.rate0, 1e-12))


def _rate(rate: RateChange) -> str:
    return f"{rate.rate0:.3g} → {rate.rate1:.3g}"


def mix_rows(mix: MixChange, roots: Sequence[str], settings: VerdictSettings) -> Iterator[QualityRow]:
    """Yield one row if the mix of root types changed significantly."""
    if not mix.changed:
        return
    change = mix.share1 - mix.share0
    order = sorted(range(len(roots)), key=lambda at: (-abs(float(change[at])), roots[at]))[:_MOST_ROOTS]
    said = ", ".join(f"{roots[at]} {percent(mix.share0[at])} → {percent(mix.share1[at])}" for at in order)
    yield QualityRow(
        kind="mix",
        severe=mix.moved >= settings.mix_severe,
        text=f"The workload differs: {percent(mix.moved)} of the requests are of other root types ({said}).",
    )


def history_rows(
    before: PeriodBlocks, after: PeriodBlocks, history: PeriodBlocks | None, settings: VerdictSettings
) -> Iterator[QualityRow]:
    """Yield rows on a reference that lies far outside of the history; the text also says if the problem
    resembles the reference.

    Far outside means outside of all of at least five windows, by `abnormal_z` standard errors that include
    the noise between windows, or by an exact test of the share of failures.
    """
    if history is None or not before.n_requests:
        return
    there = history.weight.sum(axis=1) > 0
    mean_us = history.time_us.sum(axis=1)[there] / history.weight.sum(axis=1)[there]
    logs = np.log(np.where(mean_us > 0, mean_us, np.nan))[None]  # A window without time has no level.
    noise = window_noise(LogMedians(logs, 0 * logs), floor=settings.min_tau)
    if int(there.sum()) < LEAST_FOR_ENVELOPE:
        return
    mean, variance, _, _ = (values[0] for values in before.response_times().mean())
    far = (
        settings.abnormal_z * np.sqrt(noise.tau2[0] + np.nan_to_num(variance) / mean**2)
        if mean > 0
        else np.inf
    )
    if mean > 0 and noise.outside(np.log([mean]))[0] and abs(np.log(mean) - noise.centre[0]) > far:
        low, high = (duration(float(np.exp(edge[0]))) for edge in (noise.low, noise.high))
        later = after.response_times().mean()[0][0]
        alike = later > 0 and abs(np.log(later / mean)) < abs(np.log(later) - noise.centre[0])
        yield _not_normal(
            f"its mean response time of {duration(float(mean))} lies outside of {int(there.sum())} ordinary "
            f"windows ({low} to {high})",
            alike and bool(noise.outside(np.log([later]))[0]),
        )
    columns = [history.whole(), before.whole(), history]
    failed = [one.failed.sum(axis=1, keepdims=True) for one in columns]
    found = share_change(*counted_columns(columns, failed), margin=settings.excluded_floor)
    if found.change[0] > 0 and found.outside()[0] and found.p[0] < settings.sure:
        share = after.failed.sum() / max(after.weight.sum(), 1e-300)
        yield _not_normal(
            f"{percent(float(found.after[0]))} of its requests fail, in {int(there.sum())} ordinary windows "
            f"at most {percent(float(found.high[0]))}",
            bool(share > found.high[0] + settings.excluded_floor),
        )


def _not_normal(why: str, alike: bool) -> QualityRow:
    more = " The problem period is like it: what is wrong was there before." if alike else ""
    text = f"The reference is not normal: {why}.{more}"
    return QualityRow(kind="history", severe=True, text=text, there_before=alike)


_REFERENCE, _PROBLEM = 0, 1
_COARSE_NS: Final = 10 * NS_PER_SECOND
"""Length of a silence, ns, from which its start and end are shown in whole seconds."""
_FINE_NS: Final = NS_PER_SECOND // 1000


def silence_rows(found: Sequence[Sequence[Silence]], samples: Sequence[Sample]) -> Iterator[QualityRow]:
    """Yield a row for each sample with a silence (an interval without requests although some were expected),
    the problem first. found: silences of (reference, problem), longest first."""
    for sample, begin in ((_PROBLEM, ""), (_REFERENCE, "The reference is not normal: ")):
        if not found[sample]:
            continue
        text = f"{begin}{_nothing(samples[sample])} {_stretch(found[sample][0])}"
        if sample == _PROBLEM:
            text = f"{text[0].upper()}{text[1:]} of the problem period"
        text += f"; about {counted(_round(found[sample][0].expected), 'request')} were expected"
        if rest := len(found[sample]) - 1:
            text += f" (and {counted(rest, 'shorter stretch', 'shorter stretches')} like it)"
        yield QualityRow(kind="load", severe=True, text=f"{text}.")


def silence_reason(found: Sequence[Silence], sample: Sample, watched_ns: float) -> str:
    """Reason why a problem period with a silence (an interval without requests although some were expected)
    cannot be "unchanged"; empty without a silence.

    watched_ns: recorded length of the period, ns, which may be shorter than the requested one.
    """
    if not found:
        return ""
    share = sum(one.end_ns - one.start_ns for one in found) / max(watched_ns, 1)
    return (
        f"In {percent(min(share, 1.0))} of the time recorded in the problem period {_nothing(sample, '')}, "
        "and requests were expected: the service, its clients or the way between them stood still."
    )


def _nothing(sample: Sample, end: str = " from") -> str:
    kept = " that the filter keeps" if sample.where else ""
    return f"no request{kept} was recorded{end}"


def _stretch(silence: Silence) -> str:
    unit = NS_PER_SECOND if silence.end_ns - silence.start_ns >= _COARSE_NS else _FINE_NS
    start, end = (format_instant(round(ns / unit) * unit) for ns in (silence.start_ns, silence.end_ns))
    return f"{start} to {end}"


def _round(expected: float) -> int:
    """Expected number of requests, rounded to two significant digits."""
    return int(float(f"{expected:.2g}"))
