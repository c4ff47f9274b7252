"""Contract chains of a DAG to segments, and find the longest paths over them.

A chain is a maximal path whose inner edges are the only way out of their source and the only way into their
destination. The nodes between two splits or joins are such a chain; contracting it to one segment makes later
steps a few times faster and keeps its nodes consecutive in canonical order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.arrays import B1, I8, U8
from stitch.columnar.hashing import mix
from stitch.columnar.runs import group_stably, offsets, ranges, sum_runs

_RANK = np.uint64(0x9E6C63D0876A9A47)


class CyclicGraphError(ValueError):
    """A graph that must be acyclic has a cycle: callers must cut cycles first."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments (contracted chains) of a batch of DAGs, numbered in ascending order of their first node."""

    nodes: I8
    """[nodes] node indices, segment by segment, in path order within each."""
    first: I8
    """[segments + 1] index into `nodes` of each segment's first node; last, the number of nodes."""
    src: I8
    """[segment edges] source segment of each edge between two segments."""
    dst: I8
    """[segment edges] destination segment of each edge between two segments."""
    inner: B1
    """[edges] True if the edge lies inside a segment; the other edges are those of `src` and `dst`, in the
    given order."""

    @property
    def head(self) -> I8:
        """[segments] first node of each segment."""
        return self.nodes[self.first[:-1]]

    @property
    def length(self) -> I8:
        """[segments] number of nodes in each segment."""
        return np.diff(self.first)

    def hash_labels(self, label: U8) -> U8:
        """[segments] hash of the labels along each segment, from `label` [nodes]."""
        with np.errstate(over="ignore"):
            rank = np.arange(len(self.nodes), dtype=np.int64) - np.repeat(self.first[:-1], self.length)
            placed = mix(label[self.nodes] ^ mix(rank.astype(np.uint64) * _RANK))
            return mix(sum_runs(placed, self.first) + self.length.astype(np.uint64))


def contract(n_nodes: int, src: I8, dst: I8) -> Segments:
    """Contract all chains of a graph to segments; `src`, `dst` [edges] are distinct pairs of node indices.

    O((nodes + edges) log longest chain), by pointer jumping. Raises CyclicGraphError for a cycle within a
    chain; `longest_paths` finds all other cycles.
    """
    n_out = np.bincount(src, minlength=n_nodes)
    n_in = np.bincount(dst, minlength=n_nodes)
    inner = (n_out[src] == 1) & (n_in[dst] == 1)
    head = np.arange(n_nodes, dtype=np.int64)
    head[dst[inner]] = src[inner]
    rank = np.zeros(n_nodes, dtype=np.int64)
    rank[dst[inner]] = 1
    for _ in range(n_nodes.bit_length() + 1):
        above = head[head]
        if np.array_equal(above, head):
            break
        rank += rank[head]
        head = above
    else:
        raise CyclicGraphError(f"a cycle among {n_nodes} nodes")
    is_head = rank == 0
    segment = np.cumsum(is_head)[head] - 1
    n_segments = int(is_head.sum())
    if n_segments == 0 and n_nodes:
        raise CyclicGraphError(f"a cycle among {n_nodes} nodes")
    first = offsets(np.bincount(segment, minlength=n_segments))
    nodes = np.empty(n_nodes, dtype=np.int64)
    nodes[first[segment] + rank] = np.arange(n_nodes)
    outer = ~inner
    return Segments(nodes, first, segment[src[outer]], segment[dst[outer]], inner)


def longest_paths(length: I8, src: I8, dst: I8) -> tuple[I8, I8]:
    """Find the longest path to each vertex by Kahn's algorithm: `(level, round)`, both [vertices].

    level: number of nodes on the longest path before the vertex, where vertex v counts as `length[v]` nodes.
    round: round of the algorithm in which the vertex is removed, greater than that of every predecessor. Both
    are -1 for vertices on or behind a cycle. O(vertices + edges) array work in as many rounds as the longest
    path has vertices.
    """
    n = len(length)
    edge_of, first_out = group_stably(src, n)
    target = dst[edge_of]
    waiting = np.bincount(dst, minlength=n)
    level = np.zeros(n, dtype=np.int64)
    rounds = np.full(n, -1, dtype=np.int64)
    mark = np.empty(n, dtype=np.int64)
    frontier = np.flatnonzero(waiting == 0)
    turn = 0
    while len(frontier):
        rounds[frontier] = turn
        n_out = first_out[frontier + 1] - first_out[frontier]
        reached = target[ranges(first_out[frontier], n_out)]
        np.maximum.at(level, reached, np.repeat(level[frontier] + length[frontier], n_out))
        np.subtract.at(waiting, reached, 1)
        free = reached[waiting[reached] == 0]
        mark[free] = np.arange(len(free))
        frontier = free[mark[free] == np.arange(len(free))]
        turn += 1
    level[rounds < 0] = -1
    return level, rounds
