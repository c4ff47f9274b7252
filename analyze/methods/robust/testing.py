"""All tests at sites over one profile, and which of them count (ALGORITHMS L.4, L.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import log

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.call_tests import call_changes
from analyze.methods.robust.candidates import Candidates
from analyze.methods.robust.changes import CALL_KINDS, ERROR_KINDS, TIME_KINDS, Change
from analyze.methods.robust.own_times import OwnTimes, own_times
from analyze.methods.robust.rare_paths import child_changes, unseen_changes
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.shape_tests import error_changes, shape_changes
from analyze.methods.robust.time_tests import overlap_changes, time_changes
from analyze.methods.robust.visit_sums import BothSums
from analyze.profile.names import NO_CALLER, Names, SiteKind
from analyze.profile.profile import Profile
from analyze.stats.multiple import q_values
from schemas.report.findings import ChangeKind

B1 = npt.NDArray[np.bool_]

_MOST_OF_IT = 0.7
"""Part of the logarithm of a ratio of calls that the caller's own explains."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A change that would count, had no block of ordinary times held such a value."""

    change: Change
    block: int
    """The block of noise with the value furthest in the change's direction."""
    value: float
    """That value, in the unit of the change."""


@dataclass(frozen=True, slots=True)
class Tested:
    """What was tested at the sites of a profile."""

    changes: tuple[Change, ...]
    """Those that count."""
    candidates: int
    sites: frozenset[int]
    """Sites that some test reached."""
    sums: BothSums
    own: OwnTimes
    held_back: tuple[HeldBack, ...]
    """The largest of each place where nothing counts; the largest place first."""


def tested_changes(profile: Profile, roles: Roles, settings: RobustSettings) -> Tested:
    """Run every family of tests; Benjamini-Hochberg over all, then noise and floors.

    Two rounds. Sums over shapes and numbers of calls between powers of two tell only what nothing else does:
    they are asked where the first round found nothing, and corrected for by themselves.
    """
    sums = BothSums.of(profile, roles)
    given = (profile, roles, sums, settings)
    own = own_times(profile, roles, settings)
    first = (
        *time_changes(own, *given),
        overlap_changes(*given),
        call_changes(*given, SiteKind.STEP),
        shape_changes(*given),
        error_changes(*given),
    )
    kept = _kept(first, settings.q)
    second = (call_changes(*given, SiteKind.CALL), child_changes(*given), unseen_changes(*given))
    kept += _untold(_kept(second, settings.q), kept, profile.names)
    return Tested(
        tuple(kept),
        sum(len(family.p) for family in (*first, *second)),
        frozenset(site for family in (*first, *second) for site in np.unique(family.site).tolist()),
        sums,
        own,
        _held_back((first, second), settings.q, kept, profile.names),
    )


def _held_back(
    rounds: Sequence[Sequence[Candidates]], level: float, kept: Sequence[Change], names: Names
) -> tuple[HeldBack, ...]:
    """By their part of the change of the mean, then by how sure they are."""
    told = {names.sites[change.site].operation for change in kept}
    places: dict[int, HeldBack] = {}
    for family, row, q in chain.from_iterable(_significant(one, level, _held) for one in rounds):
        usual = family.usual
        operation = names.sites[int(family.site[row])].operation
        if usual is None or operation in told:
            continue
        found = HeldBack(replace(family.change(row), q=q), int(usual.block[row]), float(usual.value[row]))
        known = places.get(operation)
        if known is None or _size(found) > _size(known):
            places[operation] = found
    return tuple(sorted(places.values(), key=_size, reverse=True))


def _held(family: Candidates) -> B1:
    return np.zeros(len(family.p), dtype=np.bool_) if family.usual is None else family.usual.held


def _size(found: HeldBack) -> tuple[float, float]:
    return abs(found.change.contribution_ns), abs(found.change.z)


def _kept(families: Sequence[Candidates], level: float) -> list[Change]:
    """Candidates that count; the families are corrected together."""
    found = _significant(families, level, lambda family: family.passes)
    return [replace(family.change(row), q=q) for family, row, q in found]


def _significant(
    families: Sequence[Candidates], level: float, wanted: Callable[[Candidates], B1]
) -> Iterator[tuple[Candidates, int, float]]:
    """(family, row, q) of the wanted rows at a level of q; the families are corrected together."""
    q = q_values(np.concatenate([family.p for family in families]))
    first = 0
    for family in families:
        mine = q[first : first + len(family.p)]
        first += len(family.p)
        for row in np.flatnonzero(wanted(family) & (mine <= level)).tolist():
            yield family, row, float(mine[row])


def _inherited(changes: Sequence[Change], names: Names) -> set[int]:
    """Of changes of numbers of calls (by id) those whose caller is called more, or less, often itself.

    Where a loop turns three times as often all that is below it is called three times as often: the loop is
    what changed, a call of it does what it always did. Operations that call themselves, or each other, do not
    explain each other away.
    """
    factors = {c.site: log(c.after / c.before) for c in changes if c.kind in CALL_KINDS}
    callers: dict[int, set[int]] = {}
    for path in names.paths:
        if path.above != NO_CALLER:
            callers.setdefault(path.site, set()).add(names.paths[path.above].site)

    def is_below(site: int, other: int) -> bool:
        seen, left = {site}, [site]
        while left:
            above = callers.get(left.pop(), set()) - seen
            if other in above:
                return True
            seen |= above
            left += above
        return False

    return {
        id(change)
        for change in changes
        if change.kind in CALL_KINDS
        and any(
            factors.get(caller, 0.0) / factors[change.site] > _MOST_OF_IT
            and not is_below(caller, change.site)
            for caller in callers.get(change.site, set()) - {change.site}
        )
    }


def _untold(second: Sequence[Change], first: Sequence[Change], names: Names) -> list[Change]:
    """Changes of the second round at sites whose operation, or caller, has no change of paths already; one a
    site. That a path became rarer says not yet what came instead."""
    inherited = _inherited(second, names)
    every = [
        (names.sites[change.site].operation, change) for change in first if change.kind not in TIME_KINDS
    ]
    any_way = {operation for operation, _ in every}
    more = {operation for operation, change in every if change.ups or change.kind in ERROR_KINDS}
    left: dict[int, Change] = {}
    for change in second:
        if id(change) in inherited:
            continue
        site = names.sites[change.site]
        told = more if change.kind is ChangeKind.NEW_PATH else any_way
        if site.operation in told or site.caller in told:
            continue
        known = left.get(change.site)
        if known is None or abs(change.z) > abs(known.z):
            left[change.site] = change
    return list(left.values())
