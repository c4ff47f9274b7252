"""Complete tables of a comparison (Arrow, for Parquet): mutations, edges, precursors, categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from analyze.methods.spectroscope.painted_rows import painted_table
from analyze.methods.spectroscope.paper import PaperResult
from analyze.population import Population
from analyze.report.rows import critical_means
from schemas.report import CategoryRow, KsResult, Moments


def _f(name: str, type_: pa.DataType, doc: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=nullable, metadata={"doc": doc})


_STORED = _f("stored", pa.list_(pa.string()), "keys of the lake's categories whose requests these are")

_KS = (
    _f("ks_n0", pa.int64(), "values tested, reference"),
    _f("ks_n1", pa.int64(), "values tested, problem"),
    _f("ks_d", pa.float64(), "KS statistic; null where the test was not run", nullable=True),
    _f("ks_p", pa.float64(), "its p-value", nullable=True),
)

_MOMENTS = tuple(
    _f(f"{name}{t}{unit}", type_, f"{doc}, {period}", nullable=type_ == pa.float64())
    for name, unit, type_, doc in (
        ("count", "", pa.int64(), "recorded requests"),
        ("mean", "_us", pa.float64(), "weighted mean response time, µs"),
        ("variance", "_us2", pa.float64(), "weighted variance of response time, µs²"),
        ("c2", "", pa.float64(), "squared coefficient of variation; count > 10 only"),
    )
    for t, period in enumerate(("reference", "problem"))
)

MUTATIONS_SCHEMA = pa.schema(
    [
        _f("rank", pa.int32(), "from 1: the direction of the change first, then |contribution|"),
        _f("kind", pa.string(), "response-time or structural"),
        _f("direction", pa.string(), "increase or decrease of response time in sum"),
        _f("category", pa.string(), "category key, after the refinement of this comparison"),
        _STORED,
        _f("root", pa.string(), "root type"),
        _f("contribution_us", pa.float64(), "rank key, requests times µs"),
        _f("contribution_nsdi_us", pa.float64(), "by the NSDI'11 formula"),
        _f("contribution_tr_us", pa.float64(), "by the technical report's formula"),
        _f(
            "baseline_mean_us",
            pa.float64(),
            "mean that the mutation is held against, µs: its precursors', or its own before",
            nullable=True,
        ),
        _f("precursors", pa.int32(), "candidate precursors; 0 for response-time mutations"),
        _f("edges_changed", pa.int32(), "edges whose test rejected; 0 for structural mutations"),
        _f("virtual", pa.string(), "why the category has several rows; empty otherwise"),
    ]
)

EDGES_SCHEMA = pa.schema(
    [
        _f("rank", pa.int32(), "rank of the response-time mutation"),
        _f("category", pa.string(), "category key"),
        _f("src", pa.int32(), "canonical position of the earlier node"),
        _f("dst", pa.int32(), "canonical position of the later node"),
        _f("src_label", pa.string(), "label of the earlier node"),
        _f("dst_label", pa.string(), "label of the later node"),
        _f("mean0_us", pa.float64(), "mean latency where critical, reference, µs", nullable=True),
        _f("mean1_us", pa.float64(), "mean latency where critical, problem, µs", nullable=True),
        _f("criticality0", pa.float64(), "share of requests with the edge critical, reference"),
        _f("criticality1", pa.float64(), "share of requests with the edge critical, problem"),
        *_KS,
        _f("changed", pa.bool_(), "the test rejected"),
        _f("attribution_us", pa.float64(), "A_e: exact part of the change of the mean, µs"),
        _f("latency_us", pa.float64(), "part of A_e from latency, µs"),
        _f("criticality_us", pa.float64(), "part of A_e from criticality, µs"),
        _f("skewed", pa.bool_(), "a clock correction touched the edge"),
    ]
)

PRECURSORS_SCHEMA = pa.schema(
    [
        _f("rank", pa.int32(), "rank of the structural mutation"),
        _f("mutation", pa.string(), "category key of the mutation"),
        _f("place", pa.int32(), "from 1, most likely first"),
        _f("category", pa.string(), "category key of the precursor"),
        _STORED,
        _f("edits", pa.int32(), "Levenshtein distance of the token sequences"),
        _f("distance", pa.float64(), "distance of the settings"),
        _f("share", pa.float64(), "weight in the mutation's baseline mean"),
    ]
)

CATEGORIES_SCHEMA = pa.schema(
    [
        _f("category", pa.string(), "category key, after the refinement of this comparison"),
        _STORED,
        _f("root", pa.string(), "root type"),
        _f("canonical", pa.string(), "canonical text"),
        _f("n_nodes", pa.int32(), "number of nodes"),
        *_MOMENTS,
        *_KS,
        _f("roles", pa.list_(pa.string()), "structural, precursor, response-time"),
        _f("change_us", pa.float64(), "change of the summed response time, µs"),
    ]
)


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
    stored = {category.graph.key: sorted(category.stored) for category in population.categories}
    return pa.Table.from_pylist(
        [_category(row, stored[row.category]) for row in rows], schema=CATEGORIES_SCHEMA
    )


def _category(row: CategoryRow, stored: list[str]) -> dict[str, Any]:
    return {
        "category": row.category,
        "stored": stored,
        "root": row.root,
        "canonical": row.canonical,
        "n_nodes": row.n_nodes,
        **_moments(row.before, 0),
        **_moments(row.after, 1),
        **_ks(row.ks),
        "roles": [role.value for role in row.roles],
        "change_us": row.change_us,
    }


def _moments(moments: Moments, t: int) -> dict[str, Any]:
    return {
        f"count{t}": moments.count,
        f"mean{t}_us": moments.mean_us,
        f"variance{t}_us2": moments.variance_us2,
        f"c2{t}": moments.c2,
    }


def _ks(ks: KsResult) -> dict[str, Any]:
    return {"ks_n0": ks.n0, "ks_n1": ks.n1, "ks_d": ks.d, "ks_p": ks.p}
