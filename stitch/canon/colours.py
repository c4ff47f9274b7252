"""Colour refinement on contracted DAGs, both directions, to a stable partition (A.3 step 3).

Colours are hashes of what a segment sees: its labels, then whatever lies before it, then whatever lies behind
it. A sweep visits segments in topological order and uses colours already renewed in this sweep, so one sweep
carries information along whole paths and two or three pairs of sweeps are enough in practice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stitch.canon.mixing import mix
from stitch.canon.runs import group_stably, offsets, ranges

I8 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint64]
B1 = npt.NDArray[np.bool_]

_DOWN = np.uint64(0xC2B2AE3D27D4EB4F)
_UP = np.uint64(0x165667B19E3779F9)


@dataclass(frozen=True, slots=True)
class SegmentGraphs:
    """Contracted DAGs of a batch, flow by flow, with numbers local to the flow: flows can be copied."""

    first: I8
    """[flows + 1] offsets of the segments."""
    level: I8
    """[segments] nodes on the longest path before the segment."""
    length: I8
    """[segments] nodes in the segment."""
    first_edge: I8
    """[flows + 1] offsets of the edges."""
    src: I8
    """[edges] segment, counted from the flow's first."""
    dst: I8
    """[edges] segment, counted from the flow's first."""
    flow: I8 = field(init=False)
    """[segments] flow."""

    def __post_init__(self) -> None:
        flow = np.repeat(np.arange(self.n_flows, dtype=np.int64), np.diff(self.first))
        object.__setattr__(self, "flow", flow)

    @property
    def n_flows(self) -> int:
        """Number of flows."""
        return len(self.first) - 1

    def edge_ends(self) -> tuple[I8, I8]:
        """`src`, `dst` as segment numbers of the batch."""
        shift = np.repeat(self.first[:-1], np.diff(self.first_edge))
        return self.src + shift, self.dst + shift

    def take(self, flows: I8) -> tuple[SegmentGraphs, I8]:
        """Copies of `flows` (repeats allowed), and the segment each new segment copies."""
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
    """One round of a sweep: `seen[i]` are colours looked at, summed from `first[k]` for segment `into[k]`."""

    seen: I8
    first: I8
    into: I8
    count: U8


def stages(graphs: SegmentGraphs) -> tuple[I8, int]:
    """`(stage, number of stages)`: [segments] dense rank of the level over the batch; grows along edges."""
    distinct, stage = np.unique(graphs.level, return_inverse=True)
    return stage.astype(np.int64), len(distinct)


def _steps(seen: I8, into: I8, stage: I8, n_stages: int) -> list[_Step]:
    by_segment, _ = group_stably(into, len(stage))
    by_stage, bounds = group_stably(stage[into[by_segment]], n_stages)
    ordered = by_segment[by_stage]
    steps: list[_Step] = []
    for k in range(n_stages):
        edges = ordered[bounds[k] : bounds[k + 1]]
        if len(edges):
            target = into[edges]
            first = np.flatnonzero(np.diff(target, prepend=-1))
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


def _count_colours(graphs: SegmentGraphs, colour: U8) -> I8:
    """[flows] number of distinct colours."""
    order = np.lexsort((colour, graphs.flow))
    flow, sorted_colour = graphs.flow[order], colour[order]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (flow[1:] != flow[:-1]) | (sorted_colour[1:] != sorted_colour[:-1])
    return np.bincount(flow[new], minlength=graphs.n_flows)


def refine(graphs: SegmentGraphs, colour: U8) -> U8:
    """[segments] stable colours: equal colour implies equal colours before and behind, with multiplicity.

    A flow stops at the first pair of sweeps that splits none of its colours; so its colours depend on itself
    alone, never on its neighbours in the batch. O(sweeps × edges); at most one pair a segment, in practice
    two to four.
    """
    src, dst = graphs.edge_ends()
    stage, n_stages = stages(graphs)
    down = _steps(src, dst, stage, n_stages)
    up = _steps(dst, src, n_stages - 1 - stage, n_stages)
    settled = colour
    count = _count_colours(graphs, colour)
    active = count < np.diff(graphs.first)
    while active.any():
        colour = _sweep(_sweep(colour, down, _DOWN), up, _UP)
        renewed = _count_colours(graphs, colour)
        active &= renewed > count
        settled = np.where(active[graphs.flow], colour, settled)
        active &= renewed < np.diff(graphs.first)
        count = renewed
    return settled
