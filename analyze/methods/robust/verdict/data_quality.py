"""Say what a reader must know about the data first: one row each, severe ones first (L.8, A.7)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from analyze.methods.robust.verdict.label_hygiene import Hygiene, label_hygiene
from analyze.methods.robust.verdict.load import RateChange, mix_change, rate_changes
from analyze.methods.robust.verdict.period_blocks import PeriodBlocks, block_means
from analyze.methods.robust.verdict.period_tests import effective_requests
from analyze.population import Population, Sample
from analyze.report.wording import counted, duration, percent
from analyze.stats.proportions import exact_p
from analyze.stats.silences import Silence
from schemas.periods import format_instant
from schemas.quality import MEANINGS, Quality
from schemas.report.accounts import QualityRow
from schemas.windows import NS_PER_SECOND

ALPHA = 0.001
EXCLUDED_FLOOR = 0.01
"""Difference of the share of flows left out that is worth a word."""
EXCLUDED_MANY = 0.05
"""Share of flows left out from which results stand on a choice of them."""
LOAD_SEVERE = 2.0
"""Factor of the load from which response times differ by it alone."""
MIX_SEVERE = 0.2
WEIGHT_FLOOR = 1.1
"""Factor between mean weights: the keep rule was another one."""
LEAST_WINDOWS = 5
_MOST_ROOTS = 3
_FAR = 3.0
_LEAST_SPREAD = 0.05
_MAD = 1.4826


def quality_rows(
    population: Population,
    blocks: tuple[PeriodBlocks, PeriodBlocks],
    roots: Sequence[str],
    *,
    history: Sequence[PeriodBlocks] = (),
    tau_rate: float = 0.0,
) -> tuple[QualityRow, ...]:
    """All rows of a comparison's two samples. history: ordinary windows; tau_rate: see `rate_changes`."""
    kept = blocks[0].n_requests, blocks[1].n_requests
    rows = [
        *label_rows(population),
        *sampling_rows(_mean_weight(blocks[0]), _mean_weight(blocks[1]), population.weight_known),
        *excluded_rows(population.excluded, kept),
        *load_rows(rate_changes(*blocks, roots, tau=tau_rate)),
        *mix_rows(*blocks, roots),
        *history_rows(blocks[0], history),
        *(QualityRow(kind="skew", severe=False, text=note) for note in population.skew_notes),
    ]
    return tuple(sorted(rows, key=lambda row: not row.severe))


def label_rows(population: Population) -> Iterator[QualityRow]:
    """Root types and components with ids in their names."""
    traces = sum(category.n_requests for category in population.categories)
    roots = {category.graph.root for category in population.categories}
    components = {node.component for category in population.categories for node in category.graph.nodes}
    for noun, names in (("root types", roots), ("components", components)):
        found = label_hygiene(sorted(names), traces)
        if found is not None:
            yield QualityRow(kind="labels", severe=True, text=_label_text(noun, found))


def _label_text(noun: str, found: Hygiene) -> str:
    text = (
        f"{found.names:,} {noun} in {found.traces:,} traces: names hold ids, so that little can be compared."
    )
    cleaning = found.cleaning
    if cleaning is None:
        return f"{text} No simple pattern tells the ids from the names."
    parts = " and ".join(cleaning.what)
    return (
        f"{text} Without {parts} {cleaning.after:,} would be left ({cleaning.example[0]} as "
        f"{cleaning.example[1]}); clean them before the import, for example by {cleaning.rule}"
    )


def _mean_weight(side: PeriodBlocks) -> float:
    """Requests that a recorded one stands for; 0 where there is none."""
    return float(side.weight.sum()) / max(side.n_requests, 1)


def sampling_rows(mean0: float, mean1: float, known: Sequence[float]) -> Iterator[QualityRow]:
    """Sampling that differs between the periods, or that nobody told (A.7). mean0, mean1: mean weights."""
    if len(known) >= 2 and abs(known[1] - known[0]) > EXCLUDED_FLOOR:
        yield QualityRow(
            kind="sampling",
            severe=True,
            text=f"{percent(known[0])} of the reference and {percent(known[1])} of the problem requests told "
            "how they were sampled; the others count once, so rates and shares of the two do not compare.",
        )
    elif len(known) >= 2 and 0 < min(known[:2]) < 1:
        yield QualityRow(
            kind="sampling",
            severe=False,
            text=f"{percent(1 - min(known[:2]))} of the requests did not tell how they were sampled; "
            "those count once.",
        )
    elif len(known) >= 2 and max(known[:2]) == 0:
        yield QualityRow(
            kind="sampling",
            severe=False,
            text="No request told how it was sampled; each counts once, and rates are of what was recorded.",
        )
    if mean0 and mean1 and not 1 / WEIGHT_FLOOR < mean1 / mean0 < WEIGHT_FLOOR:
        yield QualityRow(
            kind="sampling",
            severe=False,
            text=f"A recorded request stands for {mean0:.3g} in the reference and {mean1:.3g} in the "
            "problem; counts are weighted, and rare paths of the thinner period are less sure.",
        )


