"""Complete tables of paper mode (Arrow, for Parquet): mutations, edges, precursors, categories, requests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from analyze.methods.paper.paper_run import PaperRun
from analyze.methods.paper.rows import edge_table, tested_edges
from analyze.population import Population
from schemas.report.columns import arrow_columns, arrow_table
from schemas.report.mutations import CATEGORIES, EDGES, MUTATIONS, PAINTED, PRECURSORS, CategoryRow
from schemas.report.report_tables import REQUESTS
from schemas.windows import NS_PER_US


def report_tables(
    result: PaperRun, population: Population, categories: list[CategoryRow]
) -> dict[str, pa.Table]:
    """Make all tables of paper mode, not cut: table name -> table.

    Rows are sorted by rank, then in the order of a report.
    """
    painted = {"painted": painted_table(result, population)} if result.painted else {}
    return painted | {
        "mutations": _mutations(result, population),
        "edges": _edges(result, population),
        "precursors": _precursors(result, population),
        "categories": _categories(categories, population),
        "requests": _requests(result, population),
    }


def _mutations(result: PaperRun, population: Population) -> pa.Table:
    found = result.mutations
    categories = [population.categories[m.category] for m in found]
    return arrow_table(
        MUTATIONS,
        found,
        rank=range(1, len(found) + 1),
        category=[category.graph.key for category in categories],
        stored=[sorted(category.stored) for category in categories],
        root=[category.graph.root for category in categories],
        precursors=[0 if m.candidates is None else len(m.candidates.category) for m in found],
        edges_changed=[0 if m.edges is None else int(m.edges.tests.changed.sum()) for m in found],
    )


def _edges(result: PaperRun, population: Population) -> pa.Table:
    """Table of the edges of all response-time mutations, one row per edge (a report may have 100,000
    edges)."""
    parts = [
        edge_table(population.categories[m.category], m.edges, rank)
        for rank, m in enumerate(result.mutations, 1)
        if m.edges is not None
    ]
    return pa.concat_tables(parts) if parts else arrow_table(EDGES, ())


def _precursors(result: PaperRun, population: Population) -> pa.Table:
    parts = []
    for rank, m in enumerate(result.mutations, 1):
        if m.candidates is None:
            continue
        found, n = m.candidates, len(m.candidates.category)
        categories = [population.categories[int(index)] for index in found.category]
        parts.append(
            arrow_columns(
                PRECURSORS,
                rank=[rank] * n,
                mutation=[population.categories[m.category].graph.key] * n,
                place=range(1, n + 1),
                category=[category.graph.key for category in categories],
                stored=[sorted(category.stored) for category in categories],
                edits=found.edits,
                distance=found.distance,
                share=found.weight,
            )
        )
    return pa.concat_tables(parts) if parts else arrow_table(PRECURSORS, ())


def _categories(rows: list[CategoryRow], population: Population) -> pa.Table:
    """Table with one row per category, with its keys in the lake, which the report's model omits."""
    kept = {category.graph.key: sorted(category.stored) for category in population.categories}
    return arrow_table(CATEGORIES, rows, stored=[kept[row.category] for row in rows])


def painted_table(result: PaperRun, population: Population) -> pa.Table:
    """Table with one row per edge of every category, mutated or not, in the population's order.

    Edges with the same name in a category have the same test. Empty unless the variant is `released`.
    """
    parts = [
        arrow_columns(PAINTED, **tested_edges(category.graph, tests))
        for category, tests in zip(population.categories, result.painted, strict=bool(result.painted))
    ]
    return pa.concat_tables(parts) if parts else arrow_table(PAINTED, ())


def _requests(result: PaperRun, population: Population) -> pa.Table:
    """Table REQUESTS of mutations and precursors: by rank, mutations before precursors, then in the order of
    the category."""
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
        response_us=np.concatenate([category.response_ns for category in members]) / NS_PER_US,
    )


def _listed(result: PaperRun) -> Iterator[tuple[int, str, int]]:
    """Yield (rank, role, index of the category) for every mutation, and for every candidate precursor once,
    at its best rank."""
    seen: set[int] = set()
    for rank, mutation in enumerate(result.mutations, 1):
        yield rank, "mutation", mutation.category
        if mutation.candidates is not None:
            for index in mutation.candidates.category.tolist():
                if index not in seen:
                    seen.add(index)
                    yield rank, "precursor", index
