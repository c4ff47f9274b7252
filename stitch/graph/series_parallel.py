"""Decompose a DAG into nested series and parallel blocks, as its canonical text shows them.

A sequence is a list of items, each a node, a `Block` or a reference. An item's *open ends* are the nodes that
the next item of the sequence follows: each of its first nodes has an edge from every open end.

* `Block(SPAN)`: the start of a span, inner items, its end.
* `Block(PARALLEL)`: branches that all follow the open ends of the previous item; its open ends are those of
  all branches.
* `Block(SPAWN)`: branches that follow the open ends of the previous item too, but nothing waits for them: the
  next item follows the same open ends.
* reference: an edge to a join that is printed elsewhere. Joins that do not nest (an N among four nodes is
  the smallest case) keep the in-edges that do, and every other one becomes a reference.

A chain is a maximal path whose inner edges are the only edge out of their source and the only edge into their
destination. A request with 30 records has about 12 chains, and every pass works on chains instead of nodes.

Method: chains become one vertex each, and joins with the same two or more predecessors get a common dummy
vertex before them (`{ a | b } { c | d }` has four edges and no node between the blocks). Then bottom-up over
the dominator tree: a join nests if all of its in-edges come from regular blocks, that is, blocks whose open
ends all lead to this join. If a join does not nest, its other in-edges are replaced by references, and the
decomposition starts again; after `_MAX_PASSES` each remaining such join keeps one in-edge. O(passes * edges
log chains), one pass for series-parallel graphs.

Example, an N between r and e: 0 r, 1 a, 2 b, 3 c, 4 d, 5 e with r→a, r→b, a→c, b→c, b→d, c→e, d→e. The
immediate dominator of c and of e is r, as paths lead there by a and by b; that of d is b.

1. Bottom-up, c and d become strands that lead to e; b is a fork with d below it and an edge out to c, so it
   leads to two joins: irregular. a leads to c.
2. At r, the children in the dominator tree are a, b, c, e. c has in-edges from a and b, but only the strand
   of a leads to c with all its open ends. So c does not nest and keeps only its in-edge from a.
3. Second pass, with b → c replaced by a reference: a and c are in series; b is followed by d and spawns the
   reference. Both strands lead to e alone, so e joins them in parallel.
4. Items: 0, PARALLEL([1, 3], [2, SPAWN([~3]), 4]), 5, which reads `r { a c | b &{ ^3 } d } e`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_MAX_PASSES = 16
"""Maximum passes that cut in-edges of joins that do not nest; after the last, every remaining such join keeps
only one in-edge."""
PARALLEL, SPAWN, SPAN = 1, 2, 3
_NO_EXIT, _IRREGULAR = -1, -2


@dataclass(frozen=True, slots=True)
class Chains:
    """Chains (see the module docstring) of a DAG, numbered in topological order."""

    positions: list[list[int]]
    """[chains] topological positions of the chain's nodes, ascending."""
    of_node: list[int]
    """[nodes] index of the chain that contains the node."""
    predecessors: list[list[int]]
    """[chains] chains with an edge to the chain's first node, in the order of the edges."""


def _find_chains(n_nodes: int, edges: Sequence[tuple[int, int]]) -> Chains:
    """Contract the DAG `edges` (topological positions) to its chains. O(nodes + edges)."""
    before: list[list[int]] = [[] for _ in range(n_nodes)]
    n_after = [0] * n_nodes
    for src, dst in edges:
        before[dst].append(src)
        n_after[src] += 1
    chains = Chains([], [0] * n_nodes, [])
    positions, of_node, predecessors = chains.positions, chains.of_node, chains.predecessors
    for node, above in enumerate(before):
        if len(above) == 1 and n_after[above[0]] == 1:
            of_node[node] = chain = of_node[above[0]]
            positions[chain].append(node)
        else:
            of_node[node] = len(positions)
            positions.append([node])
            predecessors.append([of_node[src] for src in above])
    return chains


@dataclass(frozen=True, slots=True)
class ChainGraph:
    """Graph whose vertices are chains and dummy vertices (see `_with_dummies`), numbered in a topological
    order."""

    chain: list[int]
    """[vertices] chain of the vertex; -1 for a dummy vertex."""
    vertex: list[int]
    """[chains] vertex that stands for the chain."""
    predecessors: list[list[int]]
    successors: list[list[int]]
    bottom_up: list[int]
    """Vertices sorted by their last node's position, descending; a dummy is sorted by the first join after
    it."""


