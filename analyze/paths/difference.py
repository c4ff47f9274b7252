"""Where two large graphs differ: differing steps in their context, the rest counted (NSDI §9.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyze.paths.alignment import Pair
from analyze.population import Graph
from schemas.arrays import B1


@dataclass(frozen=True, slots=True)
class DifferenceLine:
    """One step, or a run of steps that are alike."""

    before: int | None
    """Position in the graph before; None: only after, or a run."""
    after: int | None
    steps: int = 1
    """More than 1, or no position: a run of steps that both have, collapsed."""
    differing: int = 0
    """Of the steps of a run that was cut: how many differ."""


def difference_lines(before: Graph, after: Graph, pairs: Sequence[Pair], most: int) -> list[DifferenceLine]:
    """Differing steps, and steps an edge away from one in either graph, in order; at most about `most` lines.

    Everything else is collapsed into runs with their number. Where there are more differing steps than fit,
    the first are shown. O(steps + edges).
    """
    differs = np.array([_differs(before, after, pair) for pair in pairs], np.bool_)
    shown = differs | _beside(before, pairs, 0, differs) | _beside(after, pairs, 1, differs)
    shown[0] = True  # the root says whose path it is
    lines: list[DifferenceLine] = []
    run = odd = 0
    for k, (i, j) in enumerate(pairs):
        if shown[k] and len(lines) < most:
            lines += _run(run, odd)
            run = odd = 0
            lines.append(DifferenceLine(i, j))
        else:
            run, odd = run + 1, odd + int(differs[k])
    return lines + _run(run, odd)


def _differs(before: Graph, after: Graph, pair: Pair) -> bool:
    i, j = pair
    return i is None or j is None or before.nodes[i] != after.nodes[j]


def _run(steps: int, differing: int) -> list[DifferenceLine]:
    return [DifferenceLine(None, None, steps, differing)] if steps else []


def _beside(graph: Graph, pairs: Sequence[Pair], side: int, differs: B1) -> B1:
    """[pairs] whether a step has an edge to or from a differing one of this graph."""
    place = np.zeros(graph.n_nodes, np.int64)
    for k, pair in enumerate(pairs):
        node = pair[side]
        if node is not None:
            place[node] = k
    near = np.zeros(len(pairs), np.bool_)
    src, dst = place[graph.edges[:, 0]], place[graph.edges[:, 1]]
    near[src[differs[dst]]] = True
    near[dst[differs[src]]] = True
    return near
