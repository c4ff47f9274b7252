"""The header of a report: its samples in numbers, and the headline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from analyze.population import FoldedNames, Population
from analyze.refine.name_folding import LEADING_WORD, MARK, NOTHING, PARTS
from analyze.report import wording
from analyze.report.moment_rows import number
from analyze.stats.moments import SampleMoments, pooled
from analyze.stats.silences import population_silences
from schemas.report.report import Headline, PeriodChange, SampleSummary
from schemas.windows import NS_PER_US

_MOST_FOLDED: Final = 5
"""Components whose folded names are listed."""
OK: Final = "ok"
"""Status of a root that did not fail."""


def sample_summary(population: Population, moments: SampleMoments, sample: int) -> SampleSummary:
    """Counts and response times of one sample over all tested flows."""
    named = population.samples[sample]
    responses = [c.response_ns[c.rows(sample)] for c in population.categories]
    us = np.concatenate(responses) / NS_PER_US if responses else np.zeros(0)
    requests = int(moments.count[sample].sum())
    failed, failed_weight = _failed(population, sample)
    everything = pooled(moments, np.arange(len(population.categories)))
    return SampleSummary(
        name=named.name,
        text=named.text,
        start_ns=named.start_ns,
        end_ns=named.end_ns,
        where=named.where,
        requests=requests,
        weighted_requests=float(moments.weighted[sample].sum()),
        mean_us=number(everything.mean_us[sample, 0]),
        median_us=float(np.quantile(us, 0.5)) if requests else None,
        p99_us=float(np.quantile(us, 0.99)) if requests else None,
        total_us=float(moments.total_us[sample].sum()),
        failed=failed,
        failed_share=failed_weight / float(moments.weighted[sample].sum()) if requests else None,
        categories=int((moments.count[sample] > 0).sum()),
        excluded={
            flag: counts[sample] for flag, counts in sorted(population.excluded.items()) if counts[sample]
        },
    )


def _failed(population: Population, sample: int) -> tuple[int, float]:
    """Requests of a sample whose root did not end `ok`: how many, and their weight."""
    if not population.statuses:
        return 0, 0.0
    ok = population.statuses.index(OK) if OK in population.statuses else -1
    count, weight = 0, 0.0
    for category in population.categories:
        rows = category.rows(sample)
        failed = category.status[rows] != ok
        count += int(failed.sum())
        weight += float(category.weight[rows][failed].sum())
    return count, weight


def headline(samples: tuple[SampleSummary, ...], ratio: float | None, found: str = "") -> Headline:
    """What happened from the first sample to the second; of one sample, or of many, what there is.

    ratio: the second's requests a second over the first's, weighted; found: what a method's tests say
    happened; empty: what was measured.
    """
    if len(samples) != 2:
        return Headline(sentence=_sentence(samples), change=None)
    reference, problem = samples
    mean0, mean1 = reference.mean_us, problem.mean_us
    delta = mean1 - mean0 if mean0 is not None and mean1 is not None else None
    change = PeriodChange(
        mean0_us=mean0,
        mean1_us=mean1,
        delta_us=delta,
        delta_share=delta / mean0 if delta is not None and mean0 else None,
        requests0=reference.requests,
        requests1=problem.requests,
        load_ratio=ratio,
        total_change_us=problem.total_us - reference.total_us,
    )
    failures = (reference.failed_share, problem.failed_share)
    return Headline(sentence=found or wording.measured_sentence(mean0, mean1, failures), change=change)


def _sentence(samples: tuple[SampleSummary, ...]) -> str:
    requests = sum(sample.requests for sample in samples)
    if len(samples) == 1:
        return f"{wording.counted(requests, 'request')}, {wording.duration(samples[0].mean_us)} on average."
    return f"{wording.counted(requests, 'request')} in {wording.counted(len(samples), 'sample')}."


def load_ratio(population: Population) -> float | None:
    """Requests per second of the second sample over those of the first, see `Change.load_ratio`."""
    before, after = (_rate(population, sample) for sample in (0, 1))
    return after / before if before is not None and after is not None else None


def _rate(population: Population, sample: int) -> float | None:
    """Requests per ns while they were watched, weighted; None if they are not apart."""
    length = watched_ns(population, sample)
    requests = sum(float(c.weight[c.rows(sample)].sum()) for c in population.categories)
    return requests / length if length > 0 else None


def watched_ns(population: Population, sample: int) -> float:
    """Time between the first and the last start of each range of a sample: less than the period where a
    recording began later, or ended sooner; with it, where it went on and nothing began (`silences`)."""
    starts = np.concatenate([np.zeros(0), *(c.start_ns[c.rows(sample)] for c in population.categories)])
    ranges = population.samples[sample].ranges or ((-np.inf, np.inf),)
    parts = [starts[(starts >= start_ns) & (starts < end_ns)] for start_ns, end_ns in ranges]
    silent = sum(one.end_ns - one.start_ns for one in population_silences(population)[sample] if one.at_edge)
    return sum(float(part.max() - part.min()) for part in parts if len(part)) + silent


def excluded_notes(samples: tuple[SampleSummary, ...], population: Population) -> tuple[str, ...]:
    """One sentence a quality flag that kept flows out of every test."""
    notes = []
    for flag, counts in sorted(population.excluded.items()):
        if any(counts):
            words = [
                f"{wording.counted(left, 'flow') if place == 0 else wording.count(left)} of the {sample.name}"
                for place, (left, sample) in enumerate(zip(counts, samples, strict=True))
            ]
            # A sample that has no name of its own is called a period.
            end = "" if samples[-1].name == "period" else " period"
            notes.append(f"Left out of every test as {flag}: {', '.join(words)}{end}.")
    return tuple(notes)


def folded_notes(folded: Sequence[FoldedNames]) -> tuple[str, ...]:
    """Sentences on names that were too many to compare one by one, the coarsest folding first."""
    notes = []
    for fold in sorted(folded, key=lambda fold: (-fold.level, fold.component or ""))[:_MOST_FOLDED]:
        whose = "Components" if fold.component is None else f"Operations of {fold.component}"
        how = (
            "all are compared as one"
            if fold.level >= NOTHING
            else "they are compared by their first word"
            if fold.level == LEADING_WORD
            else f"{' and '.join(part.what for part in PARTS[: fold.level])} in them are read as {MARK}"
        )
        notes.append(
            f"{whose} have more names than can be compared one by one: {how} ({fold.example[0]} as "
            f"{fold.example[1]}), which leaves {fold.left:,}."
        )
    if len(folded) > _MOST_FOLDED:
        notes.append(f"Operations of {len(folded) - _MOST_FOLDED:,} more components were folded like these.")
    return tuple(notes)
