"""Find the edges `u → v` that another path from u to v makes redundant: transitive reduction."""

from __future__ import annotations

import numpy as np

from schemas.arrays import B1, I8
from stitch.columnar.runs import distinct, group_stably, offsets, rank_in_runs, run_starts

_MASK_WORDS = 8 * 2**20
"""Maximum 64-bit words of ancestor bit masks in memory at a time (64 MiB); one flow that needs more is still
processed alone."""


def redundant_edges(flow: I8, rounds: I8, src: I8, dst: I8) -> B1:
    """Find the edges that transitive reduction drops: [edges] True for an edge u → v if another path leads
    from u to v. The edges must be distinct and acyclic.

    flow: [vertices] index of the flow, ascending. rounds: [vertices] any numbers that increase along every
    edge. Only an edge whose source has two or more out-edges and whose destination has two or more in-edges
    can be redundant, so only such sources are tracked: each gets a bit within its flow, and sets of ancestors
    are unions of bit masks, round by round. O(edges of flows with candidates × candidates of the flow / 64).
    """
    n = len(flow)
    n_out = np.bincount(src, minlength=n)
    n_in = np.bincount(dst, minlength=n)
    candidate = (n_out[src] > 1) & (n_in[dst] > 1)
    result = np.zeros(len(src), dtype=np.bool_)
    if not candidate.any():
        return result
    tracked = distinct(src[candidate])
    starts = np.diff(flow[tracked], prepend=-1) != 0
    bit = np.full(n, -1, dtype=np.int64)
    bit[tracked] = rank_in_runs(starts)
    n_flows = int(flow[-1]) + 1
    n_words = -(-np.bincount(flow[tracked], minlength=n_flows) // 64)
    n_vertices = np.bincount(flow, minlength=n_flows)
    for flows in _batches(n_words, n_vertices):
        chosen = np.zeros(n_flows, dtype=np.bool_)
        chosen[flows] = True
        vertices = np.flatnonzero(chosen[flow])
        edges = np.flatnonzero(chosen[flow[src]])
        local = np.empty(n, dtype=np.int64)
        local[vertices] = np.arange(len(vertices))
        result[edges] = _redundant(
            rounds[vertices],
            local[src[edges]],
            local[dst[edges]],
            bit[vertices],
            candidate[edges],
            int(n_words[flows].max()),
        )
    return result


def _batches(n_words: I8, n_vertices: I8) -> list[I8]:
    """Group flows that have candidate edges by similar mask width (`n_words`), so that the masks of a group
    take at most `_MASK_WORDS`."""
    lots: list[I8] = []
    width = 1
    while True:
        # Widths double from lot to lot, so no flow pays more than twice its own width.
        fits = np.flatnonzero((n_words <= width) & (n_words > width // 2))
        if len(fits):
            lot = np.cumsum(n_vertices[fits] * width) // _MASK_WORDS
            lots.extend(np.split(fits, np.flatnonzero(np.diff(lot)) + 1))
        if width >= n_words.max():
            return lots
        width *= 2


def _redundant(rounds: I8, src: I8, dst: I8, bit: I8, candidate: B1, width: int) -> B1:
    """[edges] True if the edge is redundant, for one group of flows. src, dst: vertices as indices within the
    group. bit: [vertices] bit of a tracked source, -1 for others. width: number of mask words per vertex."""
    n = len(rounds)
    own = np.zeros((n, width), dtype=np.uint64)
    marked = np.flatnonzero(bit >= 0)
    own[marked, bit[marked] >> 6] = np.uint64(1) << (bit[marked] & 63).astype(np.uint64)
    above = np.zeros((n, width), dtype=np.uint64)
    """[vertices, words] bit masks of the tracked proper ancestors."""
    farther = np.zeros((n, width), dtype=np.uint64)
    """[vertices, words] bit masks of the tracked ancestors two or more steps away."""
    by_dst, _ = group_stably(dst, n)
    n_rounds = int(rounds.max()) + 1
    by_round, _ = group_stably(rounds[dst[by_dst]], n_rounds)
    ordered = by_dst[by_round]  # edges by (round of the destination, destination)
    bounds = offsets(np.bincount(rounds[dst], minlength=n_rounds))
    for turn in range(1, n_rounds):
        edges = ordered[bounds[turn] : bounds[turn + 1]]
        if not len(edges):
            continue
        into = dst[edges]
        first = np.flatnonzero(run_starts(into))
        reach = above[src[edges]]
        here = into[first]
        farther[here] = np.bitwise_or.reduceat(reach, first, axis=0)
        above[here] = np.bitwise_or.reduceat(reach | own[src[edges]], first, axis=0)
    result = np.zeros(len(src), dtype=np.bool_)
    tested = np.flatnonzero(candidate)
    place = bit[src[tested]]
    word = farther[dst[tested], place >> 6]
    result[tested] = (word >> (place & 63).astype(np.uint64)) & np.uint64(1) != 0
    return result
