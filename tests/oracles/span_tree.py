"""The tree of spans behind one stored structure, unit by unit; slow and obvious: see `span_trees`.

A *unit* is a span (two columns, start and end) or a point inside a span (one column twice). Units are
numbered by the column of their start, so a parent comes before its children.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from analyze.refine.stored import Operation
from schemas.events import EventKind
from stitch.graph.placed import END, POINT, START
from stitch.graph.template import Template

_REMOTE = frozenset(
    {EventKind.SPAN_SERVER, EventKind.SPAN_CLIENT, EventKind.SPAN_PRODUCER, EventKind.SPAN_CONSUMER}
)
_UNKNOWN = frozenset({EventKind.SPAN_UNSPECIFIED, EventKind.SPAN_INTERNAL})


@dataclass(frozen=True, slots=True)
class SpanTree:
    """Units of one structure; unit 0 is the root. All tuples are by unit."""

    start: tuple[int, ...]
    """Column of the start (or of the point)."""
    end: tuple[int, ...]
    """Column of the end; equal to `start` for a point."""
    parent: tuple[int, ...]
    """Unit of the parent; -1 for the root."""
    children: tuple[tuple[int, ...], ...]
    """Units of the children, deferred ones too."""
    operation: tuple[Operation, ...]
    component: tuple[str, ...]
    kind: tuple[int, ...]
    awaited: tuple[bool, ...]
    """True if the parent's end waits for the unit; always True for the root."""

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.start)

    @property
    def deferred(self) -> tuple[bool, ...]:
        """[units] True if the unit or an ancestor is not awaited."""
        found: list[bool] = []
        for above, awaited in zip(self.parent, self.awaited, strict=True):
            found.append(not awaited or (above >= 0 and found[above]))
        return tuple(found)

    def is_remote_call(self, unit: int) -> bool:
        """True if the parent is the caller's side of the call that `unit` serves, and must enclose it.

        That is a CLIENT span, or one without kind whose only child is in another component.
        """
        above = self.parent[unit]
        if above < 0 or not self.awaited[unit] or self.start[unit] == self.end[unit]:
            return False
        if self.kind[above] == EventKind.SPAN_CLIENT:
            return True
        return (
            self.kind[above] in _UNKNOWN
            and len(self.children[above]) == 1
            and self.component[above] != self.component[unit]
        )

    def awaited_children(self, unit: int) -> list[int]:
        """Children that the unit waits for."""
        return [child for child in self.children[unit] if self.awaited[child]]


def span_tree(structure: Template) -> SpanTree | None:
    """Tree of a span structure; None for records. O(nodes)."""
    if structure.side[0] != START:
        return None
    unit_of: dict[int, int] = {}
    start: list[int] = []
    end: list[int] = []
    parent: list[int] = []
    for position, side in enumerate(structure.side):
        if side == END:
            continue
        above = structure.parent[position]
        unit_of[position] = len(start)
        start.append(position)
        end.append(position if side == POINT else structure.mate[position])
        parent.append(-1 if position == 0 else unit_of[above])
    return SpanTree(
        start=tuple(start),
        end=tuple(end),
        parent=tuple(parent),
        children=_children(parent),
        operation=tuple(Operation.of(structure, at) for at in start),
        component=tuple(structure.component[at] for at in start),
        kind=tuple(structure.kind[at] for at in start),
        awaited=_awaited(structure, end, parent),
    )


def _awaited(structure: Template, end: list[int], parent: list[int]) -> tuple[bool, ...]:
    # Siblings are unordered in a stored structure, so an awaited child has its own edge to its parent's end.
    joins = set(structure.edges)
    return tuple(above < 0 or (end[unit], end[above]) in joins for unit, above in enumerate(parent))


def _children(parent: list[int]) -> tuple[tuple[int, ...], ...]:
    children: list[list[int]] = [[] for _ in parent]
    for unit, above in enumerate(parent):
        if above >= 0:
            children[above].append(unit)
    return tuple(tuple(units) for units in children)


