"""Give each row of the breakdown to the finding that accounts for it: findings and breakdown are one sum.

A change of time accounts for the `slower` part of its sites. A change of paths, calls or errors accounts for
what the calls that come or go take: of spans the `calls` and `structure` parts of everything below the site,
of activity records, which do not nest, the `calls` parts of the steps that are walked more or less often and
hang together with the site. So does what follows from it. A part belongs to the first finding that claims it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analyze.methods.robust.causes.context import Context
from analyze.methods.robust.causes.symptoms import Cause
from analyze.profile.breakdown import Parts
from analyze.profile.names import NO_CALLER, Names
from schemas.arrays import B1, F8, I8
from schemas.report.findings import CALL_KINDS, TIME_KINDS, ChangeKind


@dataclass(frozen=True, slots=True)
class Contributions:
    """Parts of a change of the mean by cause, and the rest; ns, together the whole change."""

    of_causes: tuple[float, ...]
    rest: F8
    """[rows] part of a row of the breakdown that no cause accounts for."""
    mix: F8
    """[roots] part of the workload mix, which no row has."""
    cause: I8
    """[rows] number of the cause that accounts for most of a row; -1 for none."""

    def shares(self, ups: bool) -> tuple[float | None, ...]:
        """Give the part of each cause in all that added time (`ups`), or in all that took time away.

        What adds is each cause that does, as a whole, each rest of a row that does, and the mix: so the
        shares add up to 1 at most, and none is 0 but of a cause that accounts for nothing. None: the cause
        went the other way.
        """
        sign = 1.0 if ups else -1.0
        every = np.concatenate([np.array(self.of_causes), self.rest, self.mix]) * sign
        added = float(np.maximum(every, 0.0).sum())
        return tuple(
            None if part * sign < 0 else part * sign / added if part else 0.0 for part in self.of_causes
        )


def contributions(
    causes: Sequence[Cause], context: Context, parts: Parts, mix: F8, call_ratio: F8
) -> Contributions:
    """Give each cause its part of the change of the mean, ns; they claim in their order. O(causes · rows).

    parts: rows by path of the same names; mix: [roots] what is of no row; call_ratio: [sites] calls a
    request, after over before.
    """
    names, calls_moved = context.names, context.settings.calls_moved
    site = np.array([names.paths[place].site for place in parts.place.tolist()], dtype=np.int64)
    slower, calls = parts.slower.astype(np.float64), (parts.calls + parts.structure).astype(np.float64)
    most, owner = np.zeros(len(site)), np.full(len(site), -1, dtype=np.int64)
    found = []
    for number, cause in enumerate(causes):
        timed = {change.site for change in cause.changes if change.kind in TIME_KINDS}
        operations = {names.sites[c.site].operation for c in cause.changes if c.kind not in TIME_KINDS}
        if operations & context.order.records:
            own = np.isin(
                site, sorted(_steps_about(operations, names, _ways(cause, call_ratio), calls_moved))
            )
        else:
            own = _below(operations, names)[parts.place]
        mine = slower * np.isin(site, sorted(timed)) + calls * own
        slower, calls = np.where(np.isin(site, sorted(timed)), 0.0, slower), np.where(own, 0.0, calls)
        owner[np.abs(mine) > most] = number
        most = np.maximum(most, np.abs(mine))
        found.append(float(mine.sum()))
    return Contributions(tuple(found), slower + calls, mix, owner)


def _ways(cause: Cause, call_ratio: F8) -> F8:
    """Tell which way each account may move: a loop that turns more often has no steps that are walked less
    often, and the other way round."""
    if cause.lead.kind not in CALL_KINDS:
        return call_ratio
    return np.where((call_ratio > 1) == (cause.lead.kind is ChangeKind.MORE_CALLS), call_ratio, 1.0)


def _below(operations: set[int], names: Names) -> B1:
    """Tell of [paths] whether a path is one of an operation, or below one."""
    found = np.zeros(len(names.paths), dtype=np.bool_)
    for number, path in enumerate(names.paths) if operations else ():  # a path comes after the one above it
        above = path.above != NO_CALLER and bool(found[path.above])
        found[number] = above or names.sites[path.site].operation in operations
    return found


def _steps_about(operations: set[int], names: Names, call_ratio: F8, calls_moved: float) -> set[int]:
    """Find steps walked more or less often that touch the operations, and those that hang together with
    them."""
    with np.errstate(divide="ignore"):
        moved = np.abs(np.log(np.maximum(call_ratio, 1e-300))) > np.log(calls_moved)
    touching: Mapping[int, list[int]] = defaultdict(list)
    for site in np.flatnonzero(moved[: len(names.sites)]).tolist():
        name = names.sites[site]
        for end in {name.caller, name.operation} - {NO_CALLER}:
            touching[end].append(site)
    found: set[int] = set()
    open_ends = list(operations)
    seen = set(operations)
    while open_ends:
        for site in touching[open_ends.pop()]:
            found.add(site)
            name = names.sites[site]
            for end in {name.caller, name.operation} - {NO_CALLER} - seen:
                seen.add(end)
                open_ends.append(end)
    return found
