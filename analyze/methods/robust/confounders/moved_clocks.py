"""Explain changes of times measured between hosts whose clock offsets changed; times on one host are
unaffected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyze.methods.robust.changes import Change
from analyze.methods.robust.comparison import Comparison
from analyze.methods.robust.confounders.port import Confounder, Explained, counted_changes
from analyze.population import Population
from schemas.report.findings import ORDER_KINDS, TIME_KINDS

_US = 1e-3


class MovedClocks(Confounder):
    """Confounder for changed clock offsets between hosts: explains changes of times measured between them."""

    name = "moved-clocks"
    doc = "Times between hosts whose clocks moved are no evidence; times on one host are."
    case = "tests/unit/test_record_clocks.py: a clock that was set"

    def explains(self, changes: Sequence[Change], comparison: Comparison) -> Explained | None:
        """Explain changes of times that are mostly measured between hosts whose clock offset changed, if they
        are no larger than the change of the offset."""
        by_us = _by_codes(comparison.population)
        found = [
            change
            for change in changes
            if by_us and change.kind in TIME_KINDS | ORDER_KINDS and _between(change, by_us, comparison)
        ]
        if not found:
            return None
        moves = comparison.population.clock_moves
        rest = f" and of {len(moves) - 1} more pairs" if len(moves) > 1 else ""
        return Explained(
            "skew",
            f"The clocks of {moves[0].host} and {moves[0].other}{rest} did not stay together: "
            f"{counted_changes(found)} of times between such hosts are no findings.",
            tuple(found),
        )


def _by_codes(population: Population) -> dict[tuple[int, int], float]:
    """Changes of clock offsets between hosts: (lower, higher host index) -> size, µs; inf if unknown."""
    code = {host: number for number, host in enumerate(population.hosts)}
    found = {}
    for move in population.clock_moves:
        if move.host in code and move.other in code:
            low, high = sorted((code[move.host], code[move.other]))
            found[low, high] = np.inf if move.by_ns is None else move.by_ns * _US
    return found


def _between(change: Change, moves: dict[tuple[int, int], float], comparison: Comparison) -> bool:
    """True if most times at the change's site are measured between pairs of hosts in `moves`, and the change
    is no larger than the change of their clock offsets. O(requests at the site).

    moves: (lower, higher host index) -> change of the clock offset, µs.
    """
    n = crossing = 0
    largest, settings = 0.0, comparison.settings.confounders
    for group in comparison.profiled.groups:
        sites, category = group.sites, comparison.population.categories[group.category]
        units = np.flatnonzero(sites.site == change.site)
        if category.host is None or not len(units):
            continue
        hosts = category.host[:, group.rows]
        n += len(units) * len(group.rows)
        if sites.are_calls:
            # Own time is measured on the call's own host; clocks affect only whether its children overlap.
            if change.kind not in ORDER_KINDS:
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
    return crossing > 0 and crossing >= settings.clock_share * n and size_us <= settings.clock_room * largest
