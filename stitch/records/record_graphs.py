"""Build the graph of every request of a batch of activity records, as placed flows.

Nodes are records on strands (`stitch.records.strands`), edges come from strands, splits, joins and explicit
parents (`stitch.records.happens_before`). To make each graph a flow it gets one source and one response.

Cycles. Every edge between two nodes that are on a cycle or behind one is cut (CYCLE).

Sources. A flow with exactly one record that nothing precedes has it as root. With several, a synthetic
`?root` goes before them (MULTI_ROOT). A record with explicit parents, none of which has a record, and without
any other edge into it is an orphan: it becomes a child of a synthetic `?missing` below the root. In a flow
without a real source a single orphan is the root, and several become children of a `?missing` that is the
root. A record of which only some parents are missing keeps the others. Both cases set ORPHAN; only orphans
set INCOMPLETE. Synthetic nodes have the earliest time of their children.

Response. The first `end` record of the entry strand; the entry strand is that of the only source, or of the
only source whose strand has an `end` (in flows without a source, orphans count as sources here). Without one:
the first in canonical order of all `end` records. In flows without any `end`: all sinks, where some record
has explicit parents or no breadcrumb; else the last record of the entry strand, or, without an entry strand,
the first in canonical order of the last records of the sources' strands (NO_END). A node from which no
response is reachable is deferred.

Open strands. UNCLOSED says that a strand other than a source's, without explicit parents, has neither an
`end` record nor a join that links it, or that its last record is later than such a join on the same host.

Graph work is done once for all flows with the same layout. In the layout the strands of a flow are sorted by
a hash of their labels and links, so that it depends little on ids and not at all on times. Flows with the
same layout form a *raw structure*. One structure may have several raw structures (strands with equal hashes
may be in any order), but a raw structure belongs to one structure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from schemas.arrays import B1, I8, U4, U8
from schemas.config import StitchConfig
from schemas.quality import Quality
from stitch.columnar.hashing import hash_rows, mix
from stitch.columnar.runs import distinct, offsets, ranges, run_starts, sum_runs, whole
from stitch.graph.order.dag import CanonicalOrder, Dags, canonical_order
from stitch.graph.placed import POINT, LabelCodes, PlacedFlows, encode_labels, rows_of_nodes
from stitch.records.flow_ends import Ends, Entries, find_ends, find_entries, make_synthetic, place_responses
from stitch.records.happens_before import HappensBefore, connect, cut_cycles
from stitch.records.strands import Records, Strands, order_strands, read_records

_LOOSE = np.uint64(0x8EBC6AF09C88C6E3)
_PLACE = np.uint64(0x589965CC75374CC3)
_SRC = np.uint64(0x1D8E4E27C47D124F)
_DST = np.uint64(0xEB44ACCAB455D165)
_RESPONSE = np.uint64(0xA0761D6478BD642F)
"""Hash that is mixed into the label of nodes from which the response may leave, so that they are sorted
separately from other nodes with the same label."""


@dataclass(frozen=True, slots=True)
class Laid:
    """Layout of flows, with the strands of each sorted by hash. Flows with equal layouts share a *raw
    structure*."""

    node: I8
    """[positions] node at each position of the layout, flow by flow."""
    first_node: I8
    """[flows + 1] index into `node` of each flow's first node; last, the number of nodes."""
    structure: I8
    """[flows] index of the flow's raw structure."""
    leader: I8
    """[raw structures] index of the first flow that has the raw structure."""
    dags: Dags
    """[raw structures] labels and edges, with positions of the layout as nodes."""


def _lay_out(graph: _Graph) -> Laid:
    """Lay out flows: sort the strands of each by hash, and find flows with equal layouts."""
    strand_first, strand_flow, n_flows = graph.strand_first, graph.strand_flow, len(graph.request)
    label, linked, src, dst = graph.label, graph.linked, graph.src, graph.dst
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
    """[strands] hash of the strand's labels, in order, and of `linked`. rank: [nodes] position on the
    strand."""
    place = mix(rank.astype(np.uint64) ^ _PLACE)
    with np.errstate(over="ignore"):
        seen = np.where(linked, label, label + _LOOSE)
        return mix(sum_runs(mix(seen ^ place), first) + np.diff(first).astype(np.uint64))


