"""What belongs to a request as a whole: its type, its hosts, hour and sampling (ALGORITHMS D.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from analyze.explain.attribute_column import REQUEST, Column, text_column
from analyze.explain.chosen_requests import ChosenRequests
from analyze.population import Category, Population
from schemas.arrays import B1, I4, I8
from schemas.windows import NS_PER_MINUTE

HOST: Final = "host"
TYPE: Final = "type"
REACHES: Final = "reaches host"
"""Beginning of the keys of columns `yes` or `no`."""
_MOST_REACHED: Final = 12
"""Hosts of one component that get a column "reaches it", the most frequent ones."""
_NS_PER_HOUR: Final = 60 * NS_PER_MINUTE


HOUR: Final = "hour of day (UTC)"
SAMPLED: Final = "sampled"
OF_PERIODS: Final = frozenset({HOUR, SAMPLED})
"""Columns in which two periods differ because somebody chose these periods: compared inside one only."""


def request_columns(population: Population, chosen: ChosenRequests) -> Iterator[Column]:
    """Columns of the chosen requests: root type, entry host, hosts by component, hour and weight class."""
    roots = np.array([category.graph.root for category in population.categories])[chosen.category]
    names, codes = np.unique(roots, return_inverse=True)
    yield text_column(REQUEST, TYPE, codes.astype(np.int32), tuple(str(name) for name in names))
    yield from _host_columns(population, chosen)
    hour = (chosen.start_ns // _NS_PER_HOUR) % 24
    yield Column(REQUEST, HOUR, hour.astype(np.float64))
    power = np.rint(np.log2(np.maximum(chosen.weight, 1e-300))).astype(np.int64)
    powers, codes = np.unique(power, return_inverse=True)
    words = tuple("all" if p == 0 else f"about 1 in {2.0**p:g}" for p in powers)
    yield text_column(REQUEST, SAMPLED, codes.astype(np.int32), words)


def _host_columns(population: Population, chosen: ChosenRequests) -> Iterator[Column]:
    """Entry host, and by component its first host and, where a request reaches several, each of them."""
    if not population.hosts or any(
        population.categories[int(c)].host is None for c in np.unique(chosen.category)
    ):
        return
    components = sorted(
        {
            node.component
            for index in np.unique(chosen.category)
            for node in population.categories[int(index)].graph.nodes
        }
    )
    n = len(chosen)
    entry = np.full(n, -1, np.int32)
    first = np.full((len(components), n), -1, np.int32)
    passes = np.zeros((len(components), n), dtype=np.bool_)
    reached: list[list[I8]] = [[] for _ in components]
    for index in np.unique(chosen.category):
        category = population.categories[int(index)]
        mine = np.flatnonzero(chosen.category == index)
        host = _hosts(category, chosen.row[mine])
        entry[mine] = host[0]
        of_node = np.searchsorted(components, [node.component for node in category.graph.nodes])
        for component in np.unique(of_node):
            of = host[of_node == component]
            known = of >= 0
            front = np.take_along_axis(of, known.argmax(axis=0)[None], axis=0)[0]
            first[component, mine] = front
            passes[component, mine] = True
            if (known & (of != front)).any():
                pairs = mine[None, :] * len(population.hosts) + of
                reached[component].append(np.unique(pairs[known]))
    yield text_column(REQUEST, "entry host", entry, population.hosts)
    for number, component in enumerate(components):
        column = text_column(component, HOST, first[number], population.hosts)
        yield Column(component, HOST, column.values, column.levels, passes=passes[number])
        if reached[number]:
            yield from _reaches(component, first[number], reached[number], passes[number], population.hosts)


def _hosts(category: Category, rows: I8) -> I4:
    """[nodes, rows] hosts of some requests."""
    assert category.host is not None
    hosts: I4 = category.host[:, rows]
    return hosts


def _reaches(
    component: str, first: I4, pairs: list[I8], passes: B1, hosts: tuple[str, ...]
) -> Iterator[Column]:
    """Whether a request reaches each of the component's most frequent hosts."""
    alone = np.flatnonzero(first >= 0) * len(hosts) + first[first >= 0]
    request, host = np.divmod(np.unique(np.concatenate([*pairs, alone])), len(hosts))
    times = np.bincount(host, minlength=len(hosts))
    for code in np.argsort(-times, kind="stable")[:_MOST_REACHED]:
        if times[code] == 0:
            return
        yes = np.zeros(len(first), np.int32)
        yes[request[host == code]] = 1
        column = text_column(component, f"{REACHES} {hosts[int(code)]}", yes, ("no", "yes"))
        yield Column(component, column.key, column.values, column.levels, passes=passes)
