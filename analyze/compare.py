"""The run: samples in, methods over them, one report out.

What every report has is made here, once: the samples in numbers, the headline, the notes on the data. What
was found is each method's; nothing here knows which methods there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from analyze.methods.port import Chosen, Result
from analyze.population import Population
from analyze.profile.stored import SampleProfiles
from analyze.refine.settings import RefineSettings
from analyze.report.header import excluded_notes, folded_notes, headline, load_ratio, sample_summary
from analyze.report.limits import ReportLimits
from analyze.report.outcome import Outcome
from analyze.report.section_view import views_by_tag
from analyze.report.statistics_header import statistics_load_ratio, statistics_summary
from analyze.stats.moments import category_moments
from schemas.errors import ConfigError
from schemas.report.accounts import VerdictSection
from schemas.report.parts import Section
from schemas.report.report import MethodRun, Preparation, Report, SampleSummary, with_id
from schemas.report.report_tables import METHOD_COLUMN

PAIR_SIZE: Final = 2
"""Samples of a comparison of two periods."""


def compare(
    population: Population | SampleProfiles,
    methods: Sequence[Chosen[Any]],
    *,
    history: Population | SampleProfiles | None = None,
    limits: ReportLimits | None = None,
    refined: RefineSettings | None = None,
    source: str = "",
    calibration: str = "",
    created_at: str | None = None,
) -> Outcome:
    """Run one or several methods over the samples of a population, or over what is known of them.

    refined says how the population was made, for the report; None: not by the refinement. calibration is
    what is known of false findings here, a sentence for verdicts. source (a lake's name) and created_at (ISO,
    UTC) are shown but are not part of the id. Deterministic in its arguments.
    Raises ConfigError where a method takes another number of samples or needs requests, TypeError where two
    methods write a table of one name with unlike columns.
    """
    bounds = limits if limits is not None else ReportLimits()
    n = len(population.samples)
    for chosen in methods:
        if not chosen.method.samples.allows(n):
            raise ConfigError(
                f"The method '{chosen.method.name}' takes {chosen.method.samples.text}, and there are {n}."
            )
    results = [_analysed(chosen, population, history, bounds) for chosen in methods]
    samples, ratio = _header(population)
    told = {row.text for section in _verdicts(results) for row in section.quality}
    report = Report(
        id="",
        created_at=created_at,
        source=source,
        preparation=None if refined is None else _preparation(refined),
        samples=samples,
        notes=(
            *(
                folded_notes(population.profile.folded)
                if isinstance(population, SampleProfiles)
                else (*excluded_notes(samples, population), *folded_notes(population.folded))
            ),
            *(note for result in results for note in result.notes),
            *(note for note in population.notes if note not in told),
        ),
        headline=headline(samples, ratio, results[0].headline),
        methods=tuple(_method_run(chosen, result) for chosen, result in zip(methods, results, strict=True)),
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
    chosen: Chosen[Any],
    compared: Population | SampleProfiles,
    history: Population | SampleProfiles | None,
    bounds: ReportLimits,
) -> Result:
    if not isinstance(compared, SampleProfiles) and not isinstance(history, SampleProfiles):
        return chosen.method.analyse(compared, history, chosen.settings, bounds)
    if chosen.method.statistics is None:
        raise ConfigError(f"The method '{chosen.method.name}' needs requests, and these are statistics.")
    return chosen.method.statistics(compared, history, chosen.settings, bounds)


def _header(compared: Population | SampleProfiles) -> tuple[tuple[SampleSummary, ...], float | None]:
    """Samples in numbers, and the load of the second over the first's where there are two."""
    n = len(compared.samples)
    if isinstance(compared, SampleProfiles):
        ratio = statistics_load_ratio(compared) if n == PAIR_SIZE else None
        return tuple(statistics_summary(compared, sample) for sample in range(n)), ratio
    moments = category_moments(compared.categories, n)
    samples = tuple(sample_summary(compared, moments, sample) for sample in range(n))
    return samples, load_ratio(compared) if n == PAIR_SIZE else None


def _completed(section: Section, method: str, calibration: str) -> Section:
    """A section with what only the run knows."""
    known: dict[str, str] = {"method": method}
    if isinstance(section, VerdictSection):
        known["calibration"] = calibration
    return section.model_copy(update=known)


def _preparation(settings: RefineSettings) -> Preparation:
    others = settings.model_dump(exclude={"level"})
    return Preparation(level=settings.level, refine={key: str(others[key]) for key in sorted(others)})


def _method_run(chosen: Chosen[Any], result: Result) -> MethodRun:
    return MethodRun(
        name=chosen.method.name,
        title=chosen.method.title,
        settings=result.settings.model_dump(mode="json"),
        verdict=result.verdict,
    )


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
