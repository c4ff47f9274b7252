"""Read requests, hosts or windows as instances with logs, columnar.

Events say what happened when, states what a value was when. Of a request trace points are the events, own
times and parameters the states; of a host in a window, or of a window, what its requests did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from analyze.explain.chosen_requests import ChosenRequests
from analyze.explain.parameters import parameter_readings
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.population import Category, Graph, GraphNode, Population
from analyze.profile.call_sites import graph_sites
from analyze.profile.names import NO_CALLER, NameBook, OperationName, SiteKind
from analyze.profile.times import own_time_ns
from analyze.stats.moments import squared_variation
from analyze.stats.sums import totals
from schemas.arrays import B1, F8, I4, I8
from schemas.windows import NS_PER_SECOND, NS_PER_US
from stitch.graph.placed import END, START

_MEASURE = {START: "starts", END: "ends"}
_SLICES: Final = 12
"""Readings of rates and shares in one window."""
_MOST_CATEGORIES: Final = 200
"""Categories that are event variables of windows, those of most requests."""
_OK: Final = "ok"


class LogType(StrEnum):
    """The two kinds of log messages (DIST §2)."""

    EVENT = "event"
    STATE = "state"


class Quantity(StrEnum):
    """What a state variable's values are."""

    TIME = "us"
    COUNT = "count"
    SHARE = "share"
    VALUE = "value"


class VariableName(NamedTuple):
    """What is logged."""

    component: str
    what: str
    """Operation, trace point, parameter."""
    measure: str
    """`starts`, `ends`, `reached`, `own time` …"""
    quantity: Quantity = Quantity.TIME

    @property
    def text(self) -> str:
        """One line, for people and tables."""
        where = f"{self.component}/{self.what}" if self.component else self.what
        return f"{where} {self.measure}".rstrip()


@dataclass(frozen=True, slots=True)
class LogSeries:
    """One log of all instances, sorted by (variable, instance, time); arrays are [entries]."""

    names: tuple[VariableName, ...]
    first: I8
    """[variables + 1] where each variable's entries begin."""
    instance: I4
    time_us: F8
    """Since the instance began."""
    value: F8 | None
    """None: events."""

    @property
    def log_type(self) -> LogType:
        """Events or states."""
        return LogType.EVENT if self.value is None else LogType.STATE

    def between(self, start: int, stop: int) -> LogSeries:
        """Variables `start` to `stop` (not included), without a copy."""
        rows = slice(int(self.first[start]), int(self.first[stop]))
        return LogSeries(
            self.names[start:stop],
            self.first[start : stop + 1] - self.first[start],
            self.instance[rows],
            self.time_us[rows],
            None if self.value is None else self.value[rows],
        )

    def of_variables(self, kept: I8) -> LogSeries:
        """Some variables, numbered as they come in `kept`."""
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
    """The instances of both classes; arrays are [instances]."""

    problem: B1
    """Class: False C0 (fast, reference, the rest), True C1 (slow, problem, the host)."""
    performance_us: F8
    """P: response time, or what stands for it."""
    duration_us: F8
    """What relative times are relative to."""
    weight: F8
    """Inverse sampling probability."""

    def __len__(self) -> int:
        return len(self.problem)


