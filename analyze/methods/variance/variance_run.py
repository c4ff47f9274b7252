"""Run of VarianceFinder: variances of every sample, with and without marked sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analyze.methods.variance.markers import LabelRules, Marker, day_of, marked_labels
from analyze.methods.variance.settings import VarianceSettings
from analyze.methods.variance.variance_decomposition import (
    NOWHERE,
    SampleVariance,
    sample_variance,
    unmarked_edges,
)
from analyze.population import Graph, Population
from analyze.profile.times import AllPathTimes, path_times
from analyze.report.limits import ReportLimits
from schemas.errors import PeriodError


@dataclass(frozen=True, slots=True)
class VarianceRun:
    """Variances of all samples, and the inputs from which they were computed."""

    population: Population
    times: AllPathTimes
    """Own times and times on the critical path, by path."""
    rules: LabelRules
    """Markers that have not expired."""
    samples: tuple[SampleVariance, ...]
    settings: VarianceSettings
    limits: ReportLimits

    @property
    def shown(self) -> SampleVariance:
        """Variances of the last sample: all sections describe it, except the one on changes between
        samples."""
        return self.samples[-1]

    def graph_of(self, group: int) -> Graph | None:
        """Graph of a group's category; None for a group of rare categories. group: index in the last
        sample."""
        alone = int(self.shown.groups.category[group])
        return None if alone == NOWHERE else self.population.categories[alone].graph

    def key_of(self, group: int) -> str | None:
        """Key of a group's category; None for a group of rare categories. group: index in the last sample."""
        graph = self.graph_of(group)
        return None if graph is None else graph.key

    def root_of(self, group: int) -> str:
        """Root type of a group. group: index in the last sample."""
        groups = self.shown.groups
        root: str = groups.roots[groups.root[group]]
        return root


def variance_run(
    population: Population, markers: Sequence[Marker], settings: VarianceSettings, limits: ReportLimits
) -> VarianceRun:
    """Decompose the variance of every sample of a population.

    Markers apply unless they have expired on the last day of the samples. Raises PeriodError for a sample
    without complete requests.
    """
    for number, sample in enumerate(population.samples):
        if not population.has_requests(number):
            named = "period" if sample.name == "period" else f"{sample.name} period"
            raise PeriodError(
                f"No request of the {named} has a variance.",
                remedy="Take a longer period; what was left out as damaged is listed by `flowdiff windows`.",
            )
    times = path_times(population)
    day = day_of(max(sample.end_ns for sample in population.samples))
    rules = marked_labels(population, times, LabelRules(tuple(markers), day, times.names))
    unmarked = unmarked_edges(population, times, rules)
    samples = tuple(
        sample_variance(population, times, number, unmarked) for number in range(len(population.samples))
    )
    return VarianceRun(population, times, rules, samples, settings, limits)
