"""Compare two periods: population in, report model and complete tables out (ARCHITECTURE §7, paper mode)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from analyze.methods.spectroscope.paper import PaperResult, paper_mutations
from analyze.methods.spectroscope.paper_settings import PaperSettings, ReportLimits
from analyze.population import Population
from analyze.report import assemble, wording
from analyze.report.assemble import PeriodName
from analyze.report.rows import canonical
from analyze.report.tables import report_tables
from schemas.report import (
    Comparison,
    ComparisonSettings,
    Headline,
    MutationKind,
    Verdict,
    with_id,
)

COUNT_NOTE_RATIO = 1.2
"""Numbers of requests further apart than this get a note: the papers assume a like workload (NSDI §5.2)."""
WEIGHT_NOTE_CHANGE = 0.01
"""Mean sampling weights further apart than this get a note: counts are then not comparable."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A comparison, and its complete tables by name."""

    comparison: Comparison
    tables: dict[str, pa.Table]


def compare(
    population: Population,
    reference: PeriodName,
    problem: PeriodName,
    settings: PaperSettings,
    *,
    limits: ReportLimits | None = None,
    level: str = "L0",
    refine: Mapping[str, str] | None = None,
    source: str = "",
    created_at: str | None = None,
) -> Outcome:
    """Paper-mode comparison of `population`.

    level and refine tell how the population was made, for the report's settings. source (a lake's name) and
    created_at (ISO, UTC) are shown but are not part of the id. Deterministic in its arguments.
    """
    bounds = limits if limits is not None else ReportLimits()
    result = paper_mutations(population, settings)
    before = assemble.period_summary(reference, 0, population, result)
    after = assemble.period_summary(problem, 1, population, result)
    headline = assemble.headline(before, after, population)
    mutations, graphs = assemble.mutation_rows(result, population, bounds)
    categories = assemble.category_rows(result, population)
    roots = assemble.root_rows(result, population)
    kinds = [m.kind for m in result.mutations]
    structural = kinds.count(MutationKind.STRUCTURAL)
    comparison = Comparison(
        id="",
        created_at=created_at,
        source=source,
        settings=_settings(settings, level, refine or {}),
        reference=before,
        problem=after,
        notes=_notes(population, result, headline),
        headline=headline,
        mutations=mutations,
        mutations_total=len(kinds),
        structural_total=structural,
        response_time_total=len(kinds) - structural,
        precursors_total=len(result.sets.precursors),
        graphs=graphs,
        roots=tuple(roots[: bounds.roots]),
        roots_total=len(roots),
        categories=tuple(
            row.model_copy(update={"canonical": canonical(row.canonical, bounds)})
            for row in categories[: bounds.categories]
        ),
        categories_total=len(categories),
        sums=assemble.sums(result),
        verdict=Verdict.MUTATIONS if kinds else Verdict.NO_MUTATION,
        verdict_text=wording.verdict_sentence(structural, len(kinds) - structural, settings.sm_threshold),
    )
    return Outcome(with_id(comparison), report_tables(result, population, categories))


def _settings(settings: PaperSettings, level: str, refine: Mapping[str, str]) -> ComparisonSettings:
    """What the report says about how it was made. Raises pydantic.ValidationError for an unknown level."""
    return ComparisonSettings.model_validate(
        {
            **settings.model_dump(),
            "distance": settings.resolved_distance,
            "level": level,
            "refine": dict(sorted(refine.items())),
        }
    )


def _notes(population: Population, result: PaperResult, headline: Headline) -> tuple[str, ...]:
    """Data-quality sentences: what was left out, load, weights, and what the refinement noticed."""
    notes = []
    for flag, (left0, left1) in sorted(population.excluded.items()):
        if left0 or left1:
            notes.append(
                f"Left out of every test as {flag}: {wording.counted(left0, 'flow')} of the reference, "
                f"{wording.count(left1)} of the problem period."
            )
    ratio = headline.requests1 / headline.requests0 if headline.requests0 and headline.requests1 else 1.0
    if not 1 / COUNT_NOTE_RATIO <= ratio <= COUNT_NOTE_RATIO:
        rate = "" if headline.load_ratio is None else f" ({wording.factor(headline.load_ratio)} a second)"
        notes.append(
            f"The problem period holds {wording.factor(ratio)} as many requests{rate}. Paper mode compares "
            "raw counts: structural mutations and precursors may come from that alone."
        )
    weights = result.moments.weighted.sum(axis=1) / np.maximum(result.moments.count.sum(axis=1), 1)
    if weights[0] and weights[1] and abs(weights[1] / weights[0] - 1) > WEIGHT_NOTE_CHANGE:
        notes.append(
            f"Sampling differs: a request stands for {wording.significant(weights[0])} in the reference and "
            f"{wording.significant(weights[1])} in the problem period. Paper mode counts recorded requests; "
            "means are weighted."
        )
    return (*notes, *population.notes)
