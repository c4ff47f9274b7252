"""Assign each row of the breakdown to the cause that accounts for it, so that the causes' parts and the rest
add up to the change of the mean response time.

A change of time accounts for the `slower` part of its sites. A change of paths, calls or errors accounts for
calls that are added or dropped: for spans the `calls` and `structure` parts of all calling paths below the
site; for activity records, which do not nest, the `calls` parts of connected steps that are taken more or
less often. All changes of a cause count, also its consequences. If several causes could account for a part,
the first one gets it.
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
    """Change of the mean response time divided among causes, ns per request; all parts together (`of_causes`,
    `rest`, `mix`) add up to the whole change."""

    of_causes: tuple[float, ...]
    """Part of the change of the mean response time that each cause accounts for, ns per request, in the order
    of the causes."""
    rest: F8
    """float64[rows]: part of each row of the breakdown that no cause accounts for, ns per request."""
    mix: F8
    """float64[roots]: change of the mean response time due to a changed mix of root types, ns per request; it
    is not part of any row of the breakdown."""
    cause: I8
    """int64[rows]: index of the cause that accounts for the largest part of each row of the breakdown; -1 for
    none."""

    def shares(self, ups: bool) -> tuple[float | None, ...]:
        """Share of each cause in all time added (`ups` True) or saved (False), in [0, 1]; None for a cause
        with the other sign.

        The denominator is the sum of all parts with that sign: of causes, rest and mix.
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
    """Divide the change of the mean response time among causes, ns per request; each part of a row goes to
    the first cause that accounts for it. O(causes · rows).

    parts: rows of the breakdown by calling path; mix: float64[roots] part due to the mix of root types, ns;
    call_ratio: float64[sites] calls per request, after / before.
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
    """Copy of `call_ratio` with 1 (unchanged) at sites whose calls moved against the direction of the cause,
    for a cause of more or fewer calls.

    A loop with more iterations does not account for steps that are taken less often.
    """
    if cause.lead.kind not in CALL_KINDS:
        return call_ratio
    return np.where((call_ratio > 1) == (cause.lead.kind is ChangeKind.MORE_CALLS), call_ratio, 1.0)


def _below(operations: set[int], names: Names) -> B1:
    """bool[paths]: True for calling paths that contain one of the operations."""
    found = np.zeros(len(names.paths), dtype=np.bool_)
    for number, path in enumerate(names.paths) if operations else ():  # a path comes after the one above it
        above = path.above != NO_CALLER and bool(found[path.above])
        found[number] = above or names.sites[path.site].operation in operations
    return found


def _steps_about(operations: set[int], names: Names, call_ratio: F8, calls_moved: float) -> set[int]:
    """Indices of sites of steps that are taken more or less often, by a factor over `calls_moved`, and that
    touch `operations` or are connected to them by such steps."""
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
