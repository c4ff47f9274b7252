"""Where operations lie in the calling context, and which requests a change affects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.changes import ERROR_KINDS, Change
from analyze.profile.build import Pattern
from analyze.profile.call_sites import GraphSites
from analyze.profile.names import NO_CALLER, Names, SiteKind

I8 = npt.NDArray[np.int64]
B1 = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Context:
    """Depth and ancestors of operations over all paths there are."""

    names: Names
    depth: tuple[int, ...]
    """By operation: its deepest place."""
    ancestors: tuple[frozenset[int], ...]
    """By operation: operations above it on any path; of activity records those that come before it."""
    records: frozenset[int] = frozenset()
    """Operations of activity records: they have an order in time, not a depth."""

    @staticmethod
    def of(names: Names, patterns: Sequence[Pattern] = (), asked: Collection[int] = ()) -> Context:
        """From the paths of a profile, and for records from the patterns: the order of the operations `asked`
        for. O(paths · depth + patterns · asked²).
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
        for later, earlier in _order_in_time(names, patterns, sorted(records & set(asked))).items():
            above[later] = earlier
        return Context(names, tuple(depth), tuple(frozenset(a - {o}) for o, a in enumerate(above)), records)

    def is_above(self, operation: int, other: int) -> bool:
        """Whether `operation` is an ancestor of `other` somewhere."""
        return operation in self.ancestors[other]

    def is_nearer(self, operation: int, other: int) -> bool:
        """Whether `operation` is nearer to where a change began than `other`, if the same requests show both:
        what is called is nearer than who calls; of records what came first, where paths part."""
        if operation in self.records or other in self.records:
            return self.is_above(operation, other)
        return self.is_above(other, operation) or self.depth[operation] > self.depth[other]


def _order_in_time(names: Names, patterns: Sequence[Pattern], asked: list[int]) -> dict[int, set[int]]:
    """Operation -> operations that come before it, first occurrences, in most requests that have both."""
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


@dataclass(frozen=True, slots=True)
class Affected:
    """Which requests a change is about, of the period in which it shows; numbered pattern by pattern."""

    patterns: tuple[Pattern, ...]
    first: I8
    """[patterns + 1] number of the first request of each pattern."""
    rows: tuple[I8, ...]
    """By pattern: its requests, as rows of the category."""
    in_problem: B1
    """[requests] of the problem; else of the reference."""
    failing: Mapping[int, I8]
    """Site -> requests with a failing call."""

    @property
    def n_requests(self) -> int:
        """Requests of both periods."""
        return len(self.in_problem)

    def of(self, change: Change) -> B1:
        """[requests] of the problem, of what became less of the reference: those with the shape that the
        change is about, with a failing call of its site, or else those that touch the site."""
        found = np.zeros(self.n_requests, dtype=np.bool_)
        if change.kind in ERROR_KINDS and change.site in self.failing:
            found[self.failing[change.site]] = True
        else:
            for number, pattern in enumerate(self.patterns):
                if has(pattern.sites, change.site, change.every_shape):
                    found[self.first[number] : self.first[number + 1]] = True
        return np.asarray(found & (self.in_problem == change.ups))


def has(sites: GraphSites, site: int, shapes: Collection[int] = ()) -> bool:
    """Whether a graph has a site (with one of the shapes, if any are given)."""
    if not shapes:
        return bool((sites.site == site).any() or (sites.shape_site == site).any())
    return bool(np.isin(sites.shape_of[sites.shape_site == site], list(shapes)).any())


def affected_requests(patterns: Sequence[Pattern], reference: B1, problem: B1) -> Affected:
    """The requests of both periods, by pattern, without what fails; `reference`, `problem` [slots]."""
    inside = [(reference | problem)[pattern.slot] for pattern in patterns]
    rows = tuple(pattern.rows[keep] for pattern, keep in zip(patterns, inside, strict=True))
    first = np.concatenate(([0], np.cumsum([len(mine) for mine in rows]))).astype(np.int64)
    parts = [problem[pattern.slot][keep] for pattern, keep in zip(patterns, inside, strict=True)]
    return Affected(tuple(patterns), first, rows, np.concatenate([np.zeros(0, np.bool_), *parts]), {})
