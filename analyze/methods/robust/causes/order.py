"""Order operations in the calling context: what lies above what, what is nearer to where a change began."""

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
"""By which two counts of requests differ at least, where they differ."""


@dataclass(frozen=True, slots=True)
class Entries:
    """From where the operations of records are first entered: what statistics keep of their order in time."""

    place: Mapping[int, int]
    """Operation of a record -> its place in the arrays."""
    requests: F8
    """[operations] that pass it."""
    later: I8
    """[ways] operation; `earlier`: the one right before its first occurrence; `n`: requests."""
    earlier: I8
    n: F8

    @staticmethod
    def of(profile: Profile) -> Entries:
        """Collect the entries of the points of records. O(rows)."""
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
        # A record that several come before is entered from each.
        requests = np.maximum(passed, totals(later.astype(np.int64), n, len(place)))
        return Entries(place, requests, later.astype(np.int64), earlier.astype(np.int64), n)

    def order(self, asked: Sequence[int]) -> dict[int, set[int]]:
        """Map an operation to those that come before it in more requests than after it.

        By the way on which each is first reached, step by step back to where the request began, as if a step
        did not depend on the one after it: a Markov chain, whose expected visits are solved for.
        """
        if not asked:
            return {}
        from scipy.sparse import coo_array, eye_array
        from scipy.sparse.linalg import splu

        places = [self.place[operation] for operation in asked]
        ends = np.zeros((len(self.place), len(asked)))
        ends[places, range(len(asked))] = 1
        # A little less than all come from elsewhere, so that each way has an end: the matrix is diagonally
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
    """Depth and ancestors of operations over all paths there are."""

    depth: tuple[int, ...]
    """By operation: its deepest place."""
    ancestors: tuple[frozenset[int], ...]
    """By operation: operations above it on any path; of activity records those that come before it."""
    records: frozenset[int] = frozenset()
    """Operations of activity records: they have an order in time, not a depth."""

    @staticmethod
    def of(
        names: Names,
        groups: Sequence[RequestGroup] = (),
        asked: Collection[int] = (),
        entries: Entries | None = None,
    ) -> Order:
        """Order by the paths of a profile; records by the groups, or of statistics by `entries`:
        those `asked` for. O(paths · depth + groups · asked²).
        """
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
        """Tell whether `operation` is an ancestor of `other` somewhere."""
        return operation in self.ancestors[other]

    def is_nearer(self, operation: int, other: int) -> bool:
        """Tell whether `operation` is nearer to where a change began than `other`, if the same requests
        show both: what is called is nearer than who calls; of records what came first, where paths part."""
        if operation in self.records or other in self.records:
            return self.is_above(operation, other)
        return self.is_above(other, operation) or self.depth[operation] > self.depth[other]


def _order_in_time(names: Names, groups: Sequence[RequestGroup], asked: list[int]) -> dict[int, set[int]]:
    """Map an operation to those that come before it, first occurrences, in most requests that have both."""
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
