"""Template: labelled DAG of a structure in canonical positions; its hash is the category key.

The key, which is stored, is the 128-bit BLAKE2b of an injective serialisation of the template. As a template
is canonical, its exact bytes identify the structure: two graphs that colour refinement cannot distinguish but
that are not isomorphic have different keys. The fingerprint, which is not stored, groups the flows of a batch
and finds known structures: two sums over arrays, without a Python loop over structures.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from schemas.arrays import U8
from stitch.columnar.hashing import mix
from stitch.graph.placed import LabelCodes, PlacedFlows

# Odd constants: a node's numbers are spread over 64 bits before they are added up.
_POSITION = np.uint64(0x9E3779B97F4A7C15)
_MATE = np.uint64(0xC2B2AE3D27D4EB4F)
_PARENT = np.uint64(0x165667B19E3779F9)
_FLAGS = np.uint64(0xD6E8FEB86659FD93)

KEY_BYTES = 16


def digest(*parts: bytes) -> bytes:
    """[16] BLAKE2b-128 digest of the concatenated parts; callers must make the concatenation injective."""
    return blake2b(b"".join(parts), digest_size=KEY_BYTES).digest()


@lru_cache(maxsize=65_536)
def name_bytes(component: str, point: str, label: str | None) -> bytes:
    """Encode a node's name injectively: each part after its length; a null label differs from an empty
    one."""
    parts = [component.encode(), point.encode()]
    if label is not None:
        parts.append(label.encode())
    return bytes([len(parts)]) + b"".join(struct.pack("<I", len(part)) + part for part in parts)


def structure_key(sizes: tuple[int, int, int], numbers: Iterable[bytes], names: Iterable[bytes]) -> str:
    """Category key at level L0, 32 hex digits: equal iff every column of the structure is equal (collision:
    2^-128).

    sizes: numbers of nodes, edges, responses. numbers: kind, side, deferred (one byte per node), mate, parent
    (int32), src and dst of each edge in turn, responses (uint32), little endian. names: `name_bytes` of the
    nodes.
    """
    return digest(b"flowdiff L0\0", struct.pack("<3I", *sizes), *numbers, *names).hex()


def fingerprint_flows(placed: PlacedFlows, labels: LabelCodes) -> U8:
    """[flows, 2] uint64 fingerprint of each flow's structure: equal iff the structures are equal, up to
    collisions.

    Sum, and sum of squares, of one hash for each node (position, label, side, mate, parent, deferred,
    response) and each edge (src, dst). The same in every process and on every machine. O(nodes + edges).
    """
    result = np.zeros((placed.n_flows, 2), dtype=np.uint64)
    if placed.n_flows == 0:
        return result
    n_nodes = np.diff(placed.first_node)
    position = np.arange(len(placed.event)) - np.repeat(placed.first_node[:-1], n_nodes)
    flags = placed.side + 4 * placed.deferred.view(np.uint8) + 8 * placed.response.view(np.uint8)
    word = labels.hashes[labels.code]
    word += position.view(np.uint64) * _POSITION
    word += placed.mate.astype(np.uint64) * _MATE
    word += placed.parent.astype(np.uint64) * _PARENT
    word += flags.astype(np.uint64) * _FLAGS
    terms = mix(word)
    edge_terms = mix((placed.src.astype(np.uint64) << np.uint64(32)) | placed.dst.astype(np.uint64))
    for lane in range(2):  # sums of the terms, then of their squares
        total = np.add.reduceat(terms, placed.first_node[:-1])
        if len(edge_terms):
            running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(edge_terms)))
            total += mix(running[placed.first_edge[1:]] - running[placed.first_edge[:-1]])
        result[:, lane] = mix(total)
        if lane == 0:
            terms *= terms
            edge_terms *= edge_terms
    return result


@dataclass(frozen=True, slots=True)
class Template:
    """Labelled DAG over canonical positions; element `i` of every node field is node `i`.

    Positions are a topological order (src < dst on every edge) and node 0 is the only source. Makers of
    templates guarantee that they are canonical: isomorphic flows must give equal templates.
    """

    component: tuple[str, ...]
    point: tuple[str, ...]
    label: tuple[str | None, ...]
    kind: tuple[int, ...]
    """[nodes] EventKind of the node's event."""
    side: tuple[int, ...]
    """[nodes] 0 for a point, 1 for the start of a span, 2 for the end of a span."""
    mate: tuple[int, ...]
    """[nodes] position of the span's other node (end for a start, start for an end); -1 for points, or if
    unknown."""
    parent: tuple[int, ...]
    """[nodes] position of the start of the parent span; -1 for the root and for activity records."""
    deferred: tuple[bool, ...]
    """[nodes] True if the response to the caller does not wait for the node."""
    edges: tuple[tuple[int, int], ...]
    """Edges as (source, destination) positions, sorted by (destination, source), transitively reduced."""
    responses: tuple[int, ...]
    """Positions, ascending, of the nodes from which the response to the caller may leave."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.component)

    @property
    def root(self) -> str:
        """Root type, `component/point` of node 0."""
        return f"{self.component[0]}/{self.point[0]}"

    @classmethod
    def of_graph(
        cls,
        names: Sequence[tuple[str, str, str | None]],
        edges: Sequence[tuple[int, int]],
        responses: Sequence[int],
        *,
        side: Sequence[int] | None = None,
        mate: Sequence[int] | None = None,
        deferred: Sequence[bool] | None = None,
    ) -> Template:
        """Make the template of a refined graph, whose nodes have no events: all kinds are 0, all parents -1.

        names: (component, point, label) of each node; node indices must be a topological order. edges:
        (source, destination), in any order. responses: nodes from which the response may leave. side: 0
        point, 1 start, 2 end of a span; None: all points. mate: other node of the node's span, -1 if none or
        unknown; None: all -1. Known mates let the text of the graph show a span without children as one word,
        and detect repeated spans as loops. deferred: True if the response does not wait for the node; None:
        all False.
        """
        n = len(names)
        return cls(
            component=tuple(name[0] for name in names),
            point=tuple(name[1] for name in names),
            label=tuple(name[2] for name in names),
            kind=(0,) * n,
            side=(0,) * n if side is None else tuple(side),
            mate=(-1,) * n if mate is None else tuple(mate),
            parent=(-1,) * n,
            deferred=(False,) * n if deferred is None else tuple(deferred),
            edges=tuple(sorted(((s, d) for s, d in edges), key=lambda edge: (edge[1], edge[0]))),
            responses=tuple(sorted(responses)),
        )
