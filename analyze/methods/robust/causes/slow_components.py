"""Changes of time: one vote a site, merged by operation, covered by few components (J.6, L.9 item 8)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from analyze.methods.robust.causes.groups import Group, sure_part
from analyze.methods.robust.changes import Change
from analyze.profile.names import Names
from schemas.report.findings import ChangeKind

_CALLER_WEIGHT = 0.9
"""A wait for a remote call speaks a little more for whom it calls than for the one who waits."""

_Key = tuple[int, bool]


def slow_components(changes: Sequence[Change], names: Names, mean_ns: float) -> list[Group]:
    """Groups of time changes, each by the component that covers most of what is left."""
    left = _by_operation(_one_a_site(changes), names)
    groups = []
    while left:
        component, faster = _best_cover(left, names)
        members = {
            key: mine
            for key, mine in left.items()
            if key[1] == faster and component in _components(key[0], names)
        }
        for key in members:
            del left[key]
        leading = max(members, key=lambda key: (abs(_part(members[key])), -key[0]))
        every = [change for mine in members.values() for change in mine]
        lead = _largest(members[leading])
        # Who else waits for the component that this caller waits for.
        callers = [
            _largest(mine)
            for key, mine in members.items()
            if key != leading and names.callee(leading[0]) == component == names.callee(key[0])
        ]
        groups.append(
            Group(
                lead=lead,
                operation=leading[0],
                component=component,
                changes=every,
                score=sure_part(lead) * abs(_part(every)) / max(mean_ns, 1.0),
                leads=callers,
            )
        )
    return groups


def _largest(changes: Sequence[Change]) -> Change:
    return max(changes, key=lambda change: abs(change.contribution_ns))


def _one_a_site(changes: Sequence[Change]) -> list[Change]:
    """A site that is slower and has a tail tells of one thing: of the typical call, if that changed."""
    best: dict[int, Change] = {}
    for change in changes:
        known = best.get(change.site)
        if known is None or (known.kind is ChangeKind.TAIL and change.kind is not ChangeKind.TAIL):
            best[change.site] = change
    return list(best.values())


def _by_operation(changes: Sequence[Change], names: Names) -> dict[_Key, list[Change]]:
    merged: dict[_Key, list[Change]] = defaultdict(list)
    for change in changes:
        faster = change.kind is ChangeKind.FASTER
        merged[names.sites[change.site].operation, faster].append(change)
    return dict(merged)


def _part(changes: Sequence[Change]) -> float:
    return sum(change.contribution_ns for change in changes)


def _components(operation: int, names: Names) -> dict[str, float]:
    """Component -> how much a change of the operation's time speaks for it."""
    component, callee = names.operations[operation].component, names.callee(operation)
    if not callee:
        return {component: 1.0}
    called = [callee] if operation in names.unrecorded else callee.split("+")
    return {component: _CALLER_WEIGHT} | dict.fromkeys(called, 1.0)


def _best_cover(left: dict[_Key, list[Change]], names: Names) -> tuple[str, bool]:
    covered: dict[tuple[str, bool], float] = defaultdict(float)
    for (operation, faster), changes in left.items():
        weight = abs(_part(changes)) + 1e-6
        for component, share in _components(operation, names).items():
            covered[component, faster] += weight * share
    return max(covered, key=lambda key: (covered[key], key))
