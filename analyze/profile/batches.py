"""Requests of many graphs as flat arrays: each node or unit of a graph is a row with one cell per request.

A batch holds as many groups of requests as fit into a given number of cells; a larger group is split over
several batches. So memory is bounded, and one graph with many requests costs as much as many graphs with few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from analyze.cache_blocks import uneven_blocks
from analyze.population import Category, Codes, Population
from analyze.profile.call_sites import RequestGroup
from analyze.ragged import Ragged
from schemas.arrays import B1, F8, I8
from stitch.columnar.runs import joined_arrays

_NONE: Final = np.zeros(0, dtype=np.int64)


class SlottedRequests(NamedTuple):
    """Requests that lie in a slot, one array per property, sorted by group, then by slot."""

    group: I8
    """int64[requests]: index of the request's `RequestGroup`."""
    slot: I8
    """int64[requests]: index of the slot of time (`Slot`) that the request lies in."""
    weight: F8
    """float64[requests]: 1 / sampling probability."""
    start_ns: I8
    """int64[requests]: start, Unix ns."""
    response_ns: I8
    """int64[requests]: response time, ns."""
    failed: B1
    """bool[requests]: True if the request failed."""

    def part(self, rows: slice) -> SlottedRequests:
        """Requests in the range `rows`, with groups renumbered from 0."""
        part = SlottedRequests._make(column[rows] for column in self)
        return part._replace(group=part.group - part.group[0])