@dataclass(slots=True)
class LogBook:
    """Collects entries of one log in any order, variable by variable: what is sorted fits into a cache."""

    states: bool
    names: dict[VariableName, int] = field(default_factory=dict)
    _parts: dict[int, list[tuple[I4, F8, F8 | None]]] = field(default_factory=dict)

    def number(self, name: VariableName) -> int:
        """Number of a variable."""
        return self.names.setdefault(name, len(self.names))

    def add(self, variable: int, instance: I4, time_us: F8, value: F8 | None = None) -> None:
        """Entries of one variable, [entries] each; of states with values, of which only finite ones count."""
        self._parts.setdefault(variable, []).append((instance, time_us, value))

    def add_matrix(
        self, variables: Sequence[int], instance: I8, time_us: F8, value: F8 | None = None
    ) -> None:
        """Entries of every (variable, instance); matrices are [variables, instances]."""
        rows = instance.astype(np.int32)
        for place, variable in enumerate(variables):
            self.add(variable, rows, time_us[place], None if value is None else value[place])

    def series(self) -> LogSeries:
        """What was collected, variables by name; gone from here afterwards. O(entries log entries)."""
        listed = sorted(self.names)
        sizes = [sum(len(part[0]) for part in self._parts.get(self.names[name], ())) for name in listed]
        n = sum(sizes)
        instance, time_us = np.empty(n, np.int32), np.empty(n)
        value = np.empty(n) if self.states else None
        first = np.zeros(len(listed) + 1, np.int64)
        end = 0
        for place, name in enumerate(listed):
            for one, when, read in self._sorted(self._parts.pop(self.names[name], [])):
                rows = slice(end, end + len(one))
                instance[rows], time_us[rows] = one, when
                if value is not None and read is not None:
                    value[rows] = read
                end = rows.stop
            first[place + 1] = end
        return LogSeries(
            tuple(listed), first, instance[:end], time_us[:end], None if value is None else value[:end]
        )

    def _sorted(self, parts: Sequence[tuple[I4, F8, F8 | None]]) -> Iterator[tuple[I4, F8, F8 | None]]:
        """The entries of one variable by (instance, time)."""
        if not parts:
            return
        instance = np.concatenate([part[0] for part in parts])
        time_us = np.concatenate([part[1] for part in parts])
        value = np.concatenate([part[2] for part in parts if part[2] is not None]) if self.states else None
        if value is not None and not (fine := np.isfinite(value)).all():
            instance, time_us, value = instance[fine], time_us[fine], value[fine]
        if not (instance[1:] > instance[:-1]).all():
            order = np.lexsort((time_us, instance))
            instance, time_us = instance[order], time_us[order]
            value = None if value is None else value[order]
        yield instance, time_us, value


def request_instances(population: Population, chosen: ChosenRequests) -> Instances:
    """The instances of chosen requests: group 0 is C0, group 1 is C1."""
    response = np.zeros(len(chosen))
    for index in np.unique(chosen.category).tolist():
        mine = np.flatnonzero(chosen.category == index)
        response[mine] = population.categories[index].response_ns[chosen.row[mine]] / NS_PER_US
    return Instances(chosen.group == 1, response, response, chosen.weight)


def request_log(population: Population, chosen: ChosenRequests, log_type: LogType) -> LogSeries:
    """One log of chosen requests. O(requests · nodes), no loop over requests."""
    book = LogBook(states=log_type is LogType.STATE)
    names = NameBook()
    for index in np.unique(chosen.category).tolist():
        mine = np.flatnonzero(chosen.category == index)
        category = _rows_of(population.categories[index], chosen.row[mine])
        if log_type is LogType.EVENT:
            variables = [book.number(name) for name in _events_of(category.graph, names)]
            book.add_matrix(variables, mine, category.node_ns / NS_PER_US)
        else:
            _log_own_times(category, mine, book, names)
    if log_type is LogType.STATE:
        _parameters(population, chosen, book)
    return book.series()


def _rows_of(category: Category, rows: I8) -> Category:
    """What times are made of, of some requests."""
    return replace(
        category,
        node_ns=np.ascontiguousarray(category.node_ns[:, rows]),
        response_ns=category.response_ns[rows],
        start_ns=category.start_ns[rows],
        weight=category.weight[rows],
        sample=category.sample[rows],
        status=category.status[rows],
        request_id=category.request_id,
        host=None if category.host is None else category.host[:, rows],
        origin=None if category.origin is None else category.origin[rows],
    )


