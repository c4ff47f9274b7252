"""Tier 1 as the report's model: split, sites, categories, C² curve, markers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from analyze.methods.variance.markers import MarkedLabels
from analyze.methods.variance.request_groups import NOWHERE
from analyze.methods.variance.settings import VarianceSettings
from analyze.methods.variance.site_table import site_rows
from analyze.methods.variance.variance_decomposition import (
    WIDEST,
    Measured,
    SampleVariance,
    coefficient,
    deviation,
    log_coefficient,
)
from analyze.population import Population
from analyze.profile.names import site_name
from analyze.profile.times import AllPathTimes
from analyze.report.limits import ReportLimits
from analyze.report.moment_rows import canonical
from analyze.stats.moments import HIGH, LARGE, c2_curve
from schemas.arrays import F8
from schemas.report.findings import Interval
from schemas.report.variance import (
    C2Curve,
    MarkerKind,
    VariableCategory,
    VariancePart,
    VarianceSection,
    WatchedSource,
)

MOST_SITES: Final = 100


def variance_section(
    population: Population,
    times: AllPathTimes,
    samples: Sequence[SampleVariance],
    labels: MarkedLabels,
    sites: pa.Table,
    categories: Sequence[VariableCategory],
    limits: ReportLimits,
) -> VarianceSection:
    """The section about the last sample, whose rows are given; the curves are of all."""
    shown = samples[-1]
    whole, residual = shown.whole, shown.residual
    total = whole.split.total
    sums = whole.by_group.n
    return VarianceSection(
        sample=population.samples[shown.groups.sample].name,
        mean_us=whole.at.mean,
        sd_us=math.sqrt(total),
        c2=total / whole.at.mean**2 if whole.at.mean > 0 else 0.0,
        residual_sd_us=None if residual is None else math.sqrt(residual.split.total),
        residual_within=None
        if residual is None
        else _over(residual.split.within.sum(), residual.split.total),
        marked_share=None if residual is None else 1.0 - _over(residual.split.total, total),
        parts=_parts(shown),
        sites=tuple(site_rows(sites, MOST_SITES)),
        sites_total=sites.num_rows,
        categories=tuple(
            row.model_copy(update={"canonical": canonical(row.canonical, limits)})
            for row in categories[: limits.categories]
        ),
        categories_total=len(categories),
        curves=tuple(_curve(population, sample) for sample in samples),
        rare_requests=_over(sums[shown.groups.category == NOWHERE].sum(), sums.sum()),
        markers=labels.rows,
        watched=_watched(times, shown, labels),
    )


def _over(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole > 0 else 0.0


def _parts(shown: SampleVariance) -> tuple[VariancePart, ...]:
    split, groups = shown.whole.split, shown.groups
    found = [
        VariancePart(kind="roots", root=None, share=_over(split.roots.sum(), split.total)),
        VariancePart(kind="paths", root=None, share=_over(split.paths.sum(), split.total)),
        VariancePart(kind="within", root=None, share=_over(split.within.sum(), split.total)),
    ]
    for number, root in enumerate(groups.roots):
        mine = groups.root == number
        if not mine.any():
            continue
        found += [
            VariancePart(kind="roots", root=root, share=_over(split.roots[number], split.total)),
            VariancePart(kind="paths", root=root, share=_over(split.paths[mine].sum(), split.total)),
            VariancePart(kind="within", root=root, share=_over(split.within[mine].sum(), split.total)),
        ]
    return tuple(found)


def c2_interval(ends: tuple[F8, F8], place: int) -> Interval | None:
    """Interval of exp of a logarithm, `ends` being that of all logarithms; None where it tells nothing."""
    low, high = float(ends[0][place]), float(ends[1][place])
    if not (math.isfinite(low) and math.isfinite(high)) or high - low > WIDEST:
        return None
    return Interval(low=math.exp(low), high=math.exp(high))


def category_rows(
    population: Population, shown: SampleVariance, settings: VarianceSettings
) -> list[VariableCategory]:
    """All groups in the order asked for."""
    groups, whole = shown.groups, shown.whole
    sums = whole.by_group.sums.sum(axis=1)
    c2, sd = coefficient(sums), deviation(sums)
    spread = log_coefficient(whole.by_group.sums).interval()
    left = None if shown.residual is None else shown.residual.by_group.c2
    rows = []
    for group in range(groups.n_groups):
        alone = int(groups.category[group])
        n = int(whole.by_group.n[group])
        told = n > LARGE and math.isfinite(c2[group])
        graph = None if alone == NOWHERE else population.categories[alone].graph
        rows.append(
            VariableCategory(
                category=None if graph is None else graph.key,
                members=len(groups.members(group)),
                root=groups.roots[groups.root[group]],
                canonical="" if graph is None else graph.canonical,
                requests=n,
                mean_us=_over(sums[group, 1], sums[group, 0]),
                sd_us=float(sd[group]),
                c2=float(c2[group]) if told else None,
                c2_interval=c2_interval(spread, group) if told else None,
                c2_residual=None
                if left is None or not told or not math.isfinite(left[group])
                else float(left[group]),
                impact=_over(whole.split.within[group], whole.split.total),
            )
        )
    return sorted(rows, key=lambda row: _rank(row, settings))


def _rank(row: VariableCategory, settings: VarianceSettings) -> tuple[float, float, float, str, str]:
    c2 = row.c2 if row.c2 is not None else -1.0
    key = (row.root, row.category or "")
    if settings.sort == "c2":
        return (0.0 if row.category else 1.0, -c2, -row.impact, *key)
    return (0.0 if c2 > HIGH else 1.0, -row.impact, -c2, *key)


def _curve(population: Population, sample: SampleVariance) -> C2Curve:
    groups, found = sample.groups, sample.whole.by_group
    large = groups.category != NOWHERE
    return c2_curve(population.samples[groups.sample].name, found.c2[large], found.n[large])


def _watched(times: AllPathTimes, shown: SampleVariance, labels: MarkedLabels) -> tuple[WatchedSource, ...]:
    """Sources marked inadvertent, those of high C² first, each by what it adds."""
    sums = shown.whole.sites.touched.sum(axis=1)
    c2 = coefficient(sums)
    found = []
    for row, sites in labels.sites:
        if row.kind is not MarkerKind.INADVERTENT or row.state != "holds":
            continue
        for site in sites:
            if not shown.whole.sites.n[site]:
                continue
            value = float(c2[site]) if math.isfinite(c2[site]) else None
            found.append(
                WatchedSource(
                    marker=row,
                    site=site_name(site, times.names).text,
                    c2=value,
                    within=shown.whole.part_within(site),
                    resolved=value is not None and value < HIGH,
                )
            )
    return tuple(sorted(found, key=lambda one: (one.resolved, -one.within, one.site)))


def impact_order(measured: Measured) -> list[int]:
    """Groups by their part of the variance within paths."""
    found: list[int] = np.argsort(-measured.split.within, kind="stable").tolist()
    return found
