"""Rows of the report model from what paper mode found: numbers out of arrays, NaN to None, lists cut."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from analyze.methods.spectroscope.paper import Candidates, EdgeEvidence, Ranked
from analyze.methods.spectroscope.paper_settings import ReportLimits
from analyze.methods.spectroscope.timing import KsTests
from analyze.paths.attribution import Attribution
from analyze.paths.critical_path import edge_latency_ns
from analyze.population import Category, Population
from analyze.report import wording
from analyze.stats.histogram import log_histogram
from analyze.stats.moments import LARGE, NS_PER_US, SampleMoments
from schemas.report import EdgeRow, Histogram, KsResult, Moments, PrecursorRow

F8 = npt.NDArray[np.float64]


def number(value: float) -> float | None:
    """A float for the model: NaN becomes None."""
    return None if math.isnan(value) else float(value)


def moments_row(moments: SampleMoments, period: int, category: int) -> Moments:
    """One period of one category."""
    count = int(moments.count[period, category])
    mean, variance = moments.mean_us[period, category], moments.variance_us2[period, category]
    c2 = variance / mean**2 if count > LARGE and mean > 0 else math.nan
    return Moments(count=count, mean_us=number(mean), variance_us2=number(variance), c2=number(c2))


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


def stored(category: Category, limits: ReportLimits) -> tuple[str, ...]:
    """Keys of the lake's categories that a category was made of, within the report's bound."""
    return tuple(sorted(category.stored)[: limits.stored])


def canonical(text: str, limits: ReportLimits) -> str:
    """Canonical text within the report's bound."""
    return text if len(text) <= limits.canonical_chars else text[: limits.canonical_chars - 1] + "…"


def response_histogram(title: str, category: Category, limits: ReportLimits) -> Histogram:
    """Response times of both periods."""
    problem = category.sample == 1
    us = category.response_ns / NS_PER_US
    return log_histogram(title, us[~problem], us[problem], limits.bins)


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
