"""Order interchangeable branches by time, without ever changing the template.

After refinement, segments of one flow with the same colour are *tied*. Breaking each tie by time alone would
be wrong: two identical branches A1→A2 and B1→B2 must not come out as A1, B1, B2, A2. So ties are broken by
*decisions*:

* tied segments with the same predecessors are ordered among themselves by start time, each by a decision;
* every other tied segment is ordered like its predecessors: it follows the deepest decision that all of its
  tied predecessors follow, and must be the only segment of its colour that does so.

A flow in which these rules place every tied segment is *plain*: its decisions are independent, each choice is
an automorphism of the graph, and all flows of a category get equal templates. Series-parallel graphs are
plain, except where branches start without a node before them. Any other flow is *hard*: individualise the
earliest segment of one tied colour, refine the colours, try again. Tied colours without an edge between them
are independent (every automorphism leaves segments with a unique colour in place), so each turn
individualises one segment in every cluster of connected tied colours.

Example: r splits into x1 and x2, which look alike; each splits into a y and a z, and j joins all four.

         → x1 (5) → y1 (6), z1 (8) ↘          start times in brackets
    r (0)                            j (20)
         → x2 (3) → y2 (9), z2 (7) ↗

1. Refinement leaves three cells of two: {x1, x2}, {y1, y2}, {z1, z2}.
2. x1 and x2 have the same predecessor r, so they are ordered by start time: x2, x1.
3. y1 follows the decision on x1, y2 the one on x2, each as the only segment of its colour. So the order is
   y2, y1, although y1 started earlier; in the same way z2, z1. All ties are broken: the flow is plain.
4. Order: r x2 x1 y2 y1 z2 z1 j. By times alone y1 would precede y2: the first x would lead to the second y in
   this flow and to the first y in other flows, which gives two templates for equal graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from schemas.arrays import B1, I8, U8
from stitch.columnar.hashing import mix
from stitch.columnar.runs import connected_components, group_stably, in_long_runs, rank_in_runs, run_starts
from stitch.graph.order.colour_refinement import SegmentGraphs, refine, stages

TieBreak = Callable[[I8], U8]
"""Function from indices of segments that start at the same time to hashes that depend on their content only:
a stable order for them."""

MAX_TURNS = 64
"""Maximum turns of individualisation and refinement for a hard flow; k crossing pairs of identical branches
need k - 1 turns."""

MAX_STAGES = 20_000
"""Maximum of (turns × distinct levels) for a hard flow; two turns are always allowed. Past the bound the
remaining ties are ordered by time alone, which can split a category, never merge two."""

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class TiedCells:
    """Segments (chains of nodes) sorted by (flow, level, colour); consecutive equal ones form a cell."""

    order: I8
    """[segments] segment index at each position, sorted by (flow, level, colour): a topological order inside
    every flow."""
    cell: I8
    """[segments] index of the segment's cell in the batch; it does not decrease along `order`."""
    size: I8
    """[cells] number of segments in the cell; they are tied if it is 2 or more."""

    def tied_flows(self, graphs: SegmentGraphs) -> B1:
        """[flows] True if the flow has a cell of two or more segments (tied segments)."""
        tied = np.zeros(graphs.n_flows, dtype=np.bool_)
        tied[graphs.flow[self.size[self.cell] > 1]] = True
        return tied


def sort_cells(graphs: SegmentGraphs, rank: I8, colour: U8) -> TiedCells:
    """Sort segments into cells of equal (flow, rank, colour). rank: [segments] level, or any number that
    orders segments at least as coarsely."""
    order = np.lexsort((colour, rank, graphs.flow))
    number = np.cumsum(run_starts(graphs.flow[order], rank[order], colour[order])) - 1
    cell = np.empty(len(order), dtype=np.int64)
    cell[order] = number
    return TiedCells(order, cell, np.bincount(number))


