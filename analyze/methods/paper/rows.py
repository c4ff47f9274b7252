"""Rows of paper mode for the report: mutations with edges and precursors, categories, root types, sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.methods.paper.paper_run import EdgeEvidence, PaperRun, Ranked
from analyze.methods.paper.structural import MutationCandidates
from analyze.methods.paper.timing import KsTests
from analyze.paths.critical_path import edge_latency_ns, recoverable_us
from analyze.population import Category, Graph, Population
from analyze.report import wording
from analyze.report.drawing.accounts import structural_account, timing_account
from analyze.report.drawing.graph import difference, graph_view
from analyze.report.limits import ReportLimits
from analyze.report.model_values import canonical, number
from analyze.stats.histograms import log_histogram
from analyze.stats.moments import LARGE, SampleMoments, pooled
from schemas.report.columns import arrow_columns, rows_of
from schemas.report.mutations import (
    EDGES,
    CategoryRow,
    Direction,
    EdgeRow,
    Mutation,
    MutationKind,
    MutationsSection,
    PrecursorRow,
    RankedList,
    Role,
    RootRow,
    SumsSection,
)
from schemas.report.parts import GraphView, Histogram, KsResult, Moments, StepAccount
from schemas.windows import NS_PER_US


def mutations_section(result: PaperRun, population: Population, limits: ReportLimits) -> MutationsSection:
    """Fill the section of mutations, up to the report's limits."""
    mutations, graphs = _mutation_rows(result, population, limits)
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


def _lists(result: PaperRun, listed: Sequence[Mutation]) -> tuple[RankedList, ...]:
    """Ranked lists of the mutations in `listed`: a single list, or one per direction."""
    way_of = [None if result.signed else m.direction for m in result.mutations]
    return tuple(
        RankedList(direction=way, ranks=ranks, total=way_of.count(way))
        for way in dict.fromkeys(way_of)
        if (ranks := tuple(m.rank for m in listed if way in (None, m.direction)))
    )


def _mutation_rows(
    result: PaperRun, population: Population, limits: ReportLimits
) -> tuple[tuple[Mutation, ...], dict[str, GraphView]]:
    """Make the rows of the mutations to show, by rank; also the graphs of the detailed ones: category key ->
    graph, keys sorted."""
    listed = sum(abs(m.contribution_us) for m in result.mutations)
    shown, detailed = (_kept(result.mutations, most) for most in (limits.mutations, limits.detailed))
    graphs: dict[str, GraphView] = {}
    rows = []
    for place, found in enumerate(result.mutations):
        if place not in shown:
            continue
        if place in detailed:
            _add_graphs(found, population, graphs, limits)
        share = abs(found.contribution_us) / listed if listed else 0.0
        drawn = graphs if place in detailed else {}
        rows.append(_mutation(found, result, population, limits, place + 1, share, drawn))
    return tuple(rows), {key: graphs[key] for key in sorted(graphs)}


def _kept(mutations: Sequence[Ranked], limit: int) -> set[int]:
    """Indices of the `limit` mutations to list: those with the largest |contribution|, divided between the
    directions; ties by rank."""
    ways = [m.direction for m in mutations]
    by_size = sorted(range(len(ways)), key=lambda place: -abs(mutations[place].contribution_us))
    shares = fair_shares(ways, limit).items()
    return {place for way, most in shares for place in [p for p in by_size if ways[p] is way][:most]}