def requests_of(population: Population, groups: Sequence[RequestGroup]) -> SlottedRequests:
    """Requests of all groups, in the order of the groups. O(requests)."""
    parts = [(population.categories[one.category], one.rows) for one in groups]
    columns = [
        np.concatenate([none, *(getattr(category, name)[rows] for category, rows in parts)])
        for name, none in (("weight", np.zeros(0)), ("start_ns", _NONE), ("response_ns", _NONE))
    ]
    failed = [population.failed(category, rows) for category, rows in parts]
    return SlottedRequests._make(
        (
            np.repeat(np.arange(len(groups)), [len(rows) for _, rows in parts]),
            np.concatenate([_NONE, *(one.slot for one in groups)]),
            *columns,
            np.concatenate([np.zeros(0, dtype=np.bool_), *failed]),
        )
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests of several groups, with one numbering of all nodes, units and edges of their graphs.

    A unit is a call, or a step between activity records. Groups are numbered from 0 within the batch. A cell
    is a (node, request) or (unit, request).
    """

    numbers: slice
    """Range of the batch's groups among all groups."""
    units: slice
    """Range of the batch's units among the units of all groups."""
    patterned_places: slice
    """Range of the batch's `patterned` places among those of all groups."""
    parts: tuple[tuple[Category, I8], ...]
    """(Category, int64[n] rows of the category) of each group."""
    requests: SlottedRequests
    n_of: I8
    """int64[groups]: number of requests."""
    place: I8
    """int64[requests]: index of the request within its group."""
    are_calls: B1
    """bool[groups]: True if the group's units are calls, False if they are steps between activity records."""
    node: Ragged
    """Layout of `times`: one row per node, one cell per request of the node's group."""
    times: I8
    """int64[cells of `node`]: time of the node in the request, ns since the request's start."""
    root: I8
    """int64[groups]: node at which the group's requests begin."""
    responses: Ragged
    """Range of each group's nodes in `response_node`."""
    response_node: I8
    """int64[n]: nodes at which the response may be sent, by group."""
    unit_group: I8
    """int64[units]: group of the call or step."""
    unit: Ragged
    """Layout for values of units (calls or steps): one row per unit, one cell per request of its group."""
    start: I8
    """int64[units]: node at which the call or step begins."""
    end: I8
    """int64[units]: node at which the call or step ends."""
    above: I8
    """int64[units]: calling unit of each call; -1 for a root or a step."""
    site: I8
    """int64[units]: number of the site of the call or step."""
    path: I8
    """int64[units]: number of the calling path of the call or step."""
    pattern: I8
    """int64[units]: number of the call pattern of the call or step."""
    src: I8
    """int64[edges]: node at which the edge begins."""
    dst: I8
    """int64[edges]: node at which the edge ends."""
    owner: I8
    """int64[edges]: unit (call or step) to whose self time the edge belongs."""
    patterned: Patterned

    @property
    def n_groups(self) -> int:
        """Number of groups in the batch."""
        return len(self.n_of)

    @property
    def first_request(self) -> I8:
        """int64[groups]: index of the group's first request."""
        first: I8 = np.cumsum(self.n_of) - self.n_of
        return first

    def hosts(self) -> Codes:
        """[cells of `node`]: host code of each node and request; for batches whose categories all have
        hosts."""
        found: Codes = np.concatenate(
            [category.host[:, rows].ravel() for category, rows in self.parts if category.host is not None]
        )
        return found

    def failing(self) -> I8:
        """int64[failures]: cells of `node` at which a node failed."""
        cells = [_NONE]
        for (category, rows), root in zip(self.parts, self.root.tolist(), strict=True):
            failures = category.failures
            if len(failures.row):
                place = np.full(category.n_requests, -1, dtype=np.int64)
                place[rows] = np.arange(len(rows))
                seen = np.flatnonzero(place[failures.row] >= 0)
                node = root + failures.position[seen]
                cells.append(self.node.first[node] + place[failures.row[seen]])
        return np.concatenate(cells)


class Patterned(NamedTuple):
    """Places of graphs that have a call pattern: calls, or points of activity records."""

    group: I8
    """int64[places]: group of requests, in the batch, of the call or point."""
    site: I8
    """int64[places]: number of the site of the call or point."""
    pattern: I8
    """int64[places]: number of the call pattern of the call or point."""
    enters: B1
    """bool[places]: True for a point with an edge to a node that is the first of its operation in the graph;
    see `GraphSites.enters`. False for calls."""
    unit: I8
    """int64[places]: unit of the batch that the call is; -1 for a point of activity records."""


def batches(
    population: Population, groups: Sequence[RequestGroup], requests: SlottedRequests, cells: int
) -> Iterator[Batch]:
    """Yield batches of about `cells` cells (nodes · requests) that together hold all requests, in order.

    requests: of all `groups` (`requests_of`). O(cells)."""
    n_nodes = np.array([len(population.categories[one.category].graph.nodes) for one in groups], np.int64)
    first_of = np.cumsum([0, *(len(one.rows) for one in groups)])
    n_units = np.cumsum([0, *(one.sites.n_units for one in groups)])
    n_patterned = np.cumsum([0, *(len(one.sites.pattern_of) for one in groups)])
    for part in uneven_blocks(n_nodes[requests.group], cells):
        numbers = slice(int(requests.group[part.start]), int(requests.group[part.stop - 1]) + 1)
        parts = groups[numbers]
        rows = [
            one.rows[max(part.start - first, 0) : part.stop - first]
            for one, first in zip(parts, first_of[numbers].tolist(), strict=True)
        ]
        categories = [population.categories[one.category] for one in parts]
        units, places = (slice(n[numbers.start], n[numbers.stop]) for n in (n_units, n_patterned))
        mine = tuple(zip(categories, rows, strict=True))
        yield _batch((numbers, units, places), mine, parts, requests.part(part))


def _batch(
    among_all: tuple[slice, slice, slice],
    parts: tuple[tuple[Category, I8], ...],
    groups: Sequence[RequestGroup],
    requests: SlottedRequests,
) -> Batch:
    sites, graphs = [one.sites for one in groups], [category.graph for category, _ in parts]
    n_of = np.array([len(rows) for _, rows in parts])
    n_nodes, n_units = np.array([graph.n_nodes for graph in graphs]), np.array([one.n_units for one in sites])
    first_node, first_unit = (np.cumsum(n) - n for n in (n_nodes, n_units))
    n_edges = [len(graph.edges) for graph in graphs]
    node, unit_group = Ragged.of(np.repeat(n_of, n_nodes)), np.repeat(np.arange(len(groups)), n_units)
    edges = joined_arrays([graph.edges for graph in graphs]) + np.repeat(first_node, n_edges)[:, None]
    in_units = first_unit[unit_group]
    above = joined_arrays([one.above for one in sites])
    n_responses = np.array([len(graph.responses) for graph in graphs])
    are_calls = np.array([one.are_calls for one in sites])
    n_patterned = [len(one.pattern_of) for one in sites]
    place_group = np.repeat(np.arange(len(groups)), n_patterned)
    return Batch(
        *among_all,
        parts=parts,
        requests=requests,
        n_of=n_of,
        place=np.arange(len(requests.slot)) - np.repeat(np.cumsum(n_of) - n_of, n_of),
        are_calls=are_calls,
        node=node,
        times=np.concatenate([_times(*part).ravel() for part in parts]),
        root=first_node,
        responses=Ragged.of(n_responses),
        response_node=joined_arrays([graph.responses for graph in graphs])
        + np.repeat(first_node, n_responses),
        unit_group=unit_group,
        unit=Ragged.of(n_of[unit_group]),
        start=joined_arrays([one.start for one in sites]) + first_node[unit_group],
        end=joined_arrays([one.end for one in sites]) + first_node[unit_group],
        above=np.where(above < 0, -1, above + in_units),
        site=joined_arrays([one.site for one in sites]),
        path=joined_arrays([one.path for one in sites]),
        pattern=joined_arrays([one.pattern for one in sites]),
        src=edges[:, 0],
        dst=edges[:, 1],
        owner=joined_arrays([one.owner for one in sites]) + np.repeat(first_unit, n_edges),
        patterned=Patterned(
            place_group,
            joined_arrays([one.pattern_site for one in sites]),
            joined_arrays([one.pattern_of for one in sites]),
            joined_arrays([one.enters for one in sites]),
            # The places of calls are their units.
            np.where(are_calls[place_group], Ragged.of(np.array(n_patterned)).at(first_unit), -1),
        ),
    )


def _times(category: Category, rows: I8) -> I8:
    """int64[nodes, rows]: times, ns, of some rows of a category; a view without a copy if they are
    adjacent."""
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == len(rows) and (len(rows) == 1 or bool((rows[1:] > rows[:-1]).all())):
        return category.node_ns[:, first : last + 1]
    return category.node_ns[:, rows]
