"""Complete tables of paper mode (Arrow, for Parquet): mutations, edges, precursors, categories, requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from analyze.methods.paper.mutations import PaperResult
from analyze.methods.paper.rows import critical_means
from analyze.population import Category, Population
from schemas.report.columns import arrow_table
from schemas.report.mutations import CategoryRow
from schemas.report.report_tables import (
    CATEGORIES,
    CATEGORIES_SCHEMA,
    EDGES_SCHEMA,
    MUTATIONS_SCHEMA,
    PAINTED_SCHEMA,
    PRECURSORS_SCHEMA,
    REQUESTS_SCHEMA,
)
from stitch.graph.placed import POINT


def report_tables(
    result: PaperResult, population: Population, categories: list[CategoryRow]
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


def _mutations(result: PaperResult, population: Population) -> pa.Table:
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
    return pa.Table.from_pylist(rows, schema=MUTATIONS_SCHEMA)


def _edges(result: PaperResult, population: Population) -> pa.Table:
    """One row an edge of every response-time mutation, column by column (a report may hold 100 k edges)."""
    parts = []
    for rank, m in enumerate(result.mutations, 1):
        if m.edges is None:
            continue
        graph = population.categories[m.category].graph
        tests, a, n = m.edges.tests, m.edges.attribution, len(graph.edges)
        labels = np.array(graph.labels, dtype=object)
        mean0, mean1 = critical_means(a)
        columns: dict[str, Any] = {
            "rank": np.full(n, rank, np.int32),
            "category": [graph.key] * n,
            "src": graph.edges[:, 0],
            "dst": graph.edges[:, 1],
            "src_label": labels[graph.edges[:, 0]],
            "dst_label": labels[graph.edges[:, 1]],
            "mean0_us": mean0,
            "mean1_us": mean1,
            "criticality0": a.criticality_0,
            "criticality1": a.criticality_1,
            "ks_n0": tests.n0,
            "ks_n1": tests.n1,
            "ks_d": tests.d,
            "ks_p": tests.p,
            "changed": tests.changed,
            "attribution_us": a.contribution_us,
            "latency_us": a.latency_part_us,
            "criticality_us": a.criticality_part_us,
            "skewed": population.categories[m.category].skewed_edges,
        }
        arrays = [pa.array(columns[f.name], type=f.type, from_pandas=True) for f in EDGES_SCHEMA]
        parts.append(pa.Table.from_arrays(arrays, schema=EDGES_SCHEMA))
    return pa.concat_tables(parts) if parts else EDGES_SCHEMA.empty_table()


def _precursors(result: PaperResult, population: Population) -> pa.Table:
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
    return pa.Table.from_pylist(rows, schema=PRECURSORS_SCHEMA)


def _categories(rows: list[CategoryRow], population: Population) -> pa.Table:
    """One row a category; its keys in the lake are no part of the report's model."""
    table = arrow_table([column for column in CATEGORIES if column.key != "stored"], rows)
    kept = {category.graph.key: sorted(category.stored) for category in population.categories}
    field = CATEGORIES_SCHEMA.field("stored")
    place = CATEGORIES_SCHEMA.get_field_index("stored")
    return table.add_column(place, field, pa.array([kept[row.category] for row in rows], field.type))


def painted_table(result: PaperResult, population: Population) -> pa.Table:
    """PAINTED_SCHEMA, one row an edge of every category, mutated or not, in the population's order.

    Edges of one name in a category share their test. Empty unless the variant is `released`.
    """
    parts = []
    for category, tests in zip(population.categories, result.painted, strict=bool(result.painted)):
        graph = category.graph
        labels = np.array(graph.labels, dtype=object)
        columns = {
            "category": [graph.key] * len(graph.edges),
            "src": graph.edges[:, 0],
            "dst": graph.edges[:, 1],
            "src_label": labels[graph.edges[:, 0]],
            "dst_label": labels[graph.edges[:, 1]],
            "ks_n0": tests.n0,
            "ks_n1": tests.n1,
            "ks_d": tests.d,
            "ks_p": tests.p,
            "changed": tests.changed,
        }
        arrays = [
            pa.array(columns[field.name], type=field.type, from_pandas=True) for field in PAINTED_SCHEMA
        ]
        parts.append(pa.Table.from_arrays(arrays, schema=PAINTED_SCHEMA))
    return pa.concat_tables(parts) if parts else PAINTED_SCHEMA.empty_table()


def _requests(result: PaperResult, population: Population) -> pa.Table:
    """REQUESTS_SCHEMA by rank, mutations before precursors, then as the category has them."""
    listed = list(_listed(result))
    members = [population.categories[index] for _, _, index in listed]
    sizes = np.array([category.n_requests for category in members], dtype=np.int64)
    if not sizes.sum():
        return REQUESTS_SCHEMA.empty_table()

    def repeated(values: list[str]) -> pa.Array:
        """One value a category as one a request."""
        words = pa.array(dict.fromkeys(values))
        place = {word: code for code, word in enumerate(words.to_pylist())}
        codes = np.repeat(np.array([place[value] for value in values], np.int32), sizes)
        return pa.DictionaryArray.from_arrays(codes, words).cast(pa.string())

    samples = pa.DictionaryArray.from_arrays(
        np.concatenate([category.sample for category in members]).astype(np.int32),
        pa.array([sample.name for sample in population.samples]),
    )
    columns = [
        pa.array(np.repeat(np.array([rank for rank, _, _ in listed], np.int32), sizes)),
        repeated([role for _, role, _ in listed]),
        repeated([category.graph.key for category in members]),
        samples.cast(pa.string()),
        pa.chunked_array([category.request_id for category in members], pa.string()),
        repeated([_kind(category) for category in members]),
    ]
    return pa.Table.from_arrays(columns, schema=REQUESTS_SCHEMA)


def _listed(result: PaperResult) -> Iterator[tuple[int, str, int]]:
    """(rank, role, index of the category): every mutation; every candidate once, at its best rank."""
    seen: set[int] = set()
    for rank, mutation in enumerate(result.mutations, 1):
        yield rank, "mutation", mutation.category
        if mutation.candidates is not None:
            for index in mutation.candidates.category.tolist():
                if index not in seen:
                    seen.add(index)
                    yield rank, "precursor", index


def _kind(category: Category) -> str:
    """What the requests were recorded as: nodes of spans have a side."""
    return "records" if all(node.side == POINT for node in category.graph.nodes) else "spans"
