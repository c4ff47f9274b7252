"""What is said about a structure to whoever reads it: texts of levels L0 to L2, folding of loops.

Once a distinct structure, never once a flow (ALGORITHMS A.3, A.4); its key is made where it is stored
(`stitch.structures`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stitch.graph.folding import LoopRow, fold_levels
from stitch.graph.pieces import Word
from stitch.graph.series_parallel import decompose
from stitch.graph.text import write_text


@dataclass(frozen=True, slots=True)
class Reading:
    """A graph as text and folded. Field names are columns of `STRUCTURES_SCHEMA`."""

    canonical: str
    category_l1: str
    canonical_l1: str
    category_l2: str
    canonical_l2: str
    fold_position: tuple[int, ...]
    """Folded position at L1 of each node: rank of its word in the L1 text."""
    loops: tuple[LoopRow, ...]
    """Loops folded at L1, an outer one before those inside it; an inner one once for each time it runs."""


def read_graph(
    edges: Sequence[tuple[int, int]], mate: Sequence[int], deferred: Sequence[bool], words: list[Word]
) -> Reading:
    """Texts and folding of a graph of `words` [nodes] in topological positions. Linear, 7 to 10 µs a node."""
    n_nodes = len(words)
    tree = decompose(n_nodes, edges, mate, deferred)
    l0, l1, l2 = fold_levels(tree, words)
    canonical = write_text(l0.pieces, 0, n_nodes)
    canonical_l1 = canonical if l1.pieces is l0.pieces else write_text(l1.pieces, 1, n_nodes)
    canonical_l2 = canonical_l1 if l2.pieces is l1.pieces else write_text(l2.pieces, 2, n_nodes)
    if l1.pieces is l0.pieces and len(canonical.order) == n_nodes:
        # Nothing is folded and nothing cut off: every node stands at its place in the text.
        place = [0] * n_nodes
        for at, node in enumerate(canonical.order):
            place[node] = at
        fold_position: tuple[int, ...] = tuple(place)
        loops: tuple[LoopRow, ...] = ()
    else:
        fold_position, loops = l1.positions(n_nodes)
    return Reading(
        canonical=canonical.text,
        category_l1=l1.key,
        canonical_l1=canonical_l1.text,
        category_l2=l2.key,
        canonical_l2=canonical_l2.text,
        fold_position=fold_position,
        loops=loops,
    )
