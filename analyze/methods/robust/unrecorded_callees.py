"""Whom calls go to of whom nothing was recorded: a database, a cache, somebody else's service.

Such a call is a span that calls nothing. Its parameters say where it goes, and so calls of one database by
several services can be one finding. Only what changed is asked, so few parameters are read, and no name that
tests are made of depends on them: a service that begins to record itself changes no site.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Final

import numpy as np
import numpy.typing as npt

from analyze.explain.attribute_column import Column
from analyze.explain.chosen_requests import Selection, choose
from analyze.explain.parameter_columns import parameter_columns
from analyze.findings.changes import NO_SHAPE, Change
from analyze.population import Population
from analyze.sites.names import Names, SiteKind
from analyze.sites.profiling import Pattern
from schemas.events import EventKind

I8 = npt.NDArray[np.int64]

KEYS: Final = (
    *("peer.service", "server.address", "net.peer.name"),
    *("db.system.name", "db.system", "messaging.system"),
)
"""Parameters that name who is called, the best first (OpenTelemetry's conventions, old and new)."""
_MOST_REQUESTS: Final = 200
"""Looked at for each operation."""
_NEARLY_ALL: Final = 0.9
"""Of the values of an operation must be one name."""
_ASKED: Final = frozenset({EventKind.SPAN_SERVER, EventKind.SPAN_CONSUMER})


def unrecorded_callees(
    population: Population, patterns: Sequence[Pattern], names: Names, changes: Sequence[Change]
) -> dict[int, str]:
    """Operation -> name of whom it calls: of operations that changed, or that changed shapes call.

    Those that call something in any request, begin a request or are a server's side are not asked. Requests
    must be at hand; else nothing is known. Reads parameters of at most _MOST_REQUESTS requests an operation.
    """
    wanted = {
        names.sites[change.site].operation
        for change in changes
        if names.sites[change.site].kind is SiteKind.CALL
    }
    shapes = {change.shape for change in changes if change.shape != NO_SHAPE}
    wanted |= {child.operation for shape in shapes for child in names.shapes[shape]}
    wanted = {operation for operation in wanted if not names.operations[operation].callee}
    rows, places = _ends(population, patterns, names, wanted)
    if not rows:
        return {}
    groups = [
        Selection({at: np.concatenate(parts) for at, parts in rows[key].items()}) for key in sorted(rows)
    ]
    chosen = choose(population, groups, _MOST_REQUESTS, np.random.default_rng(0))
    of_place: dict[str, dict[str, str]] = defaultdict(dict)
    for column in parameter_columns(population, chosen, keys=KEYS):
        if (name := _one_name(column)) is not None:
            of_place[column.where][column.key] = name
    found = {}
    for operation in sorted(rows):
        told = of_place.get(places[operation], {})
        name = next((told[key] for key in KEYS if key in told), None)
        if name is not None and name != names.operations[operation].component:
            found[operation] = name
    return found


def with_callees(names: Names, callees: Mapping[int, str]) -> Names:
    """The names with whom operations call; numbers stay."""
    operations = [
        name._replace(callee=callees.get(number, name.callee)) for number, name in enumerate(names.operations)
    ]
    return replace(names, operations=tuple(operations))


def _ends(
    population: Population, patterns: Sequence[Pattern], names: Names, wanted: Collection[int]
) -> tuple[dict[int, dict[int, list[I8]]], dict[int, str]]:
    """(operation -> category -> rows that have it, operation -> its `component/point` as it is stored)."""
    rows: dict[int, dict[int, list[I8]]] = defaultdict(lambda: defaultdict(list))
    places: dict[int, str] = {}
    others: set[int] = set()
    asked = np.array(sorted(wanted), dtype=np.int64)
    operation_of = np.array([site.operation for site in names.sites], dtype=np.int64)
    for pattern in patterns if len(asked) else ():
        sites, graph = pattern.sites, population.categories[pattern.category].graph
        if not sites.are_calls or graph.nesting is None:
            continue
        operation = operation_of[sites.site]
        for unit in np.flatnonzero(np.isin(operation, asked)).tolist():
            number = int(operation[unit])
            position = int(sites.start[unit])
            calls = names.shapes[int(sites.shape[unit])]
            if calls or sites.above[unit] < 0 or int(graph.nesting.kind[position]) in _ASKED:
                others.add(number)
            node = graph.nodes[position]
            places[number] = f"{node.component}/{node.point}"
        for number in np.unique(operation[np.isin(operation, asked)]).tolist():
            rows[number][pattern.category].append(pattern.rows)
    return {number: found for number, found in rows.items() if number not in others}, places


def _one_name(column: Column) -> str | None:
    """The name that nearly all values of a column are; None: there is none, or it is a mere address."""
    if column.levels is None or column.aggregate not in ("", "mode"):
        return None
    values = column.values[~np.isnan(column.values)].astype(np.int64)
    if not len(values):
        return None
    counts = np.bincount(values, minlength=len(column.levels))
    name = column.levels[int(counts.argmax())]
    return name if counts.max() >= _NEARLY_ALL * len(values) and not _is_address(name) else None


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
