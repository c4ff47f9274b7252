"""A draft: one refined graph before it is canonical, with the requests that take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from analyze.population import GraphNode
from analyze.refine.stored import StoredCategory, StoredStructure

I8 = npt.NDArray[np.int64]


class Node(NamedTuple):
    """One node of a draft. A tuple, because tens of thousands are made in a comparison."""

    label: GraphNode
    """What the node is called."""
    text: str
    """Its display text, worked out once."""
    mate: int
    """Node of the other side of the span; -1 for points."""
    deferred: bool
    column: int
    """Column of the stored matrix that holds its time."""
    within: tuple[int, int]
    """Nodes whose times bound this one's, the parent's start and end; -1: bounded by the request only."""


def make_node(
    structure: StoredStructure,
    column: int,
    *,
    host: str,
    side: int,
    mate: int,
    deferred: bool,
    within: tuple[int, int],
) -> Node:
    """The node of a stored column."""
    label = GraphNode(
        structure.component[column], structure.point[column], structure.label[column], host, side
    )
    return Node(label, label.text, mate, deferred, column, within)


@dataclass(frozen=True, slots=True)
class Draft:
    """A labelled DAG in some topological order, and the rows that take it."""

    category: StoredCategory
    rows: I8
    """Rows of the stored category, ascending."""
    times: I8
    """[stored nodes, rows] skew-corrected times; interchangeable branches in order of start."""
    nodes: tuple[Node, ...]
    """Topological order; node 0 is the root."""
    edges: tuple[tuple[int, int], ...]
    """(src, dst) nodes; may hold edges implied by others."""
    responses: tuple[int, ...]
    shift: I8 | None = None
    """[stored nodes, rows] what the skew correction added, ns; None: nothing."""
    as_stored: bool = False
    """Nodes, edges and labels are those of the stored structure: its text serves."""
    twins_by_row: bool = False
    """Interchangeable branches may start in another order than their columns stand: look at every row."""
