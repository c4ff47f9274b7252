"""Find renamed operations: one name disappeared and another one appeared at the same call sites.

A deployment that renames an operation makes every path through it new. Its position remains: the new name has
the same neighbours as the old one, in as many requests. The problem is therefore tested under the old names,
so that other changes of the operation are still found. Renaming makes nothing faster: an operation of the
same component that takes far less time, and fails no more often, is a different operation to which the calls
moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyze.methods.robust.changes import Change
from analyze.methods.robust.comparison import Comparison, Noticed
from analyze.methods.robust.confounders.port import Confounder, Explained
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import ConfounderSettings
from analyze.methods.robust.view import values_of, votes_of
from analyze.profile.build import Profiled
from analyze.profile.call_sites import GraphSites, RequestGroup
from analyze.profile.name_rows import Numbers, name_rows
from analyze.profile.names import NO_CALLER, Names, OperationName, SiteKind
from analyze.profile.numbering import RunNames
from analyze.profile.profile import OWN_TIME, Profile, joined
from schemas.arrays import B1, F8


@dataclass(frozen=True, slots=True)
class Rename:
    """Operation that has one name in the baseline and another name in the problem."""

    old: OperationName
    new: OperationName
    requests: float
    """Number of recorded requests in the problem that pass the operation."""


@dataclass(frozen=True, slots=True)
class Renames(Noticed):
    """Operations renamed in the problem, stored by the confounder `RenamedOperations`."""

    renamed: tuple[Rename, ...]
    """Renamed operations, sorted by old name; at least one."""


@dataclass(frozen=True, slots=True)
class Uses:
    """Counts of the uses of each operation in one period, by result; arrays are float64[operations]."""

    n: F8
    """Number of recorded requests that pass the operation, summed over its call sites, unweighted; the sample
    size."""
    share: F8
    """Share of the period's requests that pass the operation, by sampling weight, summed over its call
    sites."""
    failing: F8
    """Number of recorded requests with a failing call of the operation, summed over its call sites."""
    calls: F8
    """Number of calls of the operation."""
    inclusive_ns: F8
    """Sum of the durations, child calls included, of the operation's calls, ns."""
    requests: float
    """Number of recorded requests of the whole period."""


Ways = Mapping[int, Mapping[tuple[str, int], float]]
"""Neighbours of each operation: index of the operation -> ("from" for a caller or "to" for a callee, index of
the neighbour) -> share of all requests at the operation's incoming and outgoing calls."""


class RenamedOperations(Confounder):
    """Confounder for renamed operations: compares them under their old names."""

    name = "renamed-operations"
    doc = "A deployment that renames an operation makes every path through it new."
    case = "N6"
    state = Renames

    def adjust(self, comparison: Comparison) -> Comparison:
        """Rename operations in the profile back to their names in the baseline."""
        found = renames(comparison.profile, comparison.roles, comparison.settings.confounders)
        return with_old_names(comparison, found, Renames(found))

    def explains(self, _: Sequence[Change], comparison: Comparison) -> Explained | None:
        """Report the renamed operations; explains no changes, since old names were restored before the
        tests."""
        found = comparison.noticed_as(Renames)
        return None if found is None else Explained("labels", rename_text(found.renamed))


def with_old_names(comparison: Comparison, renamed: tuple[Rename, ...], noticed: Noticed) -> Comparison:
    """Comparison with renamed operations under their old names, and with `noticed` stored; unchanged if
    `renamed` is empty."""
    if not renamed:
        return comparison
    adjusted = replace(comparison, profiled=under_old_names(comparison.profiled, renamed))
    return adjusted.with_noticed(noticed)


