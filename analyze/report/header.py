"""Header of a report: the headline, and notes on excluded requests and merged names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from analyze.population import FoldedNames, Population
from analyze.refine.name_folding import LEADING_WORD, MARK, NOTHING, PARTS
from analyze.report import wording
from schemas.report.report import Headline, PeriodChange, SampleSummary

_MOST_NAMED: Final = 3
"""Maximum number of components whose merged (folded) names are listed."""


def headline(samples: tuple[SampleSummary, ...], ratio: float | None, found: str = "") -> Headline:
    """Headline on the change between two samples; for one or more than two, on the number of requests.

    ratio: weighted requests per second of the second sample, divided by those of the first. found: sentence
    of a method that has tested the change; empty: the sentence compares the measured means.
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


def excluded_notes(samples: tuple[SampleSummary, ...], population: Population) -> tuple[str, ...]:
    """Sentences on flows that were excluded from all tests, one for each quality flag."""
    notes = []
    for flag, counts in sorted(population.excluded.items()):
        if any(counts):
            words = [
                f"{wording.count(left) if place else wording.counted(left, 'request')} of the {sample.name}"
                for place, (left, sample) in enumerate(zip(counts, samples, strict=True))
            ]
            # A sample that has no name of its own is called a period.
            end = "" if samples[-1].name == "period" else " period"
            notes.append(f"Left out of every test as {flag}: {', '.join(words)}{end}.")
    return tuple(notes)


def folded_notes(folded: Sequence[FoldedNames]) -> tuple[str, ...]:
    """Sentences on names of operations that were merged because they are too many to compare one by one, one
    for each kind of merging; the coarsest first."""
    notes = []
    by_kind = sorted(folded, key=lambda fold: (-fold.level, fold.component or ""))
    for (is_component, level), alike in groupby(by_kind, lambda fold: (fold.component is None, fold.level)):
        folds = [*alike]
        named = [str(fold.component) for fold in folds[:_MOST_NAMED]]
        if len(folds) > _MOST_NAMED:
            named.append(f"{wording.count(len(folds) - _MOST_NAMED)} more")
        whose = "Components" if is_component else f"Operations of {wording.listed(named)}"
        how = (
            "all are compared as one"
            if level >= NOTHING
            else "they are compared by their first word"
            if level == LEADING_WORD
            else f"{wording.listed([part.what for part in PARTS[:level]])} in them are read as {MARK}"
        )
        least, most = min(fold.left for fold in folds), max(fold.left for fold in folds)
        left = wording.count(most) if least == most else f"{wording.count(least)} to {wording.count(most)}"
        notes.append(
            f"{whose} have more names than can be compared one by one: {how} ({folds[0].example[0]} as "
            f"{folds[0].example[1]}), which leaves {left}{' each' if len(folds) > 1 else ''}."
        )
    return tuple(notes)
