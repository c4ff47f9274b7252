"""Times and numbers of calls that moved because a change of paths moved the load (ALGORITHMS J.6 item 3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from analyze.methods.robust.causes.groups import Group
from analyze.methods.robust.changes import CALL_KINDS, NO_SHAPE, PATH_KINDS, TIME_KINDS, Change
from analyze.profile.names import Names, OperationName
from schemas.report.findings import ChangeKind

_LEAST = 0.05
"""Part of a site's requests that must go elsewhere."""


def with_queues_folded(paths: Sequence[Group], times: Sequence[Group], names: Names) -> list[Group]:
    """The groups of times that are left: others follow from a larger change of paths.

    A component to which requests now go gets slower, and one that they no longer go to gets faster: that is
    what its queue does. All of a group's changes must be of such a component.
    """
    left = []
    for group in times:
        causes = [path for path in paths if path.score >= group.score and _queues(group, path, names)]
        if causes:
            max(causes, key=lambda path: (path.score, -path.operation)).take(group)
        else:
            left.append(group)
    return left


def with_calls_folded(paths: Sequence[Group], names: Names) -> list[Group]:
    """The groups of paths that are left: a component to which a larger change of paths now sends requests
    does more of what it does, and one that they no longer go to less."""
    left = []
    for group in paths:
        causes = [
            path
            for path in paths
            if path.lead.kind in PATH_KINDS and path.score >= group.score and _calls_moved(group, path, names)
        ]
        if causes:
            max(causes, key=lambda path: (path.score, -path.operation)).take(group)
        else:
            left.append(group)
    return left


def _calls_moved(group: Group, path: Group, names: Names) -> bool:
    moved = load_moved(path, names)
    return group.lead.kind in CALL_KINDS and all(
        moved.get(names.operation(change.site).component, 0) == (1 if change.ups else -1)
        for change in group.changes
        if change.kind in CALL_KINDS
    )


def take_queues(paths: Sequence[Group], by_load: Sequence[Change], names: Names) -> None:
    """Give paths the times that another load of the whole service would explain as well.

    Clients that wait for a service send less when it gets slow; where a change of paths took requests away
    from a component, that is the nearer reason for its shorter queue.
    """
    moved = [(path, load_moved(path, names)) for path in paths if path.lead.kind in PATH_KINDS]
    for change in by_load:
        causes = [path for path, way in moved if change.kind in TIME_KINDS and _fits(change, way, names)]
        if causes:
            cause = max(causes, key=lambda path: (path.score, -path.operation))
            cause.changes.append(change)
            cause.follows.append(change)


def _queues(group: Group, path: Group, names: Names) -> bool:
    moved = load_moved(path, names)
    timed = [change for change in group.changes if change.kind in TIME_KINDS]
    return bool(timed) and all(_fits(change, moved, names) for change in timed)


def _fits(change: Change, moved: dict[str, int], names: Names) -> bool:
    name = names.operation(change.site)
    way = moved.get(name.component, 0)
    return way < 0 if change.kind is ChangeKind.FASTER else way > 0


def load_moved(path: Group, names: Names) -> dict[str, int]:
    """Component -> 1 if the leading site's calls go to it more often than before, -1 if less often."""
    own = names.operations[path.operation].component
    share: dict[str, float] = defaultdict(float)
    for change in path.changes:
        if change.shape == NO_SHAPE or change.site != path.lead.site:
            continue
        called = {
            component
            for child in names.shapes[change.shape]
            for component in _asked(names.operations[child.operation])
        }
        for component in called - {own}:
            share[component] += change.after - change.before
    return {component: 1 if moved > 0 else -1 for component, moved in share.items() if abs(moved) > _LEAST}


def _asked(name: OperationName) -> list[str]:
    return name.callee.split("+") if name.callee else [name.component]