@dataclass(frozen=True, slots=True)
class TiePlan:
    """Order of the tied segments of a batch, as decisions. A decision places one segment among those
    interchangeable with it and is identified by that segment's index within its flow."""

    path: I8
    """[segments] decision that places this tied segment (possibly the segment's own decision); -1: the
    segment is not tied."""
    above: I8
    """[segments] if the segment is a decision: the decision that it depends on, or -1 for none. -1 for other
    segments."""
    depth: I8
    """[segments] if the segment is a decision: its depth, 1 for one that depends on no other. 0 for other
    segments."""
    group: I8
    """[segments] if the segment is a decision: the smallest segment index among those ordered together with
    it. -1 for other segments."""
    hard: B1
    """[flows] True if decisions cannot place every tied segment of the flow; `path`, `above`, `depth` and
    `group` are then undefined."""
    culprit: B1
    """[segments] True for the segments of a hard flow that are in a cell whose earliest segment gets a colour
    of its own (is individualised) in the next turn."""

    def take(self, segments: I8) -> TiePlan:
        """Plan for copies of plain flows made by `SegmentGraphs.take`. segments: [new segments] original of
        each copy."""
        return TiePlan(
            self.path[segments],
            self.above[segments],
            self.depth[segments],
            self.group[segments],
            np.zeros(0, dtype=np.bool_),
            self.culprit[segments],
        )


