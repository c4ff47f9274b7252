"""Hash structures to category keys, which are stored, and flows to fingerprints, which are not (A.3.3).

The key is the 128-bit BLAKE2b of an injective serialisation of the template. The design's key is a multiset
of refinement colours; a template is already canonical, so its exact bytes serve, and refinement-equivalent
graphs that are not isomorphic can no longer share a key. The fingerprint groups the flows of a batch and
finds known structures: two sums over arrays, with no Python a structure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from schemas.arrays import U8
from stitch.columnar.hashing import mix
from stitch.graph.labels import NodeLabels
from stitch.graph.placed import PlacedFlows

# Odd constants: a node's numbers are spread over 64 bits before they are added up.
_POSITION = np.uint64(0x9E3779B97F4A7C15)
_MATE = np.uint64(0xC2B2AE3D27D4EB4F)
_PARENT = np.uint64(0x165667B19E3779F9)
_FLAGS = np.uint64(0xD6E8FEB86659FD93)

KEY_BYTES = 16


def digest(*parts: bytes) -> bytes:
    """[16] BLAKE2b-128 of the concatenation; callers make it injective."""
    return blake2b(b"".join(parts), digest_size=KEY_BYTES).digest()


@lru_cache(maxsize=65_536)
def name_bytes(component: str, point: str, label: str | None) -> bytes:
    """Injective bytes of a node's name: each part with its length; a null label differs from an empty one."""
    parts = [component.encode(), point.encode()]
    if label is not None:
        parts.append(label.encode())
    return bytes([len(parts)]) + b"".join(struct.pack("<I", len(part)) + part for part in parts)


def structure_key(sizes: tuple[int, int, int], numbers: Iterable[bytes], names: Iterable[bytes]) -> str:
    """L0 category key, 32 hex digits. Equal iff every column of the structure is equal (2^-128).

    sizes: nodes, edges, responses. numbers: kind, side, deferred (one byte a node), mate, parent (int32), src
    and dst of each edge in turn, responses (uint32), little endian. names: `name_bytes` of the nodes.
    """
    return digest(b"flowdiff L0\0", struct.pack("<3I", *sizes), *numbers, *names).hex()


def fingerprint_flows(placed: PlacedFlows, labels: NodeLabels) -> U8:
    """[flows, 2] uint64, equal iff the structures are, up to hash collisions.

    Sum and sum of squares over mixed terms, one for each node (position, label, side, mate, parent, deferred,
    response) and each edge (src, dst). Stable everywhere. O(nodes + edges).
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
