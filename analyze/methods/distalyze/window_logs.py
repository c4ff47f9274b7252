"""Hosts in windows, and windows, as instances (ALGORITHMS G.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from analyze.methods.distalyze.distalyze_settings import DistalyzeSettings
from analyze.methods.distalyze.instance_logs import (
    Instances,
    LogBook,
    LogType,
    Quantity,
    Series,
    VariableName,
)
from analyze.methods.distalyze.request_logs import NS_PER_US, events_of, own_times
from analyze.population import Category, Population
from analyze.profile.names import NameBook
from schemas.arrays import B1, F8, I8
from schemas.windows import NS_PER_SECOND

SLICES: Final = 12
"""Readings of rates and shares in one window."""
MOST_CATEGORIES: Final = 200
"""Categories that are event variables of windows, those of most requests."""
OK: Final = "ok"


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

    def log(self, log_type: LogType) -> Series:
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
            events = events_of(category.graph, names)
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
            variables, end, own = own_times(category, book, names)
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
        told = {category.graph.key for category in by_size[:MOST_CATEGORIES]}
        for category in population.categories:
            sample, window = self._at(category)
            since = self._since(category, np.zeros(category.n_requests, np.int64))
            zero = np.zeros(category.n_requests, np.int64)
            component, _, point = category.graph.root.partition("/")
            self._add(
                book, book.number(VariableName(component, point, "arrives")), sample, window, zero, since
            )
            if category.graph.key in told:
                name = VariableName(component, point, f"path {category.graph.key[:10]} taken")
                self._add(book, book.number(name), sample, window, zero, since)
            for status in np.unique(category.status).tolist():
                word = population.statuses[status] if population.statuses else OK
                if word != OK:
                    rows = np.flatnonzero(category.status == status)
                    name = VariableName(component, point, f"ends {word}")
                    number = book.number(name)
                    self._add(book, number, sample[rows], window[rows], zero[rows], since[rows])

    def _rates(self, book: LogBook) -> None:
        """Arrival rate, requests in flight, C², failures; of windows also those of each root type."""
        touch = _touches(self)
        n = len(self.instances)
        cells = n * SLICES
        length_s = self.length_ns / SLICES / NS_PER_SECOND
        key = touch.instance * SLICES + touch.slice
        count: F8 = np.bincount(key, touch.weight, cells).astype(np.float64)
        total = np.bincount(key, touch.weight * touch.response_us, cells)
        squares = np.bincount(key, touch.weight * touch.response_us**2, cells)
        seen = np.bincount(key, minlength=cells)
        failed = np.bincount(key, touch.weight * touch.failed, cells).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = total / count
            c2 = np.where(seen > 1, squares / count / mean**2 - 1, np.nan)
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
        roots = sorted({category.graph.root for category in self.population.categories})
        for number, root in enumerate(roots):
            mine = touch.root == number
            component, _, point = root.partition("/")
            here = np.bincount(key[mine], touch.weight[mine], cells).astype(np.float64)
            spent = np.bincount(key[mine], (touch.weight * touch.response_us)[mine], cells)
            with np.errstate(invalid="ignore", divide="ignore"):
                self._read(book, VariableName(component, point, "requests", Quantity.COUNT), here)
                self._read(book, VariableName(component, point, "share", Quantity.SHARE), here / count)
                self._read(book, VariableName(component, point, "response time"), spent / here)

    def _read(self, book: LogBook, name: VariableName, of_cell: F8) -> None:
        """Readings of every slice of every instance; NaN where there is nothing to read."""
        n = len(self.instances)
        time_us = (np.tile(np.arange(1, SLICES + 1), n)) * (self.length_ns / NS_PER_US / SLICES)
        instance = np.repeat(np.arange(n, dtype=np.int32), SLICES)
        book.add(book.number(name), instance, time_us.astype(np.float64), of_cell)


def _hosted(population: Population) -> Iterator[tuple[Category, I8]]:
    """Categories with the hosts of their nodes, [nodes, requests]."""
    for category in population.categories:
        if category.host is not None:
            yield category, category.host.astype(np.int64)


def _touches(found: WindowInstances) -> _Touch:
    """Every request in every instance that it touches, once."""
    population = found.population
    roots = {root: i for i, root in enumerate(sorted({c.graph.root for c in population.categories}))}
    ok = population.statuses.index(OK) if OK in population.statuses else -1
    parts: list[_Touch] = []
    for category in population.categories:
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
                    inside * SLICES // found.length_ns,
                    category.response_ns[rows] / NS_PER_US,
                    category.weight[rows],
                    np.full(len(rows), roots[category.graph.root], np.int64),
                    (category.status[rows] != ok) & (ok >= 0),
                )
            )
    return _Touch(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def host_windows(population: Population, settings: DistalyzeSettings) -> WindowInstances:
    """Instances: every host in every window in which a request touched it."""
    return _made(population, settings, by_host=True)


def windows(population: Population, settings: DistalyzeSettings) -> WindowInstances:
    """Instances: every window with a request."""
    return _made(population, settings, by_host=False)


def _made(population: Population, settings: DistalyzeSettings, *, by_host: bool) -> WindowInstances:
    length = int(settings.slice_seconds * NS_PER_SECOND) or population.window_ns
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
    performance = _mean(touch, n) if settings.window_time == "mean" else _p99(touch, n)
    instances = Instances(problem, performance, blank.duration_us, blank.weight)
    return WindowInstances(population, instances, length, first, instance_of, by_host)


def _mean(touch: _Touch, n: int) -> F8:
    """[instances] mean response time of the requests that touch it."""
    return np.asarray(
        np.bincount(touch.instance, touch.weight * touch.response_us, n)
        / np.maximum(np.bincount(touch.instance, touch.weight, n), 1e-300)
    )


def _p99(touch: _Touch, n: int) -> F8:
    """[instances] 99th percentile, by count."""
    order = np.lexsort((touch.response_us, touch.instance))
    begin = np.searchsorted(touch.instance[order], np.arange(n))
    size = np.bincount(touch.instance, minlength=n)
    place = begin + np.maximum(np.ceil(0.99 * size).astype(np.int64) - 1, 0)
    return np.asarray(touch.response_us[order][place])
