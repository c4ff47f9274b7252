"""The DAG as the decomposition sees it: a vertex a chain, dummies between joins, the dominator tree.

A chain is a longest run of nodes of which each is the only way out of the one before and the only way into
the next. Of 30 records of a request some 12 chains remain, and whatever a pass does, it does once a chain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chains:
    """Chains numbered by their first positions, which is a topological order."""

    positions: list[list[int]]
    """[chains] positions of the nodes, in order."""
    of_node: list[int]
    """[nodes] chain."""
    predecessors: list[list[int]]
    """[chains] chains that its first node hangs on, in the order of the edges."""


def find_chains(n_nodes: int, edges: Sequence[tuple[int, int]]) -> Chains:
    """Chains of a DAG in topological positions. O(nodes + edges)."""
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
    """Chains and dummies as vertices, numbered in a topological order."""

    chain: list[int]
    """[vertices] chain; -1 for a dummy."""
    vertex: list[int]
    """[chains] vertex."""
    predecessors: list[list[int]]
    successors: list[list[int]]
    bottom_up: list[int]
    """Vertices by their last positions, descending; a dummy comes after the first join it stands before."""


def with_dummies(
    chains: Chains, predecessors: list[list[int]], dissolved: set[tuple[int, ...]]
) -> ChainGraph:
    """Tie joins with equal predecessors to one dummy, before the first of them, but for the `dissolved`.

    predecessors: [chains] the ones that are left of `chains.predecessors`.
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
    """Immediate dominators, with skew-binary jump pointers (Myers 1983) for O(log n) ancestor questions."""

    parent: list[int]
    """Immediate dominator, which every path from the root must pass; 0 for the root, vertex 0."""
    depth: list[int]
    jump: list[int]

    def child_towards(self, ancestor: int, vertex: int) -> int:
        """The child of `ancestor` in the dominator tree that is `vertex` or lies above it."""
        depth, jump, parent = self.depth, self.jump, self.parent
        wanted = depth[ancestor] + 1
        while depth[vertex] > wanted:
            vertex = jump[vertex] if depth[jump[vertex]] >= wanted else parent[vertex]
        return vertex


def dominators(predecessors: Sequence[Sequence[int]]) -> Dominators:
    """Dominator tree; `predecessors[v]` holds lower numbers only and is empty for vertex 0 alone.

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
