"""Run one or several methods over samples and make one report.

Parts common to all reports are made here: summaries of the samples, headline, notes on the data. All other
sections come from the methods; this module does not depend on any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from analyze.methods.port import Chosen, Result
from analyze.population import Population
from analyze.profile.samples import PAIR_SIZE, ComparedSamples, samples_of
from analyze.profile.time_strip import time_strip
from analyze.refine.settings import RefineSettings
from analyze.report.gate import Outcome
from analyze.report.header import excluded_notes, folded_notes, headline
from analyze.report.limits import ReportLimits
from analyze.report.section_view import views_by_tag
from schemas.errors import ConfigError
from schemas.report.accounts import VerdictSection
from schemas.report.parts import Section
from schemas.report.report import (
    MethodRun,
    Preparation,
    Report,
    with_id,
)
from schemas.report.report_tables import METHOD_COLUMN
from schemas.report.time_strip import Mark


def compare(
    population: Population | ComparedSamples,
    methods: Sequence[Chosen[Any]],
    *,
    history: Population | ComparedSamples | None = None,
    limits: ReportLimits | None = None,
    refined: RefineSettings | None = None,
    source: str = "",
    calibration: str = "",
    marks: Sequence[Mark] = (),
) -> Outcome:
    """Run one or several methods over the samples of a population, or over their stored statistics, and make
    one report.

    refined: settings by which the population was refined, for the report; None: it was not refined.
    calibration: sentence on the false findings to expect, for verdicts. source: name of the lake, shown but
    not part of the report's id. marks: deployments to draw on the time strip. Deterministic in its arguments.
    Raises ConfigError if a method takes another number of samples or needs requests, TypeError if two methods
    write a table of one name with different columns.
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
    strip = time_strip(compared)
    sections = (section for result in results for section in result.sections)
    shown = {row.text for one in sections if isinstance(one, VerdictSection) for row in one.quality}
    report = Report(
        id="",
        source=source,
        preparation=None if refined is None else _preparation(refined),
        samples=samples,
        notes=(
            *excluded_notes(samples, compared.population),
            *folded_notes(compared.population.folded),
            *(note for result in results for note in result.notes),
            *(note for note in compared.population.notes if note not in shown),
        ),
        headline=headline(samples, ratio, results[0].headline),
        strip=None if strip is None else strip.model_copy(update={"marks": tuple(marks)}),
        picture=next((result.picture for result in results if result.picture is not None), None),
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


def _analysed(
    chosen: Chosen[Any], compared: ComparedSamples, history: ComparedSamples | None, bounds: ReportLimits
) -> Result:
    if chosen.method.needs_requests and any(
        one is not None and one.kept is not None for one in (compared, history)
    ):
        raise ConfigError(f"The method '{chosen.method.name}' needs requests, and these are statistics.")
    return chosen.method.analyse(compared, history, chosen.settings, bounds)


def _completed(section: Section, method: str, calibration: str) -> Section:
    """Copy a section with the fields that depend on the run filled in: name of the method, calibration
    sentence."""
    known: dict[str, str] = {"method": method}
    if isinstance(section, VerdictSection):
        known["calibration"] = calibration
    return section.model_copy(update=known)


def _preparation(settings: RefineSettings) -> Preparation:
    others = dict(_named_values(settings.model_dump(exclude={"level"})))
    return Preparation(level=settings.level, refine={name: others[name] for name in sorted(others)})


def _named_values(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield (name, value as text) of each setting; a setting of a nested model is named `outer.inner`, for
    example `statistics.slow`. above: prefix of the names."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _named_values(value, f"{above}{name}.")
        elif value and isinstance(value, tuple) and isinstance(value[0], str):
            yield f"{above}{name}", ", ".join(value)
        else:
            yield f"{above}{name}", str(value)


def _tables(methods: Sequence[Chosen[Any]], results: Sequence[Result]) -> Mapping[str, pa.Table]:
    """Mapping name -> table for the tables of all methods, with an added first column `method`.

    Tables with the same name are concatenated. Raises TypeError if their columns differ."""
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
