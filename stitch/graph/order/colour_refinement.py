"""Refine colours on contracted DAGs, in both directions, to a stable partition.

The colour of a segment is a hash of its labels, then also of its ancestors, then also of its descendants. A
sweep visits segments in topological order and uses colours already renewed in this sweep, so one sweep
carries information along whole paths and two or three pairs of sweeps are enough in practice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from schemas.arrays import I8, U8
from stitch.columnar.hashing import mix
from stitch.columnar.runs import connected_components, group_stably, offsets, ranges, run_starts

_DOWN = np.uint64(0xC2B2AE3D27D4EB4F)
_UP = np.uint64(0x165667B19E3779F9)


@dataclass(frozen=True, slots=True)
class SegmentGraphs:
    """Contracted DAGs of a batch of flows, concatenated by flow: each vertex, a segment, is a chain of nodes.
    `src` and `dst` count segments from the flow's first, so that a flow can be copied unchanged."""

    first: I8
    """[flows + 1] index of each flow's first segment; last, the number of segments."""
    level: I8
    """[segments] number of nodes on the longest path that ends just before the segment."""
    length: I8
    """[segments] number of nodes in the segment."""
    first_edge: I8
    """[flows + 1] index of each flow's first edge; last, the number of edges."""
    src: I8
    """[edges] source segment, as an index within its flow."""
    dst: I8
    """[edges] destination segment, as an index within its flow."""
    flow: I8 = field(init=False)
    """[segments] index of the segment's flow; computed from `first`."""

    def __post_init__(self) -> None:
        flow = np.repeat(np.arange(self.n_flows, dtype=np.int64), np.diff(self.first))
        object.__setattr__(self, "flow", flow)

    @property
    def n_flows(self) -> int:
        """Number of flows in the batch."""
        return len(self.first) - 1

    def edge_ends(self) -> tuple[I8, I8]:
        """([edges] source, [edges] destination) of each edge as indices into the segments of the whole
        batch."""
        shift = np.repeat(self.first[:-1], np.diff(self.first_edge))
        return self.src + shift, self.dst + shift

    def take(self, flows: I8) -> tuple[SegmentGraphs, I8]:
        """Copy the flows with the given indices (repeats allowed): `(graphs of the copies, [new segments]
        index of the original segment)`."""
        n_segments = np.diff(self.first)[flows]
        n_edges = np.diff(self.first_edge)[flows]
        segments = ranges(self.first[flows], n_segments)
        edges = ranges(self.first_edge[flows], n_edges)
        graphs = SegmentGraphs(
            offsets(n_segments),
            self.level[segments],
            self.length[segments],
            offsets(n_edges),
            self.src[edges],
            self.dst[edges],
        )
        return graphs, segments


@dataclass(frozen=True, slots=True)
class _Step:
    """Round of a sweep: the colours of `seen[first[k]]` and the next `count[k] - 1` entries are summed
    into the colour of segment `into[k]`."""

    seen: I8
    first: I8
    into: I8
    count: U8


def stages(graphs: SegmentGraphs) -> tuple[I8, int]:
    """Rank segments by level: `(rank, number of distinct levels)`. rank: int64[segments] index of the
    segment's level among the sorted distinct levels of the batch; it increases along every edge."""
    distinct, stage = np.unique(graphs.level, return_inverse=True)
    return stage.astype(np.int64), len(distinct)


def _steps(seen: I8, into: I8, stage: I8, n_stages: int) -> list[_Step]:
    """Rounds of a sweep along the edges `seen → into`, one for each distinct `stage` (see `stages`) of the
    segments `into`."""
    by_segment, _ = group_stably(into, len(stage))
    by_stage, bounds = group_stably(stage[into[by_segment]], n_stages)
    ordered = by_segment[by_stage]
    steps: list[_Step] = []
    for k in np.flatnonzero(np.diff(bounds)):
        edges = ordered[bounds[k] : bounds[k + 1]]
        target = into[edges]
        first = np.flatnonzero(run_starts(target))
        count = np.diff(first, append=len(target)).astype(np.uint64)
        steps.append(_Step(seen[edges], first, target[first], count))
    return steps


def _sweep(colour: U8, steps: list[_Step], salt: np.uint64) -> U8:
    new = mix(colour ^ salt)
    with np.errstate(over="ignore"):
        for step in steps:
            around = np.add.reduceat(mix(new[step.seen] ^ salt), step.first) + step.count
            new[step.into] = mix(new[step.into] + mix(around))
    return new


@dataclass(frozen=True, slots=True)
class _Cells:
    """Partition of segments into cells: segments of one cluster with the same colour share a cell."""

    of: I8
    """[given segments] index of the segment's cell."""
    size: I8
    """[cells] number of segments in the cell."""
    per_cluster: I8
    """[clusters] number of cells in the cluster."""

    @classmethod
    def count(cls, cluster: I8, colour: U8, n_clusters: int) -> _Cells:
        """Partition the given segments into cells by (cluster, colour). cluster, colour: [given segments]."""
        order = np.lexsort((colour, cluster))
        sorted_cluster = cluster[order]
        new = run_starts(sorted_cluster, colour[order])
        number = np.cumsum(new) - 1
        of = np.empty(len(order), dtype=np.int64)
        of[order] = number
        return cls(of, np.bincount(number), np.bincount(sorted_cluster[new], minlength=n_clusters))


def refine(graphs: SegmentGraphs, colour: U8) -> U8:
    """Refine colours until stable: [segments] new colours, where segments of one colour have equal multisets
    of predecessors' colours and of successors' colours.

    Segments with a unique colour keep it. The others form clusters: sets of colours connected by edges. A
    cluster is finished after the first pair of sweeps that splits none of its colours. So the colours of a
    flow depend only on this flow, never on others in the batch, and a cluster that takes many sweeps does not
    repeat them for the rest. O(sweeps × edges among unfinished clusters); two or three pairs of sweeps in
    practice.
    """
    n = len(colour)
    src, dst = graphs.edge_ends()
    stage, n_stages = stages(graphs)
    settled = colour.copy()
    sources = np.ones(n, dtype=np.bool_)
    unfinished = np.arange(n, dtype=np.int64)
    cells = _Cells.count(graphs.flow, colour, graphs.n_flows)
    while True:
        tied = cells.size[cells.of] > 1
        members, cell_of = unfinished[tied], cells.of[tied]
        if not len(members):
            return settled
        cell = np.full(n, -1, dtype=np.int64)
        cell[members] = cell_of
        receives = cell >= 0
        inside = receives[src] & receives[dst]
        n_clusters, cluster_of_cell = connected_components(
            cell[src[inside]], cell[dst[inside]], len(cells.size)
        )
        cluster = cluster_of_cell[cell_of]
        count = _Cells.count(cluster, colour[members], n_clusters).per_cluster
        down, up = sources[src] & receives[dst], sources[dst] & receives[src]
        colour = _sweep(colour, _steps(src[down], dst[down], stage, n_stages), _DOWN)
        colour = _sweep(colour, _steps(dst[up], src[up], n_stages - 1 - stage, n_stages), _UP)
        split = _Cells.count(cluster, colour[members], n_clusters).per_cluster > count
        # A colour that has just become unique must still reach its neighbours once.
        unfinished = members[split[cluster]]
        settled[unfinished] = colour[unfinished]
        sources = np.zeros(n, dtype=np.bool_)
        sources[unfinished] = True
        cells = _Cells.count(cluster[split[cluster]], colour[unfinished], n_clusters)
