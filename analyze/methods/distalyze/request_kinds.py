"""Requests that are alike: of one root type, and where one root serves many pages, of one kind (G.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from analyze.population import Graph, Population
from stitch.graph.placed import END

Alike = Literal["auto", "root", "calls", "category"]


def kinds_of(population: Population, root: str, alike: Alike, *, slow: bool) -> dict[str, list[int]]:
    """Name of a kind -> categories of a root type, in order of name.

    `calls`: what its component calls elsewhere is the same set. Repeats and what lies below do not count, as
    they are what may have changed. Of activity records of two periods `auto` takes the root type: what a
    step calls is a matter of caches there, and may be the change. Slow and fast requests (`slow`) are of one
    kind always: that the longer path is slower needs no statistics, why it is slower than usual does.
    """
    members = [i for i, category in enumerate(population.categories) if category.graph.root == root]
    if alike == "category":
        return {f"{root} {population.categories[i].graph.key[:10]}": [i] for i in members}
    spans = all(population.categories[i].graph.nesting is not None for i in members)
    if alike == "root" or (alike == "auto" and not spans and not slow):
        return {root: members}
    found: dict[frozenset[str], list[int]] = {}
    for i in members:
        found.setdefault(called(population.categories[i].graph), []).append(i)
    if len(found) == 1:
        return {root: members}
    names = _names(root, list(found))
    return dict(sorted(zip(names, found.values(), strict=True)))


def called(graph: Graph) -> frozenset[str]:
    """Operations of other components that the root's component calls."""
    home = graph.nodes[0].component
    nesting = graph.nesting
    if nesting is None:
        return frozenset(
            graph.nodes[dst].operation
            for src, dst in graph.edges.tolist()
            if graph.nodes[src].component == home != graph.nodes[dst].component
        )
    return frozenset(
        node.operation
        for position, node in enumerate(graph.nodes)
        if node.side != END
        and node.component != home
        and nesting.parent[position] >= 0
        and graph.nodes[int(nesting.parent[position])].component == home
    )


def _names(root: str, kinds: Sequence[frozenset[str]]) -> list[str]:
    """The root type and the rarest operations of each kind, as few as tell the kinds apart."""
    rarest = [sorted(kind, key=lambda name: (sum(name in other for other in kinds), name)) for kind in kinds]
    for told in range(1, max(len(kind) for kind in kinds) + 1):
        names = [_name(root, kind, told) for kind in rarest]
        if len(set(names)) == len(names):
            break
    return names


def _name(root: str, operations: Sequence[str], told: int) -> str:
    if not operations:
        return f"{root} calling nothing"
    more = f" and {len(operations) - told} more" if len(operations) > told else ""
    return f"{root} calling {', '.join(operations[:told])}{more}"
