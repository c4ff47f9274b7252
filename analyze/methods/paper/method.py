"""Method "paper": Spectroscope as published, or as its released source works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from analyze.methods.paper.sections import CATEGORIES, MUTATIONS, ROOTS, SUMS
from analyze.methods.paper.settings import PaperSettings
from analyze.methods.port import Method, Result, SampleCount
from analyze.population import Population, no_testable_request
from analyze.profile.samples import ComparedSamples, samples_of
from analyze.report import wording
from analyze.report.gate import Weighed
from analyze.report.limits import ReportLimits
from analyze.report.model_values import canonical
from schemas.report.mutations import CategoriesSection, MutationKind, MutationsSection, RootsSection
from schemas.report.report import Verdict

_COUNT_NOTE_RATIO: Final = 1.2
"""Ratio of the numbers of requests above which the report has a note: the papers assume similar workloads
(NSDI §5.2)."""
_WEIGHT_NOTE_CHANGE: Final = 0.01
"""Relative difference of the samples' mean sampling weights above which the report has a note: counts are
then not comparable."""


if TYPE_CHECKING:
    from analyze.methods.paper.paper_run import PaperRun


def _analyse(
    compared: ComparedSamples, _history: ComparedSamples | None, settings: PaperSettings, limits: ReportLimits
) -> Result:
    """Find mutations of the second sample against the first. The history is not used: the papers had none.

    Raises PeriodError if a sample has no testable request.
    """
    population = compared.population
    for number, sample in enumerate(population.samples):
        if not population.has_requests(number):
            raise no_testable_request(sample.name)
    # Imported here, so that the command line can list the options without scipy.
    from analyze.methods.paper.mutation_tables import report_tables
    from analyze.methods.paper.paper_run import paper_run
    from analyze.methods.paper.rows import category_rows, mutations_section, root_rows, sums

    found = paper_run(population, settings)
    mutations = mutations_section(found, population, limits)
    categories, roots = category_rows(found, population), root_rows(found, population)
    return Result(
        settings=settings.model_copy(update={"distance": settings.resolved_distance}),
        verdict=_verdict(mutations, settings),
        sections=(
            mutations,
            RootsSection(roots=tuple(roots[: limits.roots]), roots_total=len(roots)),
            CategoriesSection(
                categories=tuple(
                    row.model_copy(update={"canonical": canonical(row.canonical, limits)})
                    for row in categories[: limits.categories]
                ),
                categories_total=len(categories),
            ),
            sums(found),
        ),
        tables=report_tables(found, population, categories),
        notes=_notes(population, found),
        weighed=[
            Weighed(
                m.kind.value,
                m.contribution_us,
                better=m.kind is MutationKind.RESPONSE_TIME and m.contribution_us < 0,
            )
            for m in found.mutations
        ],
    )


def _verdict(mutations: MutationsSection, settings: PaperSettings) -> Verdict:
    """Make the verdict (outcome and sentence) from the mutations."""
    if not mutations.mutations_total:
        return Verdict(
            outcome="no-mutation",
            text=(
                "No mutation: no category's response times differ by the test, and no category's count moved "
                f"by {settings.sm_threshold}. Paper mode cannot say how small a change it would have missed."
            ),
        )
    kinds = ((mutations.structural_total, "structural"), (mutations.response_time_total, "response-time"))
    found = [wording.counted(total, f"{kind} mutation") for total, kind in kinds if total]
    return Verdict(outcome="mutations", text=f"{' and '.join(found)} found.")


def _notes(population: Population, result: PaperRun) -> tuple[str, ...]:
    """Notes on a changed load or sampling, by which the numbers of requests change without a change of the
    system."""
    notes = []
    before, after = (int(n) for n in result.moments.count.sum(axis=1))
    ratio = after / before if before and after else 1.0
    if not 1 / _COUNT_NOTE_RATIO <= ratio <= _COUNT_NOTE_RATIO:
        load = samples_of(population).traffic.load_ratio
        rate = "" if load is None else f" ({wording.factor(load)} a second)"
        notes.append(
            f"The problem period holds {wording.factor(ratio)} as many requests{rate}. Paper mode compares "
            "raw counts: structural mutations and precursors may come from that alone."
        )
    weights = result.moments.weighted.sum(axis=1) / np.maximum(result.moments.count.sum(axis=1), 1)
    if weights[0] and weights[1] and abs(weights[1] / weights[0] - 1) > _WEIGHT_NOTE_CHANGE:
        notes.append(
            f"Sampling differs: a request stands for {wording.significant(weights[0])} in the reference and "
            f"{wording.significant(weights[1])} in the problem period. Paper mode counts recorded requests; "
            "means are weighted."
        )
    return tuple(notes)


METHOD: Final = Method(
    name="paper",
    title="Spectroscope as published",
    settings=PaperSettings,
    samples=SampleCount(2, 2),
    analyse=_analyse,
    sections=(MUTATIONS, ROOTS, CATEGORIES, SUMS),
    kinds=tuple(kind.value for kind in MutationKind),
)
