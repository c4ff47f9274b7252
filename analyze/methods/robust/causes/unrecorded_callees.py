"""Find the names of callees that record no spans: databases, caches, third-party services.

A call of such a callee is a client span without children, whose parameters name the callee. With the name,
calls of one database by several services become one finding. Parameters are read only for operations that
changed. The site names used in tests do not include the callee's name, so that the site stays the same when a
callee starts or stops recording spans.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

import numpy as np

from analyze.explain.chosen_requests import ChosenRequests, chosen_rows
from analyze.explain.parameters import parameter_words
from analyze.methods.robust.changes import NO_PATTERN, Change
from analyze.methods.robust.settings import CausesSettings
from analyze.population import Graph, Population
from analyze.profile.call_sites import GraphSites, RequestGroup
from analyze.profile.names import Names, SiteKind
from schemas.arrays import I4, I8
from schemas.events import EventKind

KEYS: Final = (
    *("peer.service", "server.address", "net.peer.name"),
    *("db.system.name", "db.system", "messaging.system"),
)
"""Keys of parameters that name the callee, most specific first (old and new semantic conventions of
OpenTelemetry).

The keys from `db.system.name` on name only a kind of system. Several callers may each use a different system
of that kind, but two of these systems rarely change at the same time.
"""
_CALLED: Final = frozenset({EventKind.SPAN_SERVER, EventKind.SPAN_CONSUMER})
_NO_NAME: Final = re.compile(r"|localhost|unknown|none|null|nan|.*[/\\].*", re.IGNORECASE)
"""Regular expression of parameter values that name no callee: the local machine, a socket's path,
placeholders."""


@dataclass(slots=True)
class _Calls:
    """Calls of one operation without recorded child calls, in requests in which no other operation has the
    same stored name."""

    place: tuple[str, str]
    """Stored name of the calls' operation: (component, point)."""
    groups: list[tuple[int, I8, int]] = field(default_factory=list)
    """Requests with such calls, one element per group: (index of the category, int64[rows] row indices,
    number of calls per request)."""


def unrecorded_callees(
    population: Population,
    groups: Sequence[RequestGroup],
    names: Names,
    changes: Sequence[Change],
    settings: CausesSettings,
    failing: Iterable[int] = (),
) -> dict[int, str]:
    """Names of callees that record no spans: operation that calls -> name of its callee. Empty without
    requests.

    Examines operations that changed, that a changed pattern calls, or that are in `failing`. Excluded are
    operations that have recorded child calls in any request, that begin a request, or that are the server
    side of a call. Reads the parameters of `callee_requests` requests per operation.
    """
    calls = _ends(population, groups, names, _wanted(names, changes, failing), settings.callee_operations)
    if not calls:
        return {}
    chosen, n_calls = _chosen(population, calls, settings.callee_requests)
    said: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    operations = list(calls)
    for word in parameter_words(population, chosen, KEYS):
        operation = operations[int(chosen.group[word.request])]
        if word.where == "/".join(calls[operation].place):
            said[operation, word.key][word.text] += 1
    named = {}
    for operation, found in calls.items():
        component = found.place[0]
        for key in KEYS:
            name = _agreed(said[operation, key], settings.callee_agreed * n_calls[operation])
            if name and name != component:
                named[operation] = name
                break
    return named


def _wanted(names: Names, changes: Sequence[Change], failing: Iterable[int]) -> list[int]:
    """Indices of the operations to examine, those with the largest contribution to the mean response time
    first."""
    found: dict[int, None] = {}
    for change in sorted(changes, key=lambda change: -abs(change.contribution_ns)):
        if names.sites[change.site].kind is SiteKind.CALL:
            found[names.sites[change.site].operation] = None
    if changes:
        found |= dict.fromkeys(failing)
    for change in changes:
        if change.pattern != NO_PATTERN:
            found |= dict.fromkeys(child.operation for child in names.patterns[change.pattern])
    return [operation for operation in found if not names.operations[operation].callee]


