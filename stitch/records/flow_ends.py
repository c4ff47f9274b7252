"""Find the nodes at which flows begin and the nodes from which their responses leave, so that every flow has
one root.

Flows begin at sources, at orphans, or at a synthetic node above several of these. A response does not wait
for every node, and strands may be left open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.arrays import B1, I8, U8
from schemas.events import EventKind
from stitch.columnar.runs import distinct, ranges
from stitch.graph.order.dag import CanonicalOrder
from stitch.graph.placed import MISSING_EVENT, ROOT_EVENT, synthetic_hash
from stitch.records.happens_before import HappensBefore
from stitch.records.strands import NO_CODE, Records, Strands


@dataclass(frozen=True, slots=True)
class Entries:
    """Nodes at which flows begin: sources and orphans."""

    sources: I8
    """Nodes without an edge into them that are no orphans, ascending; if a flow's only such node is a single
    orphan, it counts as a source."""
    orphans: I8
    """Orphans, ascending: nodes without an edge into them whose explicit parents are all missing; without
    those counted as sources."""
    n_sources: I8
    """[flows] number of sources in the flow."""
    n_orphans: I8
    """[flows] number of orphans in the flow."""
    tops: I8
    """Nodes with which flows begin: all sources, and the orphans of flows without a source."""


def find_entries(node_flow: I8, n_flows: int, has_in: B1, orphan: B1) -> Entries:
    """Find the sources and orphans of all flows.

    node_flow: [nodes] index of the flow. has_in: [nodes] True if an edge leads to the node. orphan: [nodes]
    True if the node names a missing parent and no edge leads to it.
    """
    orphans = np.flatnonzero(orphan)
    sources = np.flatnonzero(~has_in & ~orphan)
    n_sources = np.bincount(node_flow[sources], minlength=n_flows)
    n_orphans = np.bincount(node_flow[orphans], minlength=n_flows)
    lone = (n_sources[node_flow[orphans]] == 0) & (n_orphans[node_flow[orphans]] == 1)
    sources, orphans = np.sort(np.concatenate((sources, orphans[lone]))), orphans[~lone]
    n_sources = np.bincount(node_flow[sources], minlength=n_flows)
    n_orphans = np.bincount(node_flow[orphans], minlength=n_flows)
    headless = orphans[n_sources[node_flow[orphans]] == 0]
    return Entries(sources, orphans, n_sources, n_orphans, np.concatenate((sources, headless)))


@dataclass(frozen=True, slots=True)
class Synthetic:
    """Synthetic nodes `?root` and `?missing`, numbered after the last real node, and the edges from them."""

    event: I8
    """[synthetic nodes] event code: ROOT_EVENT or MISSING_EVENT."""
    flow: I8
    """[synthetic nodes] index of the node's flow."""
    ts_ns: I8
    """[synthetic nodes] time, ns: the earliest time of the node's children."""
    label: U8
    """[synthetic nodes] hash of the node's label."""
    src: I8
    """[edges] source node, which is synthetic."""
    dst: I8
    """[edges] destination node."""


def make_synthetic(entries: Entries, node_flow: I8, ts_ns: I8) -> Synthetic:
    """Make a node `?root` above each flow's sources if there are several, and `?missing` above its orphans
    (below the flow's root, if it has one).

    node_flow: [nodes] index of the flow. ts_ns: [nodes] time, ns.
    """
    n_nodes = len(node_flow)
    rooted = np.flatnonzero(entries.n_sources > 1)
    missing = np.flatnonzero(entries.n_orphans > 0)
    n_of_flow = entries.n_sources[node_flow[entries.sources]]
    single, several = entries.sources[n_of_flow == 1], entries.sources[n_of_flow > 1]
    root_of = np.full(len(entries.n_sources), -1, dtype=np.int64)
    root_of[node_flow[single]] = single
    root_of[rooted] = n_nodes + np.arange(len(rooted))
    missing_of = np.full(len(entries.n_sources), -1, dtype=np.int64)
    missing_of[missing] = n_nodes + len(rooted) + np.arange(len(missing))
    under = missing[root_of[missing] >= 0]
    times = np.concatenate((ts_ns, np.full(len(rooted) + len(missing), np.iinfo(np.int64).max)))
    orphan_parent = missing_of[node_flow[entries.orphans]]
    # Times of `?missing` before those of `?root`, whose child it may be.
    np.minimum.at(times, orphan_parent, ts_ns[entries.orphans])
    source_parent = root_of[node_flow[several]]
    np.minimum.at(times, source_parent, ts_ns[several])
    below_made = under[root_of[under] >= n_nodes]
    np.minimum.at(times, root_of[below_made], times[missing_of[below_made]])
    return Synthetic(
        event=np.repeat(np.array([ROOT_EVENT, MISSING_EVENT], np.int64), (len(rooted), len(missing))),
        flow=np.concatenate((rooted, missing)),
        ts_ns=times[n_nodes:],
        label=np.repeat(
            np.array(
                [synthetic_hash(made, EventKind.EVENT) for made in (ROOT_EVENT, MISSING_EVENT)], np.uint64
            ),
            (len(rooted), len(missing)),
        ),
        src=np.concatenate((source_parent, orphan_parent, root_of[under])),
        dst=np.concatenate((several, entries.orphans, missing_of[under])),
    )


