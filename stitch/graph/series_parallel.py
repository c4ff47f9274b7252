"""Series-parallel decomposition of a structure into the nesting that its text shows (A.3.4).

A sequence is a list of items, each a node, a `Block` or a reference. An item's *open ends* are the nodes at
which the strand goes on; the next item hangs on all of them.

* `Block(SPAN)`: the start of a span, what lies between, its end.
* `Block(PARALLEL)`: branches that all start at the open ends before and whose open ends are pooled.
* `Block(SPAWN)`: branches that start there too, but nothing waits for them; the strand goes on beside them.
* reference: an edge to a join that is printed elsewhere. Joins that do not nest (an N among four nodes is
  the smallest case) keep the in-edges that do, and every other one becomes a reference.

Method: joins with equal predecessor lists of two or more are tied to one dummy node each (`{ a | b }
{ c | d }` is four edges and no node between). Then bottom-up over the dominator tree: a join nests if all of
its in-edges come from regular blocks, those whose every open end goes to this join. Where one does not, its
other in-edges are cut into references and the decomposition is done again; after `MAX_PASSES` what is left
becomes a tree. O(passes * edges log nodes), and one pass for series-parallel graphs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from stitch.graph.dominators import Dominators, dominators

MAX_PASSES = 16
"""Passes that repair a few joins each, before every join left is cut to one in-edge."""

PARALLEL, SPAWN, SPAN = 1, 2, 3

_NO_EXIT, _IRREGULAR = -1, -2


@dataclass(slots=True)
class Block:
    """A composite item. `branches`: PARALLEL and SPAWN two or more (SPAWN one or more), SPAN exactly one.

    Branches are lists of items: a node is its position >= 0, a reference `~position`, else a `Block`.
    """

    kind: int
    branches: list[list[Item]]
    start: int = -1
    """SPAN: position of the start; -1 otherwise."""
    end: int = -1
    """SPAN: position of the end; -1 otherwise."""


Item = int | Block


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A whole structure as one sequence."""

    items: list[Item]
    blocks: list[Block]
    """Every block of `items`, inner before outer."""
    referenced: dict[int, int]
    """Position of a join that references name -> number of references."""


def decompose(
    n_nodes: int, edges: Sequence[tuple[int, int]], mate: Sequence[int], deferred: Sequence[bool]
) -> Decomposition:
    """Nesting of the DAG `edges` (topological positions, node 0 the only source).

    mate: [nodes] position of the other side of a span, or -1. deferred: [nodes] tells, where no branch of a
    fork is ever joined, which of them is the main one.
    """
    predecessors: list[list[int]] = [[] for _ in range(n_nodes)]
    for src, dst in edges:
        predecessors[dst].append(src)
    references: list[list[int]] = [[] for _ in range(n_nodes)]
    dissolved: set[tuple[int, ...]] = set()
    for attempt in range(MAX_PASSES + 1):
        graph = _with_dummies(predecessors, dissolved)
        regions = _Regions(graph, mate, deferred, references)
        items = regions.run()
        if not regions.failed:
            break
        if attempt == MAX_PASSES - 1:
            regions.failed = {v: p[:1] for v, p in enumerate(predecessors) if len(p) > 1}
            dissolved.update(tuple(p) for p in predecessors)
        else:
            regions.name_failures(dissolved)
        for join, kept in regions.failed.items():
            for src in predecessors[join]:
                if src not in kept:
                    references[src].append(join)
            predecessors[join] = [src for src in predecessors[join] if src in kept]
    count: dict[int, int] = {}
    for targets in references:
        for target in targets:
            count[target] = count.get(target, 0) + 1
    return Decomposition(items, regions.blocks, count)


@dataclass(slots=True)
class _Graph:
    """The DAG with dummies, renumbered so that numbers are topological."""

    position: list[int]
    """Position of a node in the structure; -1 for a dummy."""
    predecessors: list[list[int]]
    successors: list[list[int]]
    number: list[int]
    """Number of the node at a position."""