def renames(profile: Profile, roles: Roles, settings: ConfounderSettings) -> tuple[Rename, ...]:
    """Operations of the baseline that have another name in the problem, sorted by old name. O(sites)."""
    names = profile.names.operations
    sides = roles.ordinary, roles.problem
    n0, n1 = (profile.at_operations("visits", "n", slots) for slots in sides)
    gone = np.flatnonzero((n0 >= settings.rename_requests) & (n1 == 0)).tolist()
    come = np.flatnonzero((n1 >= settings.rename_requests) & (n0 == 0)).tolist()
    if not gone or not come:
        return ()
    before, after = (uses_of(profile, slots) for slots in sides)
    ways = _ways(profile, sides[0]), _ways(profile, sides[1])
    components = [{names[o].component for o in np.flatnonzero(side.n > 0)} for side in (before, after)]
    moved = components[0] - components[1], components[1] - components[0]
    options = [
        (likeness, old, new)
        for old in gone
        for new in come
        if _may_be(names[old], names[new], moved)
        and as_often(before, after, old, new, settings)
        and (likeness := _likeness(*ways, old, new, gone, come)) >= settings.rename_ways
    ]
    shorter = _shorter(profile, roles, options, settings) - _failing_more(before, after, options, settings)
    found: dict[int, int] = {}
    for _, old, new in sorted(options, key=lambda option: (-option[0], names[option[1]], names[option[2]])):
        if old not in found and new not in found.values() and (old, new) not in shorter:
            found[old] = new
    halves = _half_moved([names[old] for old in gone], {names[old]: names[new] for old, new in found.items()})
    return tuple(
        Rename(names[old], names[new], float(after.n[new]))
        for old, new in sorted(found.items(), key=lambda pair: names[pair[0]])
        if not halves & {names[old].component, names[old].callee}
    )


def _half_moved(gone: list[OperationName], found: Mapping[OperationName, OperationName]) -> set[str]:
    """Components of which some operations seem renamed while others disappeared; such a component was not
    renamed.

    gone: operations that do not occur in the problem; found: old name -> new name.
    """
    renamed = {old.component for old, new in found.items() if old.component != new.component}
    return {old.component for old in gone if old.component in renamed and old not in found}


def _may_be(old: OperationName, new: OperationName, moved: tuple[set[str], set[str]]) -> bool:
    """True if two names may belong to one operation: only the point differs, or the point is equal and, where
    component or callee differ, the old one disappeared and the new one appeared. Otherwise the new name is
    another route.

    moved: (components that disappeared, components that appeared in the problem).
    """

    def same(one: str, other: str) -> bool:
        return one == other or (one in moved[0] and other in moved[1])

    if old.component != new.component or old.callee != new.callee:
        if old.point != new.point:
            return False
        return same(old.component, new.component) and same(old.callee, new.callee)
    return True


def uses_of(profile: Profile, slots: B1) -> Uses:
    """Use of each operation in the time slots of the mask `slots`. O(sites)."""
    return Uses(
        n=profile.at_operations("visits", "n", slots),
        share=profile.at_operations("visits", "w", slots) / max(profile.responded("w", slots), 1e-300),
        failing=profile.at_operations("visits", "failing_n", slots),
        calls=profile.at_operations("patterns", "calls", slots),
        inclusive_ns=profile.at_operations("patterns", "inclusive_ns", slots),
        requests=profile.responded("n", slots),
    )


def _ways(profile: Profile, slots: B1) -> Ways:
    """Neighbours of each operation in the time slots of the mask `slots`. O(sites)."""
    weight = profile.at_sites("visits", "w", slots)
    ways: dict[int, dict[tuple[str, int], float]] = defaultdict(lambda: defaultdict(float))
    for site, passed in zip(profile.names.sites, weight.tolist(), strict=True):
        if not passed:
            continue
        if site.caller != NO_CALLER:
            ways[site.operation]["from", site.caller] += passed
            ways[site.caller]["to", site.operation] += passed
    return {
        operation: {way: passed / sum(out.values()) for way, passed in out.items()}
        for operation, out in ways.items()
    }


def as_often(before: Uses, after: Uses, old: int, new: int, settings: ConfounderSettings) -> bool:
    """True if, up to chance, as large a share of requests passes the operation `new` in the problem as passed
    `old` in the baseline. old, new: indices of operations."""
    share0, share1 = float(before.share[old]), float(after.share[new])
    requests = before.requests + after.requests
    pooled = (share0 * before.requests + share1 * after.requests) / requests
    chance = settings.rename_z * float(np.sqrt(pooled * (1 / before.requests + 1 / after.requests)))
    return abs(share1 - share0) <= max(settings.rename_share * share0, chance)


def _likeness(before: Ways, after: Ways, old: int, new: int, gone: list[int], come: list[int]) -> float:
    """Overlap, in [0, 1], of the callers and callees of the operation `old` in the baseline and of `new` in
    the problem.

    Neighbours in `gone` (disappeared) and in `come` (appeared) count as equal, since they may be renamed,
    too.
    """

    def merged_ways(ways: Ways, operation: int, unsure: list[int]) -> dict[tuple[str, int], float]:
        merged: dict[tuple[str, int], float] = defaultdict(float)
        for (way, other), share in ways.get(operation, {}).items():
            merged[way, NO_CALLER if other in unsure else other] += share
        return merged

    one, other = merged_ways(before, old, gone), merged_ways(after, new, come)
    if not one and not other:
        return 1.0
    return sum(min(share, other.get(way, 0.0)) for way, share in one.items())