def excluded_rows(excluded: Mapping[str, Sequence[int]], kept: tuple[int, int]) -> Iterator[QualityRow]:
    """Flows that tests may not use: many, or more in one period. A flow may have several flags."""
    for flag, counts in sorted(excluded.items()):
        left = int(counts[0]), int(counts[1])
        total = kept[0] + left[0], kept[1] + left[1]
        if not all(total):
            continue
        shares = left[0] / total[0], left[1] / total[1]
        differs = (
            abs(shares[1] - shares[0]) >= EXCLUDED_FLOOR
            and exact_p(left[0], total[0], left[1], total[1]) < ALPHA
        )
        if not differs and max(shares) < EXCLUDED_MANY:
            continue
        what = MEANINGS[Quality[flag]].split(".")[0] if flag in Quality.__members__ else ""
        yield QualityRow(
            kind="quality",
            severe=differs,
            text=f"{flag}{f' ({what})' if what else ''}: {percent(shares[0])} of the reference and "
            f"{percent(shares[1])} of the problem flows are left out of tests"
            + ("; what is missing may be what changed." if differs else "."),
        )


def load_rows(rates: Sequence[RateChange]) -> Iterator[QualityRow]:
    """Load that differs, all requests first; then the root types that moved most, in one sentence."""
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
    severe = whole.changed and not 1 / LOAD_SEVERE < whole.ratio < LOAD_SEVERE
    yield QualityRow(kind="load", severe=severe, text=text)


def _log(rate: RateChange) -> float:
    return math.log(max(rate.rate1, 1e-12) / max(rate.rate0, 1e-12))


def _rate(rate: RateChange) -> str:
    return f"{rate.rate0:.3g} → {rate.rate1:.3g}"


def mix_rows(reference: PeriodBlocks, problem: PeriodBlocks, roots: Sequence[str]) -> Iterator[QualityRow]:
    """Another mix of root types."""
    mix = mix_change(reference, problem)
    if not mix.changed:
        return
    change = mix.share1 - mix.share0
    order = sorted(range(len(roots)), key=lambda at: (-abs(float(change[at])), roots[at]))[:_MOST_ROOTS]
    said = ", ".join(f"{roots[at]} {percent(mix.share0[at])} → {percent(mix.share1[at])}" for at in order)
    yield QualityRow(
        kind="mix",
        severe=mix.moved >= MIX_SEVERE,
        text=f"The workload differs: {percent(mix.moved)} of the requests are of other root types ({said}).",
    )


def history_rows(reference: PeriodBlocks, history: Sequence[PeriodBlocks]) -> Iterator[QualityRow]:
    """A reference that is itself far off what is ordinary (L.9 item 2): outside of the windows, and far."""
    windows = [window for window in history if window.n_requests]
    if len(windows) < LEAST_WINDOWS or not reference.n_requests:
        return
    logs = np.log([max(float(w.time_us.sum() / w.weight.sum()), 1e-3) for w in windows])
    own = block_means(reference, by_root=False)
    mean = max(float(own.mean), 1e-3)
    centre = float(np.median(logs))
    spread = max(_MAD * float(np.median(np.abs(logs - centre))), _LEAST_SPREAD)
    sampling = 0.0 if np.isnan(own.variance) else float(own.variance) / mean**2
    value = math.log(mean)
    outside = value < logs.min() or value > logs.max()
    if outside and abs(value - centre) > _FAR * math.sqrt(spread**2 + sampling):
        low, high = (duration(float(np.exp(edge))) for edge in (logs.min(), logs.max()))
        yield QualityRow(
            kind="history",
            severe=True,
            text=f"The reference is not normal: its mean response time of {duration(mean)} lies outside of "
            f"{len(windows)} ordinary windows ({low} to {high}).",
        )
    rates = np.array([float(w.failed.sum() / w.weight.sum()) for w in windows])
    failed = float(reference.failed.sum() / reference.weight.sum())
    # A request that stands for many shows as much as one.
    sizes = np.array([effective_requests(w) for w in windows])
    size = effective_requests(reference)
    p = exact_p(
        round(float((rates * sizes).sum())), round(float(sizes.sum())), round(failed * size), round(size)
    )
    if failed > rates.max() + EXCLUDED_FLOOR and p < ALPHA:
        yield QualityRow(
            kind="history",
            severe=True,
            text=f"The reference is not normal: {percent(failed)} of its requests fail, in {len(windows)} "
            f"ordinary windows at most {percent(rates.max())}.",
        )


_REFERENCE, _PROBLEM = 0, 1
_COARSE_NS: Final = 10 * NS_PER_SECOND
"""Of longer stretches whole seconds are told."""
_FINE_NS: Final = NS_PER_SECOND // 1000


def silence_rows(found: Sequence[Sequence[Silence]], samples: Sequence[Sample]) -> Iterator[QualityRow]:
    """A row for each of two samples with a silence; the problem's first."""
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


def silence_reason(found: Sequence[Silence], sample: Sample) -> str:
    """Why a problem period with a silence is not unchanged; empty for none."""
    if not found:
        return ""
    share = sum(one.end_ns - one.start_ns for one in found) / max(sample.length_ns, 1)
    return (
        f"In {percent(min(share, 1.0))} of the problem period {_nothing(sample, '')}, and requests were "
        "expected: the service, its clients or the way between them stood still."
    )


def _nothing(sample: Sample, end: str = " from") -> str:
    kept = " that the filter keeps" if sample.where else ""
    return f"no request{kept} was recorded{end}"


def _stretch(silence: Silence) -> str:
    unit = NS_PER_SECOND if silence.end_ns - silence.start_ns >= _COARSE_NS else _FINE_NS
    start, end = (format_instant(round(ns / unit) * unit) for ns in (silence.start_ns, silence.end_ns))
    return f"{start} to {end}"


def _round(expected: float) -> int:
    """Two digits: a rate is not known better."""
    return int(float(f"{expected:.2g}"))
