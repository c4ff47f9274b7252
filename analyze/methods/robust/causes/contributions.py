"""Assign each row of the breakdown to the finding that accounts for it, so that rows and findings add up to
the same total.

A change of time accounts for the `slower` part of its sites. A change of paths, calls or errors accounts for
the calls that come or go: for spans the `calls` and `structure` parts of everything below the site; for
activity records, which do not nest, the `calls` parts of steps connected to the site that are taken more or
less often. Changes that follow from the finding's cause are included. A part belongs to the first finding
that claims it.
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
    """Change of the mean response time divided among causes, ns; with the rest the parts add up to the whole
    change.

    of_causes: part of each cause.
    """

    of_causes: tuple[float, ...]
    rest: F8
    """float64[rows]: part of each row of the breakdown that no cause accounts for, ns."""
    mix: F8
    """float64[roots]: part due to the changed mix of root types, ns, which is in no row."""
    cause: I8
    """int64[rows]: index of the cause that accounts for most of each row; -1 for none."""

    def shares(self, ups: bool) -> tuple[float | None, ...]:
        """Share of each cause in all time added (`ups`), or in all time saved, in [0, 1].

        The denominator is the sum of all parts with that sign: of causes, rests and mix. None for a cause
        with the other sign; 0 only for a cause whose part is 0.
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
    """Divide the change of the mean response time, ns, among causes; earlier causes claim rows first.
    O(causes · rows).

    parts: rows of the breakdown by calling path; mix: float64[roots] part of the mix of root types, ns;
    call_ratio: float64[sites] calls per request, after over before.
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
    """Set `call_ratio` to 1 at sites whose calls moved against the direction of a cause that changes calls.

    A loop with more iterations does not account for steps taken less often.
    """
    if cause.lead.kind not in CALL_KINDS:
        return call_ratio
    return np.where((call_ratio > 1) == (cause.lead.kind is ChangeKind.MORE_CALLS), call_ratio, 1.0)


def _below(operations: set[int], names: Names) -> B1:
    """bool[paths]: True for calling paths that end at one of the operations or contain it."""
    found = np.zeros(len(names.paths), dtype=np.bool_)
    for number, path in enumerate(names.paths) if operations else ():  # a path comes after the one above it
        above = path.above != NO_CALLER and bool(found[path.above])
        found[number] = above or names.sites[path.site].operation in operations
    return found


def _steps_about(operations: set[int], names: Names, call_ratio: F8, calls_moved: float) -> set[int]:
    """Sites of steps taken more or less often (by a factor over `calls_moved`) that touch the operations, or
    are connected to them by such steps."""
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