def _with_dummies(
    chains: Chains, predecessors: list[list[int]], dissolved: set[tuple[int, ...]]
) -> ChainGraph:
    """Build the graph in which joins with the same predecessors share a dummy vertex that precedes them,
    except for the sets of predecessors in `dissolved`.

    predecessors: [chains] `chains.predecessors` without the in-edges already cut.
    """
    last = [positions[-1] for positions in chains.positions]
    joins = [tuple(above) for above in predecessors if len(above) > 1]
    groups = Counter(joins) if len(set(joins)) < len(joins) else {}
    tied = {key for key, size in groups.items() if size > 1 and key not in dissolved}
    if not tied:
        numbers = list(range(len(last)))
        bottom_up = sorted(numbers, key=last.__getitem__, reverse=True)
        return ChainGraph(numbers, numbers, predecessors, _reversed(predecessors), bottom_up)
    chain: list[int] = []
    vertex: list[int] = []
    above_of: list[list[int]] = []
    rank: list[int] = []
    dummy: dict[tuple[int, ...], int] = {}
    for number, (positions, own) in enumerate(zip(chains.positions, predecessors, strict=True)):
        key = tuple(own)
        above = [vertex[src] for src in key]
        if key in tied:
            if key not in dummy:
                dummy[key] = len(chain)
                chain.append(-1)
                above_of.append(above)
                rank.append(2 * positions[0])
            above = [dummy[key]]
        vertex.append(len(chain))
        chain.append(number)
        above_of.append(above)
        rank.append(2 * last[number] + 1)
    bottom_up = sorted(range(len(chain)), key=rank.__getitem__, reverse=True)
    return ChainGraph(chain, vertex, above_of, _reversed(above_of), bottom_up)


def _reversed(predecessors: list[list[int]]) -> list[list[int]]:
    successors: list[list[int]] = [[] for _ in predecessors]
    for dst, above in enumerate(predecessors):
        for src in above:
            successors[src].append(dst)
    return successors


@dataclass(frozen=True, slots=True)
class Dominators:
    """Immediate dominators, with skew-binary jump pointers (Myers 1983) for O(log n) ancestor queries."""

    parent: list[int]
    """[vertices] immediate dominator: the last vertex on every path from the root; 0 for the root itself."""
    depth: list[int]
    jump: list[int]

    def child_towards(self, ancestor: int, vertex: int) -> int:
        """Child of `ancestor` in the dominator tree that dominates `vertex` (possibly `vertex` itself)."""
        depth, jump, parent = self.depth, self.jump, self.parent
        wanted = depth[ancestor] + 1
        while depth[vertex] > wanted:
            vertex = jump[vertex] if depth[jump[vertex]] >= wanted else parent[vertex]
        return vertex


def _dominators(predecessors: Sequence[Sequence[int]]) -> Dominators:
    """Compute the dominator tree; `predecessors[v]` contains only lower numbers and is empty only for vertex
    0.

    O(edges log vertices): in topological order the immediate dominator is the lowest common ancestor of the
    predecessors (Cooper, Harvey & Kennedy 2001, without their iteration).
    """
    n = len(predecessors)
    parent, depth, jump = [0] * n, [0] * n, [0] * n
    for v in range(1, n):
        above = predecessors[v]
        first = above[0]
        for other in above[1:]:
            # Bring both to one depth, then climb together until they meet.
            while depth[first] > depth[other]:
                first = jump[first] if depth[jump[first]] >= depth[other] else parent[first]
            while depth[other] > depth[first]:
                other = jump[other] if depth[jump[other]] >= depth[first] else parent[other]
            while first != other:
                if jump[first] != jump[other]:
                    first, other = jump[first], jump[other]
                else:
                    first, other = parent[first], parent[other]
        parent[v] = first
        depth[v] = depth[first] + 1
        # The jump of v skips two equal jumps of its parent, or is the parent.
        leap = jump[first]
        jump[v] = jump[leap] if depth[first] - depth[leap] == depth[leap] - depth[jump[leap]] else first
    return Dominators(parent, depth, jump)


@dataclass(slots=True)
class Block:
    """Item of a sequence that contains other items: a span, parallel branches or spawned branches (`kind`).

    `branches`: several for PARALLEL, one or more for SPAWN, exactly one for SPAN. A branch is a list of
    items: a node is its position >= 0, a reference is `~position` of the join, anything else is a `Block`.
    """

    kind: int
    branches: list[list[Item]]
    start: int = -1
    """Position of the span's start node if the block is a SPAN; else -1."""
    end: int = -1
    """Position of the span's end node if the block is a SPAN; else -1."""


Item = int | Block


