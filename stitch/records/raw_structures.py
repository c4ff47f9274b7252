"""Flows of a batch that are laid out alike, so that graph work is done once for all of them (A.3 step 5).

Strands of a flow are put in the order of a hash of what they hold and how they are linked, so that the layout
depends little on ids and not at all on times. Flows with the same layout form a *raw structure*. One
structure may have several raw ones (strands with equal hashes lie in any order); never the reverse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.arrays import B1, I8, U8
from stitch.columnar.mixing import mix
from stitch.columnar.runs import offsets, ranges, sum_runs
from stitch.graph.order.dag import Dags

_LOOSE = np.uint64(0x8EBC6AF09C88C6E3)
_PLACE = np.uint64(0x589965CC75374CC3)
_SRC = np.uint64(0x1D8E4E27C47D124F)
_DST = np.uint64(0xEB44ACCAB455D165)


@dataclass(frozen=True, slots=True)
class Laid:
    """Flows laid out, and their raw structures."""

    node: I8
    """[nodes] node at each place; flow by flow."""
    first_node: I8
    """[flows + 1] offsets into `node`."""
    structure: I8
    """[flows] raw structure."""
    leader: I8
    """[structures] first flow of the raw structure."""
    dags: Dags
    """[structures] labels and edges, in the places of the layout."""


def lay_out(
    strand_first: I8,
    strand_flow: I8,
    n_flows: int,
    label: U8,
    linked: B1,
    src: I8,
    dst: I8,
) -> Laid:
    """Lay out flows and find equal ones.

    strand_first: [strands + 1] offsets into the nodes. strand_flow: [strands] flow, 0 … n_flows - 1, in any
    order. label: [nodes]. linked: [nodes] an edge comes from the node before. src, dst: [cross edges].
    Equality is judged by a 64-bit hash of labels and edges. O(nodes + strands log strands).
    """
    length = np.diff(strand_first)
    node_strand = np.repeat(np.arange(len(length), dtype=np.int64), length)
    rank = np.arange(len(label), dtype=np.int64) - strand_first[node_strand]
    colour = _hash_strands(strand_first, label, linked, rank)
    edge_hash = _hash_ends(node_strand, rank, colour, src, dst)
    with np.errstate(over="ignore"):
        np.add.at(colour, node_strand[dst], mix(edge_hash ^ _DST))
        np.add.at(colour, node_strand[src], mix(edge_hash ^ _SRC))
    order = _by_flow_and_hash(strand_flow, colour, n_flows)

    flow_size = np.bincount(strand_flow, weights=length, minlength=n_flows).astype(np.int64)
    first_node = offsets(flow_size)
    begin = np.empty(len(length), dtype=np.int64)
    begin[order] = np.cumsum(length[order]) - length[order]
    begin -= first_node[:-1][strand_flow]
    # `begin` is now the place of the strand's first node in its flow.
    src_place = begin[node_strand[src]] + rank[src]
    dst_place = begin[node_strand[dst]] + rank[dst]
    edge_flow = strand_flow[node_strand[src]]
    key = mix(flow_size.astype(np.uint64))
    with np.errstate(over="ignore"):
        sorted_first = offsets(np.bincount(strand_flow, minlength=n_flows))
        key += sum_runs(mix(colour[order] + mix(begin[order].astype(np.uint64) ^ _PLACE)), sorted_first)
        ends = (src_place.astype(np.uint64) << np.uint64(32)) | dst_place.astype(np.uint64)
        np.add.at(key, edge_flow, mix(mix(ends) ^ _SRC))
    _, leader, structure = np.unique(key, return_index=True, return_inverse=True)
    node = ranges(strand_first[order], length[order])

    # Labels and edges of the leaders only.
    leader_first = offsets(flow_size[leader])
    shown = ranges(first_node[leader], flow_size[leader])
    nodes = node[shown]
    linked_places = np.flatnonzero(linked[nodes])
    base = np.full(n_flows, -1, dtype=np.int64)
    base[leader] = leader_first[:-1]
    of_leader = np.flatnonzero(base[edge_flow] >= 0)
    shift = base[edge_flow[of_leader]]
    dags = Dags(
        leader_first,
        label[nodes],
        np.concatenate((linked_places - 1, src_place[of_leader] + shift)),
        np.concatenate((linked_places, dst_place[of_leader] + shift)),
    )
    return Laid(node, first_node, structure.astype(np.int64), leader.astype(np.int64), dags)


def _hash_strands(first: I8, label: U8, linked: B1, rank: I8) -> U8:
    """[strands] hash of the labels in order, and of which node follows the one before it."""
    place = mix(rank.astype(np.uint64) ^ _PLACE)
    with np.errstate(over="ignore"):
        seen = np.where(linked, label, label + _LOOSE)
        return mix(sum_runs(mix(seen ^ place), first) + np.diff(first).astype(np.uint64))


def _hash_ends(node_strand: I8, rank: I8, colour: U8, src: I8, dst: I8) -> U8:
    """[cross edges] hash of the strands and ranks an edge joins."""
    with np.errstate(over="ignore"):
        start = mix(colour[node_strand[src]] + mix(rank[src].astype(np.uint64) ^ _SRC))
        end = mix(colour[node_strand[dst]] + mix(rank[dst].astype(np.uint64) ^ _DST))
        return start + mix(end)


def _by_flow_and_hash(flow: I8, colour: U8, n_flows: int) -> I8:
    """Strands sorted by flow, and inside a flow by the upper bits of the hash."""
    bits = np.uint64(max(n_flows - 1, 1).bit_length())
    return np.argsort((flow.astype(np.uint64) << (np.uint64(64) - bits)) | (colour >> bits), kind="stable")