def _hash_ends(node_strand: I8, rank: I8, colour: U8, src: I8, dst: I8) -> U8:
    """[cross edges] hash of the hashes of the two strands that the edge connects, and of the positions of its
    ends on them."""
    with np.errstate(over="ignore"):
        start = mix(colour[node_strand[src]] + mix(rank[src].astype(np.uint64) ^ _SRC))
        end = mix(colour[node_strand[dst]] + mix(rank[dst].astype(np.uint64) ^ _DST))
        return start + mix(end)


def _by_flow_and_hash(flow: I8, colour: U8, n_flows: int) -> I8:
    """Indices of strands, sorted by flow, then by the upper bits of the hash `colour`."""
    bits = np.uint64(max(n_flows - 1, 1).bit_length())
    return np.argsort((flow.astype(np.uint64) << (np.uint64(64) - bits)) | (colour >> bits), kind="stable")


def place_records(events: pa.Table, config: StitchConfig, labels: LabelCodes | None = None) -> PlacedFlows:
    """Build the flows of a batch of activity records, with nodes in canonical order.

    events: EVENT_SCHEMA, record kinds only, one chunk per column; records without a time are omitted and
    listed in `PlacedFlows.timeless`. labels: `encode_labels(events)`, if already computed. The result for a
    request depends on its own records only, except for the numbering of requests.
    """
    is_timed = whole(events["ts_ns"]).is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(is_timed)
    timed = events if is_timed.all() else events.take(pa.array(rows)).combine_chunks()
    labels = encode_labels(events) if labels is None else labels
    records = read_records(timed, LabelCodes(labels.code[rows], labels.hashes, labels.words))
    strands = order_strands(records, config.max_events_per_flow)
    graph = _build(records, strands, config)
    laid = _lay_out(graph)

    def tie(places: I8) -> U8:
        """[places] content hash of the records at `places` of the layout; 0 for synthetic nodes."""
        record = graph.record[laid.node[places]]
        content = np.zeros(len(places), dtype=np.uint64)
        content[record >= 0] = hash_rows(timed.take(pa.array(record[record >= 0])))
        return content

    order = canonical_order(laid.dags, graph.ts_ns[laid.node], member=laid.structure, tie=tie)
    response, deferred = _respond(laid, order, graph.candidate)
    n_nodes = np.diff(laid.first_node)
    node = laid.node[order.order + np.repeat(laid.first_node[:-1], n_nodes)]
    n_edges = np.diff(order.first_edge)[laid.structure]
    of_structure = ranges(laid.dags.first_node[laid.structure], n_nodes)
    edge = ranges(order.first_edge[laid.structure], n_edges)
    none = np.full(len(node), -1, dtype=np.int32)
    code = np.full(events.num_rows, -1, dtype=np.int64)
    code[rows] = records.flow
    return PlacedFlows(
        request=graph.request,
        quality=graph.quality,
        first_node=laid.first_node,
        first_edge=offsets(n_edges),
        event=rows_of_nodes(graph.record[node], rows),
        side=np.full(len(node), POINT, dtype=np.uint8),
        point_code=none,
        ts_ns=graph.ts_ns[node],
        mate=none,
        parent=none,
        deferred=deferred[of_structure],
        response=response[of_structure],
        src=order.src[edge],
        dst=order.dst[edge],
        code=code,
        request_names=records.request_names,
        conflicts=rows[strands.conflicts],
        copies=rows[strands.copies],
        timeless=np.flatnonzero(~is_timed),
    )


@dataclass(frozen=True, slots=True)
class _Graph:
    """Nodes and edges of all flows, without cycles, each flow with one source; synthetic nodes come last."""

    request: I8
    """[flows] code of the flow's request."""
    quality: U4
    """[flows] quality flags: bits of `Quality`."""
    strand_first: I8
    """[strands + 1] index of each strand's first node; last, the number of nodes. A synthetic node is a
    strand by itself."""
    strand_flow: I8
    """[strands] index of the strand's flow."""
    record: I8
    """[nodes] index of the node's record; ROOT_EVENT or MISSING_EVENT for a synthetic node."""
    ts_ns: I8
    """[nodes] time, ns since the epoch."""
    label: U8
    """[nodes] hash of the node's label, different for candidates for the response."""
    candidate: B1
    """[nodes] True for candidates for the response (see `Ends.candidate`)."""
    linked: B1
    """[nodes] True if an edge leads to the node from the previous node on its strand."""
    src: I8
    """[cross edges] source node (see HappensBefore)."""
    dst: I8
    """[cross edges] destination node (see HappensBefore)."""