def _events_of(graph: Graph, names: NameBook) -> list[VariableName]:
    """[nodes] the events that the nodes of a graph are.

    The caller's side of a remote call is named with whom it calls, as its own time is: client spans are
    called `GET` wherever they go, and what a service takes shows when its callers go on.
    """
    if graph.nesting is None:
        return [_event(node) for node in graph.nodes]
    sites = graph_sites(graph, (), names)
    operations, known = tuple(names.operations), tuple(names.sites)
    found = []
    for node, unit in zip(graph.nodes, sites.unit_at.tolist(), strict=True):
        _, operation, _ = known[int(sites.site[unit])]
        name = operations[operation]
        found.append(VariableName(name.component, _with_callee(name), _MEASURE.get(node.side, "reached")))
    return found


def _event(node: GraphNode) -> VariableName:
    component = f"{node.host}/{node.component}" if node.host else node.component
    what = node.point if node.label is None else f"{node.point}/{node.label}"
    return VariableName(component, what, _MEASURE.get(node.side, "reached"))


def _with_callee(name: OperationName) -> str:
    return name.point + (f" -> {name.callee}" if name.callee else "")


def _own_times(category: Category, book: LogBook, names: NameBook) -> tuple[list[int], I8, F8]:
    """Variables of the units' own times [units], when units end and their own times [units, requests], µs."""
    sites = graph_sites(category.graph, (), names)
    operations, known = tuple(names.operations), tuple(names.sites)
    variables = []
    for site in sites.site.tolist():
        caller, operation, kind = known[site]
        name = operations[operation]
        step = kind == SiteKind.STEP and caller != NO_CALLER
        measure = f"after {operations[caller].text}" if step else "own time"
        variables.append(book.number(VariableName(name.component, _with_callee(name), measure)))
    own = own_time_ns(category.node_ns, sites, np.arange(sites.n_units, dtype=np.int64))
    return variables, sites.end, own / NS_PER_US


def _log_own_times(category: Category, mine: I8, book: LogBook, names: NameBook) -> None:
    variables, end, own = _own_times(category, book, names)
    if variables:
        book.add_matrix(variables, mine, category.node_ns[end] / NS_PER_US, own)


def _parameters(population: Population, chosen: ChosenRequests, book: LogBook) -> None:
    """Numeric parameters. They are kept without a time: their place in the request stands for it."""
    read = parameter_readings(population, chosen)
    if not len(read.request):
        return
    response = request_instances(population, chosen).duration_us
    time_us = read.progress * response[read.request]
    cuts = np.flatnonzero(np.diff(read.field)) + 1
    for rows in np.split(np.arange(len(read.field)), cuts):
        where, key = read.fields[int(read.field[rows[0]])]
        component, _, point = where.partition("/")
        number = book.number(VariableName(component, point, f"parameter {key}", Quantity.VALUE))
        book.add(number, read.request[rows].astype(np.int32), time_us[rows], read.number[rows])


class _Touch(NamedTuple):
    """One request in one instance; arrays are [touches]."""

    instance: I8
    slice: I8
    response_us: F8
    weight: F8
    root: I8
    failed: B1


