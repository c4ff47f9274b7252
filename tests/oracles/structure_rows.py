"""Rows of the structures table from `Structure` objects and back, the slow way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from oracles.described import Structure, describe

from schemas.lake import EDGE_TYPE, NODE_TYPE, STRUCTURES_SCHEMA
from stitch.graph.template import Template


def structures_table(structures: Iterable[Structure]) -> pa.Table:
    """One row of `STRUCTURES_SCHEMA` a structure, in the order given. O(nodes)."""
    rows = list(structures)
    templates = [row.template for row in rows]
    nodes = pa.StructArray.from_arrays(
        [_flat((getattr(t, field.name) for t in templates), field.type) for field in NODE_TYPE],
        fields=list(NODE_TYPE),
    )
    edges = pa.StructArray.from_arrays(
        [_flat(([edge[i] for edge in t.edges] for t in templates), pa.int32()) for i in (0, 1)],
        fields=list(EDGE_TYPE),
    )
    columns: dict[str, pa.Array] = {
        name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in ("category", "root")
    }
    columns["n_nodes"] = pa.array([t.n_nodes for t in templates], pa.int32())
    columns["nodes"] = _lists([t.n_nodes for t in templates], nodes)
    columns["in_edges"] = _lists([len(t.edges) for t in templates], edges)
    responses = _flat((t.responses for t in templates), pa.int32())
    columns["responses"] = _lists([len(t.responses) for t in templates], responses)
    arrays = [columns[field.name].cast(field.type) for field in STRUCTURES_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=STRUCTURES_SCHEMA)


def structure_from_row(row: Mapping[str, Any]) -> Structure:
    """The structure of one row (a dict, as `Table.to_pylist` makes it). Inverse of `structures_table`."""
    nodes: Sequence[Mapping[str, Any]] = row["nodes"]
    template = Template(
        component=tuple(node["component"] for node in nodes),
        point=tuple(node["point"] for node in nodes),
        label=tuple(node["label"] for node in nodes),
        kind=tuple(node["kind"] for node in nodes),
        side=tuple(node["side"] for node in nodes),
        mate=tuple(node["mate"] for node in nodes),
        parent=tuple(node["parent"] for node in nodes),
        deferred=tuple(node["deferred"] for node in nodes),
        edges=tuple((edge["src"], edge["dst"]) for edge in row["in_edges"]),
        responses=tuple(row["responses"]),
    )
    structure = describe(template)
    assert structure.category == row["category"]
    return structure


def _flat(columns: Iterable[Sequence[object]], type_: pa.DataType) -> pa.Array:
    return pa.array(list(chain.from_iterable(columns)), type_)


def _lists(lengths: list[int], values: pa.Array) -> pa.ListArray:
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
