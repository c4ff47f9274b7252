"""Complete tables of paper mode (Arrow, for Parquet): mutations, edges, precursors, categories, requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from analyze.methods.paper.paper_run import PaperRun
from analyze.methods.paper.rows import critical_means
from analyze.methods.paper.timing import KsTests
from analyze.population import Graph, Population
from schemas.report.columns import arrow_columns, arrow_schema, arrow_table
from schemas.report.mutations import CATEGORIES, EDGES, MUTATIONS, PAINTED, PRECURSORS, CategoryRow
from schemas.report.report_tables import REQUESTS


def report_tables(
    result: PaperRun, population: Population, categories: list[CategoryRow]
) -> dict[str, pa.Table]:
    """All tables, uncut; rows by rank, then as a report lists them."""
    painted = {"painted": painted_table(result, population)} if result.painted else {}
    return painted | {
        "mutations": _mutations(result, population),
        "edges": _edges(result, population),
        "precursors": _precursors(result, population),
        "categories": _categories(categories, population),
        "requests": _requests(result, population),
    }


def _mutations(result: PaperRun, population: Population) -> pa.Table:
    rows = [
        {
            "rank": rank,
            "kind": m.kind.value,
            "direction": result.direction(m).value,
            "category": population.categories[m.category].graph.key,
            "stored": sorted(population.categories[m.category].stored),
            "root": population.categories[m.category].graph.root,
            "contribution_us": m.contribution_us,
            "contribution_nsdi_us": m.contribution_nsdi_us,
            "contribution_tr_us": m.contribution_tr_us,
            "baseline_mean_us": m.baseline_mean_us,
            "precursors": 0 if m.candidates is None else len(m.candidates.category),
            "edges_changed": 0 if m.edges is None else int(m.edges.tests.changed.sum()),
            "virtual": m.virtual,
        }
        for rank, m in enumerate(result.mutations, 1)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(MUTATIONS))


def _edges(result: PaperRun, population: Population) -> pa.Table:
    """One row an edge of every response-time mutation (a report may hold 100 k edges)."""
    parts = []
    for rank, m in enumerate(result.mutations, 1):
        if m.edges is None:
            continue
        category, a = population.categories[m.category], m.edges.attribution
        mean0, mean1 = critical_means(a)
        parts.append(
            arrow_columns(
                EDGES,
                **_tested(category.graph, m.edges.tests),
                rank=np.full(len(category.graph.edges), rank),
                mean0_us=mean0,
                mean1_us=mean1,
                criticality0=a.criticality_0,
                criticality1=a.criticality_1,
                attribution_us=a.contribution_us,
                latency_us=a.latency_part_us,
                criticality_us=a.criticality_part_us,
                skewed=category.skewed_edges,
            )
        )
    return pa.concat_tables(parts) if parts else arrow_table(EDGES, ())


def _tested(graph: Graph, tests: KsTests) -> dict[str, Any]:
    """Columns of every edge of a category: which it is, and its test."""
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


def _precursors(result: PaperRun, population: Population) -> pa.Table:
    rows = []
    for rank, m in enumerate(result.mutations, 1):
        if m.candidates is None:
            continue
        key = population.categories[m.category].graph.key
        found = m.candidates
        rows += [
            {
                "rank": rank,
                "mutation": key,
                "place": place + 1,
                "category": population.categories[int(found.category[place])].graph.key,
                "stored": sorted(population.categories[int(found.category[place])].stored),
                "edits": int(found.edits[place]),
                "distance": float(found.distance[place]),
                "share": float(found.weight[place]),
            }
            for place in range(len(found.category))
        ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(PRECURSORS))


def _categories(rows: list[CategoryRow], population: Population) -> pa.Table:
    """One row a category; its keys in the lake are no part of the report's model."""
    kept = {category.graph.key: sorted(category.stored) for category in population.categories}
    columns = [
        replace(column, value=lambda row: kept[row.category]) if column.key == "stored" else column
        for column in CATEGORIES
    ]
    return arrow_table(columns, rows)


def painted_table(result: PaperRun, population: Population) -> pa.Table:
    """One row an edge of every category, mutated or not, in the population's order.

    Edges of one name in a category share their test. Empty unless the variant is `released`.
    """
    parts = [
        arrow_columns(PAINTED, **_tested(category.graph, tests))
        for category, tests in zip(population.categories, result.painted, strict=bool(result.painted))
    ]
    return pa.concat_tables(parts) if parts else arrow_table(PAINTED, ())


def _requests(result: PaperRun, population: Population) -> pa.Table:
    """REQUESTS by rank, mutations before precursors, then as the category has them."""
    listed = list(_listed(result))
    if not listed:
        return arrow_table(REQUESTS, ())
    members = [population.categories[index] for _, _, index in listed]
    of = np.repeat(np.arange(len(listed)), [category.n_requests for category in members])
    samples = pa.array([sample.name for sample in population.samples], pa.string())
    return arrow_columns(
        REQUESTS,
        rank=np.array([rank for rank, _, _ in listed])[of],
        role=pa.array([role for _, role, _ in listed]).take(of),
        category=pa.array([category.graph.key for category in members]).take(of),
        sample=samples.take(np.concatenate([category.sample for category in members])),
        request_id=pa.chunked_array([category.request_id for category in members], pa.string()),
        kind=pa.array([category.graph.kind for category in members]).take(of),
    )


def _listed(result: PaperRun) -> Iterator[tuple[int, str, int]]:
    """(rank, role, index of the category): every mutation; every candidate once, at its best rank."""
    seen: set[int] = set()
    for rank, mutation in enumerate(result.mutations, 1):
        yield rank, "mutation", mutation.category
        if mutation.candidates is not None:
            for index in mutation.candidates.category.tolist():
                if index not in seen:
                    seen.add(index)
                    yield rank, "precursor", index
