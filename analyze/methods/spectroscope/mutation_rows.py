"""The section `mutations` from what paper mode found."""

from __future__ import annotations

from collections.abc import Sequence

from analyze.methods.spectroscope.evidence_rows import (
    displaced_us,
    edge_order,
    edge_row,
    histograms,
    ks_row,
    precursor_row,
)
from analyze.methods.spectroscope.paper import EdgeEvidence, PaperResult, Ranked
from analyze.paths.attribution import recoverable_us
from analyze.population import Category, Population
from analyze.report.drawing.accounts import structural_account, structure_account, timing_account
from analyze.report.drawing.graph_views import difference, graph_view
from analyze.report.limits import ReportLimits
from analyze.report.moment_rows import canonical, moments_row, number, stored
from schemas.report.drawn_graphs import GraphView
from schemas.report.mutations import (
    Direction,
    EdgeRow,
    Mutation,
    MutationKind,
    MutationsSection,
    RankedList,
)
from schemas.report.step_account import StepAccount


def mutations_section(result: PaperResult, population: Population, limits: ReportLimits) -> MutationsSection:
    """All mutations within the report's bounds."""
    mutations, graphs = mutation_rows(result, population, limits)
    kinds = [m.kind for m in result.mutations]
    structural = kinds.count(MutationKind.STRUCTURAL)
    return MutationsSection(
        lists=_lists(result, mutations),
        mutations=mutations,
        mutations_total=len(kinds),
        structural_total=structural,
        response_time_total=len(kinds) - structural,
        precursors_total=len(result.sets.precursors),
        graphs=graphs,
    )


def _lists(result: PaperResult, listed: Sequence[Mutation]) -> tuple[RankedList, ...]:
    """The lists of the result, as far as the report has their mutations."""
    lists = []
    first = 1
    for found in result.lists:
        past = first + len(found.mutations)
        ranks = tuple(m.rank for m in listed if first <= m.rank < past)
        if ranks:
            lists.append(RankedList(direction=found.direction, ranks=ranks, total=past - first))
        first = past
    return tuple(lists)


def mutation_rows(
    result: PaperResult, population: Population, limits: ReportLimits
) -> tuple[tuple[Mutation, ...], dict[str, GraphView]]:
    """The best mutations of each direction, by rank, and the graphs of the detailed ones (keys sorted)."""
    listed = sum(abs(m.contribution_us) for m in result.mutations)
    total_change = float(result.moments.total_us[1].sum() - result.moments.total_us[0].sum())
    ways = [result.direction(found) for found in result.mutations]
    places = _places_in_direction(result.mutations, ways)
    listed_of, detailed_of = fair_shares(ways, limits.mutations), fair_shares(ways, limits.detailed)
    graphs: dict[str, GraphView] = {}
    rows = []
    for place, (found, way) in enumerate(zip(result.mutations, ways, strict=True)):
        in_direction = places[place]
        if in_direction > listed_of[way]:
            continue
        detailed = in_direction <= detailed_of[way]
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
                rank_in_direction=in_direction,
                share_of_change=found.contribution_us / total_change if total_change else None,
                share_of_listed=abs(found.contribution_us) / listed if listed else 0.0,
                graphs=graphs if detailed else {},
            )
        )
    return tuple(rows), {key: graphs[key] for key in sorted(graphs)}


def _places_in_direction(mutations: Sequence[Ranked], ways: Sequence[Direction]) -> list[int]:
    """From 1, largest |contribution| first among those of the same direction; ties by rank.

    That is the order of the papers' separate lists; in a signed list the largest decreases come last.
    """
    places = [0] * len(ways)
    seen = dict.fromkeys(Direction, 0)
    for place in sorted(range(len(ways)), key=lambda place: -abs(mutations[place].contribution_us)):
        seen[ways[place]] += 1
        places[place] = seen[ways[place]]
    return places


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
        account=_account(found, population, limits) if graphs else None,
        difference=difference(graphs[graph.key], graphs[precursors[0].category])
        if graphs and precursors
        else None,
    )


def _account(found: Ranked, population: Population, limits: ReportLimits) -> StepAccount:
    """Where its time went; of a structural mutation without a precursor its own steps alone."""
    category = population.categories[found.category]
    if found.edges is not None:
        return timing_account(
            category, found.edges.attribution, found.edges.tests.changed, limits.graph_nodes
        )
    if found.candidates is None or len(found.candidates.category) == 0:
        return structure_account(category, limits.graph_nodes)
    best = population.categories[int(found.candidates.category[0])]
    return structural_account(category, best, limits.graph_nodes)


def _edges(
    category: Category, evidence: EdgeEvidence, limits: ReportLimits, *, detailed: bool
) -> tuple[EdgeRow, ...]:
    """Edges of one mutation, changed first; where it is not detailed, changed ones only."""
    order = edge_order(evidence)
    if not detailed:
        order = order[: min(limits.brief_edges, int(evidence.tests.changed.sum()))]
    return tuple(edge_row(category, evidence, int(e)) for e in order[: limits.edges])
