"""Rows of the sections from what paper mode found: tests, edges, precursors, histograms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analyze.methods.spectroscope.paper import Candidates, EdgeEvidence, Ranked
from analyze.methods.spectroscope.timing import KsTests
from analyze.paths.attribution import Attribution
from analyze.paths.critical_path import edge_latency_ns
from analyze.population import Category, Population
from analyze.report import wording
from analyze.report.limits import ReportLimits
from analyze.report.moment_rows import canonical, moments_row, number, response_histogram, stored
from analyze.stats.histogram import log_histogram
from analyze.stats.moments import NS_PER_US, SampleMoments
from schemas.report.mutations import EdgeRow, PrecursorRow
from schemas.report.parts import Histogram, KsResult

F8 = npt.NDArray[np.float64]


def ks_row(tests: KsTests, index: int) -> KsResult:
    """One test."""
    return KsResult(
        n0=int(tests.n0[index]),
        n1=int(tests.n1[index]),
        d=number(tests.d[index]),
        p=number(tests.p[index]),
    )


def edge_order(evidence: EdgeEvidence) -> npt.NDArray[np.intp]:
    """Edges as a report lists them: changed first, then by |A_e|, then by position."""
    size = np.abs(evidence.attribution.contribution_us)
    return np.lexsort((np.arange(len(size)), -size, ~evidence.tests.changed))


def critical_means(a: Attribution) -> tuple[F8, F8]:
    """[edges] mean latency where critical, of each period; NaN where the edge never was."""
    return (
        np.where(a.criticality_0 > 0, a.critical_mean_0_us, np.nan),
        np.where(a.criticality_1 > 0, a.critical_mean_1_us, np.nan),
    )


def edge_row(category: Category, evidence: EdgeEvidence, edge: int) -> EdgeRow:
    """One edge of a response-time mutation."""
    graph, a = category.graph, evidence.attribution
    src, dst = (int(x) for x in graph.edges[edge])
    mean0, mean1 = critical_means(a)
    return EdgeRow(
        src=src,
        dst=dst,
        src_label=graph.labels[src],
        dst_label=graph.labels[dst],
        mean0_us=number(mean0[edge]),
        mean1_us=number(mean1[edge]),
        criticality0=float(a.criticality_0[edge]),
        criticality1=float(a.criticality_1[edge]),
        ks=ks_row(evidence.tests, edge),
        changed=bool(evidence.tests.changed[edge]),
        attribution_us=float(a.contribution_us[edge]),
        latency_us=float(a.latency_part_us[edge]),
        criticality_us=float(a.criticality_part_us[edge]),
        skewed=bool(category.skewed_edges[edge]),
    )


def displaced_us(evidence: EdgeEvidence) -> float:
    """Sum of A_e over the edges that did not change by test (B.10)."""
    return float(evidence.attribution.contribution_us[~evidence.tests.changed].sum())


def precursor_row(
    population: Population, moments: SampleMoments, found: Candidates, place: int, limits: ReportLimits
) -> PrecursorRow:
    """The candidate at `place` of the ranking by distance."""
    index = int(found.category[place])
    graph = population.categories[index].graph
    return PrecursorRow(
        category=graph.key,
        root=graph.root,
        stored=stored(population.categories[index], limits),
        stored_total=len(population.categories[index].stored),
        canonical=canonical(graph.canonical, limits),
        n_nodes=graph.n_nodes,
        before=moments_row(moments, 0, index),
        after=moments_row(moments, 1, index),
        edits=int(found.edits[place]),
        distance=float(found.distance[place]),
        share=float(found.weight[place]),
    )


def histograms(population: Population, mutation: Ranked, limits: ReportLimits) -> tuple[Histogram, ...]:
    """T of the mutation; then its best precursor's T, or the latencies of its reddest edges."""
    category = population.categories[mutation.category]
    drawn = [response_histogram("Response time", category, limits)]
    if mutation.candidates is not None and len(mutation.candidates.category):
        best = population.categories[int(mutation.candidates.category[0])]
        title = f"Response time of the most likely precursor, {wording.short(best.graph.key)}"
        drawn.append(response_histogram(title, best, limits))
    if mutation.edges is not None:
        reddest = edge_order(mutation.edges)[: limits.edge_histograms]
        red = [int(e) for e in reddest if mutation.edges.tests.changed[e]]
        latency = edge_latency_ns(category) / NS_PER_US if red else np.zeros((0, 0))
        problem = category.sample == 1
        for e in red:
            src, dst = category.graph.edges[e]
            title = f"{category.graph.labels[src]} → {category.graph.labels[dst]} ({src}→{dst})"
            drawn.append(log_histogram(title, latency[~problem, e], latency[problem, e], limits.bins))
    return tuple(drawn)
