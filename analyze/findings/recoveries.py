"""What got mended: changes of paths and errors told backwards, so that they are grouped as the failure was.

Held the other way round, a recovery is a failure: errors that are gone were there, and calls that are made
again were cut short. Grouping asks which requests show a change and what was never there before, and both lie
in the reference then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from analyze.findings.changes import Change
from analyze.findings.places import Affected
from schemas.report.findings import ChangeKind

B1 = npt.NDArray[np.bool_]

_MOSTLY = 0.8
"""Requests on paths that became rarer failed, this share of them: the failure took them there."""
_PAIRS = (
    (ChangeKind.ERRORS, ChangeKind.FEWER_ERRORS),
    (ChangeKind.NEW_PATH, ChangeKind.LOST_PATH),
    (ChangeKind.MORE_CALLS, ChangeKind.FEWER_CALLS),
    (ChangeKind.SERIAL, ChangeKind.PARALLEL),
    (ChangeKind.SLOWER, ChangeKind.FASTER),
)
_OTHER_WAY = {kind: other for pair in _PAIRS for kind, other in (pair, pair[::-1])}


def backwards(change: Change) -> Change:
    """The change as it is with the periods swapped."""
    return replace(
        change,
        kind=_OTHER_WAY.get(change.kind, change.kind),
        z=-change.z,
        before=change.after,
        after=change.before,
        low=-change.high,
        high=-change.low,
        n0=change.n1,
        n1=change.n0,
        contribution_ns=-change.contribution_ns,
        call_ratio=1 / change.call_ratio if change.call_ratio else np.inf,
    )


def recovering(by_operation: Mapping[int, Sequence[Change]], affected: Affected | None) -> frozenset[int]:
    """Operations whose changes tell of something that got mended.

    Those that fail less by themselves. Of others, where something fails less: those that have no new path if
    nothing fails more, and those whose rarer paths were taken by requests that failed. Where nothing fails
    more or less: all if paths are gone and none is new.
    """
    every = [change for changes in by_operation.values() for change in changes]
    kinds = {change.kind for change in every}
    if ChangeKind.FEWER_ERRORS not in kinds:
        gone = ChangeKind.LOST_PATH in kinds and kinds.isdisjoint({ChangeKind.NEW_PATH, ChangeKind.ERRORS})
        return frozenset(by_operation) if gone else frozenset()
    failed = _requests([change for change in every if change.kind is ChangeKind.FEWER_ERRORS], affected)
    worse = ChangeKind.ERRORS in kinds
    return frozenset(
        operation
        for operation, changes in by_operation.items()
        if _recovers(changes, affected, failed, worse=worse)
    )


def _recovers(
    changes: Sequence[Change], affected: Affected | None, failed: B1 | None, *, worse: bool
) -> bool:
    """failed: [requests] that something which fails less failed in. worse: something else fails more."""
    fewer, more = (
        max((abs(c.after - c.before) for c in changes if c.kind is kind), default=0.0)
        for kind in (ChangeKind.FEWER_ERRORS, ChangeKind.ERRORS)
    )
    if fewer or more:
        return fewer > more
    if not worse and all(change.kind is not ChangeKind.NEW_PATH for change in changes):
        return True
    left = _requests([change for change in changes if not change.ups], affected)
    return bool(
        left is not None
        and failed is not None
        and left.any()
        and (left & failed).sum() >= _MOSTLY * left.sum()
    )


def _requests(changes: Sequence[Change], affected: Affected | None) -> B1 | None:
    if affected is None:
        return None
    found = np.zeros(affected.n_requests, dtype=np.bool_)
    for change in changes:
        found |= affected.of(change)
    return found
