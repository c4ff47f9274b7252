"""Tier 2 as the report's model: categories and their parts, advice, suggested markers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from analyze.methods.variance.bimodality import Advice, explained, merged_parts
from analyze.methods.variance.covariance import (
    CorrelatedPair,
    CovarianceShares,
    GroupParts,
    correlated_pairs,
    covariance_shares,
    group_parts,
    queue_hints,
)
from analyze.methods.variance.markers import MarkedLabels, suggested
from analyze.methods.variance.request_groups import NOWHERE, RequestGroups
from analyze.methods.variance.settings import VarianceSettings
from analyze.methods.variance.variance_decomposition import SampleVariance
from analyze.methods.variance.variance_rows import impact_order
from analyze.population import Population
from analyze.profile.names import site_name
from analyze.profile.times import AllPathTimes
from analyze.report.limits import ReportLimits
from analyze.stats.histogram import log_histogram
from schemas.errors import ConfigError
from schemas.report.variance import (
    EdgeAdvice,
    EdgePair,
    MarkerSuggestion,
    VariableEdge,
    VarianceDetail,
    VarianceDetailsSection,
)

HIGHEST = 3
"""Parts of the highest variance that are marked: what the paper highlights."""
MOST_PAIRS = 20
LEAST_SUGGESTED = 0.02
"""Share of the variance from which a marker is suggested."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One group, looked into."""

    group: int
    parts: GroupParts
    shares: CovarianceShares
    pairs: tuple[CorrelatedPair, ...]


def chosen_groups(
    population: Population, groups: RequestGroups, order: Sequence[int], settings: VarianceSettings
) -> list[int]:
    """Groups to look into. Raises ConfigError for a key that no large category begins with."""
    if not settings.category:
        return list(order[: settings.details])
    found = []
    for asked in settings.category:
        mine = [
            group
            for group in order
            if groups.category[group] != NOWHERE
            and population.categories[int(groups.category[group])].graph.key.startswith(asked)
        ]
        if not mine:
            raise ConfigError(
                f"--category {asked}: no category of more than 10 requests has a key that begins so.",
                remedy="Keys are in the report's table of categories; refinement may give other keys than "
                "`flowdiff categories` does.",
            )
        found += mine
    return list(dict.fromkeys(found))


def details_section(
    population: Population,
    times: AllPathTimes,
    shown: SampleVariance,
    labels: MarkedLabels,
    sites: pa.Table,
    settings: VarianceSettings,
    limits: ReportLimits,
) -> tuple[VarianceDetailsSection, list[Looked]]:
    """The section, and what it was made of."""
    groups, split = shown.groups, shown.whole.split
    order = [group for group in impact_order(shown.whole) if split.within[group] > 0]
    looked = [
        _look(population, times, groups, group, labels, settings)
        for group in chosen_groups(population, groups, order, settings)
    ]
    impact = split.within / split.total if split.total > 0 else split.within
    advice = explained(
        population,
        [
            one
            for look in looked
            for one in merged_parts(
                look.group,
                look.parts,
                look.shares.share,
                float(impact[look.group]),
                least_share=settings.advice_share,
                seed=settings.seed,
            )
        ],
        {look.group: look.parts for look in looked},
        settings.explained,
    )
    section = VarianceDetailsSection(
        details=tuple(
            _detail(population, times, shown, look, labels, float(impact[look.group]), settings, limits)
            for look in looked
        ),
        advice=tuple(_advice(population, groups, one) for one in advice),
        suggestions=tuple(_suggestions(times, shown, sites)),
    )
    return section, looked


def _look(
    population: Population,
    times: AllPathTimes,
    groups: RequestGroups,
    group: int,
    labels: MarkedLabels,
    settings: VarianceSettings,
) -> Looked:
    parts = group_parts(population, times, groups, group, labels.rules, by_sites=settings.by == "sites")
    shares = covariance_shares(parts.us, parts.weight)
    pairs = correlated_pairs(parts.us, parts.weight, shares.share)
    return Looked(group, parts, shares, pairs)


def part_order(look: Looked) -> list[int]:
    """Parts by share; what compensates last."""
    found: list[int] = np.argsort(-look.shares.share, kind="stable").tolist()
    return found


