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
    """Contracted DAGs of a batch, concatenated by flow; numbers of segments are local to the flow, so that
    flows can be copied.
    """

    first: I8
    """[flows + 1] offsets into the segments."""
    level: I8
    """[segments] number of nodes on the longest path before the segment."""
    length: I8
    """[segments] number of nodes in the segment."""
    first_edge: I8
    """[flows + 1] offsets into the edges."""
    src: I8
    """[edges] source segment, counted from the flow's first."""
    dst: I8
    """[edges] destination segment, counted from the flow's first."""
    flow: I8 = field(init=False)
    """[segments] index of the segment's flow; follows from `first`."""

    def __post_init__(self) -> None:
        flow = np.repeat(np.arange(self.n_flows, dtype=np.int64), np.diff(self.first))
        object.__setattr__(self, "flow", flow)

    @property
    def n_flows(self) -> int:
        """Number of flows."""
        return len(self.first) - 1

    def edge_ends(self) -> tuple[I8, I8]:
        """([edges] source, [edges] destination) as segment numbers of the batch."""
        shift = np.repeat(self.first[:-1], np.diff(self.first_edge))
        return self.src + shift, self.dst + shift

    def take(self, flows: I8) -> tuple[SegmentGraphs, I8]:
        """`(copies of the given flows, repeats allowed; [new segments] the segment that each copies)`."""
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
    """Round of a sweep: segment `into[k]` gets the sum of `count[k]` colours: `seen`, from `first[k]` on."""

    seen: I8
    first: I8
    into: I8
    count: U8


def stages(graphs: SegmentGraphs) -> tuple[I8, int]:
    """`(stage, number of stages)`; stage: [segments] dense rank of the level over the batch; grows along
    edges.
    """
    distinct, stage = np.unique(graphs.level, return_inverse=True)
    return stage.astype(np.int64), len(distinct)


def _steps(seen: I8, into: I8, stage: I8, n_stages: int) -> list[_Step]:
    """Rounds of a sweep along edges `seen → into`, by the stage of `into`."""
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
    """Cells of segments: each holds the segments of one cluster that have one colour."""

    of: I8
    """[given segments] index of each segment's cell."""
    size: I8
    """[cells] number of segments in the cell."""
    per_cluster: I8
    """[clusters] number of cells in the cluster."""

    @classmethod
    def count(cls, cluster: I8, colour: U8, n_clusters: int) -> _Cells:
        """Number the cells of the given segments."""
        order = np.lexsort((colour, cluster))
        sorted_cluster = cluster[order]
        new = run_starts(sorted_cluster, colour[order])
        number = np.cumsum(new) - 1
        of = np.empty(len(order), dtype=np.int64)
        of[order] = number
        return cls(of, np.bincount(number), np.bincount(sorted_cluster[new], minlength=n_clusters))


def refine(graphs: SegmentGraphs, colour: U8) -> U8:
    """[segments] stable colours: segments of equal colour have equal multisets of colours before and behind
    them.

    Segments with a unique colour stay as they are. The others form clusters, of colours connected by edges; a
    cluster is finished at the first pair of sweeps that splits none of its colours. So a flow's colours
    depend on the flow alone, never on others in the batch, and a long refinement of one cluster does not
    sweep the rest. O(sweeps × edges among unfinished clusters); two or three pairs of sweeps in practice.
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
