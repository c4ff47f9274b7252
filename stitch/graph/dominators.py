"""Dominator tree of a DAG in topological numbering: which node every path from the root must pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dominators:
    """Immediate dominators, with skew-binary jump pointers (Myers 1983) for O(log n) ancestor questions."""

    parent: list[int]
    """Immediate dominator; 0 for the root, node 0."""
    depth: list[int]
    jump: list[int]

    def child_towards(self, ancestor: int, node: int) -> int:
        """The child of `ancestor` in the dominator tree that is `node` or lies above it."""
        depth, jump, parent = self.depth, self.jump, self.parent
        wanted = depth[ancestor] + 1
        while depth[node] > wanted:
            node = jump[node] if depth[jump[node]] >= wanted else parent[node]
        return node


def dominators(predecessors: Sequence[Sequence[int]]) -> Dominators:
    """Dominator tree; `predecessors[v]` holds lower numbers only and is empty for node 0 alone.

    O(edges log nodes): in topological order the immediate dominator is the lowest common ancestor of the
    predecessors (Cooper, Harvey & Kennedy 2001, without their iteration).
    """
    n = len(predecessors)
    parent, depth, jump = [0] * n, [0] * n, [0] * n
    for v in range(1, n):
        first, *others = predecessors[v]
        for other in others:
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
        leap = jump[first]
        jump[v] = jump[leap] if depth[first] - depth[leap] == depth[leap] - depth[jump[leap]] else first
    return Dominators(parent, depth, jump)
