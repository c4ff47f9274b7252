"""Refined graphs of activity records: their order is explicit, so only deferral, zoom and hosts apply."""

from __future__ import annotations

from collections.abc import Iterator

from analyze.refine.draft import Draft, make_node
from analyze.refine.hosts import HostLabels, split_by_hosts
from analyze.refine.settings import RefineSettings
from analyze.refine.stored import StoredCategory, StoredStructure
from schemas.arrays import I8

Edges = tuple[tuple[int, int], ...]


def record_drafts(
    category: StoredCategory, times: I8, labels: HostLabels, settings: RefineSettings
) -> Iterator[Draft]:
    """The graph of a stored record category, once for each set of host labels. O(nodes + edges) a graph.

    times: [stored nodes, requests] after skew correction.
    """
    structure = category.structure
    kept, edges = _kept(structure, settings)
    place = {position: at for at, position in enumerate(kept)}
    responses = tuple(place[at] for at in structure.responses)
    shortened = len(kept) < structure.n_nodes
    for rows, hosts in split_by_hosts(category, labels):
        nodes = tuple(
            make_node(
                structure,
                position,
                host=hosts[position],
                side=structure.side[position],
                mate=place.get(structure.mate[position], -1),
                deferred=structure.deferred[position],
                within=(-1, -1),
            )
            for position in kept
        )
        yield Draft(
            category=category,
            rows=rows,
            times=times if len(rows) == category.n_requests else times[:, rows],
            nodes=nodes,
            edges=edges,
            responses=responses,
            as_stored=not shortened and not any(hosts),
            # Branches that differed in what was dropped may be interchangeable now.
            twins_by_row=shortened and len({node.name for node in nodes}) < len(nodes),
        )


def _kept(structure: StoredStructure, settings: RefineSettings) -> tuple[list[int], Edges]:
    """Stored positions that stay, and the edges between them by their new numbers."""
    keep = [settings.keep_deferred or not deferred for deferred in structure.deferred]
    keep[0] = True
    for position in structure.responses:
        keep[position] = True
    if settings.level == "L3":
        boundary = {0, *structure.responses}
        for src, dst in structure.edges:
            if structure.component[src] != structure.component[dst]:
                boundary |= {src, dst}
        keep = [stays and position in boundary for position, stays in enumerate(keep)]
    kept = [position for position, stays in enumerate(keep) if stays]
    place = {position: at for at, position in enumerate(kept)}
    if len(kept) == structure.n_nodes:
        return kept, structure.edges
    # The kept nodes nearest before each node, looking through the dropped ones.
    before: list[set[int]] = [set() for _ in range(structure.n_nodes)]
    for src, dst in structure.edges:
        before[dst] |= {src} if keep[src] else before[src]
    edges = [(place[src], place[dst]) for dst in kept for src in sorted(before[dst])]
    return kept, _reduced(len(kept), edges)


def _reduced(n_nodes: int, edges: list[tuple[int, int]]) -> Edges:
    """Transitive reduction; `edges` sorted by destination, which is a topological order. Bit sets."""
    reach = [0] * n_nodes  # everything before a node
    incoming: list[list[int]] = [[] for _ in range(n_nodes)]
    for src, dst in edges:
        incoming[dst].append(src)
    reduced = []
    for dst, sources in enumerate(incoming):
        for src in sorted(sources, reverse=True):
            if reach[dst] >> src & 1:
                continue
            reach[dst] |= reach[src] | 1 << src
            reduced.append((src, dst))
    return tuple(sorted(reduced, key=lambda edge: (edge[1], edge[0])))
