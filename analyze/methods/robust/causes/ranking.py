"""Rank causes by their score and by what speaks against looking at them first; a reason is a row.

And tell which have an effect on time, failures or work: what has none fails no gate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from analyze.methods.robust.causes.cause import Cause
from analyze.methods.robust.causes.patterns import counterpart, difference
from analyze.methods.robust.causes.settings import CausesSettings
from analyze.methods.robust.causes.symptoms import part_ns
from analyze.methods.robust.changes import NO_SHAPE, PATH_KINDS, TIME_KINDS, Change
from analyze.profile.names import Names
from schemas.report.findings import ChangeKind

_IMPROVEMENTS = frozenset({ChangeKind.FASTER, ChangeKind.PARALLEL, ChangeKind.FEWER_ERRORS})
_NO_BETTER = frozenset({ChangeKind.NEW_PATH, ChangeKind.ERRORS, ChangeKind.MORE_CALLS, *TIME_KINDS})


@dataclass(frozen=True, slots=True)
class RankFactor:
    """A reason why a cause ranks lower than its score."""

    name: str
    holds: Callable[[Cause], bool]
    weight: Callable[[CausesSettings], float]
    doc: str
    case: str


def rank_value(cause: Cause, settings: CausesSettings, without: Collection[str] = ()) -> float:
    """Multiply the score by the least weight of the factors that hold."""
    factors = [factor for factor in RANKING if factor.name not in without and factor.holds(cause)]
    return cause.score * min([factor.weight(settings) for factor in factors], default=1.0)


def is_better(cause: Cause) -> bool:
    """Tell whether a cause means less time only: faster steps, or known paths that are shorter.

    A path that was never there, a failure, a call that is cut short are no improvements, whatever they save.
    """
    return cause.lead.kind in _IMPROVEMENTS or (_gain_ns(cause) < 0 and _of_known_paths(cause))


def _gain_ns(cause: Cause) -> float:
    """Give the part of the change of the mean, ns a request: times by site, of paths the leading site
    alone."""
    if cause.lead.kind in TIME_KINDS:
        return part_ns(change for change in cause.changes if change.kind in TIME_KINDS)
    own = [c for c in cause.changes if c.site == cause.lead.site and c.kind in PATH_KINDS]
    return sum(change.contribution_ns for change in own)


def _of_known_paths(cause: Cause) -> bool:
    kinds = {change.kind for change in cause.changes}
    return cause.lead.kind in PATH_KINDS and not cause.suspect and kinds.isdisjoint(_NO_BETTER)


RANKING: tuple[RankFactor, ...] = (
    RankFactor(
        "better",
        is_better,
        lambda settings: settings.better_weight,
        "What got better needs no mending, and is what the others outweigh.",
        "8.5 of 10,000 requests",
    ),
)


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