@dataclass(frozen=True, slots=True)
class WindowInstances:
    """Instances that are stretches of time, of a host or of all."""

    population: Population
    instances: Instances
    length_ns: int
    first: int
    """Number of the first window."""
    instance_of: I8
    """[samples, windows, hosts] instance, -1 for none; one host where hosts are not looked at."""
    by_host: bool

    def log(self, log_type: LogType) -> LogSeries:
        """One log of all instances. O(requests · nodes)."""
        book = LogBook(states=log_type is LogType.STATE)
        if log_type is LogType.EVENT:
            (self._host_events if self.by_host else self._window_events)(book)
        else:
            self._rates(book)
            if self.by_host:
                self._host_states(book)
        return book.series()

    def _since(self, category: Category, time_ns: I8) -> F8:
        """[…, requests] times since the beginning of the window that the request arrived in, µs."""
        inside: I8 = category.start_ns % self.length_ns
        return np.asarray((inside + time_ns) / NS_PER_US)

    def _at(self, category: Category) -> tuple[I8, I8]:
        """[requests] (sample, window) as indices."""
        return category.sample.astype(np.int64), category.start_ns // self.length_ns - self.first

    def _host_events(self, book: LogBook) -> None:
        names = NameBook()
        for category, host in _hosted(self.population):
            events = _events_of(category.graph, names)
            sample, window = self._at(category)
            since = self._since(category, category.node_ns)
            for node, codes in enumerate(host):
                self._add(
                    book,
                    book.number(events[node]),
                    sample,
                    window,
                    codes,
                    since[node],
                )

    def _host_states(self, book: LogBook) -> None:
        names = NameBook()
        for category, host in _hosted(self.population):
            sample, window = self._at(category)
            variables, end, own = _own_times(category, book, names)
            since = self._since(category, category.node_ns[end])
            for unit, variable in enumerate(variables):
                self._add(book, variable, sample, window, host[end[unit]], since[unit], own[unit])

    def _add(
        self,
        book: LogBook,
        variable: int,
        sample: I8,
        window: I8,
        codes: I8,
        since: F8,
        value: F8 | None = None,
    ) -> None:
        there = np.flatnonzero(codes >= 0)
        instance = self.instance_of[sample[there], window[there], codes[there]]
        book.add(
            variable,
            instance.astype(np.int32),
            since[there],
            None if value is None else value[there],
        )

    def _window_events(self, book: LogBook) -> None:
        population = self.population
        by_size = sorted(population.categories, key=lambda c: (-c.n_requests, c.graph.key))
        logged = {category.graph.key for category in by_size[:_MOST_CATEGORIES]}
        for category in population.categories:
            sample, window = self._at(category)
            since = self._since(category, np.zeros(category.n_requests, np.int64))
            zero = np.zeros(category.n_requests, np.int64)
            component, _, point = category.graph.root.partition("/")
            self._add(
                book, book.number(VariableName(component, point, "arrives")), sample, window, zero, since
            )
            if category.graph.key in logged:
                name = VariableName(component, point, f"path {category.graph.key[:10]} taken")
                self._add(book, book.number(name), sample, window, zero, since)
            for status in np.unique(category.status).tolist():
                word = population.statuses[status] if population.statuses else _OK
                if word != _OK:
                    rows = np.flatnonzero(category.status == status)
                    name = VariableName(component, point, f"ends {word}")
                    number = book.number(name)
                    self._add(book, number, sample[rows], window[rows], zero[rows], since[rows])

    def _rates(self, book: LogBook) -> None:
        """Arrival rate, requests in flight, C², failures; of windows also those of each root type."""
        touch = _touches(self)
        n = len(self.instances)
        cells = n * _SLICES
        length_s = self.length_ns / _SLICES / NS_PER_SECOND
        key = touch.instance * _SLICES + touch.slice
        count = totals(key, touch.weight, cells)
        total = totals(key, touch.weight * touch.response_us, cells)
        squares = totals(key, touch.weight * touch.response_us**2, cells)
        seen = np.bincount(key, minlength=cells)
        failed = totals(key, touch.weight * touch.failed, cells)
        c2 = np.where(seen > 1, squared_variation(count, total, squares), np.nan)
        self._read(book, VariableName("", "arrival rate", "a second", Quantity.VALUE), count / length_s)
        # Little's law: the time that arriving requests bring, over the time they arrive in.
        self._read(book, VariableName("", "requests in flight", "", Quantity.VALUE), total / 1e6 / length_s)
        self._read(book, VariableName("", "response time", "C²", Quantity.VALUE), c2)
        if failed.any():
            self._read(
                book,
                VariableName("", "failed requests", "", Quantity.SHARE),
                failed / np.maximum(count, 1e-300),
            )
        if self.by_host:
            return
        for number, root in enumerate(self.population.root_types()[0]):
            mine = touch.root == number
            component, _, point = root.partition("/")
            here = totals(key[mine], touch.weight[mine], cells)
            spent = totals(key[mine], (touch.weight * touch.response_us)[mine], cells)
            with np.errstate(invalid="ignore", divide="ignore"):
                self._read(book, VariableName(component, point, "requests", Quantity.COUNT), here)
                self._read(book, VariableName(component, point, "share", Quantity.SHARE), here / count)
                self._read(book, VariableName(component, point, "response time"), spent / here)

    def _read(self, book: LogBook, name: VariableName, of_cell: F8) -> None:
        """Readings of every slice of every instance; NaN where there is nothing to read."""
        n = len(self.instances)
        time_us = (np.tile(np.arange(1, _SLICES + 1), n)) * (self.length_ns / NS_PER_US / _SLICES)
        instance = np.repeat(np.arange(n, dtype=np.int32), _SLICES)
        book.add(book.number(name), instance, time_us.astype(np.float64), of_cell)


