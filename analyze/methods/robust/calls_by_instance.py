"""Sum the calls of components that run on several instances, by instance, version and zone.

A request counts once at each call site and once at each component, however many calls it makes there.
Resource attributes (version, zone) are read from a few requests of each instance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from analyze.cache_blocks import FEW_CELLS
from analyze.explain.chosen_requests import chosen_rows
from analyze.explain.parameters import parameter_words
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Population
from analyze.profile.batches import batches, requests_of
from analyze.profile.call_sites import RequestGroup
from analyze.profile.names import Names
from analyze.profile.times import call_times
from analyze.stats.histograms import bin_of
from analyze.stats.sums import numbered, totals
from schemas.arrays import B1, F8, I8

HOST: Final = "host"
_CALLS_AT_ONCE: Final = 1 << 20
"""Number of calls (92 MB of columns) after which calls with equal keys are summed to save memory."""


class Level(NamedTuple):
    """Group of a component's instances with the same value of one attribute, e.g. `zone = eu-1`."""

    attribute: str
    value: str
    hosts: tuple[int, ...]
    """Indices in `Population.hosts` of the instances in the group."""
    siblings: tuple[tuple[int, ...], ...]
    """Instances with other values of the attribute: one tuple of indices in `Population.hosts` per value."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Sums over calls of components that run on several instances; arrays are [rows], one row per component,
    call site, call pattern, host, period (`late`) and histogram bin of the own time."""

    component: I8
    site: I8
    pattern: I8
    host: I8
    late: I8
    """int64[rows]: 1 for calls of the problem, 0 for calls of the reference."""
    bin: I8
    """int64[rows]: histogram bin (`bin_of`) of the calls' own time in ns."""
    n: F8
    """float64[rows]: number of requests at the call site; each of the k calls that a request makes there
    counts 1 / k."""
    of_component: F8
    """float64[rows]: number of requests at the component; each of the k calls of the component that a request
    makes counts 1 / k."""
    failing: F8
    """float64[rows]: number of requests with a failing call at the call site; each failing one of the k calls
    that a request makes there counts 1 / k."""
    count: F8
    """float64[rows]: number of calls, weighted by the requests' sampling weights."""
    own_ns: F8
    """float64[rows]: sum of the calls' own times, ns, weighted by the requests' sampling weights."""

    def where(self, rows: B1 | I8) -> Calls:
        """Rows selected by a mask or by indices."""
        return Calls(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class ByInstance:
    """Calls of components that run on several instances, and the groups of instances to compare."""

    calls: Calls
    levels: Mapping[int, tuple[Level, ...]]
    """Index of a component (sorted by name) -> groups of its instances to compare, by host, version, zone."""

    @staticmethod
    def of(
        population: Population,
        groups: Sequence[RequestGroup],
        names: Names,
        roles: Roles,
        settings: RobustSettings,
    ) -> ByInstance | None:
        """Sum the calls of components that run on 2 to `most_instances` instances; None if there is no such
        component."""
        components = sorted({operation.component for operation in names.operations})
        number = {component: at for at, component in enumerate(components)}
        of_site = np.array(
            [number[names.operations[s.operation].component] for s in names.sites], dtype=np.int64
        )
        spans = [
            one
            for one in groups
            if one.sites.are_calls and population.categories[one.category].host is not None
        ]
        hosts = _hosts_of(population, spans, of_site, roles)
        several = {at for at, mine in hosts.items() if 1 < len(mine) <= settings.most_instances}
        if not several:
            return None
        calls = _calls_of(population, spans, of_site, several, roles)
        values = _attributes_of(population, spans, of_site, components, several, settings)
        return ByInstance(calls, {at: tuple(_levels_of(hosts[at], at, population, values)) for at in several})


def _hosts_of(
    population: Population, groups: Sequence[RequestGroup], of_site: I8, roles: Roles
) -> dict[int, list[int]]:
    """Hosts on which each component's calls ran in the problem: index of the component -> ascending host
    indices."""
    seen = np.zeros((int(of_site.max(initial=-1)) + 1, len(population.hosts) + 1), dtype=np.bool_)
    for group in groups:
        host = population.categories[group.category].host
        assert host is not None
        rows = group.rows[roles.problem[group.slot]]
        seen[of_site[group.sites.site][:, None], host[np.ix_(group.sites.start, rows)] + 1] = True
    return {at: np.flatnonzero(seen[at, 1:]).tolist() for at in np.flatnonzero(seen.any(axis=1)).tolist()}


def _calls_of(
    population: Population, groups: Sequence[RequestGroup], of_site: I8, several: set[int], roles: Roles
) -> Calls:
    parts: list[Calls] = []
    n_calls = 0
    wanted = np.isin(np.arange(int(of_site.max(initial=-1)) + 1), list(several))
    compared = roles.problem | roles.reference
    chosen = [
        one._replace(rows=one.rows[kept], slot=one.slot[kept])
        for one in groups
        if (kept := compared[one.slot]).any()
    ]
    for batch in batches(population, chosen, requests_of(population, chosen), FEW_CELLS):
        component = of_site[batch.site]
        units = np.flatnonzero(wanted[component])
        if not len(units):
            continue
        layout, cells = batch.unit.chosen(units)
        own = call_times(batch).own[cells]
        request = layout.at(batch.first_request[batch.unit_group[units]])
        late = roles.problem[batch.requests.slot[request]].astype(np.int64)
        weight = batch.requests.weight[request]
        starts = layout.at(batch.node.first[batch.start[units]])
        failed = np.zeros(len(batch.times), dtype=np.bool_)
        failed[batch.failing()] = True
        of_a_site, of_a_component = (
            layout.spread(1 / np.bincount(same)[same[units]])
            for same in (numbered((batch.unit_group, of))[0] for of in (batch.site, component))
        )
        whole = Calls(
            layout.spread(component[units]),
            layout.spread(batch.site[units]),
            layout.spread(batch.pattern[units]),
            batch.hosts()[starts].astype(np.int64),
            late,
            bin_of(own),
            of_a_site,
            of_a_component,
            failed[starts] * of_a_site,
            weight,
            own * weight,
        )
        parts.append(whole.where(whole.host >= 0))
        n_calls += len(parts[-1].host)
        if n_calls >= _CALLS_AT_ONCE:
            parts = [_added(_joined(parts))]
            n_calls = 0
    return _added(_joined(parts))


def _joined(parts: Sequence[Calls]) -> Calls:
    return Calls(*(np.concatenate([getattr(part, name) for part in parts]) for name in Calls.__slots__))


def _added(calls: Calls) -> Calls:
    """Sum rows with equal call site, call pattern, host, period and bin into one row."""
    code, first = numbered((calls.site, calls.pattern, calls.host, calls.late, calls.bin))
    keys = (calls.component, calls.site, calls.pattern, calls.host, calls.late, calls.bin)
    values = (calls.n, calls.of_component, calls.failing, calls.count, calls.own_ns)
    component, site, pattern, host, late, bins = (key[first] for key in keys)
    sums = (totals(code, value, len(first)) for value in values)
    return Calls(component, site, pattern, host, late, bins, *sums)


def _attributes_of(
    population: Population,
    groups: Sequence[RequestGroup],
    of_site: I8,
    components: Sequence[str],
    several: set[int],
    settings: RobustSettings,
) -> dict[tuple[int, str], dict[int, str]]:
    """Read resource attributes of instances: (index of the component, attribute) -> index of the host ->
    value.

    Attributes are kept if all requests that were read for an instance agree on one value.
    """
    n_hosts = len(population.hosts) + 1
    left = np.zeros((len(components), n_hosts), dtype=np.int64)
    left[sorted(several), 1:] = settings.attributed_requests if settings.instance_attributes else 0
    asks = left.ravel()
    chosen: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    for group in groups:
        host = population.categories[group.category].host
        assert host is not None
        of_unit = of_site[group.sites.site]
        code = of_unit[:, None] * n_hosts + host[np.ix_(group.sites.start, group.rows)] + 1
        wanted = np.flatnonzero(asks[code] > 0)
        if not len(wanted):
            continue
        found, first = np.unique(code.ravel()[wanted], return_index=True)
        asks[found] -= 1
        rows = group.rows[wanted[first] % len(group.rows)]
        for place, asked in zip(found.tolist(), rows.tolist(), strict=True):
            chosen[group.category, asked].add((place // n_hosts, place % n_hosts - 1))
    if not chosen:
        return {}
    order = sorted(chosen)
    category, row = (np.array(column) for column in zip(*order, strict=True))
    requests = chosen_rows(population, category.astype(np.int32), row.astype(np.int64))
    said: dict[tuple[int, str], dict[int, dict[int, set[str]]]] = defaultdict(lambda: defaultdict(dict))
    for word in parameter_words(population, requests, settings.instance_attributes):
        for component, one in chosen[order[word.request]]:
            if word.where.startswith(f"{components[component]}/"):
                said[component, word.key][one].setdefault(word.request, set()).add(word.text)
    # A request at two instances reports the values of both, so an instance has the values common to its
    # requests.
    agreed = {
        key: {host: set.intersection(*by_request.values()) for host, by_request in by_host.items()}
        for key, by_host in said.items()
    }
    return {
        key: {host: next(iter(words)) for host, words in by_host.items()}
        for key, by_host in agreed.items()
        if all(len(words) == 1 for words in by_host.values())
    }


def _levels_of(
    hosts: Sequence[int],
    component: int,
    population: Population,
    attributes: Mapping[tuple[int, str], Mapping[int, str]],
) -> Iterator[Level]:
    """Yield one group of instances per host, then one per value of each attribute with several values.
    Attributes that group the hosts in the same way as an earlier one are skipped."""
    for host in hosts:
        yield Level(HOST, population.hosts[host], (host,), tuple((h,) for h in hosts if h != host))
    seen: set[frozenset[tuple[int, ...]]] = {frozenset((host,) for host in hosts)}
    for (of, key), value in sorted(attributes.items()):
        if of != component or not set(hosts) <= value.keys():
            continue
        groups: dict[str, list[int]] = defaultdict(list)
        for host in hosts:
            groups[value[host]].append(host)
        parts = {word: tuple(mine) for word, mine in groups.items()}
        if len(parts) > 1 and frozenset(parts.values()) not in seen:
            seen.add(frozenset(parts.values()))
            for word, mine in parts.items():
                yield Level(key, word, mine, tuple(v for k, v in parts.items() if k != word))