@dataclass(frozen=True, slots=True)
class Ends:
    """Candidates for the responses of flows, and flows whose strands end irregularly; found before nodes are
    ordered canonically."""

    candidate: B1
    """[nodes] True for candidates for the response; in a flow without candidates, all nodes without an
    out-edge are responses."""
    no_end: I8
    """Indices of flows that have no `end` record, no explicit parents and no record without a breadcrumb."""
    unclosed: I8
    """Indices of flows with an open strand: one that is neither joined nor ended, or that has records later
    than its join."""


def find_ends(
    records: Records, strands: Strands, strand_flow: I8, edges: HappensBefore, entries: Entries, n_flows: int
) -> Ends:
    """Find the candidates for responses, by the rules in `record_graphs`. strand_flow: [strands] index of the
    flow."""
    n_nodes, n_strands = len(strands.record), len(strands.flow)
    node_strand = strands.node_strand
    last = strands.first[1:] - 1
    ends = np.flatnonzero(records.kind[strands.record] == EventKind.END)
    first_end = np.full(n_strands, -1, dtype=np.int64)
    first_end[node_strand[ends[::-1]]] = ends[::-1]
    has_end = first_end >= 0
    is_entry = np.zeros(n_strands, dtype=np.bool_)
    is_entry[node_strand[entries.tops]] = True
    entry_strands = np.flatnonzero(is_entry)
    explicit_strand = strands.crumb == NO_CODE
    explicit_strand[node_strand[np.flatnonzero(edges.names_parents)]] = True

    entry = np.full(n_flows, -1, dtype=np.int64)
    for some in (entry_strands, entry_strands[has_end[entry_strands]]):
        n_entries = np.bincount(strand_flow[some], minlength=n_flows)
        only = some[n_entries[strand_flow[some]] == 1]
        fresh = entry[strand_flow[only]] < 0
        entry[strand_flow[only[fresh]]] = only[fresh]
    ended_flow = np.zeros(n_flows, dtype=np.bool_)
    ended_flow[strand_flow[node_strand[ends]]] = True
    explicit_flow = np.zeros(n_flows, dtype=np.bool_)
    explicit_flow[strand_flow[explicit_strand]] = True
    by_entry_end = (entry >= 0) & has_end[entry]
    no_end = ~ended_flow & ~explicit_flow

    candidate = np.zeros(n_nodes, dtype=np.bool_)
    candidate[first_end[entry[by_entry_end]]] = True
    candidate[ends[~by_entry_end[strand_flow[node_strand[ends]]]]] = True
    candidate[last[entry[no_end & (entry >= 0)]]] = True
    lost = no_end & (entry < 0)
    candidate[last[entry_strands[lost[strand_flow[entry_strands]]]]] = True

    open_strand = ~(is_entry | has_end | edges.joined | explicit_strand) | edges.outlived
    return Ends(candidate, np.flatnonzero(no_end), distinct(strand_flow[open_strand]))


def place_responses(order: CanonicalOrder, first_node: I8, candidate: B1) -> tuple[B1, B1]:
    """Find the responses and deferred nodes: `(response, deferred)`, both [nodes of structures] in canonical
    order.

    response: True for nodes from which the response leaves. deferred: True for nodes from which no response
    can be reached. first_node: [structures + 1] index of each structure's first node. candidate: [nodes of
    structures] in canonical order. O(nodes + edges), in as many rounds as the longest path has nodes.
    """
    n_nodes = int(first_node[-1])
    shift = np.repeat(first_node[:-1], np.diff(order.first_edge))
    src, dst = order.src + shift, order.dst + shift
    structure = np.repeat(np.arange(len(first_node) - 1), np.diff(first_node))
    response = np.ones(n_nodes, dtype=np.bool_)
    response[src] = False
    chosen = np.flatnonzero(candidate)
    response[np.isin(structure, structure[chosen])] = False
    response[chosen[np.diff(structure[chosen], prepend=-1) != 0]] = True
    n_in = np.bincount(dst, minlength=n_nodes)
    first_in = np.cumsum(n_in) - n_in  # edges are sorted by dst
    deferred = np.ones(n_nodes, dtype=np.bool_)
    frontier = np.flatnonzero(response)
    while len(frontier):
        deferred[frontier] = False
        before = src[ranges(first_in[frontier], n_in[frontier])]
        frontier = distinct(before[deferred[before]])
    return response, deferred
