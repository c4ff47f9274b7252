"""Tell which causes have an effect on time, failures or work: what has none fails no gate."""

from __future__ import annotations

from analyze.methods.robust.causes.cause import Cause
from analyze.methods.robust.causes.patterns import counterpart, difference
from analyze.methods.robust.changes import NO_SHAPE, Change
from analyze.profile.names import Names
from schemas.report.findings import ChangeKind


def has_effect(cause: Cause, part_ns: float, mean_ns: float, least: float, names: Names) -> bool:
    """Tell whether a cause takes time, fails, or makes more or fewer calls.

    part_ns: its part of the change of the mean; least: part of the mean that is no effect on time. Known
    paths with as many calls as before are the only change without any; all others asked for time that
    requests felt, for failures, or are calls that were never there or are gone.
    """
    if abs(part_ns) >= least * mean_ns:
        return True
    return any(
        change.kind is not ChangeKind.PATH or _makes_other_work(change, cause, names)
        for change in cause.changes
    )


def _makes_other_work(change: Change, cause: Cause, names: Names) -> bool:
    other = counterpart(change, cause.changes)
    if other is None or change.shape == NO_SHAPE:
        return True
    more, fewer = difference(names.shapes[change.shape], names.shapes[other.shape])
    return sum(more.values()) != sum(fewer.values())
