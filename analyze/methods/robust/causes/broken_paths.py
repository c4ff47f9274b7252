"""Changes of paths and errors: folded into the deepest that has the same requests, and where calls are cut
short, after whose call (L.7, L.9 items 6 and 7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.causes.groups import Group, score_of
from analyze.methods.robust.causes.places import Affected, Context
from analyze.methods.robust.causes.shape_differences import what_moved
from analyze.methods.robust.changes import ALIKE_KINDS, CALL_KINDS, ERROR_KINDS, NO_SHAPE, PATH_KINDS, Change
from analyze.profile.names import Names
from schemas.report.findings import ChangeKind

B1 = npt.NDArray[np.bool_]

_SAME = 0.8
"""Two changes with this share of their requests in common are one."""
_CALLS_MOVED = 1.4
"""A site whose calls a request changed by this factor sees other requests than before."""
_FLOODED = 3.0
_GONE = 3.0
"""A path is left where so many times fewer take it. A request has one vote, however many calls: who comes a
second time for something else takes half a vote from the path that it took."""
_OLD_SHARE = 0.01


def broken_paths(
    changes: Sequence[Change],
    context: Context,
    affected: Affected | None,
    last_callee: Mapping[int, str],
    mean_ns: float,
    alike: Mapping[int, int] | None = None,
) -> list[Group]:
    """Groups of changes of paths and errors. last_callee: see `last_callees`; alike: operation -> one number
    for the same on all hosts."""
    names = context.names
    by_operation: dict[int, list[Change]] = defaultdict(list)
    for change in changes:
        by_operation[names.sites[change.site].operation].append(change)
    requests = {operation: _requests(mine, affected) for operation, mine in by_operation.items()}
    host = _hosts(by_operation, requests, context, alike or {})
    members: dict[int, list[int]] = defaultdict(list)
    for operation in by_operation:
        top, passed = operation, {operation}
        while top in host and host[top] not in passed:  # two may call each other
            top = host[top]
            passed.add(top)
        members[top].append(operation)
    suspects = {
        operation: callee
        for operation in members
        if (callee := _cut_after(by_operation[operation], names, last_callee)) is not None
    }
    for operation in members.keys() & names.unrecorded.keys():
        if _fails(by_operation[operation]):
            suspects[operation] = names.unrecorded[operation]
    callers: dict[str, set[str]] = defaultdict(set)
    for operation, callee in suspects.items():
        callers[callee].add(names.operations[operation].component)
    shared = {callee for callee, who in callers.items() if callee and len(who) > 1}
    groups = []
    for operation, folded in members.items():
        every = [change for other in folded for change in by_operation[other]]
        if _selected(operation, every, by_operation, members, context):
            continue
        callee = suspects.get(operation, "")
        lead = _lead(by_operation[operation])
        groups.append(
            Group(
                lead=lead,
                operation=operation,
                component=callee if callee in shared else names.operations[operation].component,
                changes=[*by_operation[operation], *(c for c in every if c not in by_operation[operation])],
                score=max(score_of(change, mean_ns) for change in every),
                suspect=callee,
                follows=[c for other in folded if other != operation for c in by_operation[other]],
            )
        )
    return _with_alike_joined(_joined(groups, shared), names)


def _lead(changes: Sequence[Change]) -> Change:
    """What a finding is headed by: an error, then calls, then the path that became more frequent by most."""
    return max(
        changes,
        key=lambda c: (
            c.kind in ERROR_KINDS,
            c.kind in CALL_KINDS,
            c.kind is not ChangeKind.LOST_PATH,
            c.ups,
            abs(c.after - c.before),
        ),
    )


def _requests(changes: Sequence[Change], affected: Affected | None) -> B1 | None:
    """Requests in which the changes show: those with what became more, or the errors that were."""
    more = [change for change in changes if change.ups or change.kind is ChangeKind.FEWER_ERRORS]
    if affected is None or not more:
        return None
    found = np.zeros(affected.n_requests, dtype=np.bool_)
    for change in more:
        found |= affected.of(change)
    return found


def _hosts(
    by_operation: Mapping[int, list[Change]],
    requests: Mapping[int, B1 | None],
    context: Context,
    alike: Mapping[int, int],
) -> dict[int, int]:
    """Operation -> the one nearer to the cause whose changed requests are the same; of an operation that is
    on several hosts those of all of them."""
    host: dict[int, int] = {}
    everywhere: dict[int, B1] = {}
    for operation, found in requests.items():
        if found is not None:
            same = alike.get(operation, operation)
            everywhere[same] = everywhere[same] | found if same in everywhere else found
    for operation in sorted(by_operation, key=lambda o: (context.depth[o], o)):
        mine = requests[operation]
        if mine is None or not mine.any():
            continue
        fitting = []
        for other in requests:
            theirs = everywhere.get(alike.get(other, other))
            if alike.get(other, other) == alike.get(operation, operation):
                continue
            if theirs is None or not theirs.any():
                continue
            led = _is_led_by(by_operation[operation], by_operation[other], (operation, other), context, alike)
            if led is None:
                continue
            common = int((mine & theirs).sum())
            whole = int(mine.sum()) if led else min(int(mine.sum()), 2 * int(theirs.sum()))
            if common >= _SAME * whole:
                related = context.is_above(operation, other) or other in context.records
                # Of the same on several hosts the one that shares most requests itself.
                theirs = requests[other]
                own = 0 if theirs is None else int((mine & theirs).sum())
                # Of records nearly all fits that comes before.
                fresh = (
                    operation not in context.records
                    or _is_new(by_operation[other])
                    or not _is_new(by_operation[operation])
                )
                fitting.append((related, fresh, common, own, context.depth[other], -other))
        if fitting:
            host[operation] = -max(fitting)[-1]
        elif _fails(by_operation[operation]) and operation not in context.records:
            below = _failing_below(operation, by_operation, requests, context)
            together = mine & np.logical_or.reduce([np.zeros_like(mine), *below.values()])
            if below and int(together.sum()) >= _SAME * int(mine.sum()):
                host[operation] = max(below, key=lambda other: (int((mine & below[other]).sum()), -other))
    return host


def _failing_below(
    operation: int,
    by_operation: Mapping[int, list[Change]],
    requests: Mapping[int, B1 | None],
    context: Context,
) -> dict[int, B1]:
    """Operations that an operation calls, however far below, and that fail: each with its requests.

    Who makes several calls fails where any of them does: none alone has the same requests.
    """
    return {
        other: theirs
        for other, theirs in requests.items()
        if theirs is not None and _fails(by_operation[other]) and context.is_above(operation, other)
    }


def _is_led_by(
    changes: Sequence[Change],
    others: Sequence[Change],
    which: tuple[int, int],
    context: Context,
    alike: Mapping[int, int],
) -> bool | None:
    """Whether changes of an operation may follow from those of another; None: they may not, True: all of
    their requests must show the other's.

    What is nearer to the cause comes first. Of records the failing point goes before the path that leads
    to it: the path only tells where the failure was. A loop that turns more often does not follow from a
    path that was taken before; nor does a path that was never there, where the requests that come besides
    are not those that take it.
    """
    operation, other = which
    if operation in context.records and other in context.records:
        if _fails(others) and not _fails(changes) and _leads_to(changes, other, context.names, alike):
            return True
        if _fails(changes) and not _fails(others) and _leads_to(others, operation, context.names, alike):
            return None
    own = any(change.kind in CALL_KINDS for change in changes) or (
        _is_new(changes) and _leaves_a_path(changes, context)
    )
    caused = any(change.kind in CALL_KINDS or change.kind is ChangeKind.NEW_PATH for change in others)
    return False if context.is_nearer(other, operation) and (caused or not own) else None


def _is_new(changes: Sequence[Change]) -> bool:
    return any(change.kind is ChangeKind.NEW_PATH for change in changes)


def _fails(changes: Sequence[Change]) -> bool:
    return any(change.kind is ChangeKind.ERRORS for change in changes)


def _leads_to(changes: Sequence[Change], operation: int, names: Names, alike: Mapping[int, int]) -> bool:
    """Whether a path that became more frequent goes to the operation, on some host."""
    wanted = alike.get(operation, operation)
    return any(
        change.ups
        and change.shape != NO_SHAPE
        and any(alike.get(c.operation, c.operation) == wanted for c in names.shapes[change.shape])
        for change in changes
    )


def _cut_after(changes: Sequence[Change], names: Names, last_callee: Mapping[int, str]) -> str | None:
    """Whose call was the last of calls that were cut short. None: nothing was cut short.

    Cut short: a shape that became more frequent is a part of one that became less so.
    """
    shorter = [
        change
        for change in changes
        if change.shape != NO_SHAPE
        and change.ups
        and any(
            _is_part(change, other, names) for other in changes if other.shape != NO_SHAPE and not other.ups
        )
    ]
    if not shorter:
        return None
    change = max(shorter, key=lambda c: c.after - c.before if names.shapes[c.shape] else 0.0)
    return last_callee.get(change.shape, "")


def _is_part(shorter: Change, longer: Change, names: Names) -> bool:
    one, other = names.shapes[shorter.shape], names.shapes[longer.shape]
    counts = {(child.operation, child.awaited): child.calls for child in other}
    return one != other and all(counts.get((c.operation, c.awaited), 0) >= c.calls for c in one)


def _selected(
    operation: int,
    every: Sequence[Change],
    by_operation: Mapping[int, list[Change]],
    members: Mapping[int, list[int]],
    context: Context,
) -> bool:
    """Whether only other requests reach the site, below another change (L.9 item 7).

    More that come take nothing away from what those did who came before.
    """
    below = any(other != operation and context.is_above(other, operation) for other in members)
    never_seen = any(change.new and change.before < _OLD_SHARE for change in every)
    came = [_came(change, context) for change in by_operation[operation]]
    moved = all(not 1 / _CALLS_MOVED < ratio < _CALLS_MOVED for ratio in came)
    errors = any(change.kind in ERROR_KINDS for change in every)
    # Where many times as many requests come, they bring paths that were never seen there.
    flooded = all(not 1 / _FLOODED < ratio < _FLOODED for ratio in came)
    own = _leaves_a_path(by_operation[operation], context)
    return below and moved and not errors and not own and (flooded or not never_seen)


def _leaves_a_path(changes: Sequence[Change], context: Context) -> bool:
    """Whether hardly any take a path of a site that many took, although more come there."""
    return any(
        change.kind in PATH_KINDS
        and (came := _came(change, context)) > _CALLS_MOVED
        and change.after * came * _GONE < change.before
        for change in changes
    )


def _came(change: Change, context: Context) -> float:
    """How many times as much comes to the site: calls, and to a loop of records requests, however often it
    turns for each."""
    turns = change.kind in CALL_KINDS and context.names.sites[change.site].operation in context.records
    return change.call_ratio * change.before / change.after if turns else change.call_ratio


def _joined(groups: list[Group], shared: set[str]) -> list[Group]:
    """Groups that several callers of one component make are one."""
    for callee in sorted(shared):
        mine = [group for group in groups if group.component == callee]
        if len(mine) < 2:
            continue
        best = max(mine, key=lambda group: group.score)
        for group in mine:
            if group is not best:
                if group.lead.kind in ERROR_KINDS and best.lead.kind is group.lead.kind:
                    best.leads.append(group.lead)
                best.take(group)
                groups.remove(group)
    return groups


def _with_alike_joined(groups: list[Group], names: Names) -> list[Group]:
    """Loops of one component that turn more often, or less, are one; so are its operations that fail, those
    whose calls run side by side no more, and those that call, or leave out, the same: they share code and
    hosts. Calls of unlike components that fail have each its own."""
    joined: dict[Hashable, Group] = {}
    left = []
    for group in sorted(groups, key=lambda group: (-group.score, group.operation)):
        kind, same = group.lead.kind, _told_once(group, names)
        key = None if same is None else (group.component, None if kind in PATH_KINDS else kind, same)
        first = joined.get(key)
        if first is None:
            left.append(group)
            if key is not None:
                joined[key] = group
        else:
            first.leads.append(group.lead)
            first.take(group)
    return left


def _told_once(group: Group, names: Names) -> Hashable | None:
    """What other operations of the component must have in common with a group to be one with it; None: each
    is told."""
    if group.lead.kind in PATH_KINDS:
        return what_moved(group.lead, group.changes, names)
    if group.lead.kind in ERROR_KINDS:
        return names.callee(group.operation)
    return "" if group.lead.kind in CALL_KINDS | ALIKE_KINDS else None