def keep_units(tree: SpanTree, keep: Callable[[int], bool]) -> SpanTree:
    """Remove the units for which `keep` is False; their children move up to the nearest kept ancestor.

    A child that moves up is awaited there if every unit on the way is. The root is always kept. O(units).
    """
    home: list[int] = []  # unit -> its new number, or that of its nearest kept ancestor
    waits: list[bool] = []  # unit -> whether everything from the unit up to its home waits
    kept: list[int] = []
    for unit in range(tree.n_units):
        above = tree.parent[unit]
        stays = unit == 0 or keep(unit)
        through_dropped = above >= 0 and kept[home[above]] != above
        waits.append(tree.awaited[unit] and (not through_dropped or waits[above]))
        home.append(len(kept) if stays else home[above])
        if stays:
            kept.append(unit)
    if len(kept) == tree.n_units:
        return tree
    parent = [-1 if unit == 0 else home[tree.parent[unit]] for unit in kept]
    return SpanTree(
        start=tuple(tree.start[unit] for unit in kept),
        end=tuple(tree.end[unit] for unit in kept),
        parent=tuple(parent),
        children=_children(parent),
        operation=tuple(tree.operation[unit] for unit in kept),
        component=tuple(tree.component[unit] for unit in kept),
        kind=tuple(tree.kind[unit] for unit in kept),
        awaited=tuple(waits[unit] for unit in kept),
    )


def leave_behind(
    tree: SpanTree, units: frozenset[int], waited: Iterable[tuple[int, int]], *, keep_ends: bool
) -> SpanTree:
    """Mark `units` (asynchronous) as not awaited by their parents.

    waited: (unit below an asynchronous one, ancestor that waits for it): the unit becomes a child of that
    ancestor, and the asynchronous unit is reduced to its start, a point that its parent has passed; with
    `keep_ends` it stays whole, for trees that keep deferred work.
    """
    if not units:
        return tree
    parent, end = list(tree.parent), list(tree.end)
    awaited = [waits and unit not in units for unit, waits in enumerate(tree.awaited)]
    for unit, ancestor in waited:
        child = unit
        while tree.parent[child] != ancestor:
            child = tree.parent[child]
        parent[unit] = ancestor
        if not keep_ends:
            end[child] = tree.start[child]
            awaited[child] = True
    for unit, above in enumerate(parent):
        if above in units and end[above] == tree.start[above]:
            awaited[unit] = False
    return replace(
        tree, parent=tuple(parent), end=tuple(end), children=_children(parent), awaited=tuple(awaited)
    )


def without_deferred(tree: SpanTree) -> tuple[SpanTree, tuple[tuple[int, str], ...]]:
    """Remove deferred units and all below them; returns (tree, children left out: column of the start of the
    parent, operation).

    Children left out are the topmost removed units, with a parent that remains. O(units).
    """
    deferred = tree.deferred
    left = [
        (tree.start[above], tree.operation[unit].text)
        for unit, above in enumerate(tree.parent)
        if deferred[unit] and not deferred[above]
    ]
    return keep_units(tree, lambda unit: not deferred[unit]), tuple(left)


def boundaries(tree: SpanTree) -> SpanTree:
    """Zoomed-out tree (level L3): remote calls and their replies only.

    A span stays if it enters a component (its parent is in another one), leaves one (a child is in another
    one), or its kind is one side of a remote call. Points inside spans are removed.
    """

    def is_boundary(unit: int) -> bool:
        if tree.start[unit] == tree.end[unit]:
            return False
        here = tree.component[unit]
        return (
            tree.component[tree.parent[unit]] != here
            or any(tree.component[child] != here for child in tree.children[unit])
            or tree.kind[unit] in _REMOTE
        )

    return keep_units(tree, is_boundary)
