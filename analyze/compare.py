"""The run: samples in, methods over them, one report out.

What every report has is made here, once: the samples in numbers, the headline, the notes on the data. What
was found is each method's; nothing here knows which methods there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from analyze.methods.port import Chosen, Result
from analyze.population import FoldedNames, Population
from analyze.profile.samples import PAIR_SIZE, ComparedSamples, samples_of
from analyze.refine.name_folding import LEADING_WORD, MARK, NOTHING, PARTS
from analyze.refine.settings import RefineSettings
from analyze.report import wording
from analyze.report.gate import Outcome
from analyze.report.limits import ReportLimits
from analyze.report.section_view import views_by_tag
from schemas.errors import ConfigError
from schemas.report.accounts import VerdictSection
from schemas.report.parts import Section
from schemas.report.report import (
    Headline,
    MethodRun,
    PeriodChange,
    Preparation,
    Report,
    SampleSummary,
    with_id,
)
from schemas.report.report_tables import METHOD_COLUMN


def compare(
    population: Population | ComparedSamples,
    methods: Sequence[Chosen[Any]],
    *,
    history: Population | ComparedSamples | None = None,
    limits: ReportLimits | None = None,
    refined: RefineSettings | None = None,
    source: str = "",
    calibration: str = "",
) -> Outcome:
    """Run one or several methods over the samples of a population, or over what is known of them.

    refined says how the population was made, for the report; None: not by the refinement. calibration is
    what is known of false findings here, a sentence for verdicts. source, a lake's name, is shown but
    is no part of the id. Deterministic in its arguments.
    Raises ConfigError where a method takes another number of samples or needs requests, TypeError where two
    methods write a table of one name with unlike columns.
    """
    bounds = limits if limits is not None else ReportLimits()
    compared, past = samples_of(population), None if history is None else samples_of(history)
    n = len(compared.samples)
    for chosen in methods:
        if not chosen.method.samples.allows(n):
            raise ConfigError(
                f"The method '{chosen.method.name}' takes {chosen.method.samples.text}, and there are {n}."
            )
    results = [_analysed(chosen, compared, past, bounds) for chosen in methods]
    samples = compared.summaries()
    ratio = compared.traffic.load_ratio if n == PAIR_SIZE else None
    shown = {row.text for section in _verdicts(results) for row in section.quality}
    report = Report(
        id="",
        source=source,
        preparation=None if refined is None else _preparation(refined),
        samples=samples,
        notes=(
            *excluded_notes(samples, compared.population),
            *folded_notes(compared.population.folded),
            *(note for result in results for note in result.notes),
            *(note for note in compared.notes if note not in shown),
        ),
        headline=headline(samples, ratio, results[0].headline),
        methods=tuple(
            MethodRun(
                name=chosen.method.name,
                title=chosen.method.title,
                settings=result.settings.model_dump(mode="json"),
                verdict=result.verdict,
            )
            for chosen, result in zip(methods, results, strict=True)
        ),
        sections=tuple(
            _completed(section, chosen.method.name, calibration)
            for chosen, result in zip(methods, results, strict=True)
            for section in result.sections
        ),
    )
    views = views_by_tag(view for chosen in methods for view in chosen.method.sections)
    return Outcome(with_id(report), _tables(methods, results), views, results[0].weighed)


def _verdicts(results: Sequence[Result]) -> Iterator[VerdictSection]:
    for result in results:
        yield from (section for section in result.sections if isinstance(section, VerdictSection))


def _analysed(
    chosen: Chosen[Any], compared: ComparedSamples, history: ComparedSamples | None, bounds: ReportLimits
) -> Result:
    if chosen.method.statistics is not None:
        return chosen.method.statistics(compared, history, chosen.settings, bounds)
    if any(one is not None and one.kept_slots is not None for one in (compared, history)):
        raise ConfigError(f"The method '{chosen.method.name}' needs requests, and these are statistics.")
    past = None if history is None else history.population
    return chosen.method.analyse(compared.population, past, chosen.settings, bounds)


def _completed(section: Section, method: str, calibration: str) -> Section:
    """A section with what only the run knows."""
    known: dict[str, str] = {"method": method}
    if isinstance(section, VerdictSection):
        known["calibration"] = calibration
    return section.model_copy(update=known)


def _preparation(settings: RefineSettings) -> Preparation:
    others = settings.model_dump(exclude={"level"})
    return Preparation(level=settings.level, refine={key: str(others[key]) for key in sorted(others)})


def _tables(methods: Sequence[Chosen[Any]], results: Sequence[Result]) -> Mapping[str, pa.Table]:
    """Tables by name, each with its method's name first; what several methods give lies in one table."""
    parts: dict[str, list[tuple[str, pa.Table]]] = {}
    for chosen, result in zip(methods, results, strict=True):
        for name, table in result.tables.items():
            parts.setdefault(name, []).append((chosen.method.name, table))
    return {name: _joined(name, tables) for name, tables in parts.items()}


def _joined(name: str, tables: Sequence[tuple[str, pa.Table]]) -> pa.Table:
    first, schema = tables[0][0], tables[0][1].schema
    for method, table in tables:
        if METHOD_COLUMN.name in table.column_names:
            raise TypeError(f"table '{name}' of method '{method}' has a column 'method', which the run adds")
        if not table.schema.equals(schema):
            raise TypeError(f"table '{name}' of method '{method}' has other columns than that of '{first}'")
    return pa.concat_tables(
        [
            table.add_column(0, METHOD_COLUMN, pa.repeat(pa.scalar(method), table.num_rows))
            for method, table in tables
        ]
    )


_MOST_FOLDED: Final = 5
"""Components whose folded names are listed."""


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


def excluded_notes(samples: tuple[SampleSummary, ...], population: Population) -> tuple[str, ...]:
    """One sentence a quality flag that kept flows out of every test."""
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
