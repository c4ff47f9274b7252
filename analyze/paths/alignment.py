"""Align the steps of two paths (graphs of requests), and recognise equal differences (NSDI §9.3).

Steps are aligned by name, along a longest common subsequence. The signature of a *move*, of requests from one
path to another, consists of the last common step before the first difference, and the distinct inserted and
removed steps. So `write` calls that now go to another host are one change, in any number of categories and
iterations.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from rapidfuzz.distance import LCSseq

from analyze.population import Graph, GraphNode
from schemas.arrays import B1
from stitch.graph.placed import END

Pair = tuple[int | None, int | None]


def align(
    left: Sequence[Hashable],
    right: Sequence[Hashable],
    loose_left: Sequence[Hashable],
    loose_right: Sequence[Hashable],
) -> list[Pair]:
    """Pair the indices of two sequences, each exactly once and ascending on either side; None for no
    counterpart.

    First a longest common subsequence of `left` and `right` is paired. Within each gap between two pairs, a
    longest common subsequence of the names without component (`loose_left`, `loose_right`) pairs replaced
    steps. O(n·m / 64).

        >>> align(["a", "x/w", "y"], ["a", "z/w", "q"], ["a", "w", "y"], ["a", "w", "q"])
        [(0, 0), (1, 1), (2, None), (None, 2)]
    """
    pairs: list[Pair] = []
    at_left = at_right = 0
    for i, j in [*_common(left, right), (len(left), len(right))]:
        inner = _common(loose_left[at_left:i], loose_right[at_right:j])
        for a, b in [*((at_left + a, at_right + b) for a, b in inner), (i, j)]:
            pairs += [(k, None) for k in range(at_left, a)]
            pairs += [(None, k) for k in range(at_right, b)]
            pairs.append((a, b))
            at_left, at_right = a + 1, b + 1
    return pairs[:-1]


def _common(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Index pairs (i, j) of a longest common subsequence, ascending."""
    gone, new = set(), set()
    for edit in LCSseq.editops(left, right):
        if edit.tag == "delete":
            gone.add(edit.src_pos)
        else:
            new.add(edit.dest_pos)
    kept = (i for i in range(len(left)) if i not in gone)
    return list(zip(kept, (j for j in range(len(right)) if j not in new), strict=True))


class SignatureKind(StrEnum):
    """Kind of difference between the steps of two paths."""

    REPLACED = "replaced"
    """The same operations are run by another component (or on another host, if labels include hosts)."""
    INSERTED = "inserted"
    REMOVED = "removed"
    OTHER_STEPS = "other-steps"
    """Steps were replaced by steps with other operations."""
    REPEATS = "repeats"
    """The same distinct steps, repeated more or less often."""
    ORDER = "order"
    """The same steps in equal numbers, in another order or waiting for other steps."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Difference between two paths by names of steps only: without ends of spans, and each repeated step
    once."""

    move: SignatureKind
    anchor: GraphNode | None
    """Last common step before the first difference; None if the paths differ from the root on."""
    replaced: tuple[tuple[GraphNode, GraphNode], ...]
    """Pairs (step before, step after) of replaced steps, in order of occurrence."""
    inserted: tuple[GraphNode, ...]
    """Steps that only the path after the change has, outermost first."""
    removed: tuple[GraphNode, ...]
    """Steps that only the path before the change has, outermost first."""

    @property
    def key(self) -> tuple[object, ...]:
        """Key that is equal for signatures that count as the same change, whatever the order of the steps.

        Replaced steps count as the same change wherever they occur, other differences only after the same
        `anchor`.
        """
        return (
            self.move,
            None if self.move is SignatureKind.REPLACED else self.anchor,
            frozenset(self.replaced),
            frozenset(self.inserted),
            frozenset(self.removed),
        )

    @property
    def _steps(self) -> frozenset[tuple[bool, GraphNode]]:
        """Set of (True if the step is on the path after the change, differing step); empty if only repeats or
        order differ."""
        if self.move in (SignatureKind.REPEATS, SignatureKind.ORDER):
            return frozenset()
        new = [*self.inserted, *(after for _, after in self.replaced)]
        old = [*self.removed, *(before for before, _ in self.replaced)]
        return frozenset([*((True, step) for step in new), *((False, step) for step in old)])

    def alike(self, other: Signature) -> float:
        """Jaccard index of the sets of differing steps of two signatures, in [0, 1]; 0 if both are empty."""
        mine, theirs = self._steps, other._steps
        return len(mine & theirs) / len(mine | theirs) if mine or theirs else 0.0