def fair_shares(ways: Sequence[Direction], limit: int) -> dict[Direction, int]:
    """Divide `limit` places in a list between the directions of mutations: direction -> number of places,
    direction of the best rank first.

    Each direction gets half, an odd place goes to the better ranked direction; places that one direction does
    not need go to the other. ways: direction of each mutation, by rank.
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
    result: PaperRun,
    population: Population,
    limits: ReportLimits,
    rank: int,
    share_of_listed: float,
    graphs: dict[str, GraphView],
) -> Mutation:
    """Make the row of one mutation. graphs: graphs by category key; empty for a mutation shown without
    details."""
    category = population.categories[found.category]
    graph, edges, candidates = category.graph, found.edges, found.candidates
    precursors = (
        tuple(
            _precursor_row(population, result.moments, candidates, place, limits)
            for place in range(min(limits.precursors, len(candidates.category)))
        )
        if candidates is not None
        else ()
    )
    return Mutation(
        rank=rank,
        kind=found.kind,
        direction=found.direction,
        **_listed(population, result.moments, found.category, limits),
        ks=_ks_row(result.times, found.category),
        contribution_us=found.contribution_us,
        contribution_nsdi_us=found.contribution_nsdi_us,
        contribution_tr_us=found.contribution_tr_us,
        share_of_listed=share_of_listed,
        virtual=found.virtual,
        no_precursor=candidates is not None and len(candidates.category) == 0,
        one_to_n_relaxed=candidates is not None and candidates.relaxed,
        baseline_mean_us=number(found.baseline_mean_us),
        edges=() if edges is None else _edges(category, edges, limits, detailed=bool(graphs)),
        edges_total=0 if edges is None else len(graph.edges),
        edges_changed=0 if edges is None else int(edges.tests.changed.sum()),
        displaced_us=None
        if edges is None
        else float(edges.attribution.contribution_us[~edges.tests.changed].sum()),
        recoverable_us=recoverable_us(category, edges.tests.changed)
        if edges is not None and graphs
        else None,
        precursors=precursors,
        precursors_total=0 if candidates is None else len(candidates.category),
        histograms=_histograms(population, found, limits) if graphs else (),
        account=_account(found, population, limits) if graphs else None,
        difference=difference(graphs[graph.key], graphs[precursors[0].category])
        if graphs and precursors
        else None,
    )


def _periods(population: Population, moments: SampleMoments, index: int) -> dict[str, Any]:
    """Values of the fields of CategoryPeriods for the category at `index`, by name."""
    graph = population.categories[index].graph
    return {
        "category": graph.key,
        "root": graph.root,
        "canonical": graph.text.canonical,
        "n_nodes": graph.n_nodes,
        "before": _moments(moments, 0, index),
        "after": _moments(moments, 1, index),
    }


def _listed(
    population: Population, moments: SampleMoments, index: int, limits: ReportLimits
) -> dict[str, Any]:
    """Values of the fields of ListedCategory for the category at `index`, by name, up to the report's
    limits."""
    category, found = population.categories[index], _periods(population, moments, index)
    kept = {"stored": _stored(category, limits), "stored_total": len(category.stored)}
    return {**found, **kept, "canonical": canonical(found["canonical"], limits)}


def _account(found: Ranked, population: Population, limits: ReportLimits) -> StepAccount:
    """Step account of a mutation compared with its best precursor; a structural mutation without precursors
    is compared with itself."""
    category = population.categories[found.category]
    if found.edges is not None:
        return timing_account(
            category, found.edges.attribution, found.edges.tests.changed, limits.graph_nodes
        )
    candidates = [] if found.candidates is None else found.candidates.category.tolist()
    precursor = population.categories[candidates[0]] if candidates else category
    return structural_account(category, precursor, limits.graph_nodes)


def _edges(
    category: Category, evidence: EdgeEvidence, limits: ReportLimits, *, detailed: bool
) -> tuple[EdgeRow, ...]:
    """Rows of the edges of one mutation, changed ones first; if not `detailed`, changed edges only."""
    order = _edge_order(evidence)
    if not detailed:
        order = order[: min(limits.brief_edges, int(evidence.tests.changed.sum()))]
    return tuple(rows_of(EdgeRow, edge_table(category, evidence, 0).take(order[: limits.edges])))


def _ks_row(tests: KsTests, index: int) -> KsResult:
    """KS result of the test at `index`, for the report."""
    return KsResult(
        n0=int(tests.n0[index]),
        n1=int(tests.n1[index]),
        d=number(tests.d[index]),
        p=number(tests.p[index]),
    )


def _edge_order(evidence: EdgeEvidence) -> npt.NDArray[np.intp]:
    """Indices of edges in the order of a report: changed ones first, then by |contribution|, largest first,
    then by index."""
    size = np.abs(evidence.attribution.contribution_us)
    return np.lexsort((np.arange(len(size)), -size, ~evidence.tests.changed))


def edge_table(category: Category, evidence: EdgeEvidence, rank: int) -> pa.Table:
    """Table of all edges of one mutation, by index of the edge."""
    a = evidence.attribution
    return arrow_columns(
        EDGES,
        **tested_edges(category.graph, evidence.tests),
        rank=np.full(len(category.graph.edges), rank),
        # NaN, stored as null, where the edge was never critical.
        mean0_us=np.where(a.criticality_0 > 0, a.critical_mean_0_us, np.nan),
        mean1_us=np.where(a.criticality_1 > 0, a.critical_mean_1_us, np.nan),
        criticality0=a.criticality_0,
        criticality1=a.criticality_1,
        attribution_us=a.contribution_us,
        latency_us=a.latency_part_us,
        criticality_us=a.criticality_part_us,
        skewed=category.skewed_edges,
    )


def tested_edges(graph: Graph, tests: KsTests) -> dict[str, Any]:
    """Columns that identify each edge of a category, and columns with the result of its test: name ->
    column."""
    src, dst = graph.edges.reshape(-1, 2).T
    labels = np.array(graph.labels, dtype=object)
    return {
        "category": [graph.key] * len(src),
        "src": src,
        "dst": dst,
        "src_label": labels[src],
        "dst_label": labels[dst],
        "ks_n0": tests.n0,
        "ks_n1": tests.n1,
        "ks_d": tests.d,
        "ks_p": tests.p,
        "changed": tests.changed,
    }


def _precursor_row(
    population: Population,
    moments: SampleMoments,
    found: MutationCandidates,
    place: int,
    limits: ReportLimits,
) -> PrecursorRow:
    """Make the row of a candidate precursor. place: its index among the candidates, sorted by distance."""
    return PrecursorRow(
        **_listed(population, moments, int(found.category[place]), limits),
        edits=int(found.edits[place]),
        distance=float(found.distance[place]),
        share=float(found.weight[place]),
    )


def _histograms(population: Population, mutation: Ranked, limits: ReportLimits) -> tuple[Histogram, ...]:
    """Histograms of a mutation's response times, and also of its best precursor's response times, or of the
    latencies of its changed edges with the largest |contribution|."""
    category = population.categories[mutation.category]
    drawn = [_response_histogram("Response time", category, limits)]
    if mutation.candidates is not None and len(mutation.candidates.category):
        best = population.categories[int(mutation.candidates.category[0])]
        title = f"Response time of the most likely precursor, {wording.short(best.graph.key)}"
        drawn.append(_response_histogram(title, best, limits))
    if mutation.edges is not None:
        reddest = _edge_order(mutation.edges)[: limits.edge_histograms]
        red = [int(e) for e in reddest if mutation.edges.tests.changed[e]]
        latency = edge_latency_ns(category) / NS_PER_US if red else np.zeros((0, 0))
        problem = category.sample == 1
        for e in red:
            src, dst = category.graph.edges[e]
            before, after = category.graph.nodes[src].text, category.graph.nodes[dst].text
            title = f"{before} → {after} ({src}→{dst})"
            drawn.append(log_histogram(title, latency[~problem, e], latency[problem, e], limits.bins))
    return tuple(drawn)


def category_rows(result: PaperRun, population: Population) -> list[CategoryRow]:
    """Rows of all categories, sorted by |change of the summed response time|, largest first, ties by key;
    canonical text is not cut."""
    change = result.moments.total_us[1] - result.moments.total_us[0]
    roles = _roles(result)
    keys = [c.graph.key for c in population.categories]
    order = sorted(range(len(keys)), key=lambda i: (-abs(change[i]), keys[i]))
    return [
        CategoryRow(
            **_periods(population, result.moments, i),
            ks=_ks_row(result.times, i),
            roles=roles.get(i, ()),
            change_us=float(change[i]),
        )
        for i in order
    ]


def _roles(result: PaperRun) -> dict[int, tuple[Role, ...]]:
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


def root_rows(result: PaperRun, population: Population) -> list[RootRow]:
    """Rows of root types, by number of requests, descending; ties by name."""
    rows = []
    for code in np.unique(result.root):
        members = np.flatnonzero(result.root == code)
        together = pooled(result.moments, members)
        rows.append(
            RootRow(
                root=population.categories[int(members[0])].graph.root,
                before=_moments(together, 0, 0),
                after=_moments(together, 1, 0),
            )
        )
    return sorted(rows, key=lambda r: (-(r.before.count + r.after.count), r.root))


def sums(result: PaperRun) -> SumsSection:
    """Fill the section that compares the sums of the contributions with the exact changes that they
    approximate."""
    moments = result.moments
    filled = np.nan_to_num(moments.filled_mean_us())
    structural = float((filled[1] * (moments.count[1] - moments.count[0])).sum())
    timing = float((moments.count[0] * (filled[1] - filled[0])).sum())
    estimates = {
        kind: sum(m.contribution_us for m in result.mutations if m.kind is kind) for kind in MutationKind
    }
    guess_s, guess_t = estimates[MutationKind.STRUCTURAL], estimates[MutationKind.RESPONSE_TIME]
    return SumsSection(
        total_change_us=float(moments.total_us[1].sum() - moments.total_us[0].sum()),
        structural_estimate_us=guess_s,
        structural_exact_us=structural,
        structural_error=(guess_s - structural) / abs(structural) if structural else None,
        response_time_estimate_us=guess_t,
        response_time_exact_us=timing,
        response_time_error=(guess_t - timing) / abs(timing) if timing else None,
    )


def _moments(moments: SampleMoments, sample: int, category: int) -> Moments:
    """Moments of one category in one sample, for the report."""
    count = int(moments.count[sample, category])
    mean, variance = moments.mean_us[sample, category], moments.variance_us2[sample, category]
    c2 = variance / mean**2 if count > LARGE and mean > 0 else math.nan
    return Moments(count=count, mean_us=number(mean), variance_us2=number(variance), c2=number(c2))


def _stored(category: Category, limits: ReportLimits) -> tuple[str, ...]:
    """Keys of the stored categories that were merged into a category, up to the report's limit."""
    return tuple(sorted(category.stored)[: limits.stored])


def _response_histogram(title: str, category: Category, limits: ReportLimits) -> Histogram:
    """Histogram of a category's response times in both samples."""
    us = category.response_ns / NS_PER_US
    return log_histogram(title, us[category.rows(0)], us[category.rows(1)], limits.bins)
