"""Paper mode on a population made by hand, and its report with the sections at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from analyze.compare import compare
from analyze.methods.paper.method import METHOD
from analyze.methods.paper.settings import PaperSettings
from analyze.methods.port import Chosen
from analyze.population import Population, Sample
from analyze.report.gate import Outcome
from analyze.report.limits import ReportLimits
from schemas.report.mutations import (
    CategoriesSection,
    CategoryRow,
    Mutation,
    MutationsSection,
    RootsSection,
    SumsSection,
)
from schemas.report.parts import Section
from schemas.report.report import PeriodChange, Report, SampleSummary

MINUTE = 60 * 10**9
SAMPLES = (Sample("reference", "before", 0, MINUTE), Sample("problem", "after", MINUTE, 2 * MINUTE))
SECTIONS: tuple[type[Section], ...] = (MutationsSection, RootsSection, CategoriesSection, SumsSection)


def named(population: Population, reference: str = "before", problem: str = "after") -> Population:
    """The same population, its samples called by these texts."""
    before, after = SAMPLES
    return replace(population, samples=(replace(before, text=reference), replace(after, text=problem)))


def paper_outcome(
    population: Population, limits: ReportLimits | None = None, source: str = "", **settings: Any
) -> Outcome:
    """Paper mode with some settings."""
    chosen = Chosen(METHOD, PaperSettings.model_validate(settings))
    return compare(population, [chosen], limits=limits, source=source)


@dataclass(frozen=True)
class PaperReport:
    """A paper-mode report and its tables, the sections at hand."""

    outcome: Outcome

    @property
    def report(self) -> Report:
        return self.outcome.report

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        return self.outcome.tables

    @property
    def ranked(self) -> MutationsSection:
        return self.report.section(MutationsSection)

    @property
    def mutations(self) -> tuple[Mutation, ...]:
        return self.ranked.mutations

    @property
    def categories(self) -> tuple[CategoryRow, ...]:
        return self.report.section(CategoriesSection).categories

    @property
    def sums(self) -> SumsSection:
        return self.report.section(SumsSection)

    @property
    def reference(self) -> SampleSummary:
        return self.report.sample("reference")

    @property
    def problem(self) -> SampleSummary:
        return self.report.sample("problem")

    @property
    def change(self) -> PeriodChange:
        assert self.report.headline.change is not None
        return self.report.headline.change


def paper_report(population: Population, limits: ReportLimits | None = None, **settings: Any) -> PaperReport:
    """The report of `paper_outcome`, the samples named in time."""
    return PaperReport(paper_outcome(named(population), limits, **settings))
