"""Restore the trees of spans from stored structures, for sibling order, asynchrony and nesting.

A *unit* is a span or a point event inside a span. A span has two nodes of the stored structure, start and
end; a point has one, which is both its start and its end. Units of all structures are numbered consecutively,
by structure and then by the node of their start, so that a parent precedes its children. Structures of
activity records have no units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from analyze.refine.structure_nodes import StructureNodes
from schemas.arrays import B1, I8
from schemas.events import EventKind
from stitch.columnar.runs import offsets, ranges, tree_levels
from stitch.graph.placed import END, POINT

_REMOTE = (EventKind.SPAN_SERVER, EventKind.SPAN_CLIENT, EventKind.SPAN_PRODUCER, EventKind.SPAN_CONSUMER)
_UNKNOWN = (EventKind.SPAN_UNSPECIFIED, EventKind.SPAN_INTERNAL)


@dataclass(frozen=True)
class SpanTrees:
    """Trees of spans of all structures. A *unit* is a span or a point event inside a span; the first unit of
    a structure is the root span."""

    nodes: StructureNodes
    """Nodes of the structures that the trees were restored from."""
    n_structures: int
    """Number of structures, including structures of activity records, which have no units."""
    structure: I8
    """int64[units]: number of the structure that the span or point belongs to, ascending."""
    node: I8
    """int64[units]: index in `nodes` of the span's start or of the point."""
    end_node: I8
    """int64[units]: index in `nodes` of the span's end; for a point as `node`."""
    parent: I8
    """int64[units]: index (unit) of the parent span; -1 for a root."""
    awaited: B1
    """bool[units]: True if the end of the parent waits for the span or point; always True for a root."""

    @staticmethod
    def of(nodes: StructureNodes) -> SpanTrees:
        """Find the units of structures of spans. O(nodes + edges log edges)."""
        at = np.flatnonzero((nodes.side != END) & nodes.of_spans[nodes.structure])
        structure, above = nodes.structure[at], nodes.parent[at]
        unit = np.full(len(nodes.side) + 1, -1)  # the last entry is that of no node, -1
        unit[at] = np.arange(len(at))
        end = np.where(nodes.side[at] == POINT, at, nodes.mate[at])
        # Siblings are unordered in a stored structure: an awaited child has its own edge to its parent's end.
        n = len(nodes.side)
        joins = np.isin(end * n + nodes.mate[above], nodes.src * n + nodes.dst)
        return SpanTrees(nodes, nodes.n_structures, structure, at, end, unit[above], joins | (above < 0))

    @cached_property
    def start(self) -> I8:
        """int64[units]: node of the span's start or of the point, counted from 0 in its structure."""
        return self.nodes.column[self.node]

    @cached_property
    def end(self) -> I8:
        """int64[units]: node of the span's end, counted from 0 in its structure; for a point as `start`."""
        return self.nodes.column[self.end_node]

    @property
    def operation(self) -> I8:
        """int64[units]: index into `nodes.names` of the operation of the span or point."""
        return self.nodes.name[self.node]

    @property
    def component(self) -> I8:
        """int64[units]: index into `nodes.components` of the component of the span or point."""
        return self.nodes.component[self.node]

    @property
    def is_span(self) -> B1:
        """bool[units]: True for a span, False for a point."""
        spans: B1 = self.node != self.end_node
        return spans

    @cached_property
    def first(self) -> I8:
        """int64[structures + 1]: index of each structure's first unit (span or point); the last entry is the
        number of units."""
        return offsets(np.bincount(self.structure, minlength=self.n_structures))

    def units(self, structure: int) -> slice:
        """Range of the units (spans and points) of structure number `structure`; empty for activity
        records."""
        return slice(*self.first[structure : structure + 2].tolist())

    @cached_property
    def levels(self) -> tuple[I8, ...]:
        """Units (spans and points) by depth in their tree: [0] all roots, [1] all children of roots, …"""
        return tuple(tree_levels(self.parent))

    @cached_property
    def deferred(self) -> B1:
        """bool[units]: True if the span or point, or one of its ancestors, is not awaited by its parent."""
        found = ~self.awaited
        for level in self.levels[1:]:
            found[level] |= found[self.parent[level]]
        return found

    @cached_property
    def is_remote_call(self) -> B1:
        """bool[units]: True if the span is the server side of a remote call whose client side is its parent.

        Such a span is awaited and must lie within its parent. The parent is a CLIENT span, or a span of kind
        UNSPECIFIED or INTERNAL whose only child is this span, in another component.
        """
        above, kind, component = self.parent, self.nodes.kind[self.node], self.component
        n_children = np.bincount(above[above >= 0], minlength=len(above))
        alone = np.isin(kind, _UNKNOWN) & (n_children == 1)
        calls = (kind[above] == EventKind.SPAN_CLIENT) | (alone[above] & (component[above] != component))
        remote: B1 = (above >= 0) & self.awaited & self.is_span & calls
        return remote

    def taken(self, structures: I8) -> SpanTrees:
        """Copies of the trees of chosen structures. Copy i, of `structures[i]`, has structure number i.

        structures: int64[n] structure numbers, which may repeat."""
        n = self.first[structures + 1] - self.first[structures]
        copied = ranges(self.first[structures], n)
        shift = np.repeat(np.cumsum(n) - n - self.first[structures], n)
        above = self.parent[copied]
        return SpanTrees(
            self.nodes,
            len(structures),
            np.repeat(np.arange(len(structures)), n),
            self.node[copied],
            self.end_node[copied],
            np.where(above < 0, -1, above + shift),
            self.awaited[copied],
        )

    def kept(self, keep: B1) -> SpanTrees:
        """Remove units where `keep` is False; their children become children of the nearest kept ancestor.

        Such a child is awaited if it and every removed unit between it and the ancestor are awaited. Roots
        are never removed. keep: bool[units].
        """
        keep = keep | (self.parent < 0)
        if keep.all():
            return self
        home = np.arange(len(keep))
        waits = self.awaited.copy()
        for level in self.levels[1:]:
            above = self.parent[level]
            home[level] = np.where(keep[level], level, home[above])
            waits[level] &= keep[above] | waits[above]
        chosen = np.flatnonzero(keep)
        place = np.full(len(keep) + 1, -1)
        place[chosen] = np.arange(len(chosen))
        above = self.parent[chosen]
        return replace(
            self,
            structure=self.structure[chosen],
            node=self.node[chosen],
            end_node=self.end_node[chosen],
            parent=place[np.where(above < 0, -1, home[above])],
            awaited=waits[chosen],
        )

    def left_behind(self, left: B1, waited: I8, behind: I8, *, keep_ends: bool) -> SpanTrees:
        """Mark asynchronous units as not awaited by their parents.

        left: bool[units], True if asynchronous. waited, behind: int64[pairs]; `behind[i]` is an asynchronous
        unit, and `waited[i]` a unit below it for which the parent of `behind[i]` does wait. `waited[i]`
        becomes a child of that parent. Unless `keep_ends` (for trees that keep deferred work), `behind[i]` is
        reduced to a point, its start, which is awaited.
        """
        parent, end, awaited = self.parent.copy(), self.end_node.copy(), self.awaited & ~left
        parent[waited] = self.parent[behind]
        if not keep_ends:
            end[behind] = self.node[behind]
            awaited[behind] = True
        awaited &= ~((parent >= 0) & left[parent] & (end[parent] == self.node[parent]))
        return replace(self, parent=parent, end_node=end, awaited=awaited)

    def without_deferred(self) -> tuple[SpanTrees, I8]:
        """(trees without deferred units; int64[removed] topmost removed units, numbered as in `self`)."""
        deferred = self.deferred
        topmost = np.flatnonzero(deferred & (self.parent >= 0) & ~deferred[self.parent])
        return self.kept(~deferred), topmost

    def boundaries(self) -> SpanTrees:
        """Trees with the spans of remote calls only (level L3).

        A span stays if its parent or one of its children is in another component, or if its kind is SERVER,
        CLIENT, PRODUCER or CONSUMER. Points inside spans are removed.
        """
        enters = (self.parent >= 0) & (self.component[self.parent] != self.component)
        stays = enters | np.isin(self.nodes.kind[self.node], _REMOTE)
        stays[self.parent[enters]] = True
        return self.kept(stays & self.is_span)
