"""Behaviour of single instances of a component relative to their siblings in the same ticks.

A single host that gets slower or fails changes the values of a component on several hosts too little. A
*visit* is a call of a component by another one, with all work of the called component until it answers. An
instance's value is the mean log duration of its visits minus its siblings' at the same call sites, and the
difference in failing visits. Common causes, such as the time of day or a slow store, cancel out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from analyze.population import Codes, Population
from analyze.profile.build import Profiled
from analyze.profile.call_sites import GraphSites, RequestGroup
from analyze.profile.times import own_time_ns
from analyze.stats.sums import numbered, totals
from schemas.arrays import F8, I8

_REST, _UNKNOWN = 0, -1
"""Codes used in place of an instance number: _REST for a host that is not watched but is a sibling, _UNKNOWN
for a call whose host is unknown."""
_TINY: Final = 1e-9


class InstanceSums(NamedTuple):
    """Sums per instance and tick, relative to the siblings; arrays are [rows], one row per (instance, tick);
    `instance` indexes `instances`."""

    instances: tuple[tuple[str, str], ...]
    """(Component, host) of each watched instance."""
    instance: I8
    tick: I8
    den: F8
    """Effective number of visits: the number whose mean, compared with an exactly known one, would be equally
    precise."""
    slower: F8
    """Sum over the visits of log duration minus the mean log duration of the siblings."""
    sq: F8
    """Sum of squared log durations relative to the siblings: sq / den - (slower / den)² is the variance of
    one visit.
    """
    failing: F8
    """Number of failing visits minus the number expected from the siblings."""
    folded: int
    """Number of instances without sums of their own, because their component has too many; they serve as
    siblings only."""


def instances_of(population: Population, profiled: Profiled, most: int) -> InstanceSums | None:
    """Sums of instances by tick (the profile's time slots); None if no component has several instances.

    most: maximum number of instances per component that are watched, the ones with the most visits.
    O(requests · calls of the watched components).
    """
    names = profiled.profile.names
    component_of = [names.operations[site.operation].component for site in names.sites]
    groups = [
        (group, hosts, _entries(group.sites, component_of))
        for group in profiled.groups
        if group.sites.are_calls and (hosts := population.categories[group.category].host) is not None
    ]
    visits: dict[str, Counter[int]] = defaultdict(Counter)
    for group, hosts, entry in groups:
        for unit in np.unique(entry).tolist():
            mine = hosts[group.sites.start[unit]]
            alike = mine.strides[0] == 0
            n = np.bincount((mine[:1] if alike else mine).astype(np.int64) + 1) * (len(mine) if alike else 1)
            found = np.flatnonzero(n)
            n_by_host = dict(zip((found - 1).tolist(), n[found].tolist(), strict=True))
            visits[component_of[group.sites.site[unit]]].update(n_by_host)
    instances: list[tuple[str, str]] = []
    several: dict[str, _Several] = {}
    folded = 0
    for component, n_of in sorted(visits.items()):
        known = n_of.keys() - {_UNKNOWN}
        if len(known) < 2:
            continue
        ordered = sorted(known, key=lambda host: (-n_of[host], population.hosts[host]))
        of_host = np.full(len(population.hosts) + 1, _REST)
        of_host[ordered[:most]] = len(instances) + 1 + np.arange(len(ordered[:most]))
        of_host[-1] = _UNKNOWN
        several[component] = _Several(len(several), of_host)
        instances += [(component, population.hosts[host]) for host in ordered[:most]]
        folded += len(ordered[most:])
    of_site = [several.get(component) for component in component_of]
    parts = [
        part for group, hosts, entry in groups for part in _visits(population, group, hosts, entry, of_site)
    ]
    if not parts:
        return None
    return _beside_siblings(tuple(instances), _Visits(*map(np.concatenate, zip(*parts, strict=True))), folded)


class _Several(NamedTuple):
    """A component with several instances."""

    number: int
    of_host: I8
    """[hosts + 1] host -> instance number, from 1; `_REST` for hosts that are not watched; `_UNKNOWN` as last
    entry."""


class _Visits(NamedTuple):
    """Visits to components with several instances; arrays are [rows], one row per visit."""

    component: I8
    site: I8
    tick: I8
    instance: I8
    weight: F8
    """[rows] 1 / (number of visits of the component in the request at this call site): a request counts once
    per site."""
    log: F8
    failing: F8


def _entries(sites: GraphSites, component_of: Sequence[str]) -> I8:
    """[units: calls or steps] index of the call by which each unit's component was entered: the unit itself
    if another component called it.
    """
    component, entry = [component_of[site] for site in sites.site.tolist()], np.arange(sites.n_units)
    for unit, above in enumerate(sites.above.tolist()):
        if above >= 0 and component[above] == component[unit]:
            entry[unit] = entry[above]
    return entry


def _visits(
    population: Population,
    group: RequestGroup,
    hosts: Codes,
    entry: I8,
    of_site: Sequence[_Several | None],
) -> Iterator[_Visits]:
    """Yield the visits of a group's requests to components with several instances, one table per entering
    call.
    """
    category, sites = population.categories[group.category], group.sites
    entries = [
        (unit, component)
        for unit in np.unique(entry).tolist()
        if (component := of_site[sites.site[unit]]) is not None
    ]
    if not entries:
        return
    units = np.flatnonzero(np.isin(entry, [unit for unit, _ in entries]))
    own = own_time_ns(np.ascontiguousarray(category.node_ns[:, group.rows]), sites, units)
    failures, place = category.failures, np.full(category.n_requests, -1)
    place[group.rows] = np.arange(len(group.rows))
    of_a_site = Counter(int(sites.site[unit]) for unit, _ in entries)
    for unit, component in entries:
        site, start = int(sites.site[unit]), sites.start[unit]
        instance = component.of_host[hosts[start, group.rows]]
        known = instance != _UNKNOWN
        failing = np.zeros(len(group.rows))
        rows = place[failures.row[failures.position == start]]
        failing[rows[rows >= 0]] = 1.0
        log = np.log(np.maximum(own[entry[units] == unit].sum(axis=0), 1))
        n = int(known.sum())
        yield _Visits(
            np.full(n, component.number),
            np.full(n, site),
            group.slot[known],
            instance[known],
            np.full(n, 1 / of_a_site[site]),
            log[known],
            failing[known],
        )


def _beside_siblings(instances: tuple[tuple[str, str], ...], visits: _Visits, folded: int) -> InstanceSums:
    """Sums of each instance's visits relative to its siblings' visits at the same call site in the same tick.

    If n of N visits are one instance's, the difference of its mean from its siblings' mean is N / (N - n)
    times the difference from the overall mean, and as precise as that of n (N - n) / N visits from an exactly
    known mean.
    """
    code, first = numbered((visits.site, visits.tick, visits.instance))
    n, x, xx, bad = (
        totals(code, visits.weight * value, len(first))
        for value in (np.ones(len(code)), visits.log, visits.log**2, visits.failing)
    )
    component, site, tick, instance = (column[first] for column in visits[:4])
    cell, at = numbered((site, tick))
    all_n, all_x, all_bad = (totals(cell, value, len(at))[cell] for value in (n, x, bad))
    # Scatter of an instance's own visits; of all visits where each instance has only one at a site.
    place, at = numbered((component, tick))
    own, of_own, every, of_every = (
        totals(place, value, len(at))[place]
        for value in (
            xx - x * x / n,
            np.maximum(n - 1, 0),
            xx - x * all_x / all_n,
            n * np.maximum(1 - 1 / all_n, 0),
        )
    )
    square = np.where(of_own > _TINY, own / np.maximum(of_own, _TINY), every / np.maximum(of_every, _TINY))
    den = n * (all_n - n) / all_n
    values = (den, x - n * all_x / all_n, den * square, bad - n * all_bad / all_n)
    place, at = numbered((instance, tick))
    sums = [totals(place, value, len(at)) for value in values]
    mine = (instance[at] != _REST) & (sums[0] > _TINY)
    den, slower, sq, failing = (value[mine] for value in sums)
    return InstanceSums(
        instances,
        instance[at][mine] - 1,
        tick[at][mine],
        den,
        slower,
        sq + slower**2 / den,
        np.where(np.abs(failing) > _TINY, failing, 0.0),
        folded,
    )