def _detail(
    population: Population,
    times: AllPathTimes,
    shown: SampleVariance,
    look: Looked,
    labels: MarkedLabels,
    impact: float,
    settings: VarianceSettings,
    limits: ReportLimits,
) -> VarianceDetail:
    alone = int(shown.groups.category[look.group])
    edges = edge_rows(population, times, shown, look, labels)
    listed = edges[: limits.brief_edges]
    number = {part: place + 1 for place, part in enumerate(part_order(look))}
    pairs = [
        EdgePair(
            one=min(number[p.one], number[p.other]),
            other=max(number[p.one], number[p.other]),
            rho=p.rho,
            q=p.q,
            covariance_us2=p.covariance,
        )
        for p in look.pairs
        if max(number[p.one], number[p.other]) <= len(listed)
    ]
    c2 = float(shown.whole.by_group.c2[look.group])
    first = part_order(look)[:1]
    return VarianceDetail(
        category=None if alone == NOWHERE else population.categories[alone].graph.key,
        root=shown.groups.roots[shown.groups.root[look.group]],
        requests=len(look.parts.row),
        impact=impact,
        c2=c2 if math.isfinite(c2) and len(look.parts.row) > 10 else None,
        by="edges" if alone != NOWHERE and settings.by == "edges" else "sites",
        sd_us=math.sqrt(look.shares.variance),
        kept=look.shares.kept,
        edges=tuple(listed),
        edges_total=len(edges),
        edges_share=float(sum(edge.share for edge in listed)),
        pairs=tuple(pairs[:MOST_PAIRS]),
        pairs_total=len(look.pairs),
        histogram=None
        if not first
        else log_histogram(
            look.parts.names[first[0]].text,
            np.zeros(0),
            look.parts.us[first[0]][look.parts.us[first[0]] > 0],
            limits.bins,
        ),
    )


def edge_rows(
    population: Population, times: AllPathTimes, shown: SampleVariance, look: Looked, labels: MarkedLabels
) -> list[VariableEdge]:
    """All parts of a group, by share."""
    alone = int(shown.groups.category[look.group])
    parts, shares, order = look.parts, look.shares, part_order(look)
    number = {part: place + 1 for place, part in enumerate(order)}
    hints = {}
    if alone != NOWHERE and parts.names and parts.names[0].src >= 0:
        graph = population.categories[alone].graph
        hints = {hint.waiting: hint.serving for hint in queue_hints(graph, parts.names, look.pairs)}
    loudest = np.argsort(-shares.part_variance, kind="stable")[:HIGHEST]
    p = parts.weight / parts.weight.sum()
    critical = (parts.us > 0) @ p
    rows = []
    for part in order:
        name = parts.names[part]
        marker = labels.rules.marker_of(name)
        rows.append(
            VariableEdge(
                number=number[part],
                label=name.text,
                site=name.text if name.site < 0 else site_name(name.site, times.names).text,
                mean_us=float(shares.mean[part]),
                sd_us=math.sqrt(max(float(shares.part_variance[part]), 0.0)),
                critical=min(float(critical[part]), 1.0),
                share=float(shares.share[part]),
                share_winsorised=float(shares.share_winsorised[part]),
                highest=bool(part in loudest and shares.part_variance[part] > 0),
                inherits=number[hints[part]] if part in hints else None,
                marker=None if marker is None else marker.kind,
            )
        )
    return rows


def _advice(population: Population, groups: RequestGroups, one: Advice) -> EdgeAdvice:
    alone = int(groups.category[one.group])
    return EdgeAdvice(
        category=None if alone == NOWHERE else population.categories[alone].graph.key,
        categories=one.groups,
        label=one.name.text,
        worth=one.worth,
        delta_bic=one.found.delta_bic,
        low_us=one.found.low_us,
        high_us=one.found.high_us,
        high_share=one.found.high_share,
        cut_us=one.found.cut_us,
        explanation=one.explanation,
    )


def _suggestions(times: AllPathTimes, shown: SampleVariance, sites: pa.Table) -> list[MarkerSuggestion]:
    """Markers for what adds much and has none, by name."""
    found: dict[str, MarkerSuggestion] = {}
    within, unmarked = sites["within"].to_numpy(), sites["marker"].is_null().to_numpy()
    order = shown.site_order
    for place in np.flatnonzero((within >= LEAST_SUGGESTED) & unmarked).tolist():
        name = site_name(order[place], times.names)
        if told := suggested(name):
            found.setdefault(
                name.text,
                MarkerSuggestion(label=name.text, kind=told[0], why=told[1], within=float(within[place])),
            )
    return list(found.values())