def _hosted(population: Population) -> Iterator[tuple[Category, I8]]:
    """Categories with the hosts of their nodes, [nodes, requests]."""
    for category in population.categories:
        if category.host is not None:
            yield category, category.host.astype(np.int64)


def _touches(found: WindowInstances) -> _Touch:
    """Every request in every instance that it touches, once."""
    population = found.population
    roots = population.root_types()[1].tolist()
    ok = population.statuses.index(_OK) if _OK in population.statuses else -1
    parts: list[_Touch] = []
    for category, root in zip(population.categories, roots, strict=True):
        sample, window = found._at(category)
        hosts = [0]
        if found.by_host:
            hosts = [] if category.host is None else [h for h in np.unique(category.host).tolist() if h >= 0]
        for host in hosts:
            rows = np.arange(category.n_requests)
            if found.by_host and category.host is not None:
                rows = np.flatnonzero((category.host == host).any(axis=0))
            inside = category.start_ns[rows] % found.length_ns
            parts.append(
                _Touch(
                    found.instance_of[sample[rows], window[rows], host],
                    inside * _SLICES // found.length_ns,
                    category.response_ns[rows] / NS_PER_US,
                    category.weight[rows],
                    np.full(len(rows), root, np.int64),
                    (category.status[rows] != ok) & (ok >= 0),
                )
            )
    return _Touch(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def window_instances(population: Population, settings: DistalyzeSettings) -> WindowInstances:
    """Instances: every window with a request, or every host in every window in which a request touched it."""
    by_host = settings.instances == "host"
    length = population.window_ns
    starts = np.concatenate([category.start_ns for category in population.categories])
    first = int(starts.min()) // length
    shape = (
        len(population.samples),
        int(starts.max()) // length - first + 1,
        len(population.hosts) if by_host else 1,
    )
    seen = np.zeros(shape, np.bool_)
    for category in population.categories:
        sample, window = category.sample.astype(np.int64), category.start_ns // length - first
        if not by_host:
            seen[sample, window, 0] = True
        elif category.host is not None:
            for codes in category.host:
                there = np.flatnonzero(codes >= 0)
                seen[sample[there], window[there], codes[there]] = True
    instance_of = np.full(shape, -1, np.int64)
    instance_of[seen] = np.arange(int(seen.sum()))
    sample, _, host = np.nonzero(seen)
    problem = host == population.hosts.index(settings.host) if settings.host else sample == 1
    n = len(sample)
    blank = Instances(problem, np.zeros(n), np.full(n, length / NS_PER_US), np.ones(n))
    found = WindowInstances(population, blank, length, first, instance_of, by_host)
    touch = _touches(found)
    instances = Instances(problem, _mean(touch, n), blank.duration_us, blank.weight)
    return WindowInstances(population, instances, length, first, instance_of, by_host)


def _mean(touch: _Touch, n: int) -> F8:
    """[instances] mean response time of the requests that touch it."""
    weight = totals(touch.instance, touch.weight, n)
    return totals(touch.instance, touch.weight * touch.response_us, n) / np.maximum(weight, 1e-300)