def _shorter(
    profile: Profile, roles: Roles, options: Sequence[tuple[float, int, int]], settings: ConfounderSettings
) -> set[tuple[int, int]]:
    """Pairs (old, new) in one component where `new` takes so much less own time that response times change
    noticeably: two different operations.

    options: candidate pairs as (overlap of neighbours, old, new).
    """
    names = profile.names.operations
    inside_one = {
        (old, new)
        for _, old, new in options
        if names[old]._replace(point="") == names[new]._replace(point="")
    }
    mine = {at for pair in inside_one for at in pair}
    of = np.array([s.operation if s.kind is SiteKind.CALL else -1 for s in profile.names.sites], np.int64)
    votes = values_of(votes_of(profile, np.isin(of, sorted(mine))), OWN_TIME) if mine else None
    if votes is None or not len(votes.bin):
        return set()
    inside = votes.where(roles.side[votes.keys[3]] >= 0)
    own = inside.histograms(of[inside.keys[1]], roles.side[inside.keys[3]])
    took, _ = own.log_medians(len(profile.names.operations), 2)
    answers, weight = (
        profile.at_operations("visits", column, roles.ordinary) for column in ("response_ns", "w")
    )
    before, after = np.exp(took.value).T
    return {
        (old, new)
        for old, new in inside_one
        if before[old] > settings.rename_times * after[new]
        and (before[old] - after[new]) * weight[old] > settings.rename_felt * answers[old]
    }


def _failing_more(
    before: Uses, after: Uses, options: Sequence[tuple[float, int, int]], settings: ConfounderSettings
) -> set[tuple[int, int]]:
    """Pairs (old, new) where `new` fails more often than chance explains; it may take less time because it
    fails."""
    failing0, n0, failing1, n1 = before.failing, before.n, after.failing, after.n
    found = set()
    for _, old, new in options:
        pooled = (failing0[old] + failing1[new]) / (n0[old] + n1[new])
        chance = settings.rename_z * float(np.sqrt(pooled * (1 / n0[old] + 1 / n1[new])))
        if failing1[new] / n1[new] - failing0[old] / n0[old] > chance:
            found.add((old, new))
    return found


def under_old_names(profiled: Profiled, found: tuple[Rename, ...]) -> Profiled:
    """Rename operations in a profile back to their old names, and renumber the groups of requests
    accordingly. O(rows log rows)."""
    names = _old_names(profiled.profile.names, found)
    # `joined` numbers names in order of appearance, as `RunNames` does.
    codes = RunNames().taken_in(name_rows(names))
    runs = profiled.profile.runs
    under = joined([replace(profiled.profile, names=names, runs=None)])
    return profiled._replace(
        profile=under
        if runs is None
        else replace(under, runs=runs.renumbered(codes["site"], codes["pattern"])),
        groups=tuple(_renumbered(group, codes) for group in profiled.groups),
    )


def _old_names(names: Names, found: tuple[Rename, ...]) -> Names:
    old = {rename.new: rename.old for rename in found}
    roots = {f"{new.component}/{new.point}": f"{was.component}/{was.point}" for new, was in old.items()}
    return names.called(lambda name: old.get(name, name), lambda root: roots.get(root, root))


def _renumbered(group: RequestGroup, codes: Numbers) -> RequestGroup:
    sites: GraphSites = group.sites
    return group._replace(
        sites=replace(
            sites,
            site=codes["site"][sites.site],
            path=codes["path"][sites.path],
            pattern=codes["pattern"][sites.pattern],
            pattern_site=codes["site"][sites.pattern_site],
            pattern_of=codes["pattern"][sites.pattern_of],
        )
    )


def rename_text(found: tuple[Rename, ...], most: int = 3) -> str:
    """Sentence on the renamed operations for the report, which names at most `most` of them."""

    def called(rename: Rename) -> str:
        inside = rename.new._replace(point="") == rename.old._replace(point="")
        return rename.new.point if inside else rename.new.text

    said = ", ".join(f"{rename.old.text} is {called(rename)}" for rename in found[:most])
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return (
        f"Renamed: {said}{rest} in the problem, at the same place in as many requests; compared under the "
        "old name."
    )
