"""Times between hosts whose clocks moved are no evidence; times on one host are (A.6 S3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyze.methods.robust.changes import TIME_KINDS, Change
from analyze.methods.robust.vetoes.asides import Aside, counted_changes
from analyze.population import ClockMove, Population
from analyze.profile.build import Pattern
from schemas.report.findings import ChangeKind

_US = 1e-3
_ROOM = 1.2
"""A change may be so many times as large as the clocks moved."""
_OVERLAP = frozenset({ChangeKind.SERIAL, ChangeKind.PARALLEL})
_MOSTLY = 0.5


def clock_changes(
    changes: Sequence[Change], population: Population, patterns: Sequence[Pattern]
) -> list[Change]:
    """Those of the changes that clocks may have made: their times lie between hosts whose clocks moved, and
    are no larger than that. O(requests at the sites)."""
    moves = _by_codes(population)
    if not moves:
        return []
    return [
        change
        for change in changes
        if (change.kind in TIME_KINDS or change.kind in _OVERLAP)
        and _between(change, moves, population, patterns)
    ]


def _by_codes(population: Population) -> dict[tuple[int, int], float]:
    """Hosts, ascending -> how far their clocks moved, µs; infinite where nobody knows."""
    code = {host: number for number, host in enumerate(population.hosts)}
    found = {}
    for move in population.clock_moves:
        if move.host in code and move.other in code:
            low, high = sorted((code[move.host], code[move.other]))
            found[low, high] = np.inf if move.by_ns is None else move.by_ns * _US
    return found


def _between(
    change: Change,
    moves: dict[tuple[int, int], float],
    population: Population,
    patterns: Sequence[Pattern],
) -> bool:
    n = crossing = 0
    largest = 0.0
    for pattern in patterns:
        sites, category = pattern.sites, population.categories[pattern.category]
        units = np.flatnonzero(sites.site == change.site)
        if category.host is None or not len(units):
            continue
        hosts = category.host[:, pattern.rows]
        n += len(units) * len(pattern.rows)
        if sites.are_calls:
            # The own time of a call is on its own host; whether its children overlap is not.
            if change.kind not in _OVERLAP:
                continue
            child = np.flatnonzero(np.isin(sites.above, units))
            pairs = [(sites.start[unit], sites.start[sites.above[unit]]) for unit in child.tolist()]
        else:
            pairs = [(sites.start[unit], sites.end[unit]) for unit in units.tolist()]
        for one, other in pairs:
            low, high = np.minimum(hosts[one], hosts[other]), np.maximum(hosts[one], hosts[other])
            for (a, b), by_us in moves.items():
                here = int(((low == a) & (high == b)).sum())
                crossing += here
                largest = max(largest, by_us) if here else largest
    size_us = abs(change.after - change.before) if change.unit == "us" else 0.0
    return crossing > 0 and crossing >= _MOSTLY * n and size_us <= _ROOM * largest


def clock_aside(changes: Sequence[Change], moves: Sequence[ClockMove]) -> Aside:
    """What is told of them; which clocks moved is told by the notes on skew."""
    found = tuple(changes)
    first = moves[0]
    rest = f" and of {len(moves) - 1} more pairs" if len(moves) > 1 else ""
    return Aside(
        "clock",
        f"The clocks of {first.host} and {first.other}{rest} did not stay together: "
        f"{counted_changes(found)} of times between such hosts are no findings.",
        found,
    )
