"""Fingerprints of placed flows: 128 bits that are equal iff the structures are (up to hash collisions).

They group the flows of a batch and find known structures; the category key that is stored is BLAKE2b over the
whole template (`stitch.graph.key`), computed once a structure.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stitch.columnar.mixing import mix
from stitch.graph.labels import NodeLabels
from stitch.graph.placed import PlacedFlows

U8 = npt.NDArray[np.uint64]

# Odd constants: a node's numbers are spread over 64 bits before they are added up.
_POSITION = np.uint64(0x9E3779B97F4A7C15)
_MATE = np.uint64(0xC2B2AE3D27D4EB4F)
_PARENT = np.uint64(0x165667B19E3779F9)
_FLAGS = np.uint64(0xD6E8FEB86659FD93)


def fingerprint_flows(placed: PlacedFlows, labels: NodeLabels) -> U8:
    """[flows, 2] uint64: sum and sum of squares over mixed terms, one for each node (position, label, side,
    mate, parent, deferred, response) and each edge (src, dst). Stable everywhere. O(nodes + edges).
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
