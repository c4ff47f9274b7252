"""Order of operations: depth and ancestors in the calling context, or, for activity records, order in
time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.profile.call_sites import RequestGroup
from analyze.profile.names import NO_CALLER, Names, SiteKind
from analyze.profile.profile import Profile
from analyze.stats.sums import totals
from schemas.arrays import F8, I8

_MOST_BACK: Final = 1 - 1e-9
_REQUESTS: Final = 0.5
"""Minimum difference of two expected numbers of requests for one to count as larger."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Number of requests by (trace point of activity records, trace point right before its first occurrence),
    from stored statistics. Determines the order of trace points in time."""

    place: Mapping[int, int]
    """Operation of a trace point of activity records -> index of the point in `requests`, `later` and
    `earlier`."""
    requests: F8
    """float64[trace points]: number of requests that pass each trace point."""
    later: I8
    """int64[pairs]: index (see `place`) of a trace point that a request passes."""
    earlier: I8
    """int64[pairs]: index (see `place`) of the trace point right before the first occurrence of `later`."""
    n: F8
    """float64[pairs]: number of requests in which the first occurrence of `later` comes right after
    `earlier`."""

    @staticmethod
    def of(profile: Profile) -> Entries:
        """Collect the pairs (preceding trace point, trace point) from a profile's stored patterns.
        O(rows)."""
        names, table = profile.names, profile.patterns
        points = {
            site: name.operation for site, name in enumerate(names.sites) if name.kind is SiteKind.POINT
        }
        operations = [*dict.fromkeys(points.values())]
        place = {operation: at for at, operation in enumerate(operations)}
        rows: list[tuple[int, int, float]] = []
        is_point = np.array([name.kind is SiteKind.POINT for name in names.sites], dtype=np.bool_)
        enters = (table["entering_n"].to_numpy() != 0) & is_point[table["site"].to_numpy()]
        columns = (table[name].to_numpy()[enters].tolist() for name in ("site", "pattern", "entering_n"))
        for site, pattern, n in zip(*columns, strict=True):
            children = {child.operation for child in names.patterns[pattern]}
            rows += [(place[child], place[points[site]], n) for child in children]
        later, earlier, n = np.array(rows, dtype=np.float64).reshape(-1, 3).T
        visits = profile.at_sites("visits", "n", np.ones(len(profile.slots), dtype=np.bool_))
        of_point = np.array([place[operation] for operation in points.values()], dtype=np.int64)
        # Points only: the steps to a record are visited by the same requests.
        passed = totals(of_point, visits[np.array([*points], dtype=np.int64)], len(place))
        # A record with several predecessors is entered from each of them.
        requests = np.maximum(passed, totals(later.astype(np.int64), n, len(place)))
        return Entries(place, requests, later.astype(np.int64), earlier.astype(np.int64), n)

    def order(self, asked: Sequence[int]) -> dict[int, set[int]]:
        """Map each operation in `asked` to the others in `asked` that come before it in more requests than
        after it.

        Treats the steps back from a first occurrence to the start of the request as a Markov chain
        (independent steps), and solves for the expected number of requests that pass each earlier point.
        """
        if not asked:
            return {}
        from scipy.sparse import coo_array, eye_array
        from scipy.sparse.linalg import splu

        places = [self.place[operation] for operation in asked]
        ends = np.zeros((len(self.place), len(asked)))
        ends[places, range(len(asked))] = 1
        # Slightly less than all requests come from elsewhere, so that each way ends: the matrix is diagonally
        # dominant by rows, and a solution loses at most nine of its sixteen digits.
        part = _MOST_BACK * self.n / np.maximum(self.requests[self.later], 1)
        step = coo_array((part, (self.later, self.earlier)), (len(self.place),) * 2)
        ways = splu((eye_array(len(self.place)) - step).tocsc()).solve(ends) - ends
        before = self.requests[places, None] * np.minimum(ways[places], 1)
        return {
            later: {asked[at] for at in np.flatnonzero(before[row] > before[:, row] + _REQUESTS).tolist()}
            for row, later in enumerate(asked)
        }


@dataclass(frozen=True, slots=True)
class Order:
    """Order of operations over all calling paths: callers before callees, activity records by time."""

    depth: tuple[int, ...]
    """Depth of the deepest occurrence of each operation in the calling paths, by index of the operation; 0
    for roots."""
    ancestors: tuple[frozenset[int], ...]
    """Set of operations above each operation in any calling path, by index of the operation; for activity
    records, the operations that come before it in time."""
    records: frozenset[int] = frozenset()
    """Indices of the operations of activity records, which are ordered by time instead of depth."""

    @staticmethod
    def of(
        names: Names,
        groups: Sequence[RequestGroup] = (),
        asked: Collection[int] = (),
        entries: Entries | None = None,
    ) -> Order:
        """Compute depth and ancestors from a profile's calling paths, and the order in time of the activity
        records in `asked` from the requests of `groups`, or from `entries` if not None. O(paths · depth +
        groups · asked²)."""
        depth = [0] * len(names.operations)
        above: list[set[int]] = [set() for _ in names.operations]
        trail: list[tuple[int, ...]] = []
        for path in names.paths:  # a path comes after the one above it
            site = names.sites[path.site]
            before = () if path.above == NO_CALLER else trail[path.above]
            if site.caller != NO_CALLER and (not before or before[-1] != site.caller):
                before = (*before, site.caller)
            operation = site.operation
            trail.append(before if before and before[-1] == operation else (*before, operation))
            depth[operation] = max(depth[operation], len(before))
            above[operation].update(before)
        records = frozenset(
            site.operation for site in names.sites if site.kind in (SiteKind.STEP, SiteKind.POINT)
        )
        mine = sorted(records & set(asked))
        in_time = _order_in_time(names, groups, mine) if entries is None else entries.order(mine)
        for later, earlier in in_time.items():
            above[later] = earlier
        return Order(tuple(depth), tuple(frozenset(a - {o}) for o, a in enumerate(above)), records)

    def is_above(self, operation: int, other: int) -> bool:
        """True if `operation` is an ancestor of `other` in any calling path (activity records: comes before
        it in time)."""
        return operation in self.ancestors[other]

    def is_nearer(self, operation: int, other: int) -> bool:
        """True if `operation` is nearer than `other` to the origin of a change that the same requests show at
        both: callees are nearer than callers, and earlier trace points nearer than later ones."""
        if operation in self.records or other in self.records:
            return self.is_above(operation, other)
        return self.is_above(other, operation) or self.depth[operation] > self.depth[other]


def _order_in_time(names: Names, groups: Sequence[RequestGroup], asked: list[int]) -> dict[int, set[int]]:
    """Map each operation in `asked` to the others in `asked` whose first occurrence is earlier in most
    requests that contain both."""
    if not asked:
        return {}
    column = {operation: place for place, operation in enumerate(asked)}
    earlier = np.zeros((len(asked), len(asked)))
    for group in groups:
        sites = group.sites
        if sites.are_calls:
            continue
        first = np.full(len(asked), np.inf)
        for position, site in enumerate(sites.pattern_site.tolist()):  # points, in topological order
            place = column.get(names.sites[site].operation)
            if place is not None:
                first[place] = min(first[place], position)
        there = np.isfinite(first)
        earlier += len(group.rows) * ((first[:, None] < first) & there[:, None] & there)
    return {
        later: {asked[place] for place in np.flatnonzero(earlier[:, at] > earlier[at]).tolist()}
        for at, later in enumerate(asked)
    }
