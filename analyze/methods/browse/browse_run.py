"""Run of the method "browse": densities and modes of response times, and counts by bin of response time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.methods.browse.response_bins import (
    BinRange,
    ResponseBins,
    bin_edges,
    mode_ranges,
    response_bins,
)
from analyze.methods.browse.settings import BrowseSettings
from analyze.population import Population
from analyze.profile.times import AllPathTimes, path_times
from analyze.stats.density import Density, log_density, modes
from analyze.stats.moments import SampleMoments, category_moments
from schemas.windows import NS_PER_US


@dataclass(frozen=True, slots=True)
class BrowseRun:
    """Results of browsing: densities and moments of all samples; times, bins and ranges of the last
    sample."""

    population: Population
    times: AllPathTimes
    """Own times and times on the critical path, by path."""
    moments: SampleMoments
    densities: tuple[Density | None, ...]
    """Density of the response times of each sample; None for a sample with fewer than two distinct times."""
    bins: ResponseBins
    """Counts by bin of response time."""
    ranges: tuple[BinRange, ...]
    """Ranges of response times to show: one for each mode of the density, and the slowest requests (slow
    end)."""
    settings: BrowseSettings

    @property
    def sample(self) -> int:
        """Index of the browsed sample, the last one."""
        return len(self.population.samples) - 1

    @property
    def name(self) -> str:
        """Name of the browsed sample, the last one."""
        return self.population.samples[-1].name


def browse_run(population: Population, settings: BrowseSettings) -> BrowseRun:
    """Estimate the densities of all samples, count the requests of the last one by bin, and choose ranges of
    bins."""
    times = path_times(population)
    densities, response = [], np.zeros(0, np.int64)
    for sample in range(len(population.samples)):
        parts = [(category, category.rows(sample)) for category in population.categories]
        response = np.concatenate([response[:0], *(category.response_ns[rows] for category, rows in parts)])
        weight = np.concatenate([np.zeros(0), *(category.weight[rows] for category, rows in parts)])
        densities.append(log_density(response / NS_PER_US, weight))
    found = [] if densities[-1] is None else modes(densities[-1], settings.modes)
    edges = bin_edges(response, settings.bins, found)
    bins = response_bins(population, times, len(population.samples) - 1, edges)
    return BrowseRun(
        population,
        times,
        category_moments(population.categories, len(population.samples)),
        tuple(densities),
        bins,
        tuple(mode_ranges(bins, found)) if len(response) else (),
        settings,
    )