class _Planner:
    """Builder of a TiePlan, one level of segments after another; it indexes segments in the batch, and `plan`
    converts the indices to those within a flow."""

    def __init__(self, graphs: SegmentGraphs, cells: TiedCells) -> None:
        n = len(graphs.level)
        self.graphs, self.cell = graphs, cells.cell
        self.tied = cells.size[cells.cell] > 1
        # One more entry for "no decision", reached by index -1.
        self.path = np.full(n, -1, dtype=np.int64)
        self.above = np.full(n + 1, -1, dtype=np.int64)
        self.depth = np.zeros(n + 1, dtype=np.int64)
        self.group = np.full(n, -1, dtype=np.int64)
        # Scratch, valid for the segments of the stage at hand.
        self.base = np.empty(n, dtype=np.int64)
        self.size = np.empty(n, dtype=np.int64)
        src, dst = graphs.edge_ends()
        # A hash of each segment's set of predecessors: only those with the same set are decided together.
        self.before = np.zeros(n, dtype=np.uint64)
        with np.errstate(over="ignore"):
            np.add.at(self.before, dst, mix(src.astype(np.uint64)))
        keep = self.tied[src] & self.tied[dst]
        self.src, self.dst = src[keep], dst[keep]
        n_clusters, of_cell = connected_components(self.cell[self.src], self.cell[self.dst], len(cells.size))
        self.cluster = of_cell[self.cell]
        self.hard = np.zeros(n_clusters, dtype=np.bool_)
        self.culprit = np.full(n_clusters, _NEVER, dtype=np.int64)

    def plan(self) -> TiePlan:
        stage, n_stages = stages(self.graphs)
        members = np.flatnonzero(self.tied)
        by_stage, first = group_stably(stage[members], n_stages)
        by_dst, _ = group_stably(self.dst, len(stage))
        edge_stage, first_edge = group_stably(stage[self.dst[by_dst]], n_stages)
        edges = by_dst[edge_stage]
        # A segment's predecessors are of earlier stages, so their paths are known when it is placed.
        for number in np.flatnonzero(np.diff(first)):
            here = members[by_stage[first[number] : first[number + 1]]]
            into = edges[first_edge[number] : first_edge[number + 1]]
            self._place(here, self.src[into], self.dst[into])
        shift = self.graphs.first[:-1][self.graphs.flow]
        hard = np.zeros(self.graphs.n_flows, dtype=np.bool_)
        hard[self.graphs.flow[self.hard[self.cluster]]] = True
        return TiePlan(
            np.where(self.path >= 0, self.path - shift, -1),
            np.where(self.above[:-1] >= 0, self.above[:-1] - shift, -1),
            self.depth[:-1],
            np.where(self.group >= 0, self.group - shift, -1),
            hard,
            self.culprit[self.cluster] == self.cell,
        )

    def _place(self, here: I8, src: I8, dst: I8) -> None:
        """Fill `path`, `above`, `depth` and `group` (see TiePlan) for `here`, the tied segments of one level.

        src, dst: edges that lead to `here` from tied predecessors, sorted by dst.
        """
        base, lead_size = self.base, self.size
        base[here] = -1
        if len(src):
            self._common(src, dst)
        here = here[np.lexsort((here, base[here], self.cell[here]))]
        cell, under = self.cell[here], base[here]
        new_cell, new_group = run_starts(cell), run_starts(cell, under)
        group = np.cumsum(new_group) - 1
        size = np.bincount(group)[group]
        leader = here[new_group][group]
        cell_leader = here[new_cell][np.cumsum(new_cell) - 1]
        # All groups of a cell must be alike: of one size, under decisions of one colour or under none.
        lead_size[here] = size
        lead = base[cell_leader]
        # Not explained (odd): groups of unequal size, decided and undecided groups in one cell, decisions of
        # two colours, groups with several sets of predecessors, single segments under no decision.
        odd = (size != lead_size[cell_leader]) | ((under < 0) != (lead < 0))
        odd |= (under >= 0) & (lead >= 0) & (self.cell[under] != self.cell[lead])
        odd |= (size > 1) & (self.before[here] != self.before[leader])
        odd |= (size == 1) & (under < 0)
        self._blame(here[odd], src, dst)
        decides = size > 1
        chosen = here[decides]
        self.path[here] = np.where(decides, here, under)
        self.above[chosen] = under[decides]
        self.depth[chosen] = self.depth[under[decides]] + 1
        self.group[chosen] = leader[decides]

    def _common(self, src: I8, dst: I8) -> None:
        """Set `self.base` of each segment in `dst` to the deepest decision common to all its tied
        predecessors, -1 for none."""
        at = self.path[src]
        first = np.flatnonzero(run_starts(dst))
        count = np.diff(first, append=len(dst))
        # Climb to one depth first, then step by step until all predecessors of a segment have met.
        while True:
            depth = self.depth[at]
            shallow = np.repeat(np.minimum.reduceat(depth, first), count)
            climb = depth > shallow
            if not climb.any():
                differ = np.minimum.reduceat(at, first) != np.maximum.reduceat(at, first)
                climb = np.repeat(differ, count)
                if not climb.any():
                    break
            at = np.where(climb, self.above[at], at)
        self.base[dst[first]] = at[first]

    def _blame(self, odd: I8, src: I8, dst: I8) -> None:
        """Mark as hard the clusters that contain one of the segments `odd`, and choose the cell of each
        cluster that is individualised first: the cell of a predecessor that has a decision, else that of the
        segment itself."""
        fresh = odd[~self.hard[self.cluster[odd]]]
        if not len(fresh):
            return
        self.hard[self.cluster[fresh]] = True
        decided = np.flatnonzero(np.isin(dst, fresh) & (self.path[src] >= 0))
        np.minimum.at(self.culprit, self.cluster[dst[decided]], self.cell[self.path[src[decided]]])
        alone = fresh[self.culprit[self.cluster[fresh]] == _NEVER]
        np.minimum.at(self.culprit, self.cluster[alone], self.cell[alone])


def plan_ties(graphs: SegmentGraphs, cells: TiedCells) -> TiePlan:
    """Decide for every flow how its tied segments are ordered; the colours behind `cells` must be stable
    (`refine`).

    O(tied edges × depth of decisions).
    """
    return _Planner(graphs, cells).plan()