def _with_dummies(predecessors: list[list[int]], dissolved: set[tuple[int, ...]]) -> _Graph:
    """Tie joins with equal predecessors to a dummy that stands before the first of them."""
    n = len(predecessors)
    joins = [tuple(above) for above in predecessors if len(above) > 1]
    groups = Counter(joins) if len(set(joins)) < len(joins) else {}
    tied = {key for key, size in groups.items() if size > 1 and key not in dissolved}
    if not tied:
        return _Graph(list(range(n)), predecessors, _reversed(predecessors), list(range(n)))
    graph = _Graph([], [], [], [])
    dummy: dict[tuple[int, ...], int] = {}
    for v in range(n):
        key = tuple(predecessors[v])
        above = [graph.number[src] for src in key]
        if key in tied:
            if key not in dummy:
                dummy[key] = len(graph.position)
                graph.position.append(-1)
                graph.predecessors.append(above)
            above = [dummy[key]]
        graph.number.append(len(graph.position))
        graph.position.append(v)
        graph.predecessors.append(above)
    graph.successors = _reversed(graph.predecessors)
    return graph


def _reversed(predecessors: list[list[int]]) -> list[list[int]]:
    successors: list[list[int]] = [[] for _ in predecessors]
    for v, above in enumerate(predecessors):
        for u in above:
            successors[u].append(v)
    return successors


@dataclass(slots=True)
class _Strand:
    """What a dominator subtree has become: a sequence, last item first, and where it goes on."""

    items: list[Item]
    exit: int
    """Join at which every open end goes on, _NO_EXIT or _IRREGULAR."""
    opens: int
    """Number of open ends."""
    leaving: int
    """Number of edges that leave the subtree."""
    ends: list[int]
    """Indices into `items` of span ends that have not met their start, outermost first."""
    heads: list[int] = field(default_factory=list)
    """Children of the fork that the strand is made of, once it has been put together there."""


