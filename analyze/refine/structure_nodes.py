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
from stitch.graph.placed import START
from stitch.graph.template import Template


@dataclass(frozen=True, slots=True)
class StructureNodes:
    """Nodes and edges of many structures in flat arrays, concatenated in the order of the structures."""

    first: I8
    """int64[structures + 1]: index of each structure's first node; the last entry is the number of nodes."""
    structure: I8
    """int64[nodes]: number of the structure that the node belongs to."""
    column: I8
    """int64[nodes]: row of `StoredCategory.node_ns` with the node's times."""
    name: I8
    """int64[nodes]: index into `names` of the node's operation."""
    host: I8
    """int64[nodes]: index into `HostLabels.words` of the host in the node's label; 0 if it has none."""
    component: I8
    """int64[nodes]: index into `components` of the node's component."""
    side: I8
    """int64[nodes]: POINT, START or END (of a span)."""
    kind: I8
    """int64[nodes]: `EventKind` of the event that the node stands for."""
    mate: I8
    """int64[nodes]: for a span's start, the node of its end, and vice versa; -1 for a point."""
    parent: I8
    """int64[nodes]: node at which the parent span starts, the lower bound of the node's time; -1 if there is
    no parent."""
    parent_end: I8
    """int64[nodes]: node at which the parent span ends, the upper bound of the node's time; -1 if there is no
    parent, or it does not wait for the node: the bound is the request's response."""
    kept: B1
    """bool[nodes]: True if the node is in the refined graph."""
    deferred: B1
    """bool[nodes]: True if the response does not wait for the node."""
    first_edge: I8
    """int64[structures + 1]: index of each structure's first edge; the last entry is the number of edges."""
    src: I8
    """int64[edges]: node at which the edge begins."""
    dst: I8
    """int64[edges]: node at which the edge ends."""
    response: B1
    """bool[nodes]: True if the request's response may be sent at this node."""
    names: tuple[Operation, ...]
    components: tuple[str, ...]

    @staticmethod
    def of(templates: Sequence[Template], host: I8 | None = None) -> StructureNodes:
        """Concatenate the nodes and edges of templates; structure i is `templates[i]`. O(nodes + edges).

        host: int64[nodes], host in each node's label; None: in none."""
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
        mate, parent = (
            node(column(getattr(one, of) for one in templates), of_node) for of in ("mate", "parent")
        )
        return StructureNodes(
            first=first,
            structure=np.repeat(np.arange(len(templates)), np.diff(first)),
            column=np.arange(n_nodes) - of_node,
            name=name,
            host=np.zeros(n_nodes, dtype=np.int64) if host is None else host,
            component=component_of[name],
            side=column(one.side for one in templates),
            kind=column(one.kind for one in templates),
            mate=mate,
            parent=parent,
            parent_end=np.where(parent < 0, -1, mate[parent]),
            kept=np.ones(n_nodes, dtype=np.bool_),
            deferred=column(one.deferred for one in templates) > 0,
            first_edge=first_edge,
            src=ends[:, 0] + of_edge,
            dst=ends[:, 1] + of_edge,
            response=response,
            names=tuple(names),
            components=tuple(components),
        )

    @property
    def of_spans(self) -> B1:
        """bool[structures]: True if the nodes are starts and ends of spans and points inside spans; False for
        activity records, which are not nested."""
        of_spans: B1 = self.side[self.first[:-1]] == START
        return of_spans

    @property
    def n_structures(self) -> int:
        """Number of structures."""
        return len(self.first) - 1
