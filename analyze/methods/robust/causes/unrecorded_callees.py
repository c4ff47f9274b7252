"""Find the names of callees that record no spans: databases, caches, third-party services.

Such a call is a span without children. Its parameters name the callee, so that calls of one database by
several services become one finding. Parameters are read only for operations that changed. The names of sites
that tests use do not depend on them, so that a call of a service that starts or stops recording remains the
same site.
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
"""Keys of parameters that name the callee, the most specific first (OpenTelemetry's conventions, old and
new).

The last ones name only a kind of system: several callers may each have a different one of that kind, but
rarely do two change at once.
"""
_CALLED: Final = frozenset({EventKind.SPAN_SERVER, EventKind.SPAN_CONSUMER})
_NO_NAME: Final = re.compile(r"|localhost|unknown|none|null|nan|.*[/\\].*", re.IGNORECASE)
"""Regular expression of values that name no callee: the local machine, a path of a socket."""


@dataclass(slots=True)
class _Calls:
    """Calls of one operation without recorded children, in requests in which no other operation has the same
    stored name."""

    place: tuple[str, str]
    """Name of the calls' operation as stored: (component, point)."""
    groups: list[tuple[int, I8, int]] = field(default_factory=list)
    """Requests with such calls, per group: (index of the category, row indices, calls per request)."""


def unrecorded_callees(
    population: Population,
    groups: Sequence[RequestGroup],
    names: Names,
    changes: Sequence[Change],
    settings: CausesSettings,
    failing: Iterable[int] = (),
) -> dict[int, str]:
    """Find the callees of operations that record none: operation -> name of its callee.

    Looked up are operations that changed, that changed patterns call, or that are in `failing`. Left out are
    those that have recorded child calls in any request, begin a request, or are the server's side of a call.
    Empty without requests. Reads parameters of `callee_requests` requests per operation.
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
    """Numbers of the operations to look up, those with the largest changes first."""
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
    """Find calls without recorded children: operation -> its calls, in the order of `wanted`, at most `most`
    operations. O(groups · units)."""
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
            # Parameters are known by call site: they do not say to whom other calls of the site go.
            if counts[place] == len(mine):
                calls.groups.append((group.category, group.rows, len(mine)))
    kept = [number for number in wanted if number in found and number not in others]
    return {number: found[number] for number in kept[:most] if found[number].groups}


def _places(graph: Graph, sites: GraphSites) -> list[tuple[str, str]]:
    nodes = (graph.nodes[position] for position in sites.start.tolist())
    return [(node.component, node.point) for node in nodes]


def _is_end(unit: int, sites: GraphSites, graph: Graph, names: Names) -> bool:
    """True if a unit of a graph is a client-side call without recorded children."""
    assert graph.nesting is not None
    kind = int(graph.nesting.kind[int(sites.start[unit])])
    return not names.patterns[int(sites.pattern[unit])] and sites.above[unit] >= 0 and kind not in _CALLED


def _chosen(
    population: Population, calls: Mapping[int, _Calls], most: int
) -> tuple[ChosenRequests, dict[int, int]]:
    """Choose requests of which parameters are read: (at most `most` requests per operation, evenly spaced,
    one group per operation; operation -> number of its calls in them)."""
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
    """Name that at least `least` calls state; empty if there is none, or if it is only an address. said:
    value of the parameter -> number of calls."""
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
