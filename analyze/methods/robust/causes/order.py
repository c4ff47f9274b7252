"""Order operations in the calling context: what lies above what, what is nearer to where a change began."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analyze.profile.build import Pattern
from analyze.profile.names import NO_CALLER, Names, SiteKind, reached


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
        patterns: Sequence[Pattern] = (),
        asked: Collection[int] = (),
        nexts: Mapping[int, Collection[int]] | None = None,
    ) -> Order:
        """Order from the paths of a profile, and for records from the patterns, or of statistics from `nexts`
        (operation -> what comes next): the order of the operations `asked` for. O(paths · depth + patterns ·
        asked²).
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
        in_time = (
            _order_in_time(names, patterns, mine) if patterns or nexts is None else _reached(nexts, mine)
        )
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


def _reached(nexts: Mapping[int, Collection[int]], asked: list[int]) -> dict[int, set[int]]:
    """Map an operation to those from which a way leads there and none back: of loops the order is not
    known."""
    after = {operation: reached(nexts, [operation]) for operation in asked}
    return {
        later: {one for one in asked if later in after[one] and one not in after[later]} for later in asked
    }


def _order_in_time(names: Names, patterns: Sequence[Pattern], asked: list[int]) -> dict[int, set[int]]:
    """Map an operation to those that come before it, first occurrences, in most requests that have both."""
    if not asked:
        return {}
    column = {operation: place for place, operation in enumerate(asked)}
    earlier = np.zeros((len(asked), len(asked)))
    for pattern in patterns:
        sites = pattern.sites
        if sites.are_calls:
            continue
        first = np.full(len(asked), np.inf)
        for position, site in enumerate(sites.shape_site.tolist()):  # points, in topological order
            place = column.get(names.sites[site].operation)
            if place is not None:
                first[place] = min(first[place], position)
        there = np.isfinite(first)
        earlier += len(pattern.rows) * ((first[:, None] < first) & there[:, None] & there)
    return {
        later: {asked[place] for place in np.flatnonzero(earlier[:, at] > earlier[at]).tolist()}
        for at, later in enumerate(asked)
    }