@dataclass(frozen=True, slots=True)
class SeriesParallel:
    """Structure of a flow as one sequence of nested items."""

    items: list[Item]
    blocks: list[Block]
    """All blocks in `items`, at any depth, inner blocks before outer ones."""
    referenced: dict[int, int]
    """Position of a join -> number of references to it."""


def decompose(
    n_nodes: int, edges: Sequence[tuple[int, int]], mate: Sequence[int], deferred: Sequence[bool]
) -> SeriesParallel:
    """Decompose the DAG `edges` (pairs of topological positions; node 0 is the only source) into nested
    items.

    mate: [nodes] position of the span's other node, or -1. deferred: [nodes] True if the response does not
    wait for the node; it selects the main branch of a fork whose branches are never joined.
    """
    chains = _find_chains(n_nodes, edges)
    predecessors = list(chains.predecessors)
    references: list[list[int]] = [[] for _ in predecessors]
    dissolved: set[tuple[int, ...]] = set()
    for attempt in range(_MAX_PASSES + 1):
        graph = _with_dummies(chains, predecessors, dissolved)
        regions = _Regions(chains, graph, mate, deferred, references)
        items = regions.run()
        if not regions.failed:
            break
        if attempt == _MAX_PASSES - 1:
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
    return SeriesParallel(items, regions.blocks, count)


@dataclass(slots=True)
class _Strand:
    """Sequence built from a dominator subtree so far: items, last one first, and the join to which it
    leads."""

    items: list[Item]
    exit: int
    """Join to which all open ends lead; _NO_EXIT if they end, _IRREGULAR if they lead to several joins."""
    opens: int
    """Number of open ends of the sequence."""
    leaving: int
    """Number of edges that leave the subtree."""
    ends: list[int]
    """Indices into `items` of span ends whose start is not yet prepended, outermost span first."""
    heads: list[int]
    """Children of the enclosing fork in the dominator tree that this strand includes: one, or several merged
    by a join. Set when the strands of that fork are combined."""


class _Regions:
    """One bottom-up pass over the dominator tree: builds the sequence, or finds joins that do not nest."""

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
        """[chains] positions of the joins for which the edge from the chain's last node was cut."""
        self.has_spans = max(mate) >= 0
        self.tree = _dominators(graph.predecessors)
        self.blocks: list[Block] = []
        self.failed: dict[int, list[int]] = {}
        """Join that does not nest -> predecessors whose edges into it are kept; the other in-edges will be
        cut. Joins and predecessors are vertices until `name_failures` runs, chains afterwards."""

    def run(self) -> list[Item]:
        """Decompose the whole graph into a sequence of items, which is correct iff `failed` is empty
        afterwards."""
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
                # Plain series: the vertex is prepended to its successor's strand.
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
        """Prepend the nodes of a chain, at `positions`, to a strand; a span whose start and end are both in
        it becomes a block."""
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
        """Combine the strands of `fork`'s children into one strand; the caller prepends `fork` itself."""
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
                # These edges end here and no longer leave the subtree; one from the fork itself never did.
                leaving -= len(before) - before.count(fork)
                if sum([s.opens for s in arriving]) == len(before):
                    self._join(arriving, strand)
                else:
                    # Only the first failure counts: the nodes behind it are judged correctly in the next
                    # pass.
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
        # Regular: all open ends lead to one join, not both through branches and past them.
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
        """Prepend a parallel block of the strands `arriving`, which all lead to the first node of
        `strand`."""
        strand.heads.extend(head for s in arriving for head in s.heads)
        strand.items.append(self._block(PARALLEL, arriving))

    def _arrange(self, fork: int, going: list[_Strand], closed: list[_Strand], *, continues: bool) -> _Strand:
        """Combine the branches of `fork` that no join has merged into one strand, which does not include
        `fork`.

        going: branches that lead to a join further down. closed: branches that end. continues: True if any
        edge leaves the subtree of `fork`.
        """
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
        """Main branch among branches that are never joined: the branch with the end of the span `fork`
        starts, else the only branch for which the response waits; None if there is no such branch."""
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
        """Record in `failed` which in-edges of `join`, which does not nest, are kept: those of regular
        strands; the first in-edge if no strand is regular."""
        predecessors = self.graph.predecessors[join]
        regular = {head for s in arriving for head in s.heads}
        kept = [src for src in predecessors if src != fork and self.tree.child_towards(fork, src) in regular]
        self.failed[join] = kept if 0 < len(kept) < len(predecessors) else predecessors[:1]

    def name_failures(self, dissolved: set[tuple[int, ...]]) -> None:
        """Convert `failed` from vertices to chains; a failed dummy vertex is added to `dissolved` instead."""
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