def settle_plain(graphs: SegmentGraphs, cells: TiedCells, plan: TiePlan, start_ns: I8, tie: TieBreak) -> I8:
    """Order plain flows: [segments] `cells.order` with tied segments ordered by `plan`, every decision by
    (start, tie).

    start_ns: [segments] time of the segment's first node, ns.
    """
    n = len(graphs.level)
    shift = graphs.first[:-1][graphs.flow]
    deciders = np.flatnonzero(plan.depth)
    group = plan.group[deciders] + shift[deciders]
    rank = np.zeros(n, dtype=np.int64)
    ordered = _earliest(deciders, group, start_ns, tie)
    rank[ordered] = rank_in_runs(run_starts(plan.group[ordered] + shift[ordered]))
    widest = int(rank.max(initial=0)) + 1
    value = np.zeros(n + 1, dtype=np.int64)
    for depth in range(1, int(plan.depth.max(initial=0)) + 1):
        here = deciders[plan.depth[deciders] == depth]
        above = np.where(plan.above[here] >= 0, plan.above[here] + shift[here], n)
        # Dense again at every depth, so that the product stays below segments × widest group.
        value[here] = np.unique(value[above] * widest + rank[here], return_inverse=True)[1] + 1
    slots = np.flatnonzero(plan.path[cells.order] >= 0)
    tied = cells.order[slots]
    order = cells.order.copy()
    order[slots] = tied[np.lexsort((value[plan.path[tied] + shift[tied]], cells.cell[tied]))]
    return order


def _earliest(segments: I8, group: I8, start_ns: I8, tie: TieBreak) -> I8:
    """Sort `segments` by (group, start, tie). group: one code for each of `segments`."""
    by_time = np.lexsort((start_ns[segments], group))
    ordered, group = segments[by_time], group[by_time]
    places = np.flatnonzero(in_long_runs(run_starts(group, start_ns[ordered])))
    if len(places):
        some = ordered[places]
        ordered[places] = some[np.lexsort((tie(some), start_ns[some], group[places]))]
    return ordered


def settle_hard(graphs: SegmentGraphs, cells: TiedCells, start_ns: I8, tie: TieBreak) -> I8:
    """Order plain or hard flows by individualisation and refinement: [segments] segments in canonical order.

    Each turn passes flows that have become plain to `settle_plain`; in every cluster of the others it
    individualises the earliest segment of one tied cell and refines the colours. Bounds: MAX_TURNS,
    MAX_STAGES. start_ns: [segments] time of the segment's first node, ns.
    """
    result = np.empty_like(cells.order)
    origin = np.arange(len(graphs.level), dtype=np.int64)
    turns = np.clip(MAX_STAGES // np.maximum(_count_levels(graphs), 1), 2, MAX_TURNS)
    turn = 0
    while graphs.n_flows:
        plan = plan_ties(graphs, cells)
        spent = plan.hard & (turns <= turn)
        for flows in (np.flatnonzero(~plan.hard), np.flatnonzero(spent)):
            done, segments = graphs.take(flows)
            here = origin[segments]
            done_cells = sort_cells(done, cells.cell[segments], np.zeros(len(segments), np.uint64))
            start, done_tie = start_ns[here], _of(tie, here)
            if spent[flows].any():
                order = done_cells.order
                order = _earliest(order, done_cells.cell[order], start, done_tie)
            else:
                order = settle_plain(done, done_cells, plan.take(segments), start, done_tie)
            result[here] = here[order]
        rest = np.flatnonzero(plan.hard & ~spent)
        graphs, segments = graphs.take(rest)
        origin, turns, turn = origin[segments], turns[rest], turn + 1
        if not len(rest):
            break
        # Individualise: the earliest candidate of a cell gets a rank of its own, before the rest of the cell.
        cell = cells.cell[segments]
        candidates = np.flatnonzero(plan.culprit[segments])
        ordered = _earliest(candidates, cell[candidates], start_ns[origin], _of(tie, origin))
        rank = 2 * (cell - np.minimum.reduceat(cell, graphs.first[:-1])[graphs.flow])
        rank[candidates] += 1
        rank[ordered[run_starts(cell[ordered])]] -= 1
        cells = sort_cells(graphs, rank, refine(graphs, mix(rank.astype(np.uint64))))
    return result


def _count_levels(graphs: SegmentGraphs) -> I8:
    """[flows] number of distinct levels among the flow's segments."""
    by = np.lexsort((graphs.level, graphs.flow))
    flow = graphs.flow[by]
    return np.bincount(flow[run_starts(flow, graphs.level[by])], minlength=graphs.n_flows)


def _of(tie: TieBreak, origin: I8) -> TieBreak:
    """Wrap `tie` for copies of segments. origin: [copies] index of the original segment."""
    return lambda segments: tie(origin[segments])
