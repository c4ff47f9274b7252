"""Whose call a local shape ends with: where calls are cut short, that is who failed them (L.9 item 6)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from analyze.population import Population
from analyze.profile.build import Pattern
from analyze.profile.names import Names


def last_callees(
    population: Population, patterns: Sequence[Pattern], shapes: Iterable[int], names: Names
) -> dict[int, str]:
    """Shape -> component of the remote call that started last in most calls of the shape; "" for none.

    Only the shapes asked for, which are few. O(patterns · units).
    """
    wanted = set(shapes)
    votes: dict[int, Counter[str]] = defaultdict(Counter)
    for pattern in patterns:
        sites = pattern.sites
        if wanted.isdisjoint(sites.shape.tolist()) or (sites.above < 0).all():
            continue
        category = population.categories[pattern.category]
        mean_start = category.node_ns[:, pattern.rows].mean(axis=1)[sites.start]
        last: dict[int, int] = {}
        for unit in np.argsort(mean_start, kind="stable").tolist():
            last[int(sites.above[unit])] = unit
        for unit in np.flatnonzero(np.isin(sites.shape, list(wanted))).tolist():
            votes[int(sites.shape[unit])][_callee(unit, pattern, names, last)] += len(pattern.rows)
    return {shape: max(sorted(count), key=count.__getitem__) for shape, count in votes.items()}


def _callee(unit: int, pattern: Pattern, names: Names, last: dict[int, int]) -> str:
    """First component that differs, going down from one last call to the next."""
    sites = pattern.sites
    own = names.operation(int(sites.site[unit])).component
    while unit in last:
        unit = last[unit]
        site = int(sites.site[unit])
        name = names.operation(site)
        if callee := names.callee(names.sites[site].operation):
            return callee
        if name.component != own:
            return name.component
    return ""
