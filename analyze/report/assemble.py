"""The report model of a paper-mode comparison, from what was found and the population it was found in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyze.methods.spectroscope.paper import EdgeEvidence, PaperResult, Ranked
from analyze.methods.spectroscope.paper_settings import ReportLimits
from analyze.paths.attribution import recoverable_us
from analyze.population import Category, Population
from analyze.report import wording
from analyze.report.drawing.graph_views import difference, graph_view
from analyze.report.rows import (
    canonical,
    displaced_us,
    edge_order,
    edge_row,
    histograms,
    ks_row,
    moments_row,
    number,
    precursor_row,
    stored,
)
from analyze.stats.moments import NS_PER_US, pooled
from schemas.report import (
    CategoryRow,
    Direction,
    EdgeRow,
    GraphView,
    Headline,
    Mutation,
    MutationKind,
    PeriodSummary,
    Role,
    RootRow,
    Sums,
)


@dataclass(frozen=True, slots=True)
class PeriodName:
    """A period as the report names it."""

    text: str
    start_ns: int
    end_ns: int
    """Half open, ns since the epoch."""
    where: str = ""


def period_summary(
    name: PeriodName, period: int, population: Population, result: PaperResult
) -> PeriodSummary:
    """Counts and response times of one period over all tested flows."""
    moments = result.moments
    responses = [c.response_ns[c.rows(period)] for c in population.categories]
    us = np.concatenate(responses) / NS_PER_US if responses else np.zeros(0)
    requests = int(moments.count[period].sum())
    weighted = float(moments.weighted[period].sum())
    everything = pooled(moments, np.arange(len(population.categories)))
    return PeriodSummary(
        text=name.text,
        start_ns=name.start_ns,
        end_ns=name.end_ns,
        where=name.where,
        requests=requests,
        weighted_requests=weighted,
        mean_us=number(everything.mean_us[period, 0]),
        median_us=float(np.quantile(us, 0.5)) if requests else None,
        p99_us=float(np.quantile(us, 0.99)) if requests else None,
        total_us=float(moments.total_us[period].sum()),
        categories=int((moments.count[period] > 0).sum()),
        excluded={
            flag: counts[period] for flag, counts in sorted(population.excluded.items()) if counts[period]
        },
    )


def headline(reference: PeriodSummary, problem: PeriodSummary, population: Population) -> Headline:
    """Means, change and load of the two summaries."""
    mean0, mean1 = reference.mean_us, problem.mean_us
    delta = mean1 - mean0 if mean0 is not None and mean1 is not None else None
    rates = [_rate(population, period) for period in (0, 1)]
    return Headline(
        mean0_us=mean0,
        mean1_us=mean1,
        delta_us=delta,
        delta_share=delta / mean0 if delta is not None and mean0 else None,
        requests0=reference.requests,
        requests1=problem.requests,
        load_ratio=rates[1] / rates[0] if rates[0] is not None and rates[1] is not None else None,
        total_change_us=problem.total_us - reference.total_us,
        sentence=wording.headline_sentence(mean0, mean1),
    )


def _rate(population: Population, period: int) -> float | None:
    """Requests per ns between the first and the last start of a period; None if they are not apart."""
    starts = [c.start_ns[c.rows(period)] for c in population.categories]
    starts = [s for s in starts if len(s)]
    if not starts:
        return None
    length = max(int(s.max()) for s in starts) - min(int(s.min()) for s in starts)
    return sum(len(s) for s in starts) / length if length > 0 else None


def sums(result: PaperResult) -> Sums:
    """What the contributions add up to, beside the exact change they approximate (B.1b, C.7)."""
    moments = result.moments
    filled = np.nan_to_num(moments.filled_mean_us())
    structural = float((filled[1] * (moments.count[1] - moments.count[0])).sum())
    timing = float((moments.count[0] * (filled[1] - filled[0])).sum())
    estimates = {
        kind: sum(m.contribution_us for m in result.mutations if m.kind is kind) for kind in MutationKind
    }
    guess_s, guess_t = estimates[MutationKind.STRUCTURAL], estimates[MutationKind.RESPONSE_TIME]
    return Sums(
        total_change_us=float(moments.total_us[1].sum() - moments.total_us[0].sum()),
        structural_estimate_us=guess_s,
        structural_exact_us=structural,
        structural_error=(guess_s - structural) / abs(structural) if structural else None,
        response_time_estimate_us=guess_t,
        response_time_exact_us=timing,
        response_time_error=(guess_t - timing) / abs(timing) if timing else None,
    )


def mutation_rows(
    result: PaperResult, population: Population, limits: ReportLimits
) -> tuple[tuple[Mutation, ...], dict[str, GraphView]]:
    """The best mutations of each direction, by rank, and the graphs of the detailed ones (keys sorted)."""
    listed = sum(abs(m.contribution_us) for m in result.mutations)
    total_change = float(result.moments.total_us[1].sum() - result.moments.total_us[0].sum())
    seen = dict.fromkeys(Direction, 0)
    ways = [result.direction(found) for found in result.mutations]
    listed_of, detailed_of = fair_shares(ways, limits.mutations), fair_shares(ways, limits.detailed)
    graphs: dict[str, GraphView] = {}
    rows = []
    for place, (found, way) in enumerate(zip(result.mutations, ways, strict=True)):
        seen[way] += 1
        if seen[way] > listed_of[way]:
            continue
        detailed = seen[way] <= detailed_of[way]
        if detailed:
            _add_graphs(found, population, graphs, limits)
        rows.append(
            _mutation(
                found,
                result,
                population,
                limits,
                rank=place + 1,
                direction=way,
                rank_in_direction=seen[way],
                share_of_change=found.contribution_us / total_change if total_change else None,
                share_of_listed=abs(found.contribution_us) / listed if listed else 0.0,
                graphs=graphs if detailed else {},
            )
        )
    return tuple(rows), {key: graphs[key] for key in sorted(graphs)}


def fair_shares(ways: Sequence[Direction], limit: int) -> dict[Direction, int]:
    """How many of each direction, in order of rank, `limit` places hold.

    Half each, the odd place to the better ranked direction; the other gets what one does not need.
    """
    total = {way: ways.count(way) for way in Direction}
    first = ways[0] if ways else Direction.INCREASE
    (other,) = (way for way in Direction if way is not first)
    own = min(total[first], max(limit - total[other], (limit + 1) // 2))
    return {first: own, other: min(total[other], limit - own)}


def _add_graphs(
    found: Ranked, population: Population, graphs: dict[str, GraphView], limits: ReportLimits
) -> None:
    drawn = [found.category]
    if found.candidates is not None:
        drawn += found.candidates.category[:1].tolist()
    for index in drawn:
        category = population.categories[index]
        if category.graph.key not in graphs:
            graphs[category.graph.key] = graph_view(category, limits.graph_nodes)


def _mutation(
    found: Ranked,
    result: PaperResult,
    population: Population,
    limits: ReportLimits,
    *,
    rank: int,
    direction: Direction,
    rank_in_direction: int,
    share_of_change: float | None,
    share_of_listed: float,
    graphs: dict[str, GraphView],
) -> Mutation:
    """One row; graphs empty: not detailed."""
    category = population.categories[found.category]
    graph, edges, candidates = category.graph, found.edges, found.candidates
    precursors = (
        tuple(
            precursor_row(population, result.moments, candidates, place, limits)
            for place in range(min(limits.precursors, len(candidates.category)))
        )
        if candidates is not None
        else ()
    )
    return Mutation(
        rank=rank,
        rank_in_direction=rank_in_direction,
        kind=found.kind,
        direction=direction,
        category=graph.key,
        root=graph.root,
        stored=stored(category, limits),
        stored_total=len(category.stored),
        canonical=canonical(graph.canonical, limits),
        n_nodes=graph.n_nodes,
        before=moments_row(result.moments, 0, found.category),
        after=moments_row(result.moments, 1, found.category),
        ks=ks_row(result.times, found.category),
        contribution_us=found.contribution_us,
        contribution_nsdi_us=found.contribution_nsdi_us,
        contribution_tr_us=found.contribution_tr_us,
        share_of_change=share_of_change,
        share_of_listed=share_of_listed,
        virtual=found.virtual,
        no_precursor=candidates is not None and len(candidates.category) == 0,
        one_to_n_relaxed=candidates is not None and candidates.relaxed,
        baseline_mean_us=number(found.baseline_mean_us),
        edges=() if edges is None else _edges(category, edges, limits, detailed=bool(graphs)),
        edges_total=0 if edges is None else len(graph.edges),
        edges_changed=0 if edges is None else int(edges.tests.changed.sum()),
        displaced_us=None if edges is None else displaced_us(edges),
        recoverable_us=recoverable_us(category, edges.tests.changed)
        if edges is not None and graphs
        else None,
        precursors=precursors,
        precursors_total=0 if candidates is None else len(candidates.category),
        histograms=histograms(population, found, limits) if graphs else (),
        difference=difference(graphs[graph.key], graphs[precursors[0].category])
        if graphs and precursors
        else None,
    )


def _edges(
    category: Category, evidence: EdgeEvidence, limits: ReportLimits, *, detailed: bool
) -> tuple[EdgeRow, ...]:
    """Edges of one mutation, changed first; where it is not detailed, changed ones only."""
    order = edge_order(evidence)
    if not detailed:
        order = order[: min(limits.brief_edges, int(evidence.tests.changed.sum()))]
    return tuple(edge_row(category, evidence, int(e)) for e in order[: limits.edges])


def category_rows(result: PaperResult, population: Population) -> list[CategoryRow]:
    """Every category, by |change of its summed response time|, ties by key; canonical text whole."""
    change = result.moments.total_us[1] - result.moments.total_us[0]
    roles = _roles(result)
    keys = [c.graph.key for c in population.categories]
    order = sorted(range(len(keys)), key=lambda i: (-abs(change[i]), keys[i]))
    return [
        CategoryRow(
            category=keys[i],
            root=population.categories[i].graph.root,
            canonical=population.categories[i].graph.canonical,
            n_nodes=population.categories[i].graph.n_nodes,
            before=moments_row(result.moments, 0, i),
            after=moments_row(result.moments, 1, i),
            ks=ks_row(result.times, i),
            roles=roles.get(i, ()),
            change_us=float(change[i]),
        )
        for i in order
    ]


def _roles(result: PaperResult) -> dict[int, tuple[Role, ...]]:
    sets: Sequence[tuple[Role, list[int]]] = (
        (Role.STRUCTURAL, result.sets.mutations.tolist()),
        (Role.PRECURSOR, result.sets.precursors.tolist()),
        (Role.RESPONSE_TIME, np.flatnonzero(result.times.changed).tolist()),
    )
    roles: dict[int, tuple[Role, ...]] = {}
    for role, members in sets:
        for i in members:
            roles[i] = (*roles.get(i, ()), role)
    return roles


def root_rows(result: PaperResult, population: Population) -> list[RootRow]:
    """Root types, busiest first, ties by name."""
    rows = []
    for code in np.unique(result.root):
        members = np.flatnonzero(result.root == code)
        together = pooled(result.moments, members)
        rows.append(
            RootRow(
                root=population.categories[int(members[0])].graph.root,
                before=moments_row(together, 0, 0),
                after=moments_row(together, 1, 0),
            )
        )
    return sorted(rows, key=lambda r: (-(r.before.count + r.after.count), r.root))
