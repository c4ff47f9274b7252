"""Nodes and edges of all stored structures in flat arrays, so that one operation serves all structures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from analyze.numbering import Numbering
from analyze.refine.stored import Operation
from schemas.arrays import B1, I8
from stitch.columnar.runs import offsets
from stitch.graph.template import Template


@dataclass(frozen=True, slots=True)
class StructureNodes:
    """Columns of the templates of structures, one structure after another."""

    first: I8
    """[structures + 1] index of each structure's first node; last: the number of nodes."""
    name: I8
    """[nodes] index into `names`."""
    component: I8
    """[nodes] index into `components`."""
    side: I8
    """[nodes] POINT, START or END."""
    kind: I8
    """[nodes] `EventKind` of the event behind the node."""
    mate: I8
    """[nodes] node of the span's other side; -1 for none."""
    parent: I8
    """[nodes] node at which the parent span starts; -1 for none."""
    deferred: B1
    """[nodes] True if the response does not wait for the node."""
    first_edge: I8
    """[structures + 1] index of each structure's first edge; last: the number of edges."""
    src: I8
    """[edges] node from which the edge leads."""
    dst: I8
    """[edges] node to which the edge leads."""
    response: B1
    """[nodes] True if the response may leave at the node."""
    names: tuple[Operation, ...]
    components: tuple[str, ...]

    @staticmethod
    def of(templates: Sequence[Template]) -> StructureNodes:
        """Concatenate the columns of templates. O(nodes + edges)."""
        first = offsets(np.array([one.n_nodes for one in templates], np.int64))
        n_nodes = int(first[-1])

        def column(lists: Iterable[Iterable[int]], n: int = n_nodes) -> I8:
            return np.fromiter(chain.from_iterable(lists), np.int64, n)

        def node(positions: I8, first_of: I8) -> I8:
            return np.where(positions < 0, -1, positions + first_of)

        names, components = Numbering[Operation](), Numbering[str]()
        name = np.fromiter(
            (
                names[Operation(*words)]
                for one in templates
                for words in zip(one.component, one.point, one.label, strict=True)
            ),
            np.int64,
            n_nodes,
        )
        component_of = np.array([components[one.component] for one in names], dtype=np.int64)
        first_edge = offsets(np.array([len(one.edges) for one in templates], np.int64))
        n_edges = int(first_edge[-1])
        ends = column(chain.from_iterable(one.edges for one in templates), 2 * n_edges).reshape(-1, 2)
        of_node, of_edge = (np.repeat(first[:-1], np.diff(of)) for of in (first, first_edge))
        n_responses = np.array([len(one.responses) for one in templates], np.int64)
        response = np.zeros(n_nodes, dtype=np.bool_)
        at = column((one.responses for one in templates), int(n_responses.sum()))
        response[at + np.repeat(first[:-1], n_responses)] = True
        return StructureNodes(
            first=first,
            name=name,
            component=component_of[name],
            side=column(one.side for one in templates),
            kind=column(one.kind for one in templates),
            mate=node(column(one.mate for one in templates), of_node),
            parent=node(column(one.parent for one in templates), of_node),
            deferred=column(one.deferred for one in templates) > 0,
            first_edge=first_edge,
            src=ends[:, 0] + of_edge,
            dst=ends[:, 1] + of_edge,
            response=response,
            names=tuple(names),
            components=tuple(components),
        )

    @property
    def n_structures(self) -> int:
        """Number of structures."""
        return len(self.first) - 1

    @property
    def structure(self) -> I8:
        """[nodes] structure that the node belongs to."""
        return np.repeat(np.arange(self.n_structures), np.diff(self.first))
