"""Where responses leave, what they do not wait for, and strands that were left open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.arrays import B1, I8
from schemas.events import EventKind
from stitch.columnar.runs import distinct, ranges
from stitch.graph.order.dag import CanonicalOrder
from stitch.records.entries import Entries
from stitch.records.happens_before import HappensBefore
from stitch.records.record_columns import NO_CODE, Records
from stitch.records.strands import Strands


@dataclass(frozen=True, slots=True)
class Ends:
    """What is known of responses before nodes are in canonical order."""

    candidate: B1
    """[nodes] the first candidate in canonical order is the response; in flows without any, all sinks are."""
    no_end: I8
    """Flows whose response is not an `end` record, nor a sink by explicit parents."""
    unclosed: I8
    """Flows with a strand neither joined nor ended, or with records after its join."""


def find_ends(
    records: Records, strands: Strands, strand_flow: I8, edges: HappensBefore, entries: Entries, n_flows: int
) -> Ends:
    """Candidates by the rules of `record_graphs`. strand_flow: [strands] dense flow numbers."""
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
    """`(response, deferred)` [nodes of structures], in canonical order.

    first_node: [structures + 1] offsets. candidate: [nodes of structures] in canonical order. Deferred are
    nodes from which no response is reachable. O(nodes + edges), in as many rounds as the longest path.
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
