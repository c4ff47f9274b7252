"""Series-parallel decomposition of a structure into the nesting that its text shows (A.3.4).

A sequence is a list of items, each a node, a `Block` or a reference. An item's *open ends* are the nodes at
which the strand goes on; the next item hangs on all of them.

* `Block(SPAN)`: the start of a span, what lies between, its end.
* `Block(PARALLEL)`: branches that all start at the open ends before and whose open ends are pooled.
* `Block(SPAWN)`: branches that start there too, but nothing waits for them; the strand goes on beside them.
* reference: an edge to a join that is printed elsewhere. Joins that do not nest (an N among four nodes is
  the smallest case) keep the in-edges that do, and every other one becomes a reference.

Method: chains become one vertex each, and joins with equal predecessor lists of two or more are tied to one
dummy each (`{ a | b } { c | d }` is four edges and no node between). Then bottom-up over the dominator tree:
a join nests if all of its in-edges come from regular blocks, those whose every open end goes to this join.
Where one does not, its other in-edges are cut into references and the decomposition is done again; after
`MAX_PASSES` what is left becomes a tree. O(passes * edges log chains), one pass for series-parallel graphs.

Example, an N between r and e: 0 r, 1 a, 2 b, 3 c, 4 d, 5 e with r→a, r→b, a→c, b→c, b→d, c→e, d→e. The
dominator of c and of e is r, for one gets there by a and by b; that of d is b.

1. Bottom-up, c and d become strands that go on at e; b is a fork with d below and an edge out to c, so it
   goes on at two places: irregular. a goes on at c.
2. At r, the children in the tree are a, b, c, e. c expects a and b; only the strand of a goes on there with
   every open end. c fails and keeps its edge from a; what hangs behind it waits for the next pass.
3. b → c is cut into a reference: second pass. Now a and c are put in series, b goes on at e with d behind it
   and the reference beside; both strands go on at e alone, so e joins them in parallel.
4. Items: 0, PARALLEL([1, 3], [2, SPAWN([~3]), 4]), 5, which reads `r { a c | b &{ ^3 } d } e`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stitch.graph.chains import ChainGraph, Chains, dominators, find_chains, with_dummies

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
    chains = find_chains(n_nodes, edges)
    predecessors = list(chains.predecessors)
    references: list[list[int]] = [[] for _ in predecessors]
    dissolved: set[tuple[int, ...]] = set()
    for attempt in range(MAX_PASSES + 1):
        graph = with_dummies(chains, predecessors, dissolved)
        regions = _Regions(chains, graph, mate, deferred, references)
        items = regions.run()
        if not regions.failed:
            break
        if attempt == MAX_PASSES - 1:
            regions.failed = {join: above[:1] for join, above in enumerate(predecessors) if len(above) > 1}
            dissolved.update(tuple(above) for above in predecessors)
        else:
            regions.name_failures(dissolved)
        for join, kept in regions.failed.items():
            for src in predecessors[join]:
                if src not in kept:
                    references[src].append(chains.positions[join][0])
            predecessors[join] = [src for src in predecessors[join] if src in kept]
    count: dict[int, int] = {}
    for targets in references:
        for target in targets:
            count[target] = count.get(target, 0) + 1
    return Decomposition(items, regions.blocks, count)


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
    heads: list[int]
    """Children of the fork that the strand is made of, once it has been put together there."""


class _Regions:
    """One bottom-up pass over the dominator tree."""

    def __init__(
        self,
        chains: Chains,
        graph: ChainGraph,
        mate: Sequence[int],
        deferred: Sequence[bool],
        references: list[list[int]],
    ) -> None:
        self.chains = chains
        self.graph = graph
        self.mate = mate
        self.deferred = deferred
        self.references = references
        """[chains] positions of the joins that a cut in-edge from its last node led to."""
        self.has_spans = max(mate) >= 0
        self.tree = dominators(graph.predecessors)
        self.blocks: list[Block] = []
        self.failed: dict[int, list[int]] = {}
        """Join (vertex) -> predecessors (vertices) that it keeps."""

    def run(self) -> list[Item]:
        """The whole structure's sequence; `failed` is empty iff it is right."""
        parent, chain_of, successors = self.tree.parent, self.graph.chain, self.graph.successors
        n_vertices = len(chain_of)
        children: list[list[int]] = [[] for _ in range(n_vertices)]
        for vertex in range(1, n_vertices):
            children[parent[vertex]].append(vertex)
        strands: list[_Strand | None] = [None] * n_vertices
        for vertex in self.graph.bottom_up:
            below, after = children[vertex], successors[vertex]
            chain = chain_of[vertex]
            cut = self.references[chain] if chain >= 0 else ()
            # Children in the tree are successors, or joins below: equal lists mean that no edge leaves.
            outward = [] if below == after else [other for other in after if parent[other] != vertex]
            if len(below) == 1 and not outward and not cut:
                # Plain series: the vertex is put before what follows it.
                strand = strands[below[0]]
                assert strand is not None
            elif not below and not cut:
                # A leaf of the tree: its edges, if any, lead out to joins further up.
                strand = _Strand([], _NO_EXIT, 1, len(outward), [], [])
                if outward:
                    strand.exit = outward[0] if len(outward) == 1 else _IRREGULAR
            else:
                strand = self._fork(vertex, below, strands, outward, cut)
            strands[vertex] = strand
            if chain >= 0:  # a dummy has nothing to show
                if self.has_spans:
                    self._put_before(strand, self.chains.positions[chain])
                else:
                    strand.items.extend(self.chains.positions[chain][::-1])
        root = strands[0]
        assert root is not None
        return root.items[::-1]

    def _put_before(self, strand: _Strand, positions: list[int]) -> None:
        """Prepend a chain; where a start meets its end, contract the span."""
        items, ends, mates = strand.items, strand.ends, self.mate
        for position in reversed(positions):
            mate = mates[position]
            if 0 <= mate < position:
                ends.append(len(items))
            elif mate > position and ends and items[ends[-1]] == mate:
                at = ends.pop()
                block = Block(SPAN, [items[:at:-1]], position, mate)
                self.blocks.append(block)
                del items[at:]
                items.append(block)
                continue
            items.append(position)

    def _fork(
        self,
        fork: int,
        below: list[int],
        strands: list[_Strand | None],
        outward: list[int],
        cut: Sequence[int],
    ) -> _Strand:
        """Put the children of `fork` together; `fork` itself is prepended by the caller."""
        parent, predecessors = self.tree.parent, self.graph.predecessors
        waiting: dict[int, list[_Strand]] = {}  # join under the fork -> strands that go on there
        loose: list[_Strand] = []
        broken = False
        leaving = len(outward)
        # Ascending, so topologically: what arrives at a join was seen before the join.
        for child in below:
            strand = strands[child]
            assert strand is not None
            strand.heads = [child]
            leaving += strand.leaving
            if len(predecessors[child]) > 1:
                arriving = waiting.pop(child, [])
                before = predecessors[child]
                # These edges end here, and no longer leave; one from the fork itself never left.
                leaving -= len(before) - before.count(fork)
                if sum([s.opens for s in arriving]) == len(before):
                    self._join(arriving, strand)
                else:
                    # Only the first failure counts: what hangs behind it is seen rightly in the next pass.
                    if not broken:
                        self._fail(fork, child, arriving)
                    broken = True
                    loose.extend(arriving)
            if strand.exit >= 0 and parent[strand.exit] == fork:
                waiting.setdefault(strand.exit, []).append(strand)
            else:
                loose.append(strand)
        closed = [s for s in loose if s.exit == _NO_EXIT]
        going = [s for s in loose if s.exit != _NO_EXIT]
        closed.extend(_Strand([~target], _NO_EXIT, 0, 0, [], []) for target in cut)
        targets = {s.exit for s in going} | set(outward)
        # Regular: all that goes on goes to one join, and not both through branches and past them.
        regular = not broken and len(targets) < 2 and _IRREGULAR not in targets and not (going and outward)
        result = self._arrange(fork, going, closed, continues=bool(going or outward))
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

    def _arrange(self, fork: int, going: list[_Strand], closed: list[_Strand], *, continues: bool) -> _Strand:
        """Branches of `fork` that were not joined under it: one strand, without `fork`."""
        if not continues:
            main = self._main(fork, closed)
            if main is None:
                return _Strand([self._block(PARALLEL, closed)], _NO_EXIT, 0, 0, [], [])
            closed = [s for s in closed if s is not main]
            result = main
        elif len(going) == 1:
            result = going[0]
        elif going:
            opens = sum(s.opens for s in going)
            result = _Strand([self._block(PARALLEL, going)], _NO_EXIT, opens, 0, [], [])
        else:
            result = _Strand([], _NO_EXIT, 0, 0, [], [])
        if closed:
            result.items.append(self._block(SPAWN, closed))
        return result

    def _main(self, fork: int, closed: list[_Strand]) -> _Strand | None:
        """Of branches that never go on: the one with the end of span `fork`, else the only awaited one."""
        if len(closed) == 1:
            return closed[0]
        chain = self.graph.chain[fork]
        position = self.chains.positions[chain][-1] if chain >= 0 else -1
        mate = self.mate[position] if position >= 0 else -1
        if mate > position:
            head = self.tree.child_towards(fork, self.graph.vertex[self.chains.of_node[mate]])
            for strand in closed:
                if head in strand.heads:
                    return strand
        awaited = [s for s in closed if any(self._is_awaited(head) for head in s.heads)]
        return awaited[0] if len(awaited) == 1 else None

    def _is_awaited(self, head: int) -> bool:
        chain = self.graph.chain[head]
        return chain >= 0 and not self.deferred[self.chains.positions[chain][0]]

    def _block(self, kind: int, strands: list[_Strand]) -> Block:
        block = Block(kind, [s.items[::-1] for s in strands])
        self.blocks.append(block)
        return block

    def _fail(self, fork: int, join: int, arriving: list[_Strand]) -> None:
        """Note which in-edges a join that does not nest keeps: the regular ones, else the first."""
        predecessors = self.graph.predecessors[join]
        regular = {head for s in arriving for head in s.heads}
        kept = [src for src in predecessors if src != fork and self.tree.child_towards(fork, src) in regular]
        self.failed[join] = kept if 0 < len(kept) < len(predecessors) else predecessors[:1]

    def name_failures(self, dissolved: set[tuple[int, ...]]) -> None:
        """Turn vertices in `failed` into chains; a dummy that failed is dissolved instead."""
        chain = self.graph.chain
        named: dict[int, list[int]] = {}
        for join, kept in self.failed.items():
            above = [chain[src] for src in self.graph.predecessors[join]]
            if chain[join] < 0:
                dissolved.add(tuple(above))
            elif -1 not in above:
                named[chain[join]] = [chain[src] for src in kept]
            else:
                raise AssertionError("A join behind a dummy has one predecessor, so it cannot fail.")
        self.failed = named
