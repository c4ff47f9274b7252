"""What is different about a local shape, against the one that requests came from, or went to (L.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analyze.methods.robust.changes import NO_SHAPE, Change
from analyze.profile.names import Names, Shape


def difference(shape: Shape, other: Shape) -> tuple[dict[int, int], dict[int, int]]:
    """(operations with more calls, with fewer) of a shape against another, with how many."""
    mine, theirs = Counter[int](), Counter[int]()
    for child in shape:
        mine[child.operation] += child.calls
    for child in other:
        theirs[child.operation] += child.calls
    return dict(mine - theirs), dict(theirs - mine)


def counterpart(change: Change, changes: Sequence[Change]) -> Change | None:
    """The shape of the same site that went the other way by most."""
    others = [
        other
        for other in changes
        if other.site == change.site and other.shape != NO_SHAPE and other.ups != change.ups
    ]
    return max(others, key=lambda other: abs(other.after - other.before), default=None)


def what_moved(
    change: Change, changes: Sequence[Change], names: Names
) -> tuple[frozenset[int], frozenset[int]] | None:
    """Operations that are called besides, and no longer, by a change of a path; None: it is not one thing.

    Operations of one component of which the same is true are told once.
    """
    if change.child >= 0:
        own = frozenset({change.child})
        return (own, frozenset()) if change.ups else (frozenset(), own)
    other = counterpart(change, changes)
    if change.shapes or change.shape == NO_SHAPE or other is None:
        return None
    one, two = (names.shapes[each.shape] for each in ((change, other) if change.ups else (other, change)))
    more, fewer = (frozenset(calls) for calls in difference(one, two))
    return (more, fewer) if more or fewer else None
