"""Find the edges between records: along strands, across splits and joins, from explicit parents; never from
times.

* A record follows the previous record on its strand, unless it names explicit parents: then these replace
  the strand's edge into it (the edge out of it, to the next record of the strand, stays).
* A split record precedes the first record of every strand it links.
* A join record follows the last record of every strand it links.

A link from a strand to itself is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.arrays import B1, I8
from schemas.events import EventKind
from stitch.columnar.runs import distinct, no_rows, ranges
from stitch.graph.order.segments import longest_paths
from stitch.records.strands import NO_CODE, Records, Strands


@dataclass(frozen=True, slots=True)
class HappensBefore:
    """Edges between the nodes of `Strands`. Cross edges are all edges that `linked` does not describe."""

    linked: B1
    """[nodes] True if an edge leads to the node from the previous node on its strand."""
    src: I8
    """[cross edges] source node; cross edges are distinct and sorted by (src, dst)."""
    dst: I8
    """[cross edges] destination node."""
    names_parents: B1
    """[nodes] True if the record names explicit parents."""
    misses_parents: B1
    """[nodes] True if the record names a parent that has no record."""
    joined: B1
    """[strands] True if a join record links the strand."""
    outlived: B1
    """[strands] True if the strand's last record is later than the join that ends the strand; False if the
    two are on different hosts."""
    lost: I8
    """Codes of requests in which a split or join record names a strand that has no records."""


def connect(records: Records, strands: Strands) -> HappensBefore:
    """Find all edges of a batch; they may form cycles. O(nodes + links log strands)."""
    n_strands, n_nodes = len(strands.flow), len(strands.record)
    node_strand = strands.node_strand
    node_of = np.full(len(records.flow), -1, dtype=np.int64)
    node_of[strands.record] = np.arange(n_nodes)
    linked = np.ones(n_nodes, dtype=np.bool_)
    linked[strands.first[:-1]] = False

    owner = node_of[records.links.record]
    link = records.links.code[owner >= 0]
    owner = owner[owner >= 0]
    owner_flow = strands.flow[node_strand[owner]]
    found = _find(strands.flow, strands.crumb, owner_flow, link, records.n_crumbs)
    lost = distinct(owner_flow[found < 0])
    use = (found >= 0) & (found != node_strand[owner])
    owner, found = owner[use], found[use]
    is_join = records.kind[strands.record[owner]] == EventKind.JOIN
    splitter, split_off = owner[~is_join], found[~is_join]
    joiner, ended = owner[is_join], found[is_join]
    last = strands.first[ended + 1] - 1
    joined = np.zeros(n_strands, dtype=np.bool_)
    joined[ended] = True

    names, misses, parent, child = _explicit(records, strands, node_of)
    linked &= ~names
    src = np.concatenate((splitter, last, parent))
    dst = np.concatenate((strands.first[split_off], joiner, child))
    key = distinct(src * n_nodes + dst)
    src, dst = np.divmod(key, max(n_nodes, 1))
    # An explicit parent may repeat the strand's own edge only where that edge was replaced: no edge is twice.
    return HappensBefore(
        linked=linked,
        src=src,
        dst=dst,
        names_parents=names,
        misses_parents=misses,
        joined=joined,
        outlived=_outlived(records, strands, ended, last, joiner),
        lost=lost,
    )


def _find(flow: I8, code: I8, in_flow: I8, wanted: I8, n_codes: int) -> I8:
    """[wanted] index of each pair (in_flow, wanted) among the pairs (flow, code), which are sorted; -1 if it
    is not there. n_codes: number of distinct codes."""
    width = n_codes + 1
    keys = flow * width + (code - NO_CODE)
    search = in_flow * width + (wanted - NO_CODE)
    at = np.searchsorted(keys, search)
    if not len(keys):
        return np.full(len(search), -1, dtype=np.int64)
    at[at == len(keys)] = 0
    return np.where(keys[at] == search, at, -1)


def _explicit(records: Records, strands: Strands, node_of: I8) -> tuple[B1, B1, I8, I8]:
    """Edges from explicit parents: `([nodes] names_parents, [nodes] misses_parents, [edges] parent, [edges]
    child)`, the first two as in HappensBefore. node_of: [records] node."""
    n_nodes = len(strands.record)
    names = np.zeros(n_nodes, dtype=np.bool_)
    misses = np.zeros(n_nodes, dtype=np.bool_)
    child = node_of[records.parents.record]
    wanted = records.parents.code[child >= 0]
    child = child[child >= 0]
    if not len(child):
        return names, misses, no_rows(), no_rows()
    names[child] = True
    identity = records.identity[strands.record]
    nodes = np.flatnonzero(identity != NO_CODE)
    flow = records.flow[strands.record]
    nodes = nodes[np.lexsort((identity[nodes], flow[nodes]))]
    found = _find(flow[nodes], identity[nodes], flow[child], wanted, records.n_ids)
    misses[child[found < 0]] = True
    child = child[found >= 0]
    return names, misses, nodes[found[found >= 0]], child


def _outlived(records: Records, strands: Strands, ended: I8, last: I8, joiner: I8) -> B1:
    """[strands] True if the strand's last record is later than its join.

    False if the two are on different hosts, as the clocks of hosts are not compared.
    """
    result = np.zeros(len(strands.flow), dtype=np.bool_)
    last, joiner = strands.record[last], strands.record[joiner]
    later = records.ts_ns[last] > records.ts_ns[joiner]
    if later.any():
        ended, last, joiner = ended[later], last[later], joiner[later]
        result[ended[records.host_codes(last) == records.host_codes(joiner)]] = True
    return result


def cut_cycles(edges: HappensBefore, strands: Strands, ts_ns: I8) -> tuple[B1, B1, I8]:
    """Cut cycles: `([nodes] linked, [cross edges] True if kept, codes of requests with a cycle)`.

    ts_ns: [nodes] time, ns. In a flow with a cycle, every edge between two nodes that are on a cycle or
    behind one is cut.

    A cycle needs an edge that does not go forward in time, across strands or against a strand's own order;
    only flows with such an edge are searched.
    """
    linked, keep = edges.linked.copy(), np.ones(len(edges.src), dtype=np.bool_)
    node_flow = np.repeat(strands.flow, strands.length)
    backward = np.flatnonzero(linked[1:] & (ts_ns[1:] < ts_ns[:-1])) + 1
    across = edges.dst[ts_ns[edges.dst] <= ts_ns[edges.src]]
    suspects = distinct(node_flow[np.concatenate((backward, across))])
    # A strand alone never makes a cycle.
    suspects = np.intersect1d(suspects, node_flow[edges.src])
    if not len(suspects):
        return linked, keep, no_rows()
    flow_first = np.searchsorted(node_flow, suspects)
    flow_end = np.searchsorted(node_flow, suspects, side="right")
    nodes = ranges(flow_first, flow_end - flow_first)
    local = np.full(len(node_flow), -1, dtype=np.int64)
    local[nodes] = np.arange(len(nodes))
    after = nodes[linked[nodes]]
    cross = np.flatnonzero(local[edges.src] >= 0)
    src = np.concatenate((local[after - 1], local[edges.src[cross]]))
    dst = np.concatenate((local[after], local[edges.dst[cross]]))
    _, rounds = longest_paths(np.ones(len(nodes), np.int64), src, dst)
    stuck = np.zeros(len(node_flow), dtype=np.bool_)
    stuck[nodes[rounds < 0]] = True
    linked[1:] &= ~(stuck[1:] & stuck[:-1])
    keep[cross] = ~(stuck[edges.src[cross]] & stuck[edges.dst[cross]])
    return linked, keep, distinct(node_flow[stuck])
