"""What of the change of the mean each finding accounts for: rows of the exact account, none of them twice.

Of a change of time it is the `slower` part of its sites. Of a change of paths, calls or errors it is what the
calls that come or go take: of spans the `calls` and `structure` parts of everything below the site, of
activity records, which do not nest, the `calls` parts of the steps that are walked more or less often and
hang together with the site. A row belongs to the first finding that claims it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.causes.groups import Group
from analyze.methods.robust.causes.places import Context
from analyze.methods.robust.changes import CALL_KINDS, TIME_KINDS
from analyze.profile.breakdown import Parts
from analyze.profile.names import NO_CALLER, Names
from schemas.report.findings import ChangeKind

F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

_MOVED = 1.4
"""A step that a request walks that many times as often, or as seldom, lies on a path that came or went."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What groups account for of a change of the mean, and what is left; ns, together the whole change."""

    of_groups: tuple[float, ...]
    rest: F8
    """[rows] what no group claims of a row of the account."""
    mix: F8
    """[roots] what is of no row."""

    def shares(self, ups: bool) -> tuple[float | None, ...]:
        """Part of each group in all that added time (`ups`), or in all that took time away.

        What adds is each group that does, as a whole, each rest of a row that does, and the mix: so the
        shares add up to 1 at most, and none is 0 but of a group that accounts for nothing. None: the group
        went the other way.
        """
        sign = 1.0 if ups else -1.0
        every = np.concatenate([np.array(self.of_groups), self.rest, self.mix]) * sign
        added = float(np.maximum(every, 0.0).sum())
        return tuple(
            None if claim * sign < 0 else claim * sign / added if claim else 0.0 for claim in self.of_groups
        )


def claims_ns(groups: Sequence[Group], parts: Parts, mix: F8, context: Context, call_ratio: F8) -> Claims:
    """Part of the change of each group, ns; groups in the order in which they claim.

    parts: rows by path of the same names; mix: [roots] what is of no row. call_ratio: [sites] calls a
    request, after over before. O(groups · rows).
    """
    names = context.names
    row_site = np.array([names.paths[place].site for place in parts.place.tolist()], dtype=np.int64)
    free_time, free_calls = (np.ones(len(row_site), dtype=np.bool_) for _ in range(2))
    claims = []
    rest = parts.total.astype(np.float64)
    for group in groups:
        timed = {change.site for change in group.changes if change.kind in TIME_KINDS}
        mine = free_time & np.isin(row_site, sorted(timed))
        total = float(parts.slower[mine].sum())
        rest[mine] -= parts.slower[mine]
        free_time &= ~mine
        operations = {
            names.sites[change.site].operation for change in group.changes if change.kind not in TIME_KINDS
        }
        if operations:
            if operations & context.records:
                ratio = call_ratio
                if group.lead.kind in CALL_KINDS:  # what it is not: steps that went the other way
                    more = group.lead.kind is ChangeKind.MORE_CALLS
                    ratio = np.where((call_ratio > 1) == more, call_ratio, 1.0)
                mine = np.isin(row_site, sorted(_steps_about(operations, names, ratio)))
            else:
                mine = _below(operations, names)[parts.place]
            mine &= free_calls
            total += float((parts.calls + parts.structure)[mine].sum())
            rest[mine] -= (parts.calls + parts.structure)[mine]
            free_calls &= ~mine
        claims.append(total)
    return Claims(tuple(claims), rest, mix)


def _below(operations: set[int], names: Names) -> B1:
    """[paths] whether a path is one of an operation, or below one."""
    found = np.zeros(len(names.paths), dtype=np.bool_)
    for number, path in enumerate(names.paths):  # a path comes after the one above it
        above = path.above != NO_CALLER and bool(found[path.above])
        found[number] = above or names.sites[path.site].operation in operations
    return found


def _steps_about(operations: set[int], names: Names, call_ratio: F8) -> set[int]:
    """Steps walked more or less often that touch the operations, and those that hang together with them."""
    with np.errstate(divide="ignore"):
        moved = np.abs(np.log(np.maximum(call_ratio, 1e-300))) > np.log(_MOVED)
    touching: dict[int, list[int]] = defaultdict(list)
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
