"""Compare call patterns: operations called more or less often, rerouted calls, the callee after which a
request is cut short."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from analyze.methods.robust.changes import NO_PATTERN, Change
from analyze.population import Population
from analyze.profile.call_sites import RequestGroup
from analyze.profile.names import CallPattern, Names


def difference(pattern: CallPattern, other: CallPattern) -> tuple[dict[int, int], dict[int, int]]:
    """Compare two call patterns: (operation -> number of calls by which `pattern` exceeds `other`, operation
    -> number by which `other` exceeds `pattern`)."""
    mine, theirs = Counter[int](), Counter[int]()
    for child in pattern:
        mine[child.operation] += child.calls
    for child in other:
        theirs[child.operation] += child.calls
    return dict(mine - theirs), dict(theirs - mine)


def times_called(pattern: CallPattern, other: CallPattern = ()) -> dict[int, tuple[int, int]]:
    """Number of additional calls of each operation that `pattern` calls more often than `other`: operation ->
    (minimum, maximum); a range, since patterns round numbers of calls up to powers of two."""
    least, most = Counter[int](), Counter[int]()
    for child in pattern:
        least[child.operation] += child.least
        most[child.operation] += child.calls
    for child in other:
        least[child.operation] -= child.calls
        most[child.operation] -= child.least
    more, _ = difference(pattern, other)
    return {operation: (max(least[operation], 1), most[operation]) for operation in more}


def counterpart(change: Change, changes: Sequence[Change]) -> Change | None:
    """Change of another call pattern's share at the same site in the opposite direction, the largest one;
    None if there is none."""
    others = [
        other
        for other in changes
        if other.site == change.site and other.pattern != NO_PATTERN and other.ups != change.ups
    ]
    return max(others, key=lambda other: abs(other.after - other.before), default=None)


def calls_added(change: Change, changes: Sequence[Change], names: Names) -> int | None:
    """Number of calls that a path change adds to a request (negative if it removes some): pattern that became
    more frequent minus the pattern that became less frequent; None without a `counterpart`."""
    other = counterpart(change, changes)
    if change.pattern == NO_PATTERN or other is None:
        return None
    now, then = (names.patterns[c.pattern] for c in ((change, other) if change.ups else (other, change)))
    more, fewer = difference(now, then)
    return sum(more.values()) - sum(fewer.values())


def what_moved(
    change: Change, changes: Sequence[Change], names: Names
) -> tuple[frozenset[int], frozenset[int]] | None:
    """(Operations called more often, operations called less often) after a path change; None without a
    `counterpart`, or if both patterns call all operations equally often.

    Path changes of one component with the same result become one finding (`alike_at_component`).
    """
    other = counterpart(change, changes)
    if change.pattern == NO_PATTERN or other is None:
        return None
    one, two = (names.patterns[each.pattern] for each in ((change, other) if change.ups else (other, change)))
    more, fewer = (frozenset(calls) for calls in difference(one, two))
    return (more, fewer) if more or fewer else None


def calls_rerouted(changes: Sequence[Change], lead: Change, names: Names, least: float) -> dict[str, int]:
    """Components to which the site of `lead` sends more or fewer calls than before: component -> 1 or -1. A
    component counts if the share of the site's requests that call it changed by more than `least`."""
    own = names.operation(lead.site).component
    share: dict[str, float] = defaultdict(float)
    for change in changes:
        if change.pattern == NO_PATTERN or change.site != lead.site:
            continue
        called = {
            component
            for child in names.patterns[change.pattern]
            for component in (
                names.operations[child.operation].callee or names.operations[child.operation].component
            ).split("+")
        }
        for component in called - {own}:
            share[component] += change.after - change.before
    return {component: 1 if moved > 0 else -1 for component, moved in share.items() if abs(moved) > least}


def cut_after(changes: Sequence[Change], names: Names, last_callee: Mapping[int, str]) -> str:
    """Component of the last call that requests still make before they are cut short; empty if no requests are
    cut short.

    Requests are cut short if a pattern that became more frequent is a proper part of a pattern that became
    less frequent. last_callee: pattern -> component of its last call; without an entry (statistics do not
    record the order of calls) the component is known only if all calls of the pattern go to it.
    """
    shorter = [
        change
        for change in changes
        if change.pattern != NO_PATTERN
        and change.ups
        and any(
            _is_part(names.patterns[change.pattern], names.patterns[other.pattern])
            for other in changes
            if other.pattern != NO_PATTERN and not other.ups
        )
    ]
    if not shorter:
        return ""
    change = max(shorter, key=lambda c: c.after - c.before if names.patterns[c.pattern] else 0.0)
    if change.pattern in last_callee:
        return last_callee[change.pattern]
    called = {
        names.callee(child.operation) or names.operations[child.operation].component
        for child in names.patterns[change.pattern]
    }
    return called.pop() if len(called) == 1 and names.operation(change.site).component not in called else ""


def _is_part(shorter: CallPattern, longer: CallPattern) -> bool:
    counts = {(child.operation, child.awaited): child.calls for child in longer}
    return shorter != longer and all(counts.get((c.operation, c.awaited), 0) >= c.calls for c in shorter)


def last_callees(
    population: Population, groups: Sequence[RequestGroup], patterns: Iterable[int], names: Names
) -> dict[int, str]:
    """Component of the remote call that starts last in calls with each of the `patterns`, by majority:
    pattern -> component, "" if no remote call is made. O(groups · units), units being calls.

    patterns: indices of the call patterns to look up, a few.
    """
    wanted = set(patterns)
    votes: dict[int, Counter[str]] = defaultdict(Counter)
    for group in groups:
        sites = group.sites
        if wanted.isdisjoint(sites.pattern.tolist()) or (sites.above < 0).all():
            continue
        category = population.categories[group.category]
        mean_start = category.node_ns[:, group.rows].mean(axis=1)[sites.start]
        last: dict[int, int] = {}
        for unit in np.argsort(mean_start, kind="stable").tolist():
            last[int(sites.above[unit])] = unit
        for unit in np.flatnonzero(np.isin(sites.pattern, list(wanted))).tolist():
            votes[int(sites.pattern[unit])][_callee(unit, group, names, last)] += len(group.rows)
    return {pattern: max(sorted(count), key=count.__getitem__) for pattern, count in votes.items()}


def _callee(unit: int, group: RequestGroup, names: Names, last: dict[int, int]) -> str:
    """Component of the last remote call below a unit (a call): follows the last child downwards until the
    component differs from the unit's component; "" if all components are the same.

    last: unit -> its child unit that starts last.
    """
    sites = group.sites
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
