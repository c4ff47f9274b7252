"""From changes to groups, the most important first (ALGORITHMS L.7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from analyze.methods.robust.causes.broken_paths import broken_paths
from analyze.methods.robust.causes.groups import Group, part_ns
from analyze.methods.robust.causes.over_hosts import HostOf, alike_operations, joined_over_hosts
from analyze.methods.robust.causes.places import Affected, Context
from analyze.methods.robust.causes.queues import take_queues, with_calls_folded, with_queues_folded
from analyze.methods.robust.causes.slow_components import slow_components
from analyze.methods.robust.changes import CALL_KINDS, PATH_KINDS, TIME_KINDS, Change
from schemas.report.findings import ChangeKind

_CALLS_MOVED = 1.43
_CLEAR = 0.05
_AGAINST = 0.3
_KNOWN = 0.8
"""Rank of a change between known paths, against one with a path that was never there."""
_HALF = 0.5
"""Of the requests must be slow for their median to be."""
_NO_BETTER = frozenset({ChangeKind.NEW_PATH, ChangeKind.ERRORS, ChangeKind.MORE_CALLS, *TIME_KINDS})
_OTHER_REQUESTS = 3.0
"""A site that is called so many times as often, or as seldom, sees other requests than it did."""


def grouped(
    changes: Sequence[Change],
    context: Context,
    affected: Affected | None,
    last_callee: Mapping[int, str],
    mean_ns: float,
    change_ns: float = 0.0,
    *,
    host_of: HostOf | None = None,
    tested: Collection[int] = (),
    by_load: Sequence[Change] = (),
) -> list[Group]:
    """Few groups of many changes. mean_ns: the larger of the two mean response times; change_ns: their
    difference; host_of, tested: see `joined_over_hosts`; by_load: changes that the load explains, no
    findings but where a change of paths moved the load."""
    names = context.names
    paths = broken_paths(
        [c for c in changes if c.kind not in TIME_KINDS],
        context,
        affected,
        last_callee,
        mean_ns,
        alike_operations(names, host_of or {}),
    )
    paths = with_calls_folded(paths, names)
    timed = [c for c in changes if c.kind in TIME_KINDS and not _of_other_requests(c, paths, context)]
    times = slow_components(timed, names, mean_ns)
    groups = [group for group in times if not _moved_by(group, paths, context)]
    groups = with_queues_folded(paths, groups, names)
    take_queues(paths, by_load, names)
    for path in paths:
        for group in [group for group in groups if _after_failure(group, path, context, affected)]:
            path.score = max(path.score, group.score)
            path.take(group)
            groups.remove(group)
    for path in paths:
        callee = names.callee(path.operation)
        about = {path.component, *callee.split("+")} - {""}
        partner = next((g for g in groups if g.lead.kind in TIME_KINDS and g.component in about), None)
        if partner is None:
            groups.append(path)
        elif path.lead.kind in CALL_KINDS and path.score > partner.score:
            path.take(partner)
            groups[groups.index(partner)] = path
        else:
            partner.take(path)
            partner.score = max(partner.score, path.score)
    groups = joined_over_hosts(groups, names, host_of or {}, tested)
    return sorted(groups, key=lambda group: (-_rank_value(group, change_ns, mean_ns), group.operation))


def _after_failure(times: Group, path: Group, context: Context, affected: Affected | None) -> bool:
    """Whether what takes longer is what is done after a call below has failed: an error's page, a back-off.

    So many of the requests there must fail that the rest need not be slower: half of them for a median.
    """
    if path.lead.kind is not ChangeKind.ERRORS or affected is None or path.operation in context.records:
        return False
    failing = np.logical_or.reduce([affected.of(change) for change in (path.lead, *path.leads)])
    for change in (change for change in times.changes if change.kind in TIME_KINDS):
        if not context.is_above(context.names.sites[change.site].operation, path.operation):
            return False
        here = affected.of(change)
        needed = change.after if change.unit == "share" else _HALF
        if not change.ups or int((failing & here).sum()) < needed * int(here.sum()):
            return False
    return True


def _rank_value(group: Group, change_ns: float, mean_ns: float) -> float:
    """What got better does not lead: it needs no mending, and is what the others outweigh.

    Nor does what goes against a rise of the mean. And what was never there is a cause sooner than known paths
    that are taken more often: state moves those, a cache that something else has emptied.
    """
    against = change_ns > _CLEAR * mean_ns and part_ns(group) < 0
    if against or is_better(group):
        return group.score * _AGAINST
    return group.score * (_KNOWN if group.lead.kind is ChangeKind.PATH and _of_known_paths(group) else 1.0)


def _of_known_paths(group: Group) -> bool:
    """Whether a group tells of paths that were there before, and of nothing besides."""
    kinds = {change.kind for change in group.changes}
    return group.lead.kind in PATH_KINDS and not group.suspect and kinds.isdisjoint(_NO_BETTER)


def is_better(group: Group) -> bool:
    """Whether a group tells of less time only: faster steps, or known paths that are shorter.

    A path that was never there, a failure, a call that is cut short are no improvements, whatever they save.
    """
    lead = group.lead
    if lead.kind in (ChangeKind.FASTER, ChangeKind.PARALLEL, ChangeKind.FEWER_ERRORS):
        return True
    return part_ns(group) < 0 and _of_known_paths(group)


def _of_other_requests(change: Change, paths: Sequence[Group], context: Context) -> bool:
    """Whether the site, below a change of paths, sees other requests than it did."""
    operation = context.names.sites[change.site].operation
    below = any(context.is_above(path.operation, operation) for path in paths)
    return below and not 1 / _OTHER_REQUESTS < change.call_ratio < _OTHER_REQUESTS


def _moved_by(group: Group, paths: Sequence[Group], context: Context) -> bool:
    """Times that moved only because other requests reach the site now, below a change of paths."""
    names = context.names
    below = any(
        context.is_above(path.operation, names.sites[change.site].operation)
        for path in paths
        for change in group.changes
    )
    moved = all(not 1 / _CALLS_MOVED < change.call_ratio < _CALLS_MOVED for change in group.changes)
    total = sum(change.contribution_ns for change in group.changes)
    against = total if group.lead.kind is ChangeKind.FASTER else -total
    return below and moved and against >= 0
