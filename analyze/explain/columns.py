"""Columns of attributes (numbers or texts), and columns of the request as a whole: root type, hosts, hour,
sampling probability."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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


_NONE: Final = np.zeros(0, dtype=np.int64)


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


@dataclass(frozen=True, slots=True)
class RequestHosts:
    """Hosts that the chosen requests reach, by component; read once and used in several comparisons of two
    sets of requests."""

    hosts: tuple[str, ...]
    """Host names; the codes of hosts are indices into them."""
    components: tuple[str, ...]
    """Components of the requests, ascending; none if hosts are unknown."""
    entry: I4
    """int32[requests]: host at which the request began; -1 for unknown."""
    first: I4
    """int32[components, requests]: first host of the component in the request; -1 for unknown or none."""
    passes: B1
    """bool[components, requests]: True for requests that pass the component."""
    further: tuple[I8, I8, I8]
    """(component, request, host) of every further host of a component in a request, each an int64[n]."""

    @classmethod
    def read(cls, population: Population, chosen: ChosenRequests) -> RequestHosts:
        """Find the hosts of the chosen requests."""
        requests = [(population.categories[index], mine) for index, mine in chosen.by_category()]
        known = population.hosts and all(category.host is not None for category, _ in requests)
        names = {node.component for category, _ in requests for node in category.graph.nodes if known}
        place_of = {component: place for place, component in enumerate(sorted(names))}
        n = len(chosen)
        entry = np.full(n, -1, np.int32)
        first = np.full((len(place_of), n), -1, np.int32)
        passes = np.zeros((len(place_of), n), dtype=np.bool_)
        further = [(_NONE,) * 3]
        for category, mine in requests if known else ():
            assert category.host is not None
            of_node = np.array([place_of[node.component] for node in category.graph.nodes])
            order = np.argsort(of_node, kind="stable")
            of_node = of_node[order]
            begin = np.flatnonzero(np.diff(of_node, prepend=-1))
            host: I4 = category.host[:, chosen.row[mine]]
            entry[mine] = host[0]
            host = host[order]
            # The first node with a host, by component: the least place of one, or else the component's first.
            place = np.where(host >= 0, np.arange(len(order))[:, None], len(order))
            least = np.minimum.reduceat(place, begin, axis=0)
            front = host[np.where(least < len(order), least, begin[:, None]), np.arange(len(mine))]
            here = of_node[begin]
            first[here[:, None], mine] = front
            passes[here[:, None], mine] = True
            others = (host >= 0) & (host != np.repeat(front, np.diff(begin, append=len(order)), axis=0))
            node, request = np.nonzero(others)
            further.append((of_node[node], mine[request], host[node, request].astype(np.int64)))
        component, request, code = (np.concatenate(column) for column in zip(*further, strict=True))
        return cls(population.hosts, tuple(place_of), entry, first, passes, (component, request, code))

    def columns(self, places: I8) -> Iterator[AttributeColumn]:
        """Yield a column of the entry host and columns of the first host reached of each component, of some
        requests only, in the order of `places`.

        For a component of which a request may reach several hosts, also yields "reaches host" columns.
        places: int64[n], distinct indices of requests.
        """
        number = np.full(len(self.entry), -1, np.int64)
        number[places] = np.arange(len(places))
        if self.components:
            yield text_column(REQUEST, "entry host", self.entry[places], self.hosts)
        for at, component in enumerate(self.components):
            passes, first = self.passes[at, places], self.first[at, places]
            if passes.any():
                yield replace(text_column(component, _HOST, first, self.hosts), passes=passes)
                _, request, host = (of[self.further[0] == at] for of in self.further)
                mine = number[request] >= 0
                if mine.any():
                    pairs = number[request[mine]] * len(self.hosts) + host[mine]
                    yield from _reaches(component, first, pairs, passes, self.hosts)


def request_columns(
    population: Population, chosen: ChosenRequests, hosts: Iterable[AttributeColumn]
) -> Iterator[AttributeColumn]:
    """Yield columns of properties of the request as a whole: root type, hosts (`RequestHosts.columns`), hour,
    sampling probability.
    """
    roots, of_category = population.root_types()
    yield text_column(REQUEST, TYPE, of_category[chosen.category], roots)
    yield from hosts
    hour = (chosen.start_ns // _NS_PER_HOUR) % 24
    yield AttributeColumn(REQUEST, _HOUR, hour.astype(np.float64))
    power = np.rint(np.log2(np.maximum(chosen.weight, 1e-300))).astype(np.int64)
    powers, codes = np.unique(power, return_inverse=True)
    words = tuple("all" if p == 0 else f"about 1 in {2.0**p:g}" for p in powers)
    yield text_column(REQUEST, _SAMPLED, codes.astype(np.int32), words)


def _reaches(
    component: str, first: I4, pairs: I8, passes: B1, hosts: tuple[str, ...]
) -> Iterator[AttributeColumn]:
    """Yield, for each of a component's most frequent hosts, a column that is `yes` if the request reaches the
    host, else `no`.

    first: int32[requests], first host of the component, -1 for none. pairs: int64[n], request · len(hosts) +
    host, of further hosts that requests reach. passes: as in `AttributeColumn`.
    """
    alone = np.flatnonzero(first >= 0) * len(hosts) + first[first >= 0]
    request, host = np.divmod(np.unique(np.concatenate([pairs, alone])), len(hosts))
    times = np.bincount(host, minlength=len(hosts))
    for code in np.argsort(-times, kind="stable")[:_MOST_REACHED]:
        if times[code] == 0:
            return
        yes = np.zeros(len(first), np.int32)
        yes[request[host == code]] = 1
        column = text_column(component, f"{REACHES} {hosts[int(code)]}", yes, ("no", "yes"))
        yield replace(column, passes=passes)