def _ends(
    population: Population, groups: Sequence[RequestGroup], names: Names, wanted: Sequence[int], most: int
) -> dict[int, _Calls]:
    """Calls without recorded children: operation -> its calls, for at most `most` operations, in the order of
    `wanted`.

    O(groups · units), units being calls.
    """
    operation_of = np.array([site.operation for site in names.sites], dtype=np.int64)
    asked = np.array(sorted(wanted), dtype=np.int64)
    found: dict[int, _Calls] = {}
    others: set[int] = set()
    for group in groups if len(asked) else ():
        sites, graph = group.sites, population.categories[group.category].graph
        if not sites.are_calls or graph.nesting is None:
            continue
        operation = operation_of[sites.site]
        units = np.flatnonzero(np.isin(operation, asked)).tolist()
        places = _places(graph, sites) if units else []
        counts = Counter(places)
        for number in dict.fromkeys(int(operation[unit]) for unit in units):
            mine = [unit for unit in units if operation[unit] == number]
            if any(not _is_end(unit, sites, graph, names) for unit in mine):
                others.add(number)
            place = places[mine[0]]
            calls = found.setdefault(number, _Calls(place))
            # Parameters are known by call site: with several callees they cannot be assigned to one of them.
            if counts[place] == len(mine):
                calls.groups.append((group.category, group.rows, len(mine)))
    kept = [number for number in wanted if number in found and number not in others]
    return {number: found[number] for number in kept[:most] if found[number].groups}


def _places(graph: Graph, sites: GraphSites) -> list[tuple[str, str]]:
    nodes = (graph.nodes[position] for position in sites.start.tolist())
    return [(node.component, node.point) for node in nodes]


def _is_end(unit: int, sites: GraphSites, graph: Graph, names: Names) -> bool:
    """True if a unit of a graph is a client-side call without recorded child calls."""
    assert graph.nesting is not None
    kind = int(graph.nesting.kind[int(sites.start[unit])])
    return not names.patterns[int(sites.pattern[unit])] and sites.above[unit] >= 0 and kind not in _CALLED


def _chosen(
    population: Population, calls: Mapping[int, _Calls], most: int
) -> tuple[ChosenRequests, dict[int, int]]:
    """Select the requests whose parameters are read: (at most `most` requests per operation, evenly spaced,
    in one group per operation; operation -> number of its calls in these requests)."""
    groups: list[I4] = []
    categories: list[I4] = []
    rows: list[I8] = []
    n_calls = {}
    for group, (operation, found) in enumerate(calls.items()):
        first = np.cumsum([0, *(len(mine) for _, mine, _ in found.groups)])
        n = int(first[-1])
        picked = np.unique(np.linspace(0, n - 1, min(most, n)).astype(np.int64))
        at = (np.searchsorted(first, picked, side="right") - 1).tolist()
        row = [found.groups[p][1][k - first[p]] for p, k in zip(at, picked.tolist(), strict=True)]
        groups.append(np.full(len(picked), group, dtype=np.int32))
        categories.append(np.array([found.groups[p][0] for p in at], dtype=np.int32))
        rows.append(np.array(row, dtype=np.int64))
        n_calls[operation] = sum(found.groups[p][2] for p in at)
    return (
        chosen_rows(population, np.concatenate(categories), np.concatenate(rows), np.concatenate(groups)),
        n_calls,
    )


def _agreed(said: Counter[str], least: float) -> str:
    """Most frequent name, if at least `least` calls state it; empty otherwise, or if it is only an address.
    said: name -> number of calls that state it."""
    name, times = max(said.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    return name if times >= least and _is_name(name) else ""


def _is_name(text: str) -> bool:
    if _NO_NAME.fullmatch(text):
        return False
    without_port = re.sub(r"(?<=[\d\]]):\d+$", "", text)
    try:
        ip_address(without_port.strip("[]"))
    except ValueError:
        return True
    return False
