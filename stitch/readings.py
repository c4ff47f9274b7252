"""Compute the texts and the L1 and L2 keys of structures from their rows, on demand.

They are not stored, as they can be computed from the nodes and edges, and would be half of a small lake.
"""

from __future__ import annotations

import pyarrow as pa

from schemas.lake import READINGS_SCHEMA
from stitch.columnar.runs import whole
from stitch.graph.folding import node_words
from stitch.graph.template import Template
from stitch.graph.text import Reading, read_graph

_NODE_FIELDS = ("component", "point", "label", "kind", "side", "mate", "parent", "deferred")


def templates_of(structures: pa.Table) -> list[Template]:
    """Templates of structures (rows of STRUCTURES_SCHEMA), in order. O(nodes)."""
    if structures.num_rows == 0:
        return []
    nodes, in_edges, responses = (whole(structures[name]) for name in ("nodes", "in_edges", "responses"))
    at, edge_at, response_at = (_bounds(column) for column in (nodes, in_edges, responses))
    flat_nodes, flat_edges = nodes.flatten(), in_edges.flatten()
    fields = {name: flat_nodes.field(name).to_pylist() for name in _NODE_FIELDS}
    pairs = list(zip(flat_edges.field("src").to_pylist(), flat_edges.field("dst").to_pylist(), strict=True))
    answers = responses.flatten().to_pylist()
    return [
        Template(
            edges=tuple(pairs[edge_at[row] : edge_at[row + 1]]),
            responses=tuple(answers[response_at[row] : response_at[row + 1]]),
            **{name: tuple(values[at[row] : at[row + 1]]) for name, values in fields.items()},
        )
        for row in range(structures.num_rows)
    ]


def reading_of(template: Template) -> Reading:
    """Compute the texts and the L1 and L2 keys of the structure with this template. O(nodes), 7 to 10 µs per
    node."""
    return read_graph(template.edges, template.mate, template.deferred, node_words(template))


def readings_of(structures: pa.Table) -> pa.Table:
    """Compute the texts and keys of structures (STRUCTURES_SCHEMA): a table with READINGS_SCHEMA, one row per
    structure, in order; 10 µs per node."""
    rows = [reading_of(template) for template in templates_of(structures)]
    said = [name for name in READINGS_SCHEMA.names if name != "category"]
    columns = {name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in said}
    return pa.table({"category": whole(structures["category"]), **columns}, schema=READINGS_SCHEMA)


def _bounds(lists: pa.ListArray) -> list[int]:
    """[rows + 1] offsets of the rows' values in `flatten()`."""
    starts = lists.offsets.to_numpy()
    bounds: list[int] = (starts - starts[0]).tolist()
    return bounds