class _Regions:
    """One bottom-up pass over the dominator tree."""

    def __init__(
        self,
        graph: _Graph,
        mate: Sequence[int],
        deferred: Sequence[bool],
        references: list[list[int]],
    ) -> None:
        self.graph = graph
        self.mate = mate
        self.deferred = deferred
        self.references = references
        self.tree: Dominators = dominators(graph.predecessors)
        self.blocks: list[Block] = []
        self.failed: dict[int, list[int]] = {}
        """Join (number) -> predecessors (numbers) that it keeps."""

    def run(self) -> list[Item]:
        """The whole structure's sequence; `failed` is empty iff it is right."""
        parent, positions, successors = self.tree.parent, self.graph.position, self.graph.successors
        n, mate = len(positions), self.mate
        children: list[list[int]] = [[] for _ in range(n)]
        for v in range(1, n):
            children[parent[v]].append(v)
        strands: list[_Strand | None] = [None] * n
        for u in range(n - 1, -1, -1):
            kids = children[u]
            position = positions[u]
            cut = self.references[position] if position >= 0 else ()
            # A node's children in the tree are successors, or joins below: equal lists mean that none leaves.
            outward = [] if kids == successors[u] else [v for v in successors[u] if parent[v] != u]
            if len(kids) == 1 and not outward and not cut:
                strand = strands[kids[0]]
                assert strand is not None
            elif not kids and not cut:
                strand = _Strand([], _NO_EXIT, 1, len(outward), [])
                if outward:
                    strand.exit = outward[0] if len(outward) == 1 else _IRREGULAR
            else:
                strand = self._fork(u, kids, strands, outward, cut)
            strands[u] = strand
            if position >= 0 and mate[position] < 0:
                strand.items.append(position)
            elif position >= 0:
                self._put_before(strand, position)
        root = strands[0]
        assert root is not None
        return root.items[::-1]

    def _put_before(self, strand: _Strand, position: int) -> None:
        """Prepend a side of a span; at the start, contract the span."""
        items, mate = strand.items, self.mate[position]
        if mate < position:
            strand.ends.append(len(items))
        elif mate > position and strand.ends and items[strand.ends[-1]] == mate:
            at = strand.ends.pop()
            block = Block(SPAN, [items[:at:-1]], position, mate)
            self.blocks.append(block)
            del items[at:]
            items.append(block)
            return
        items.append(position)

    def _fork(
        self, u: int, kids: list[int], strands: list[_Strand | None], outward: list[int], cut: Sequence[int]
    ) -> _Strand:
        """Put the children of `u` together; `u` itself is prepended by the caller."""
        parent, predecessors = self.tree.parent, self.graph.predecessors
        waiting: dict[int, list[_Strand]] = {}
        loose: list[_Strand] = []
        broken = False
        leaving = len(outward)
        for v in kids:
            strand = strands[v]
            assert strand is not None
            strand.heads = [v]
            leaving += strand.leaving
            if len(predecessors[v]) > 1:
                arriving = waiting.pop(v, [])
                leaving -= sum(src != u for src in predecessors[v])
                if sum(s.opens for s in arriving) == len(predecessors[v]):
                    self._join(arriving, strand)
                else:
                    if not broken:
                        self._fail(u, v, arriving)
                    broken = True
                    loose.extend(arriving)
            if strand.exit >= 0 and parent[strand.exit] == u:
                waiting.setdefault(strand.exit, []).append(strand)
            else:
                loose.append(strand)
        closed = [s for s in loose if s.exit == _NO_EXIT]
        going = [s for s in loose if s.exit != _NO_EXIT]
        closed.extend(_Strand([~target], _NO_EXIT, 0, 0, []) for target in cut)
        targets = {s.exit for s in going} | set(outward)
        regular = not broken and len(targets) < 2 and _IRREGULAR not in targets and not (going and outward)
        result = self._arrange(u, going, closed, continues=bool(going or outward))
        result.leaving = leaving
        if outward:
            result.opens += len(outward)
        if not regular:
            result.exit = _IRREGULAR if leaving else _NO_EXIT
        elif targets:
            result.exit = targets.pop()
        return result

    def _join(self, arriving: list[_Strand], strand: _Strand) -> None:
        """Put strands that all go on at the head of `strand` before it, in parallel."""
        strand.heads.extend(head for s in arriving for head in s.heads)
        strand.items.append(self._block(PARALLEL, arriving))

    def _arrange(self, u: int, going: list[_Strand], closed: list[_Strand], *, continues: bool) -> _Strand:
        """Branches of `u` that were not joined under it: one strand, without `u`."""
        if not continues:
            main = self._main(u, closed)
            if main is None:
                return _Strand([self._block(PARALLEL, closed)], _NO_EXIT, 0, 0, [])
            closed = [s for s in closed if s is not main]
            result = main
        elif len(going) == 1:
            result = going[0]
        elif going:
            result = _Strand([self._block(PARALLEL, going)], _NO_EXIT, sum(s.opens for s in going), 0, [])
        else:
            result = _Strand([], _NO_EXIT, 0, 0, [])
        if closed:
            result.items.append(self._block(SPAWN, closed))
        return result

    def _main(self, u: int, closed: list[_Strand]) -> _Strand | None:
        """Of branches that never go on: the one with the end of the span `u`, else the only awaited one."""
        if len(closed) == 1:
            return closed[0]
        position = self.graph.position[u]
        mate = self.mate[position] if position >= 0 else -1
        if mate > position:
            head = self.tree.child_towards(u, self.graph.number[mate])
            for strand in closed:
                if head in strand.heads:
                    return strand
        position_of, deferred = self.graph.position, self.deferred
        awaited = [
            s for s in closed if any(position_of[h] >= 0 and not deferred[position_of[h]] for h in s.heads)
        ]
        return awaited[0] if len(awaited) == 1 else None

    def _block(self, kind: int, strands: list[_Strand]) -> Block:
        block = Block(kind, [s.items[::-1] for s in strands])
        self.blocks.append(block)
        return block

    def _fail(self, u: int, join: int, arriving: list[_Strand]) -> None:
        """Note which in-edges a join that does not nest keeps: the regular ones, else the first."""
        predecessors = self.graph.predecessors[join]
        regular = {head for s in arriving for head in s.heads}
        kept = [src for src in predecessors if src != u and self.tree.child_towards(u, src) in regular]
        self.failed[join] = kept if 0 < len(kept) < len(predecessors) else predecessors[:1]

    def name_failures(self, dissolved: set[tuple[int, ...]]) -> None:
        """Turn numbers in `failed` into positions; a dummy that failed is dissolved instead."""
        position = self.graph.position
        named: dict[int, list[int]] = {}
        for join, kept in self.failed.items():
            above = [position[src] for src in self.graph.predecessors[join]]
            if position[join] < 0:
                dissolved.add(tuple(above))
            elif -1 not in above:
                named[position[join]] = [position[src] for src in kept]
            else:
                raise AssertionError("A join behind a dummy has one predecessor, so it cannot fail.")
        self.failed = named
