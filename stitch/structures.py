"""Rows of structures for the lake: those of new structures are computed for a whole batch, those of known
ones are looked up by fingerprint."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8, U1
from schemas.lake import EDGE_TYPE, NODE_TYPE, STRUCTURES_SCHEMA
from stitch.columnar.runs import list_arrays, struct_arrays
from stitch.graph.placed import LabelCodes, PlacedFlows, PlacedNodes
from stitch.graph.template import name_bytes, structure_key

_MAX_CHUNKS = 64
"""Maximum number of chunks of the cached table: each batch with new structures adds one; beyond this they are
combined into one."""
_DESCRIBED_AT_ONCE = 4_096
"""Maximum number of structures whose names and bytes are Python objects at a time, at about 1 KB each."""


class StructureMemo:
    """Cache: fingerprint of a structure -> its row. It never changes a result, as a structure depends only on
    its template.

    Thread-safe: only one thread at a time computes rows, at no loss, as this holds the interpreter lock
    anyway; so no structure is computed twice. Above `capacity` structures the cache is emptied, and a batch
    that alone exceeds the capacity is not cached. A structure of 48 spans takes about 4 KB, so the default
    bound is some 70 MB.
    """

    def __init__(self, capacity: int = 16_384) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._row: dict[tuple[int, int], int] = {}
        self._table = STRUCTURES_SCHEMA.empty_table()

    def rows(
        self, fingerprints: Sequence[tuple[int, int]], describe: Callable[[list[int]], pa.Table]
    ) -> pa.Table:
        """Rows of STRUCTURES_SCHEMA, one per fingerprint, from the cache or from `describe`.

        describe: function from indices in `fingerprints`, those of unknown structures, to the rows of these
        structures.
        """
        with self._lock:
            unknown = [i for i, key in enumerate(fingerprints) if key not in self._row]
            if len(self._row) + len(unknown) > self._capacity:
                self._row.clear()
                self._table = STRUCTURES_SCHEMA.empty_table()
                unknown = list(range(len(fingerprints)))
            if len(unknown) > self._capacity:
                return _described(describe, unknown).combine_chunks()
            if unknown:
                n_known, fresh = self._table.num_rows, _described(describe, unknown)
                self._table = pa.concat_tables([self._table, fresh])
                self._row.update((fingerprints[i], n_known + place) for place, i in enumerate(unknown))
                if self._table["category"].num_chunks > _MAX_CHUNKS:
                    self._table = self._table.combine_chunks()
                if len(unknown) == len(fingerprints):
                    return fresh.combine_chunks()
            return self._table.take(
                pa.array([self._row[key] for key in fingerprints], pa.int64())
            ).combine_chunks()


def _described(describe: Callable[[list[int]], pa.Table], places: list[int]) -> pa.Table:
    cuts = range(0, len(places), _DESCRIBED_AT_ONCE)
    return pa.concat_tables([describe(places[at : at + _DESCRIBED_AT_ONCE]) for at in cuts])


def structures_of(placed: PlacedFlows, labels: LabelCodes, flows: I8) -> pa.Table:
    """Compute rows of STRUCTURES_SCHEMA, one for each flow in `flows` (indices into `placed`), in order.

    Only keys are computed structure by structure; the other columns are computed for all structures together.
    """
    nodes, label = placed.taken(flows), labels.code[placed.nodes_of(flows)].astype(np.int64)
    kind = labels.words["kind"].to_numpy()[label]
    keys = _keys(nodes, label, kind, labels)
    n_nodes = np.diff(nodes.first_node)
    names = {name: labels.words[name].cast(pa.string()).combine_chunks() for name in _NAMES}
    node_columns = {name: names[name].take(pa.array(label)) for name in _NAMES} | {"kind": pa.array(kind)}
    for name in ("side", "mate", "parent", "deferred"):
        node_columns[name] = pa.array(getattr(nodes, name))
    head = pa.array(label[nodes.first_node[:-1]])
    positions = _positions(nodes)
    n_responses = np.add.reduceat(nodes.response, nodes.first_node[:-1], dtype=np.int64)
    columns: dict[str, pa.Array] = {
        "category": pa.array(keys, pa.string()),
        "root": pc.binary_join_element_wise(names["component"].take(head), names["point"].take(head), "/"),
        "n_nodes": pa.array(n_nodes),
        "nodes": list_arrays(n_nodes, struct_arrays(NODE_TYPE, node_columns)),
        "in_edges": list_arrays(
            np.diff(nodes.first_edge),
            struct_arrays(EDGE_TYPE, {"src": pa.array(nodes.src), "dst": pa.array(nodes.dst)}),
        ),
        "responses": list_arrays(n_responses, pa.array(positions[nodes.response], pa.int32())),
    }
    arrays = [columns[field.name].cast(field.type) for field in STRUCTURES_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=STRUCTURES_SCHEMA)


_NAMES = ("component", "point", "label")


def _positions(nodes: PlacedNodes) -> I8:
    """[nodes] int64 position of each node in its structure, from 0."""
    first = nodes.first_node
    positions: I8 = np.arange(first[-1]) - np.repeat(first[:-1], np.diff(first))
    return positions


def _keys(nodes: PlacedNodes, label: I8, kind: U1, labels: LabelCodes) -> list[str]:
    """[structures] category key at level L0. Columns and names are converted to bytes once and sliced,
    instead of packed node by node."""
    used, name = np.unique(label, return_inverse=True)
    words = labels.words.select(_NAMES).take(pa.array(used)).to_pydict()
    spelled = list(map(name_bytes, *(words[column] for column in _NAMES)))
    names = pa.array(spelled, pa.large_binary()).take(pa.array(name))
    first_byte = np.frombuffer(names.buffers()[1], np.int64)[nodes.first_node].tolist()
    name_data = names.buffers()[2].to_pybytes()
    node_columns = [
        (np.ascontiguousarray(column, dtype).tobytes(), np.dtype(dtype).itemsize)
        for column, dtype in (
            (kind, "u1"),
            (nodes.side, "u1"),
            (nodes.deferred, "u1"),
            (nodes.mate, "<i4"),
            (nodes.parent, "<i4"),
        )
    ]
    edges = np.stack((nodes.src, nodes.dst), axis=1).astype("<u4").tobytes()
    answering = np.flatnonzero(nodes.response)
    first_response = np.searchsorted(answering, nodes.first_node).tolist()
    responses = _positions(nodes)[answering].astype("<u4").tobytes()
    first_node, first_edge = nodes.first_node.tolist(), nodes.first_edge.tolist()
    keys = []
    for i in range(len(first_node) - 1):
        node, node_end = first_node[i], first_node[i + 1]
        edge, edge_end = first_edge[i], first_edge[i + 1]
        response, response_end = first_response[i], first_response[i + 1]
        numbers = [data[node * size : node_end * size] for data, size in node_columns]
        numbers.append(edges[8 * edge : 8 * edge_end])
        numbers.append(responses[4 * response : 4 * response_end])
        sizes = (node_end - node, edge_end - edge, response_end - response)
        keys.append(structure_key(sizes, numbers, (name_data[first_byte[i] : first_byte[i + 1]],)))
    return keys