def aligned_steps(before: Graph, after: Graph) -> list[Pair]:
    """Pair the nodes of two graphs: each node is in exactly one pair, with None if it has no counterpart."""

    def loose(graph: Graph) -> list[tuple[str, str | None, int]]:
        return [(node.point, node.label, node.side) for node in graph.nodes]

    return align(before.nodes, after.nodes, loose(before), loose(after))


def signature(before: Graph, after: Graph, pairs: Sequence[Pair]) -> Signature:
    """Signature of the difference between the graphs `before` and `after`. pairs: `aligned_steps` of both."""
    known, new = {_plain(n) for n in before.nodes}, {_plain(n) for n in after.nodes}
    anchor: GraphNode | None = None
    differs = False
    replaced: dict[tuple[GraphNode, GraphNode], None] = {}
    inserted: dict[GraphNode, None] = {}
    removed: dict[GraphNode, None] = {}
    repeats: dict[GraphNode, None] = {}
    for i, j in pairs:
        old = None if i is None else _plain(before.nodes[i])
        fresh = None if j is None else _plain(after.nodes[j])
        if old == fresh:
            anchor = anchor if differs else old
            continue
        side = before.nodes[i].side if i is not None else after.nodes[j or 0].side
        differs = True
        if side == END and (old is None or fresh is None):
            continue  # already counted at the span's start
        if old is not None and fresh is not None:
            replaced[old, fresh] = None
        elif fresh is not None:
            (repeats if fresh in known else inserted)[fresh] = None
        elif old is not None:
            (repeats if old in new else removed)[old] = None
    for old, fresh in replaced:
        # Work replaced by another component's in this move is neither inserted nor removed.
        inserted.pop(fresh, None)
        removed.pop(old, None)
    if replaced and (inserted or removed):
        # Other steps changed, too: a name that occurs on both sides is then a coincidence.
        removed = dict.fromkeys([old for old, _ in replaced] + list(removed))
        inserted = dict.fromkeys([fresh for _, fresh in replaced] + list(inserted))
        replaced = {}
    return Signature(
        _move(bool(replaced), bool(inserted), bool(removed), bool(repeats)),
        anchor,
        tuple(replaced),
        tuple(inserted) or (tuple(repeats) if not replaced and not removed else ()),
        tuple(removed),
    )


def _plain(node: GraphNode) -> GraphNode:
    """Copy of a node without START or END, so that the start and the end of a span are equal."""
    return GraphNode(node.component, node.point, node.label, node.host)


def _move(replaced: bool, inserted: bool, removed: bool, repeats: bool) -> SignatureKind:
    if replaced:
        return SignatureKind.REPLACED
    if inserted and removed:
        return SignatureKind.OTHER_STEPS
    if inserted or removed:
        return SignatureKind.INSERTED if inserted else SignatureKind.REMOVED
    return SignatureKind.REPEATS if repeats else SignatureKind.ORDER


@dataclass(frozen=True, slots=True)
class DifferenceLine:
    """Line of a displayed difference between two graphs: a pair of steps, or several collapsed steps."""

    before: int | None
    """Index of the node in the graph before; None for an inserted step, or for collapsed steps."""
    after: int | None
    """Index of the node in the graph after; None for a removed step, or for collapsed steps."""
    steps: int = 1
    """Number of steps in the line; more than one only for collapsed steps."""
    differing: int = 0
    """Number of differing steps among the collapsed steps."""


def difference_lines(before: Graph, after: Graph, pairs: Sequence[Pair], most: int) -> list[DifferenceLine]:
    """Lines for the difference of two graphs, in order: at most about `most` lines.

    Shown are the differing steps and the steps one edge away from a differing step in either graph; all other
    steps are collapsed into lines with the number of steps. If more steps differ than fit, the first ones are
    shown. pairs: `aligned_steps` of the graphs. O(steps + edges).
    """
    differs = np.array([_differs(before, after, pair) for pair in pairs], np.bool_)
    shown = differs | _beside(before, pairs, 0, differs) | _beside(after, pairs, 1, differs)
    shown[0] = True  # the root names the path
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
    """bool[pairs]: True for steps with an edge in `graph` to or from a differing step. side: index of the
    graph in a pair; differs: bool[pairs]."""
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
