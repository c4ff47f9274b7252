"""Logs of requests, in columns: each request is an instance, its log the entries of events or of states.

Events have a time, states a value and a time. A request's events are its trace points; its states are own
times and parameters. Instances that are windows of time are in `window_logs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from analyze.explain.chosen_requests import ChosenRequests
from analyze.explain.parameters import parameter_readings
from analyze.numbering import Numbering
from analyze.population import Graph, Population
from analyze.profile.call_sites import sites_of_graphs
from analyze.profile.names import NO_CALLER, NameBook, SiteKind
from analyze.profile.times import own_time_ns
from schemas.arrays import B1, F8, I4, I8
from schemas.report.networks import LogType, Quantity
from schemas.windows import NS_PER_US
from stitch.graph.placed import END, START

_MEASURE = {START: "starts", END: "ends"}


class VariableName(NamedTuple):
    """Name of a variable in a log."""

    component: str
    what: str
    """Operation, trace point or parameter of the variable."""
    measure: str
    """Measured aspect: `starts`, `ends`, `reached`, `own time`, …"""
    quantity: Quantity = "us"

    @property
    def text(self) -> str:
        """Name of the variable in one line, for people and tables."""
        where = f"{self.component}/{self.what}" if self.component else self.what
        return f"{where} {self.measure}".rstrip()


@dataclass(frozen=True, slots=True)
class LogSeries:
    """Log of events or states of all instances, sorted by (variable, instance, time).

    Arrays are [entries].
    """

    names: tuple[VariableName, ...]
    """Names of the variables, by index."""
    first: I8
    """Index of the first entry of each variable, int64[variables + 1]; the last element is the number of
    entries."""
    instance: I4
    """Index of the instance of each entry."""
    time_us: F8
    """Time of each entry since the start of the instance, µs."""
    value: F8 | None
    """Value of each entry; None for a log of events."""

    @property
    def log_type(self) -> LogType:
        """Type of the log: "event" or "state"."""
        return "event" if self.value is None else "state"

    def between(self, start: int, stop: int) -> LogSeries:
        """Log of only the variables `start` to `stop` (exclusive), without a copy."""
        rows = slice(int(self.first[start]), int(self.first[stop]))
        return LogSeries(
            self.names[start:stop],
            self.first[start : stop + 1] - self.first[start],
            self.instance[rows],
            self.time_us[rows],
            None if self.value is None else self.value[rows],
        )

    def of_variables(self, kept: I8) -> LogSeries:
        """Log of only the variables with indices `kept`, renumbered in that order."""
        size = np.diff(self.first)[kept]
        first = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        rows = np.arange(first[-1]) + np.repeat(self.first[kept] - first[:-1], size)
        return LogSeries(
            tuple(self.names[i] for i in kept.tolist()),
            first,
            self.instance[rows],
            self.time_us[rows],
            None if self.value is None else self.value[rows],
        )


@dataclass(frozen=True, slots=True)
class Instances:
    """Instances of both classes; arrays are [instances]."""

    problem: B1
    """True for instances of class C1 (slow, problem, the host), False for class C0 (fast, reference, the
    rest)."""
    performance_us: F8
    """Performance of each instance (the paper's P), µs: response time of a request, mean response time of a
    window."""
    duration_us: F8
    """Duration of each instance, µs: the denominator of relative times."""
    weight: F8
    """Weight of each instance: inverse sampling probability."""

    def __len__(self) -> int:
        return len(self.problem)

    @property
    def means_us(self) -> tuple[float, float]:
        """Weighted mean performance of each class, µs: (C0, C1)."""
        before, after = (
            float(np.average(self.performance_us[mine], weights=self.weight[mine]))
            for mine in (~self.problem, self.problem)
        )
        return before, after


@dataclass(slots=True)
class LogBook:
    """Collector of the entries of one log, added in any order.

    Entries are held by variable, so that each sort fits into a CPU cache.
    """

    states: bool
    names: Numbering[VariableName] = field(default_factory=Numbering)
    _parts: dict[int, list[tuple[npt.NDArray[Any], ...]]] = field(default_factory=dict)

    def add(self, variable: int, instance: I4, time_us: F8, value: F8 | None = None) -> None:
        """Add entries of one variable, arrays [entries]. value: value of each entry, for logs of states;
        entries whose value is not finite are dropped."""
        entries = (instance, time_us) if value is None else (instance, time_us, value)
        self._parts.setdefault(variable, []).append(entries)

    def add_matrix(
        self, variables: Sequence[int], instance: I8, time_us: F8, value: F8 | None = None
    ) -> None:
        """Add an entry for every (variable, instance); matrices are [variables, instances]."""
        rows = instance.astype(np.int32)
        for place, variable in enumerate(variables):
            self.add(variable, rows, time_us[place], None if value is None else value[place])

    def series(self) -> LogSeries:
        """Sort the collected entries by (name of the variable, instance, time), and empty the collector.

        O(entries log entries).
        """
        listed = sorted(self.names)
        n = sum(len(part[0]) for parts in self._parts.values() for part in parts)
        log: list[npt.NDArray[Any]] = [np.empty(n, np.int32), np.empty(n)]
        log += [np.empty(n)] if self.states else []
        first = [0]
        for name in listed:
            entries = self._sorted(self._parts.pop(self.names[name], []))
            first.append(first[-1] + len(entries[0]))
            for column, values in zip(log, entries, strict=True):
                column[first[-2] : first[-1]] = values
        instance, time_us, *value = (column[: first[-1]] for column in log)
        return LogSeries(tuple(listed), np.array(first), instance, time_us, value[0] if self.states else None)

    def _sorted(self, parts: Sequence[tuple[npt.NDArray[Any], ...]]) -> list[npt.NDArray[Any]]:
        """Sort the entries of one variable by (instance, time): instances, times, and values for states."""
        if not parts:
            return [np.zeros(0)] * (2 + self.states)
        entries = [np.concatenate(column) for column in zip(*parts, strict=True)]
        if self.states and not (fine := np.isfinite(entries[2])).all():
            entries = [column[fine] for column in entries]
        if not (entries[0][1:] > entries[0][:-1]).all():
            order = np.lexsort((entries[1], entries[0]))
            entries = [column[order] for column in entries]
        return entries


def request_instances(population: Population, chosen: ChosenRequests) -> Instances:
    """Make the instances of chosen requests: group 0 is class C0, group 1 is C1."""
    response = np.zeros(len(chosen))
    for index in np.unique(chosen.category).tolist():
        mine = np.flatnonzero(chosen.category == index)
        response[mine] = population.categories[index].response_ns[chosen.row[mine]] / NS_PER_US
    return Instances(chosen.group == 1, response, response, chosen.weight)


def request_log(population: Population, chosen: ChosenRequests, log_type: LogType) -> LogSeries:
    """Read the log of events or of states of the chosen requests.

    O(requests · nodes), without loops over requests.
    """
    book = LogBook(states=log_type == "state")
    names = NameBook()
    for index in np.unique(chosen.category).tolist():
        mine = np.flatnonzero(chosen.category == index)
        category = population.categories[index]
        node_ns = np.ascontiguousarray(category.node_ns[:, chosen.row[mine]])
        if log_type == "event":
            variables = [book.names[name] for name in events_of(category.graph, names)]
            book.add_matrix(variables, mine, node_ns / NS_PER_US)
        else:
            variables, end, own = own_times(category.graph, node_ns, book, names)
            book.add_matrix(variables, mine, node_ns[end] / NS_PER_US, own)
    if log_type == "state":
        _parameters(population, chosen, book)
    return book.series()


def events_of(graph: Graph, names: NameBook) -> list[VariableName]:
    """Event variable of each node of a graph, in node order.

    The name of the caller's side of a remote call includes the callee, as in the names of own times: client
    spans may be called `GET` for any target.
    """
    if graph.nesting is None:
        return [
            VariableName(node.where, node.what, _MEASURE.get(node.side, "reached")) for node in graph.nodes
        ]
    (sites,) = sites_of_graphs([graph], [()], names)
    operations, known = tuple(names.operations), tuple(names.sites)
    found = []
    for node, unit in zip(graph.nodes, sites.unit_at.tolist(), strict=True):
        _, operation, _ = known[int(sites.site[unit])]
        name = operations[operation]
        found.append(VariableName(name.component, name.what, _MEASURE.get(node.side, "reached")))
    return found


def own_times(graph: Graph, node_ns: I8, book: LogBook, names: NameBook) -> tuple[list[int], I8, F8]:
    """Own times of the units (calls, or steps) of a graph: (variable of each unit, node at which each ends,
    own times in µs, float64[units, requests]).

    node_ns: int64[nodes, requests], ns.
    """
    (sites,) = sites_of_graphs([graph], [()], names)
    operations, known = tuple(names.operations), tuple(names.sites)
    variables = []
    for site in sites.site.tolist():
        caller, operation, kind = known[site]
        name = operations[operation]
        step = kind == SiteKind.STEP and caller != NO_CALLER
        measure = f"after {operations[caller].text}" if step else "own time"
        variables.append(book.names[VariableName(name.component, name.what, measure)])
    own = own_time_ns(node_ns, sites, np.arange(sites.n_units, dtype=np.int64))
    return variables, sites.end, own / NS_PER_US


def _parameters(population: Population, chosen: ChosenRequests, book: LogBook) -> None:
    """Add numeric parameters to `book`. Parameters have no time: their order in the request is used
    instead."""
    read = parameter_readings(population, chosen)
    if not len(read.request):
        return
    response = request_instances(population, chosen).duration_us
    time_us = read.progress * response[read.request]
    cuts = np.flatnonzero(np.diff(read.field)) + 1
    for rows in np.split(np.arange(len(read.field)), cuts):
        where, key = read.fields[int(read.field[rows[0]])]
        component, _, point = where.partition("/")
        number = book.names[VariableName(component, point, f"parameter {key}", "value")]
        book.add(number, read.request[rows].astype(np.int32), time_us[rows], read.number[rows])
