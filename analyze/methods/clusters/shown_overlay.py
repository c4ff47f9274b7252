"""Nodes of an overlay to show: differences, the paths to them, and nodes with much time.

Other nodes are only counted: those between two shown nodes, and those below a shown node.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

import numpy as np

from analyze.methods.clusters.calling_tree import ROOT, CallingTree
from analyze.methods.clusters.tree_overlay import TreeOverlay
from analyze.report.model_values import number
from schemas.report.clusters import OverlayNode

_MOST_NODES: Final = 40
"""Number of nodes up to which all nodes of a tree are shown."""
_MOST_COLOURED: Final = 14
_MOST_PARTINGS: Final = 8
_MOST_TIMES: Final = 8
"""Maximum number of uncoloured nodes that are shown because they take much time."""
_SHADES: Final = 4


def shade(added_us: float, largest_us: float) -> int:
    """Shade of a node, 1 to 4: added_us relative to largest_us, on a root scale so that small differences are
    visible; 0 if it adds nothing."""
    if added_us == 0 or largest_us <= 0:
        return 0
    return min(_SHADES, 1 + int(math.sqrt(abs(added_us) / largest_us) * (_SHADES - 0.001)))


def shown_nodes(tree: CallingTree, found: TreeOverlay) -> tuple[list[OverlayNode], int | None]:
    """Make the nodes to show, in depth-first order; also the index of the most strongly coloured one, or
    None."""
    kept = _kept(found)
    children = _children(found)
    rows: list[OverlayNode] = []
    row_of: dict[int, int] = {}
    a, b = found.sides
    means = a.mean_us(), b.mean_us()
    passing = a.passing(), b.passing()
    times = tuple(s.time_us.sum(axis=1) / max(s.requests, 1e-300) for s in found.sides)
    visits = tuple(s.n_visits / max(s.requests, 1e-300) for s in found.sides)
    largest = float(found.colour_us.max(initial=0.0))
    below = _below(found, kept)
    todo = [(place, ROOT, 0, 0.0, 0.0) for place in reversed(children[ROOT])]
    while todo:
        place, above, skipped, skipped_a, skipped_b = todo.pop()
        if place in kept:
            paths, time = float(found.by_paths_us[place]), float(found.by_time_us[place])
            added = paths if abs(paths) > abs(time) else time
            name = tree.names[int(found.node[place])]
            row_of[place] = len(rows)
            rows.append(
                OverlayNode(
                    above=above,
                    where=name.where,
                    what=name.what,
                    kind=found.kind[place],
                    shade=shade(added, largest),
                    added_us=added,
                    passing_a=float(passing[0][place]),
                    passing_b=float(passing[1][place]),
                    visits_a=float(visits[0][place]),
                    visits_b=float(visits[1][place]),
                    mean_a_us=number(means[0][place]),
                    mean_b_us=number(means[1][place]),
                    skipped=skipped,
                    skipped_a_us=skipped_a,
                    skipped_b_us=skipped_b,
                    below=below[place],
                )
            )
            above, skipped, skipped_a, skipped_b = row_of[place], 0, 0.0, 0.0
        else:
            skipped += 1
            skipped_a += float(times[0][place])
            skipped_b += float(times[1][place])
        todo += [(child, above, skipped, skipped_a, skipped_b) for child in reversed(children[place])]
    return rows, row_of.get(found.first)


def _children(found: TreeOverlay) -> dict[int, list[int]]:
    """Index of a node -> indices of its children, most visited first; ROOT -> roots."""
    traffic = (found.sides[0].n_visits + found.sides[1].n_visits).tolist()
    children: dict[int, list[int]] = {place: [] for place in range(ROOT, len(found.node))}
    for place, above in enumerate(found.above.tolist()):
        children[above].append(place)
    for places in children.values():
        places.sort(key=lambda place: (-traffic[place], place))
    return children


def _kept(found: TreeOverlay) -> set[int]:
    above = found.above.tolist()
    if len(above) <= _MOST_NODES:
        return set(range(len(above)))
    kept = {place for place, up in enumerate(above) if up == ROOT}
    colour = found.colour_us
    coloured = [p for p in np.argsort(-colour, kind="stable").tolist() if colour[p] > 0][:_MOST_COLOURED]
    parted = np.maximum(found.sides[0].passing(), found.sides[1].passing())
    only = ("only-a", "only-b")
    partings = [
        place
        for place, up in enumerate(above)
        if found.kind[place] in only and (up == ROOT or found.kind[up] not in only)
    ]
    partings.sort(key=lambda place: (-parted[place], place))
    time = sum(s.time_us.sum(axis=1) / max(s.requests, 1e-300) for s in found.sides)
    longest: list[int] = np.argsort(-np.asarray(time), kind="stable")[:_MOST_TIMES].tolist()
    kept |= {*coloured, *partings[:_MOST_PARTINGS], *longest}
    kept |= {above[place] for place in [*coloured, *partings[:_MOST_PARTINGS]] if above[place] != ROOT}
    return kept | _forks(above, kept)


def _leading(above: list[int], kept: set[int]) -> list[bool]:
    """True for each node that is shown or an ancestor of a shown node, by index. above: parent of each
    node."""
    leads = [place in kept for place in range(len(above))]
    for place in range(len(above) - 1, -1, -1):
        if leads[place] and above[place] != ROOT:
            leads[above[place]] = True
    return leads


def _forks(above: list[int], kept: set[int]) -> set[int]:
    """Indices of nodes with shown descendants in several branches."""
    ways = Counter(up for up, leads in zip(above, _leading(above, kept), strict=True) if leads)
    return {place for place, n in ways.items() if n > 1 and place != ROOT}


def _below(found: TreeOverlay, kept: set[int]) -> list[int]:
    """Number of hidden descendants of each shown node that have no shown node below them; undefined for other
    nodes."""
    above = found.above.tolist()
    leads = _leading(above, kept)
    count = [0] * len(above)
    for place in range(len(above) - 1, -1, -1):
        up = above[place]
        if not leads[place]:
            count[place] += 1
        if up != ROOT and place not in kept:
            count[up] += count[place]
            count[place] = 0 if leads[place] else count[place]
    return count