def _build(records: Records, strands: Strands, config: StitchConfig) -> _Graph:
    """Build the graphs: acyclic edges, sources, orphans, synthetic nodes, and candidates for the response."""
    edges = connect(records, strands)
    request, strand_flow = _dense(strands.flow)
    node_flow = strand_flow[strands.node_strand]
    ts_ns = records.ts_ns[strands.record]
    linked, keep, cyclic = cut_cycles(edges, strands, ts_ns)
    src, dst = edges.src[keep], edges.dst[keep]
    has_in = edges.linked.copy()
    has_in[edges.dst] = True
    orphan = edges.misses_parents & ~has_in
    if len(cyclic):
        has_in = linked.copy()
        has_in[dst] = True
    entries = find_entries(node_flow, len(request), has_in, orphan)
    ends = find_ends(records, strands, strand_flow, edges, entries, len(request))
    made = make_synthetic(entries, node_flow, ts_ns)
    label = records.label[strands.record]
    candidates = np.flatnonzero(ends.candidate)
    label[candidates] = mix(label[candidates] ^ _RESPONSE)
    n_made = len(made.event)
    no = np.zeros(n_made, dtype=np.bool_)
    return _Graph(
        request=request,
        quality=_quality(config, strands, edges, entries, ends, cyclic, node_flow),
        strand_first=np.concatenate((strands.first, len(node_flow) + 1 + np.arange(n_made))),
        strand_flow=np.concatenate((strand_flow, made.flow)),
        record=np.concatenate((strands.record, made.event)),
        ts_ns=np.concatenate((ts_ns, made.ts_ns)),
        label=np.concatenate((label, made.label)),
        candidate=np.concatenate((ends.candidate, no)),
        linked=np.concatenate((linked, no)),
        src=np.concatenate((src, made.src)),
        dst=np.concatenate((dst, made.dst)),
    )


def _dense(flow: I8) -> tuple[I8, I8]:
    """Renumber ascending request codes without gaps: `(distinct codes, [strands] index into them)`."""
    new = run_starts(flow)
    return flow[new], np.cumsum(new) - 1


def _respond(laid: Laid, order: CanonicalOrder, candidate: B1) -> tuple[B1, B1]:
    """Find `(response, deferred)`, both [nodes of structures], from the first flow of each structure.
    candidate: [nodes]."""
    first = laid.dags.first_node
    n_nodes = np.diff(first)
    places = ranges(laid.first_node[laid.leader], n_nodes)
    shift = np.repeat(laid.first_node[laid.leader], n_nodes)
    return place_responses(order, first, candidate[laid.node[order.order[places] + shift]])


def _quality(
    config: StitchConfig,
    strands: Strands,
    edges: HappensBefore,
    entries: Entries,
    ends: Ends,
    cyclic: I8,
    node_flow: I8,
) -> U4:
    """[flows] quality flags: bits of `Quality`."""
    request, _ = _dense(strands.flow)
    n_records = np.bincount(node_flow, minlength=len(request))
    many = entries.n_orphans > np.maximum(1, config.orphan_share * n_records)
    flows_of = {
        Quality.ORPHAN: node_flow[edges.misses_parents],
        Quality.INCOMPLETE: np.flatnonzero(many),
        Quality.NO_END: ends.no_end,
        Quality.MULTI_ROOT: np.flatnonzero(entries.n_sources > 1),
        Quality.CYCLE: np.searchsorted(request, cyclic),
        Quality.CAPPED: np.searchsorted(request, strands.capped),
        Quality.LOST_STRAND: np.searchsorted(request, edges.lost),
        Quality.UNCLOSED: ends.unclosed,
        Quality.CONFLICT: np.searchsorted(request, strands.conflicting),
        Quality.MIXED_SEQ: np.searchsorted(request, strands.mixed_seq),
    }
    quality = np.zeros(len(request), dtype=np.uint32)
    for bit, flows in flows_of.items():
        quality[distinct(flows)] |= np.uint32(bit)
    return quality
