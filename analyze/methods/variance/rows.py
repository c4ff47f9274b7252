"""Rows of variances for the report: decomposition, call sites, categories, C² curves, markers, parts, advice.

First the whole sample, then single categories in detail.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from analyze.methods.variance.bimodality import edge_advice
from analyze.methods.variance.covariance import (
    DecomposedGroup,
    correlated_pairs,
    covariance_shares,
    group_parts,
    queue_hints,
)
from analyze.methods.variance.markers import suggested
from analyze.methods.variance.settings import VarianceSettings
from analyze.methods.variance.variance_decomposition import (
    NOWHERE,
    WIDEST,
    SampleVariance,
    coefficient,
    deviation,
    log_coefficient,
)
from analyze.methods.variance.variance_run import VarianceRun
from analyze.population import Population
from analyze.profile.names import caller_name, site_name
from analyze.report.model_values import canonical, number
from analyze.stats.histograms import log_histogram
from analyze.stats.jackknife import jackknife
from analyze.stats.moments import HIGH, LARGE, c2_curve
from schemas.arrays import F8, I8
from schemas.errors import ConfigError
from schemas.report.columns import arrow_columns, arrow_table, columns_of, rows_of, stored
from schemas.report.findings import Interval
from schemas.report.variance import (
    C2Curve,
    EdgePair,
    MarkerKind,
    MarkerSuggestion,
    VariableCategory,
    VariableEdge,
    VariableSite,
    VarianceDetail,
    VarianceDetailsSection,
    VariancePart,
    VarianceSection,
    WatchedSource,
)

MOST_SITES: Final = 100
_HIGHEST = 3
"""Number of parts with the highest variance that are highlighted, as in the paper."""
_MOST_PAIRS = 20
_LEAST_SUGGESTED = 0.02
"""Smallest share of the variance, in [0, 1], at which a call site gets a suggested marker (`markers`)."""


RANK: Final = stored("rank", "place", "from 1")
_SITES: Final = (RANK, *columns_of(VariableSite))


def site_table(run: VarianceRun) -> pa.Table:
    """Table of call sites, the largest sources of variance first."""
    shown = run.shown
    whole = shown.whole
    sites, order, n = whole.sites, np.asarray(shown.site_order, np.int64), whole.sites.n
    sums = sites.touched.sum(axis=1)
    c2 = coefficient(sums)
    low, high = log_coefficient(sites.touched).interval()
    with np.errstate(invalid="ignore", over="ignore"):
        # A wider interval is not informative.
        spread = (n > LARGE) & (high - low <= WIDEST)
        low, high = np.exp(low), np.exp(high)
    total = whole.split.total
    within_low, within_high = _share_interval(shown)
    known = np.isfinite(within_low) & np.isfinite(within_high) & (total > 0)
    # NaN, stored as null, where unknown.
    columns: dict[str, I8 | F8] = {
        "requests": n,
        "mean_us": np.divide(sums[:, 1], sums[:, 0], out=np.zeros(len(n)), where=sums[:, 0] > 0),
        "sd_us": deviation(sums),
        "c2": np.where((n > LARGE) & np.isfinite(c2), c2, np.nan),
        "c2_low": np.where(spread, low, np.nan),
        "c2_high": np.where(spread, high, np.nan),
        "within": _parts_of(sites.within, total),
        "within_low": np.where(known, within_low, np.nan),
        "within_high": np.where(known, within_high, np.nan),
        "paths": _parts_of(sites.paths, total),
        "roots": _parts_of(sites.roots, total),
        "total": _parts_of(sites.total, total),
        "residual": np.full(len(n), np.nan)
        if shown.residual is None
        else _parts_of(shown.residual.sites.within, float(shown.residual.split.within.sum())),
    }
    listed = order.tolist()
    names = run.times.names
    return arrow_columns(
        _SITES,
        rank=np.arange(1, len(listed) + 1),
        label=[site_name(site, names).text for site in listed],
        caller=[caller_name(site, names) for site in listed],
        marker=[run.rules.of_site(site) for site in listed],
        **{name: values[order] for name, values in columns.items()},
    )


def _parts_of(part: F8, whole: float) -> F8:
    return part / whole if whole > 0 else np.zeros(len(part))


def _share_interval(shown: SampleVariance) -> tuple[F8, F8]:
    """95 % interval of each call site's variance within paths, as a share of the total variance: (lower ends,
    upper ends), float64[sites]."""
    blocks, total = shown.whole.sites.within_blocks, shown.whole.split.block_total
    both = np.stack([blocks, np.broadcast_to(total, blocks.shape)], axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return jackknife(both, lambda parts: parts[..., 0] / parts[..., 1]).interval()


def variance_section(
    run: VarianceRun, sites: pa.Table, categories: Sequence[VariableCategory]
) -> VarianceSection:
    """Fill the section: decomposition of the last sample's variance, C² curves of all samples."""
    shown = run.shown
    whole, residual = shown.whole, shown.residual
    total = whole.split.total
    sums = whole.by_group.n
    return VarianceSection(
        sample=run.population.samples[shown.groups.sample].name,
        mean_us=whole.levels.mean,
        sd_us=math.sqrt(total),
        c2=total / whole.levels.mean**2 if whole.levels.mean > 0 else 0.0,
        residual_sd_us=None if residual is None else math.sqrt(residual.split.total),
        residual_within=None
        if residual is None
        else _over(residual.split.within.sum(), residual.split.total),
        marked_share=None if residual is None else 1.0 - _over(residual.split.total, total),
        parts=_parts(shown),
        sites=tuple(rows_of(VariableSite, sites.slice(0, MOST_SITES))),
        sites_total=sites.num_rows,
        categories=tuple(categories[: run.limits.categories]),
        categories_total=len(categories),
        curves=tuple(_curve(run.population, sample) for sample in run.samples),
        rare_requests=_over(sums[shown.groups.category == NOWHERE].sum(), sums.sum()),
        markers=run.rules.rows,
        watched=_watched(run),
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
    for place, root in enumerate(groups.roots):
        mine = groups.root == place
        if not mine.any():
            continue
        found += [
            VariancePart(kind="roots", root=root, share=_over(split.roots[place], split.total)),
            VariancePart(kind="paths", root=root, share=_over(split.paths[mine].sum(), split.total)),
            VariancePart(kind="within", root=root, share=_over(split.within[mine].sum(), split.total)),
        ]
    return tuple(found)


def c2_interval(ends: tuple[F8, F8], place: int) -> Interval | None:
    """Confidence interval of C² from an interval of its logarithm; None if the interval is infinite or wider
    than WIDEST.

    ends: (lows, highs); place: index of the interval.
    """
    low, high = float(ends[0][place]), float(ends[1][place])
    if not (math.isfinite(low) and math.isfinite(high)) or high - low > WIDEST:
        return None
    return Interval(low=math.exp(low), high=math.exp(high))


def category_rows(run: VarianceRun) -> list[VariableCategory]:
    """Rows of all groups of the last sample, sorted as by the setting `sort`."""
    shown = run.shown
    groups, whole = shown.groups, shown.whole
    sums = whole.by_group.sums.sum(axis=1)
    c2, sd = coefficient(sums), deviation(sums)
    spread = log_coefficient(whole.by_group.sums).interval()
    left = None if shown.residual is None else shown.residual.by_group.c2
    rows = []
    for group in range(groups.n_groups):
        n = int(whole.by_group.n[group])
        known = known_c2(c2[group], n)
        graph = run.graph_of(group)
        rows.append(
            VariableCategory(
                category=None if graph is None else graph.key,
                members=len(groups.members(group)),
                root=run.root_of(group),
                canonical="" if graph is None else canonical(graph.text.canonical, run.limits),
                requests=n,
                mean_us=_over(sums[group, 1], sums[group, 0]),
                sd_us=float(sd[group]),
                c2=known,
                c2_interval=None if known is None else c2_interval(spread, group),
                c2_residual=None if left is None or known is None else number(left[group]),
                impact=_over(whole.split.within[group], whole.split.total),
            )
        )
    return sorted(rows, key=lambda row: _rank(row, run.settings))


def known_c2(c2: float, requests: int) -> float | None:
    """C² for the report; None for at most LARGE requests, or a mean of 0."""
    return number(c2) if requests > LARGE else None


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


def _watched(run: VarianceRun) -> tuple[WatchedSource, ...]:
    """Rows of sources whose `inadvertent` marker is valid, with their shares of the variance; sources with C²
    below 1 come last."""
    shown = run.shown
    sums = shown.whole.sites.touched.sum(axis=1)
    c2 = coefficient(sums)
    found = []
    for row, sites in run.rules.sites:
        if row.kind is not MarkerKind.INADVERTENT or row.state != "holds":
            continue
        for site in sites:
            if not shown.whole.sites.n[site]:
                continue
            value = number(c2[site])
            found.append(
                WatchedSource(
                    marker=row,
                    site=site_name(site, run.times.names).text,
                    c2=value,
                    within=_over(shown.whole.sites.within[site], shown.whole.split.total),
                    resolved=value is not None and value < HIGH,
                )
            )
    return tuple(sorted(found, key=lambda one: (one.resolved, -one.within, one.site)))


def _chosen_groups(run: VarianceRun, order: Sequence[int]) -> list[int]:
    """Choose the groups to show in detail. Raises ConfigError for a key that is not the beginning of a large
    category's key."""
    settings = run.settings
    if not settings.category:
        return list(order[: settings.details])
    found = []
    for asked in settings.category:
        mine = [group for group in order if (key := run.key_of(group)) is not None and key.startswith(asked)]
        if not mine:
            raise ConfigError(
                f"--category {asked}: no category of more than 10 requests has a key that begins so.",
                remedy="Keys are in the report's table of categories; refinement may give other keys than "
                "`flowdiff categories` does.",
            )
        found += mine
    return list(dict.fromkeys(found))


def details_section(
    run: VarianceRun, sites: pa.Table
) -> tuple[VarianceDetailsSection, list[DecomposedGroup]]:
    """Fill the section of details; return (section, groups shown in detail)."""
    split, settings = run.shown.whole.split, run.settings
    by_impact = np.argsort(-split.within, kind="stable").tolist()
    order = [group for group in by_impact if split.within[group] > 0]
    looked = [_look(run, group) for group in _chosen_groups(run, order)]
    advice = edge_advice(run.population, looked, least_share=settings.advice_share, most=settings.explained)
    section = VarianceDetailsSection(
        details=tuple(_detail(run, look) for look in looked),
        advice=tuple(advice),
        suggestions=tuple(_suggestions(run, sites)),
    )
    return section, looked


def _look(run: VarianceRun, group: int) -> DecomposedGroup:
    by_sites = run.settings.by == "sites"
    groups, rules = run.shown.groups, run.rules
    parts = group_parts(run.population, run.times, groups, group, rules, by_sites=by_sites)
    shares = covariance_shares(parts.us, parts.weight)
    pairs = correlated_pairs(parts.us, parts.weight, shares.share)
    split = run.shown.whole.split
    impact = _over(split.within[group], split.total)
    return DecomposedGroup(group, run.key_of(group), impact, parts, shares, pairs)


def _part_order(look: DecomposedGroup) -> list[int]:
    """Indices of a group's parts, largest share first; parts with a negative share come last."""
    found: list[int] = np.argsort(-look.shares.share, kind="stable").tolist()
    return found


def _detail(run: VarianceRun, look: DecomposedGroup) -> VarianceDetail:
    edges = edge_rows(run, look)
    listed = edges[: run.limits.brief_edges]
    place = {part: i + 1 for i, part in enumerate(_part_order(look))}
    pairs = [
        EdgePair(
            one=min(place[p.one], place[p.other]),
            other=max(place[p.one], place[p.other]),
            rho=p.rho,
            q=p.q,
            covariance_us2=p.covariance,
        )
        for p in look.pairs
        if max(place[p.one], place[p.other]) <= len(listed)
    ]
    requests, c2 = len(look.parts.row), run.shown.whole.by_group.c2[look.group]
    first = _part_order(look)[:1]
    return VarianceDetail(
        category=look.category,
        root=run.root_of(look.group),
        requests=requests,
        impact=look.impact,
        c2=known_c2(c2, requests),
        by="edges" if look.category is not None and run.settings.by == "edges" else "sites",
        sd_us=math.sqrt(look.shares.variance),
        kept=look.shares.kept,
        edges=tuple(listed),
        edges_total=len(edges),
        edges_share=float(sum(edge.share for edge in listed)),
        pairs=tuple(pairs[:_MOST_PAIRS]),
        pairs_total=len(look.pairs),
        histogram=None
        if not first
        else log_histogram(
            look.parts.names[first[0]].text,
            np.zeros(0),
            look.parts.us[first[0]][look.parts.us[first[0]] > 0],
            run.limits.bins,
        ),
    )


def edge_rows(run: VarianceRun, look: DecomposedGroup) -> list[VariableEdge]:
    """Rows of all parts of a group, largest share first."""
    parts, shares, order = look.parts, look.shares, _part_order(look)
    place = {part: i + 1 for i, part in enumerate(order)}
    graph = run.graph_of(look.group)
    are_edges = graph is not None and bool(parts.names) and parts.names[0].src >= 0
    hints = queue_hints(graph, parts.names, look.pairs) if graph is not None and are_edges else {}
    loudest = np.argsort(-shares.part_variance, kind="stable")[:_HIGHEST]
    p = parts.weight / parts.weight.sum()
    critical = (parts.us > 0) @ p
    rows = []
    for part in order:
        name = parts.names[part]
        marker = run.rules.marker_of(name)
        rows.append(
            VariableEdge(
                number=place[part],
                label=name.text,
                site=name.text if name.site < 0 else site_name(name.site, run.times.names).text,
                mean_us=float(shares.mean[part]),
                sd_us=math.sqrt(max(float(shares.part_variance[part]), 0.0)),
                critical=min(float(critical[part]), 1.0),
                share=float(shares.share[part]),
                share_winsorised=float(shares.share_winsorised[part]),
                highest=bool(part in loudest and shares.part_variance[part] > 0),
                inherits=place[hints[part]] if part in hints else None,
                marker=None if marker is None else marker.kind,
            )
        )
    return rows


def _suggestions(run: VarianceRun, sites: pa.Table) -> list[MarkerSuggestion]:
    """Suggest markers, from names, for large sources without a marker."""
    found: dict[str, MarkerSuggestion] = {}
    within, unmarked = sites["within"].to_numpy(), sites["marker"].is_null().to_numpy()
    order = run.shown.site_order
    for place in np.flatnonzero((within >= _LEAST_SUGGESTED) & unmarked).tolist():
        name = site_name(order[place], run.times.names)
        if marker := suggested(name):
            found.setdefault(
                name.text,
                MarkerSuggestion(label=name.text, kind=marker[0], why=marker[1], within=float(within[place])),
            )
    return list(found.values())


_CATEGORIES: Final = (RANK, *columns_of(VariableCategory))
_PARTS: Final = (
    stored("category", "key", "key after refinement; null: rare ones of a root type", null=True),
    stored("root", "name", "root type"),
    *columns_of(VariableEdge),
)


def variance_tables(
    run: VarianceRun,
    sites: pa.Table,
    categories: Sequence[VariableCategory],
    looked: Sequence[DecomposedGroup],
) -> Mapping[str, pa.Table]:
    """Make the complete tables of the method: table name -> table."""
    parts = [(look, row) for look in looked for row in edge_rows(run, look)]
    return {
        "variance_sites": sites,
        "variance_categories": arrow_table(_CATEGORIES, categories, rank=range(1, len(categories) + 1)),
        "variance_parts": arrow_table(
            _PARTS,
            [row for _, row in parts],
            category=[look.category for look, _ in parts],
            root=[run.root_of(look.group) for look, _ in parts],
        ),
    }
