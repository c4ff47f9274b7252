"""Restore the trees of spans behind stored structures, on which order, asynchrony and nesting are defined.

A *unit* is a span (two columns, start and end) or a point inside a span (one column twice). The units of all
structures stand in one numbering, structure after structure, by the column of their start, so a parent comes
before its children. Structures of activity records have no units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from analyze.refine.structure_nodes import StructureNodes
from schemas.arrays import B1, I8
from schemas.events import EventKind
from stitch.columnar.runs import offsets, ranges
from stitch.graph.placed import END, POINT, START

_REMOTE = (EventKind.SPAN_SERVER, EventKind.SPAN_CLIENT, EventKind.SPAN_PRODUCER, EventKind.SPAN_CONSUMER)
_UNKNOWN = (EventKind.SPAN_UNSPECIFIED, EventKind.SPAN_INTERNAL)


@dataclass(frozen=True)
class SpanTrees:
    """Units of the trees of all structures; arrays are [units]. The first unit of a structure is its root."""

    nodes: StructureNodes
    """Nodes of the structures behind the trees."""
    n_structures: int
    """Number of structures, those of records included."""
    structure: I8
    """Structure that the unit belongs to, ascending."""
    node: I8
    """Index of the unit's start, or of the point, in `nodes`."""
    start: I8
    """Stored column of the unit's start, or of the point."""
    end: I8
    """Stored column of the unit's end; equal to `start` for a point."""
    parent: I8
    """Unit that called this one; -1 for a root."""
    awaited: B1
    """True if the parent's end waits for the unit; always True for a root."""

    @staticmethod
    def of(nodes: StructureNodes) -> SpanTrees:
        """Find the units of span structures. O(nodes + edges log edges).

        A structure is taken for records if its root is a point, or a node's parent is no earlier start of a
        span.
        """
        at = np.flatnonzero(nodes.side != END)
        structure, above = nodes.structure[at], nodes.parent[at]
        is_root = at == nodes.first[structure]
        ill = (above < 0) != is_root
        ill |= ~is_root & ((above >= at) | (nodes.side[above] != START))
        ill |= is_root & (nodes.side[at] != START)
        is_tree = np.bincount(structure, ill, nodes.n_structures) == 0
        kept = is_tree[structure]
        at, structure, above = at[kept], structure[kept], above[kept]
        unit = np.full(len(nodes.side) + 1, -1)  # the last entry is that of no node, -1
        unit[at] = np.arange(len(at))
        end = np.where(nodes.side[at] == POINT, at, nodes.mate[at])
        # Siblings are unordered in a stored structure: an awaited child has its own edge to its parent's end.
        n = len(nodes.side)
        joins = np.isin(end * n + nodes.mate[above], nodes.src * n + nodes.dst)
        first = nodes.first[structure]
        return SpanTrees(
            nodes,
            nodes.n_structures,
            structure,
            at,
            at - first,
            end - first,
            unit[above],
            joins | (above < 0),
        )

    @property
    def operation(self) -> I8:
        """Index into `nodes.names`."""
        return self.nodes.name[self.node]

    @property
    def component(self) -> I8:
        """Index into `nodes.components`."""
        return self.nodes.component[self.node]

    @property
    def is_span(self) -> B1:
        """True for spans, False for points."""
        spans: B1 = self.start != self.end
        return spans

    @cached_property
    def first(self) -> I8:
        """[structures + 1] first unit of each structure; structures of records have no units."""
        return offsets(np.bincount(self.structure, minlength=self.n_structures))

    def units(self, structure: int) -> slice:
        """Range of a structure's units."""
        return slice(*self.first[structure : structure + 2].tolist())

    @cached_property
    def levels(self) -> tuple[I8, ...]:
        """Units by depth: the roots, their children, the children's children, …"""
        by_parent = np.argsort(self.parent, kind="stable")
        first = np.searchsorted(self.parent[by_parent], np.arange(-1, len(self.parent) + 1))
        found, level = [], by_parent[: first[1]]
        while len(level):
            found.append(level)
            level = by_parent[ranges(first[level + 1], first[level + 2] - first[level + 1])]
        return tuple(found)

    @cached_property
    def deferred(self) -> B1:
        """True if the unit or an ancestor is not awaited."""
        found = ~self.awaited
        for level in self.levels[1:]:
            found[level] |= found[self.parent[level]]
        return found

    @cached_property
    def is_remote_call(self) -> B1:
        """True if the parent is the caller's side of the call that the unit serves, and must enclose it.

        The parent is then a CLIENT span, or a span without kind whose only child is in another component.
        """
        above, kind, component = self.parent, self.nodes.kind[self.node], self.component
        n_children = np.bincount(above[above >= 0], minlength=len(above))
        alone = np.isin(kind, _UNKNOWN) & (n_children == 1)
        calls = (kind[above] == EventKind.SPAN_CLIENT) | (alone[above] & (component[above] != component))
        remote: B1 = (above >= 0) & self.awaited & self.is_span & calls
        return remote

    def taken(self, structures: I8) -> tuple[SpanTrees, I8]:
        """Trees of the chosen structures, and [units] the unit that each is a copy of. The copies are
        numbered as structures by their place in `structures`, which may repeat."""
        n = self.first[structures + 1] - self.first[structures]
        copied = ranges(self.first[structures], n)
        shift = np.repeat(np.cumsum(n) - n - self.first[structures], n)
        above = self.parent[copied]
        taken = SpanTrees(
            self.nodes,
            len(structures),
            np.repeat(np.arange(len(structures)), n),
            self.node[copied],
            self.start[copied],
            self.end[copied],
            np.where(above < 0, -1, above + shift),
            self.awaited[copied],
        )
        return taken, copied

    def kept(self, keep: B1) -> SpanTrees:
        """Remove units where `keep` is False; their children move up to the nearest kept ancestor.

        A child that moves up is awaited there if every unit on the way is. Roots are always kept.
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
            start=self.start[chosen],
            end=self.end[chosen],
            parent=place[np.where(above < 0, -1, home[above])],
            awaited=waits[chosen],
        )

    def left_behind(self, left: B1, waited: I8, behind: I8, *, keep_ends: bool) -> SpanTrees:
        """Mark asynchronous units as not awaited by their parents.

        left: [units] True if asynchronous. waited, behind: [pairs] a unit that the parent of the asynchronous
        unit `behind` waits for: it becomes a child of that parent, and `behind` is reduced to its start, a
        point that its parent has passed; with `keep_ends` it stays whole, for trees that keep deferred work.
        """
        parent, end, awaited = self.parent.copy(), self.end.copy(), self.awaited & ~left
        parent[waited] = self.parent[behind]
        if not keep_ends:
            end[behind] = self.start[behind]
            awaited[behind] = True
        awaited &= ~((parent >= 0) & left[parent] & (end[parent] == self.start[parent]))
        return replace(self, parent=parent, end=end, awaited=awaited)

    def without_deferred(self) -> tuple[SpanTrees, I8]:
        """(trees without deferred units, [left out] topmost removed units, in this numbering)."""
        deferred = self.deferred
        topmost = np.flatnonzero(deferred & (self.parent >= 0) & ~deferred[self.parent])
        return self.kept(~deferred), topmost

    def boundaries(self) -> SpanTrees:
        """Zoomed-out trees (level L3): remote calls and their replies only.

        A span stays if it enters a component (its parent is in another one), leaves one (a child is in
        another one), or its kind is one side of a remote call. Points inside spans are removed.
        """
        enters = (self.parent >= 0) & (self.component[self.parent] != self.component)
        stays = enters | np.isin(self.nodes.kind[self.node], _REMOTE)
        stays[self.parent[enters]] = True
        return self.kept(stays & self.is_span)
