"""Columns of attributes (numbers or texts), and columns of the request as a whole: root type, hosts, hour,
sampling probability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from analyze.explain.chosen_requests import ChosenRequests
from analyze.population import Population
from schemas.arrays import B1, F8, I4, I8
from schemas.windows import NS_PER_MINUTE

REQUEST: Final = "request"
"""`AttributeColumn.where` of attributes of the request as a whole."""
ANYWHERE: Final = ""
"""`AttributeColumn.where` of parameters that have the same value in a request at all operations that record
them."""
OTHER: Final = "(other)"
"""Value of a text column that stands for all rare values, which have no separate code."""
MISSING: Final = "(missing)"
_LONGEST_WORD: Final = 80
"""Maximum number of displayed characters of a value of a text column."""
_HOST: Final = "host"
TYPE: Final = "type"
REACHES: Final = "reaches host"
"""Prefix of the key of a column that tells, by `yes` or `no`, if a request reaches a host."""
_MOST_REACHED: Final = 12
"""Maximum number of "reaches host" columns of a component, for its most frequent hosts."""
_NS_PER_HOUR: Final = 60 * NS_PER_MINUTE
_HOUR: Final = "hour of day (UTC)"
_SAMPLED: Final = "sampled"
OF_PERIODS: Final = frozenset({_HOUR, _SAMPLED})
"""Keys of columns that differ between periods merely because other times were chosen, so that they are
compared within one period only."""


@dataclass(frozen=True, slots=True)
class AttributeColumn:
    """Values of one attribute for all requests of a table."""

    where: str
    """Node or component that the attribute belongs to: `component/point`, component, `request`, or empty
    (ANYWHERE)."""
    key: str
    values: F8
    """float64[requests]: the number, or the index into `levels` for a text column; NaN if missing."""
    levels: tuple[str, ...] | None = None
    """Distinct texts of a text column, of which `values` holds indices; None for a column of numbers."""
    aggregate: str = ""
    """Aggregate over a request's several values of the attribute: `first`, `last`, `min`, `max`, `mean`,
    `mode`, `n`, `distinct`, `change`; empty if requests have one value each."""
    passes: B1 | None = None
    """bool[requests]: True for requests that run the operation `where`; None: all do. Other requests have a
    missing value, which is a difference of structure, not of the attribute."""

    @property
    def numeric(self) -> bool:
        """True for a column of numbers, False for a column of words."""
        return self.levels is None

    @property
    def name(self) -> str:
        """Name of the attribute for display: `key` or `key (aggregate)`."""
        return f"{self.key} ({self.aggregate})" if self.aggregate else self.key

    def says(self, word: str) -> str:
        """Text of the condition that the column equals `word`: `encoding is default`, `does not reach host
        sn-1`."""
        if not self.key.startswith(REACHES):
            return f"{self.name} is {word}"
        return self.key if word == "yes" else self.key.replace("reaches", "does not reach", 1)

    @property
    def text(self) -> str:
        """Name of the attribute with the node that it belongs to, for display: `count at nfs/READ`."""
        return self.name if self.where in (REQUEST, ANYWHERE) else f"{self.name} at {self.where}"

    def at(self, rows: B1 | I8) -> AttributeColumn:
        """Column with only the requests `rows` (bool mask or indices)."""
        passes = None if self.passes is None else self.passes[rows]
        return replace(self, values=self.values[rows], passes=passes)


def shown(word: str) -> str:
    """Text of a level (value of a text column) for display: on one line, cut to _LONGEST_WORD characters."""
    line = " ".join(word.split()) if any(c in word for c in "\n\r\t") else word
    return line if len(line) <= _LONGEST_WORD else line[: _LONGEST_WORD - 1] + "…"


def text_column(
    where: str, key: str, codes: npt.NDArray[np.integer], words: tuple[str, ...], aggregate: str = ""
) -> AttributeColumn:
    """Text column from codes. codes: [requests], indices into `words`, -1 for missing; words that do not
    occur are dropped.
    """
    used, place = np.unique(codes, return_inverse=True)
    first = int(np.searchsorted(used, 0))
    values = place.astype(np.float64) - first
    values[values < 0] = np.nan
    return AttributeColumn(where, key, values, tuple(words[int(code)] for code in used[first:]), aggregate)


def request_columns(population: Population, chosen: ChosenRequests) -> Iterator[AttributeColumn]:
    """Yield columns of properties of the request as a whole: root type, entry host, host of each component,
    hour, sampling probability.
    """
    roots = np.array([category.graph.root for category in population.categories])[chosen.category]
    names, codes = np.unique(roots, return_inverse=True)
    yield text_column(REQUEST, TYPE, codes.astype(np.int32), tuple(str(name) for name in names))
    yield from _host_columns(population, chosen)
    hour = (chosen.start_ns // _NS_PER_HOUR) % 24
    yield AttributeColumn(REQUEST, _HOUR, hour.astype(np.float64))
    power = np.rint(np.log2(np.maximum(chosen.weight, 1e-300))).astype(np.int64)
    powers, codes = np.unique(power, return_inverse=True)
    words = tuple("all" if p == 0 else f"about 1 in {2.0**p:g}" for p in powers)
    yield text_column(REQUEST, _SAMPLED, codes.astype(np.int32), words)


def _host_columns(population: Population, chosen: ChosenRequests) -> Iterator[AttributeColumn]:
    """Yield a column of the entry host and columns of the first host reached of each component.

    For a component of which a request may reach several hosts, also yields "reaches host" columns.
    """
    requests = [(population.categories[index], mine) for index, mine in chosen.by_category()]
    if not population.hosts or any(category.host is None for category, _ in requests):
        return
    components = sorted({node.component for category, _ in requests for node in category.graph.nodes})
    place_of = {component: place for place, component in enumerate(components)}
    n = len(chosen)
    entry = np.full(n, -1, np.int32)
    first = np.full((len(components), n), -1, np.int32)
    passes = np.zeros((len(components), n), dtype=np.bool_)
    reached: list[list[I8]] = [[] for _ in components]
    for category, mine in requests:
        assert category.host is not None
        of_node = np.array([place_of[node.component] for node in category.graph.nodes])
        order = np.argsort(of_node, kind="stable")
        begin = np.flatnonzero(np.diff(of_node[order], prepend=-1))
        here = of_node[order[begin]]
        host: I4 = category.host[:, chosen.row[mine]]
        entry[mine] = host[0]
        host = host[order]
        known = host >= 0
        # The first node with a host, by component: the least place of one, or else the component's first.
        place = np.where(known, np.arange(len(order))[:, None], len(order))
        least = np.minimum.reduceat(place, begin, axis=0)
        front = np.take_along_axis(host, np.where(least < len(order), least, begin[:, None]), axis=0)
        first[here[:, None], mine] = front
        passes[here[:, None], mine] = True
        others = known & (host != np.repeat(front, np.diff(begin, append=len(order)), axis=0))
        for several in np.flatnonzero(np.logical_or.reduceat(others, begin, axis=0).any(axis=1)):
            nodes = slice(begin[several], begin[several + 1] if several + 1 < len(begin) else None)
            pairs = mine[None, :] * len(population.hosts) + host[nodes]
            reached[here[several]].append(np.unique(pairs[known[nodes]]))
    yield text_column(REQUEST, "entry host", entry, population.hosts)
    for number, component in enumerate(components):
        column = text_column(component, _HOST, first[number], population.hosts)
        yield replace(column, passes=passes[number])
        if reached[number]:
            yield from _reaches(component, first[number], reached[number], passes[number], population.hosts)


def _reaches(
    component: str, first: I4, pairs: list[I8], passes: B1, hosts: tuple[str, ...]
) -> Iterator[AttributeColumn]:
    """Yield, for each of a component's most frequent hosts, a column that is `yes` if the request reaches the
    host, else `no`.

    first: int32[requests], first host of the component, -1 for none. pairs: arrays of request · len(hosts) +
    host, for further hosts that requests reach. passes: as in `AttributeColumn`.
    """
    alone = np.flatnonzero(first >= 0) * len(hosts) + first[first >= 0]
    request, host = np.divmod(np.unique(np.concatenate([*pairs, alone])), len(hosts))
    times = np.bincount(host, minlength=len(hosts))
    for code in np.argsort(-times, kind="stable")[:_MOST_REACHED]:
        if times[code] == 0:
            return
        yes = np.zeros(len(first), np.int32)
        yes[request[host == code]] = 1
        column = text_column(component, f"{REACHES} {hosts[int(code)]}", yes, ("no", "yes"))
        yield replace(column, passes=passes)
