"""Attention focusing: the component that P hangs on, its score, its chain (DIST Algorithm 1; G.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.distalyze.dependency_network import Network
from schemas.arrays import F8, I8

NOTABLE: Final = 0.1
"""Part of the component's largest |t| that the beginning of its chain has at least."""
NO_PARENT: Final = -1


@dataclass(frozen=True, slots=True)
class Component:
    """What is connected with P; arrays are [members]."""

    node: I8
    """Nodes of the network, P first, then as the tree was walked."""
    parent: I8
    """Place of the node's parent in the maximum spanning tree; NO_PARENT for P."""
    weight: F8
    """Of the edge to the parent; 0 for P."""
    score: float

    def chain(self, when_us: F8, divergence: F8) -> tuple[int, ...]:
        """Places from P to where it began: the earliest member that diverges notably.

        when_us, divergence: [members]; P's are not looked at. Empty where nothing diverges.
        """
        others = np.arange(1, len(self.node))
        largest = divergence[others].max(initial=0.0)
        notable = others[(divergence[others] >= NOTABLE * largest) & (divergence[others] > 0)]
        notable = notable[~np.isnan(when_us[notable])]
        if not len(notable):
            return ()
        place = int(notable[np.lexsort((-divergence[notable], when_us[notable]))[0]])
        steps = [place]
        while self.parent[steps[-1]] != NO_PARENT:
            steps.append(int(self.parent[steps[-1]]))
        return tuple(reversed(steps))


def component_of(network: Network, divergence: F8, alpha: float, *, by_size: bool = False) -> Component:
    """The connected component of P, along its maximum spanning tree rooted at P, scored.

    divergence: [nodes] normalised |t|, 0 where it is not significant or the variable is trivial. Score: sum
    over nodes but P of divergence^(2 alpha) · weight^(2 (1 - alpha)), with the weight of the edge to the
    parent. Deterministic.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    # The library looks for the smallest sum; an absent edge is 0 there, so weights (0, 1] become [1, 2).
    cost = csr_matrix(np.where(network.weight > 0, 2.0 - network.weight, 0.0))
    tree = minimum_spanning_tree(cost)
    order, before = breadth_first_order(tree, network.performance, directed=False)
    place = np.full(len(network.weight), NO_PARENT, np.int64)
    place[order] = np.arange(len(order))
    parent = np.array(
        [NO_PARENT if i == network.performance else place[before[i]] for i in order.tolist()], np.int64
    )
    weight = np.zeros(len(order))
    weight[1:] = network.weight[order[1:], before[order[1:]]]
    parts = divergence[order[1:]] ** (2 * alpha) * weight[1:] ** (2 * (1 - alpha))
    # Whatever alpha is, what does not diverge adds nothing.
    score = float(parts[divergence[order[1:]] > 0].sum())
    if by_size and len(order) > 1:
        score /= float(np.sqrt(len(order) - 1))
    return Component(order.astype(np.int64), parent, weight, score)
