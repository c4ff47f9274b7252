"""Windows, or hosts in windows, as instances with logs of their requests.

Events are the trace points at a host, or the arrivals, paths and failures in a window; states are rates and
shares, and for hosts own times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from analyze.methods.distalyze.instance_logs import (
    Instances,
    LogBook,
    LogSeries,
    VariableName,
    events_of,
    own_times,
)
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.population import OK, Category, Population
from analyze.profile.names import NameBook
from analyze.stats.moments import squared_variation
from analyze.stats.sums import totals
from schemas.arrays import B1, F8, I8
from schemas.report.networks import LogType
from schemas.windows import NS_PER_SECOND, NS_PER_US

_SLICES: Final = 12
"""Number of readings of rates and shares per window."""
_MOST_CATEGORIES: Final = 200
"""Maximum number of categories that become event variables of windows; the categories with most requests are
chosen."""


class _Touch(NamedTuple):
    """Pairs (request, instance that the request touches); arrays are [pairs]."""

    instance: I8
    slice: I8
    """Index of the part (of _SLICES) of the window in which the request started."""
    response_us: F8
    weight: F8
    root: I8
    """Index of the request's root type."""
    failed: B1


@dataclass(frozen=True, slots=True)
class WindowInstances:
    """Instances that are windows of time: of one host each, or of all hosts together."""

    population: Population
    length_ns: int
    """Length of a window, ns."""
    first: int
    """Number of the first window, to be subtracted from window numbers to index `instance_of`."""
    instance_of: I8
    """Index of the instance, int64[samples, windows, hosts]; -1 if the sample has no request there.

    One host if hosts are not distinguished.
    """
    by_host: bool
    """True if hosts are distinguished."""

    def __len__(self) -> int:
        return int(self.instance_of.max(initial=-1)) + 1

    def log(self, log_type: LogType) -> LogSeries:
        """Read one log of all instances. O(requests · nodes)."""
        book = LogBook(states=log_type == "state")
        if log_type == "state":
            self._rates(book)
        elif not self.by_host:
            self._window_events(book)
        if self.by_host:
            self._host_log(book)
        return book.series()

    def touches(self) -> _Touch:
        """Find the pairs of a request and an instance that it touches, each once."""
        parts: list[_Touch] = []
        for category, root in zip(
            self.population.categories, self.population.root_types()[1].tolist(), strict=True
        ):
            for host, touched in self._hosts(category):
                rows = np.flatnonzero(touched)
                sample, window = self._at(category, rows)
                inside = category.start_ns[rows] % self.length_ns
                parts.append(
                    _Touch(
                        self.instance_of[sample, window, host],
                        inside * _SLICES // self.length_ns,
                        category.response_ns[rows] / NS_PER_US,
                        category.weight[rows],
                        np.full(len(rows), root, np.int64),
                        self.population.failed(category, rows),
                    )
                )
        return _Touch(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _hosts(self, category: Category) -> list[tuple[int, B1]]:
        """Find the requests that touch each host of a category: (index of the host, bool[requests]); index 0
        with all requests if hosts are not distinguished."""
        if not self.by_host:
            return [(0, np.ones(category.n_requests, np.bool_))]
        if category.host is None:
            return []
        known = [host for host in np.unique(category.host).tolist() if host >= 0]
        return [(host, np.asarray((category.host == host).any(axis=0))) for host in known]

    def _at(self, category: Category, rows: I8) -> tuple[I8, I8]:
        """(Index of the sample, index of the window) of each of the requests `rows` of a category."""
        return category.sample[rows].astype(np.int64), category.start_ns[rows] // self.length_ns - self.first

    def _add(
        self,
        book: LogBook,
        variable: int,
        category: Category,
        since_ns: I8 | int = 0,
        *,
        host: I8 | None = None,
        rows: B1 | None = None,
        value: F8 | None = None,
    ) -> None:
        """Log one entry per request of a category, at `since_ns` after its start.

        host: index of the host of each request; rows: mask of the requests to log, None: all.
        """
        there = np.ones(category.n_requests, np.bool_) if rows is None else rows
        code = np.zeros(category.n_requests, np.int64) if host is None else host
        kept = np.flatnonzero(there & (code >= 0))
        instance = self.instance_of[*self._at(category, kept), code[kept]]
        # Time since the start of the window in which the request arrived.
        time_us = (category.start_ns % self.length_ns + since_ns)[kept] / NS_PER_US
        book.add(variable, instance.astype(np.int32), time_us, None if value is None else value[kept])

    def _host_log(self, book: LogBook) -> None:
        """Log the requests' trace points, or own times, at each host."""
        names = NameBook()
        for category in self.population.categories:
            if category.host is None:
                continue
            host = category.host.astype(np.int64)
            if not book.states:
                for node, name in enumerate(events_of(category.graph, names)):
                    self._add(book, book.names[name], category, category.node_ns[node], host=host[node])
                continue
            variables, end, own = own_times(category.graph, category.node_ns, book, names)
            for variable, node, value in zip(variables, end.tolist(), own, strict=True):
                self._add(book, variable, category, category.node_ns[node], host=host[node], value=value)

    def _window_events(self, book: LogBook) -> None:
        """Log arrivals by root type, paths of the largest categories, and failures."""
        population = self.population
        by_size = sorted(population.categories, key=lambda c: (-c.n_requests, c.graph.key))
        logged = {category.graph.key for category in by_size[:_MOST_CATEGORIES]}
        for category in population.categories:
            component, _, point = category.graph.root.partition("/")

            def number(what: str, component: str = component, point: str = point) -> int:
                return book.names[VariableName(component, point, what)]

            self._add(book, number("arrives"), category)
            if category.graph.key in logged:
                self._add(book, number(f"path {category.graph.key[:10]} taken"), category)
            for status in np.unique(category.status).tolist():
                word = population.statuses[status] if population.statuses else OK
                if word != OK:
                    self._add(book, number(f"ends {word}"), category, rows=category.status == status)

    def _rates(self, book: LogBook) -> None:
        """Log arrival rate, requests in flight, C² of response times, and failures; for windows also by root
        type."""
        touch = self.touches()
        cells = len(self) * _SLICES
        length_s = self.length_ns / _SLICES / NS_PER_SECOND
        key = touch.instance * _SLICES + touch.slice
        spent = touch.weight * touch.response_us
        count, total, squares, failed = (
            totals(key, part, cells)
            for part in (touch.weight, spent, spent * touch.response_us, touch.weight * touch.failed)
        )
        c2 = np.where(np.bincount(key, minlength=cells) > 1, squared_variation(count, total, squares), np.nan)

        def read(name: VariableName, of_cell: F8) -> None:
            """Log the readings of all slices of every instance; slices with NaN have no reading.

            of_cell: float64 readings by instance and slice.
            """
            time_us = np.tile(np.arange(1, _SLICES + 1), len(self)) * (self.length_ns / NS_PER_US / _SLICES)
            instance = np.repeat(np.arange(len(self), dtype=np.int32), _SLICES)
            book.add(book.names[name], instance, time_us.astype(np.float64), of_cell)

        read(VariableName("", "arrival rate", "a second", "value"), count / length_s)
        # Little's law: summed response time of the arriving requests over the length of the slice.
        read(VariableName("", "requests in flight", "", "value"), total / 1e6 / length_s)
        read(VariableName("", "response time", "C²", "value"), c2)
        if failed.any():
            share = failed / np.maximum(count, 1e-300)
            read(VariableName("", "failed requests", "", "share"), share)
        if self.by_host:
            return
        for number, root in enumerate(self.population.root_types()[0]):
            mine = touch.root == number
            component, _, point = root.partition("/")
            here, took = (totals(key[mine], part[mine], cells) for part in (touch.weight, spent))
            with np.errstate(invalid="ignore", divide="ignore"):
                read(VariableName(component, point, "requests", "count"), here)
                read(VariableName(component, point, "share", "share"), here / count)
                read(VariableName(component, point, "response time"), took / here)


def window_instances(
    population: Population, settings: DistalyzeSettings
) -> tuple[WindowInstances, Instances]:
    """Make the instances: one per window with a request; by host, one per (host, window) in which a request
    touched the host."""
    by_host = settings.instances == "host"
    length = population.window_ns
    starts = np.concatenate([category.start_ns for category in population.categories])
    first = int(starts.min()) // length
    windows = int(starts.max()) // length - first + 1
    instance_of = np.full(
        (len(population.samples), windows, len(population.hosts) if by_host else 1), -1, np.int64
    )
    found = WindowInstances(population, length, first, instance_of, by_host)
    for category in population.categories:
        for code, touched in found._hosts(category):
            sample, window = found._at(category, np.flatnonzero(touched))
            instance_of[sample, window, code] = 0
    sample, _, host = np.nonzero(instance_of == 0)
    n = len(sample)
    instance_of[instance_of == 0] = np.arange(n)
    problem = host == population.hosts.index(settings.host) if settings.host else sample == 1
    touch = found.touches()
    weight, spent = (
        totals(touch.instance, part, n) for part in (touch.weight, touch.weight * touch.response_us)
    )
    mean_us = spent / np.maximum(weight, 1e-300)
    return found, Instances(problem, mean_us, np.full(n, length / NS_PER_US), np.ones(n))
