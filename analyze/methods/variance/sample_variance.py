"""Everything about one sample's variance: groups, split, sites, and the same without marked sources."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.methods.variance.category_variance import GroupVariances, group_variances
from analyze.methods.variance.markers import LabelRules
from analyze.methods.variance.request_groups import Levels, RequestGroups, levels, request_groups
from analyze.methods.variance.site_variance import SiteVariances, site_variances
from analyze.methods.variance.variance_split import VarianceSplit, variance_split
from analyze.population import Population
from analyze.profile.times import AllPathTimes
from schemas.arrays import B1


@dataclass(frozen=True, slots=True)
class Measured:
    """Variances of one value of each request: its response time, or what is left of it."""

    at: Levels
    split: VarianceSplit
    sites: SiteVariances
    by_group: GroupVariances

    def part_within(self, site: int) -> float:
        """Part of the variance that a site adds within paths; 0 where nothing varies."""
        return float(self.sites.within[site]) / self.split.total if self.split.total > 0 else 0.0


@dataclass(frozen=True, slots=True)
class SampleVariance:
    """One sample."""

    groups: RequestGroups
    whole: Measured
    residual: Measured | None
    """Without marked sources; None where no marker that holds means anything."""

    @property
    def site_order(self) -> list[int]:
        """Sites that requests wait for, by what they add to the variance within paths that is left."""
        ranked = (self.residual or self.whole).sites
        seen = np.flatnonzero(self.whole.sites.n > 0)
        order = np.lexsort((seen, -self.whole.sites.within[seen], -ranked.within[seen]))
        found: list[int] = seen[order].tolist()
        return found


def unmarked_edges(population: Population, times: AllPathTimes, rules: LabelRules) -> tuple[B1, ...] | None:
    """[categories] of [edges] without a marker; None where all are."""
    if not rules.accepted:
        return None
    found = tuple(
        rules.unmarked(category.graph, mine.site)
        for category, mine in zip(population.categories, times.categories, strict=True)
    )
    return None if all(part.all() for part in found) else found


def sample_variance(
    population: Population, times: AllPathTimes, sample: int, unmarked: tuple[B1, ...] | None
) -> SampleVariance:
    """A sample's variances. O(requests · edges)."""
    groups = request_groups(population, sample)
    residual = None if unmarked is None else _measured(times, groups, unmarked)
    return SampleVariance(groups, _measured(times, groups, None), residual)


def _measured(times: AllPathTimes, groups: RequestGroups, unmarked: tuple[B1, ...] | None) -> Measured:
    responses = times.responses(unmarked)
    at = levels(groups, tuple(value[rows] for value, rows in zip(responses, groups.rows, strict=True)))
    split = variance_split(groups, at)
    return Measured(
        at, split, site_variances(times, groups, at, split, unmarked), group_variances(groups, at)
    )
