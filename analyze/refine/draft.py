"""A draft: one refined graph before it is canonical, with the requests that take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from analyze.population import GraphNode
from analyze.refine.stored import StoredCategory, StoredStructure
from schemas.arrays import I8
from stitch.columnar.mixing import mix

Columns = npt.NDArray[np.unsignedinteger[Any]]
"""Numbers of stored columns, in the smallest type that holds them."""


class Node(NamedTuple):
    """One node of a draft. A tuple, because tens of thousands are made in a comparison."""

    label: GraphNode
    """What the node is called."""
    name: str
    """The same as text for hashing, worked out once: equal iff the labels are, whatever is in their parts."""
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
    return Node(label, _name(label), mate, deferred, column, within)


def _name(label: GraphNode) -> str:
    # The lengths say where each part ends, so no part can pass for two.
    component, point, word, host, side = label
    if word is None:
        return f"{side} {len(host)} {len(component)} {len(point)} {host}{component}{point}"
    return f"{side} {len(host)} {len(component)} {len(point)} {len(word)} {host}{component}{point}{word}"


class LeftOut(NamedTuple):
    """A child that was left out of the graph."""

    column: int
    """Stored column of the start of the span that started it."""
    operation: str
    """`component/point[/label]`."""


def own_columns(n_columns: int, n_rows: int) -> Columns:
    """[columns, rows] every column's own number, to be moved with its times."""
    numbers: Columns = np.arange(n_columns).astype(np.min_scalar_type(n_columns))
    return np.repeat(numbers[:, None], n_rows, axis=1)


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
    moved: Columns | None = None
    """[stored nodes, rows] stored column whose time stands here, where branches were sorted; None: its own.
    Hosts and failures are not moved: `attached` looks them up by this."""
    nested: bool = False
    """Nodes are sides of spans and points inside them, so that `within` and `mate` tell the nesting."""
    left_out: tuple[LeftOut, ...] = ()
    """Children that nobody waits for and that are not among the nodes."""
    shift: I8 | None = None
    """[stored nodes, rows] what the skew correction added, ns; None: nothing."""
    as_stored: bool = False
    """Nodes, edges and labels are those of the stored structure: its text serves."""
    twins_by_row: bool = False
    """Interchangeable branches may start in another order than their columns stand: look at every row."""


def equal_rows(matrix: npt.NDArray[np.signedinteger]) -> tuple[I8, I8]:
    """Group the rows of `matrix` [rows, columns].

    Returns (first row of each group [groups], group of each row [rows]); groups are numbered by the
    lexicographic order of their contents, so the numbering does not depend on the order of rows. Exact: a
    hash finds the groups, a comparison confirms them. O(rows · columns + rows log rows).
    """
    rows = len(matrix)
    if rows == 0 or matrix.shape[1] == 0 or bool((matrix == matrix[:1]).all()):
        return np.zeros(min(rows, 1), dtype=np.int64), np.zeros(rows, dtype=np.int64)
    digest = np.zeros(rows, dtype=np.uint64)
    for column in range(matrix.shape[1]):
        digest = mix(digest ^ matrix[:, column].astype(np.int64).view(np.uint64))
    _, first, inverse = np.unique(digest, return_index=True, return_inverse=True)
    if not np.array_equal(matrix[first][inverse], matrix):
        _, first, inverse = np.unique(matrix, axis=0, return_index=True, return_inverse=True)
    order = np.lexsort(matrix[first].T[::-1])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return first[order].astype(np.int64), rank[inverse.reshape(-1)]
