"""Mark the requests that show a change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from analyze.methods.robust.changes import ERROR_KINDS, NO_SHAPE, Change
from analyze.population import Population
from analyze.profile.build import Pattern
from analyze.profile.call_sites import GraphSites
from schemas.arrays import B1, I8


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of both periods, numbered pattern by pattern."""

    population: Population
    patterns: tuple[Pattern, ...]
    first: I8
    """[patterns + 1] number of the first request of each pattern."""
    rows: tuple[I8, ...]
    """By pattern: its requests, as rows of the category."""
    in_problem: B1
    """[requests] of the problem; else of the reference."""

    @staticmethod
    def of(population: Population, patterns: Sequence[Pattern], reference: B1, problem: B1) -> Requests:
        """Number the requests of two sets of slots; `reference`, `problem` [slots]."""
        inside = [(reference | problem)[pattern.slot] for pattern in patterns]
        rows = tuple(pattern.rows[keep] for pattern, keep in zip(patterns, inside, strict=True))
        first = np.concatenate(([0], np.cumsum([len(mine) for mine in rows]))).astype(np.int64)
        parts = [problem[pattern.slot][keep] for pattern, keep in zip(patterns, inside, strict=True)]
        in_problem = np.concatenate([np.zeros(0, np.bool_), *parts])
        return Requests(population, tuple(patterns), first, rows, in_problem)

    def showing(self, changes: Iterable[Change]) -> B1:
        """Mark [requests] of the problem, of what became less of the reference: those with a call pattern
        that a change is about, with a failing call of its site, or else those that touch the site."""
        found = np.zeros(len(self.in_problem), dtype=np.bool_)
        for change in changes:
            found |= self._showing(change) & (self.in_problem == change.ups)
        return found

    def _showing(self, change: Change) -> B1:
        found = np.zeros(len(self.in_problem), dtype=np.bool_)
        for number, pattern in enumerate(self.patterns):
            mine = slice(self.first[number], self.first[number + 1])
            if change.kind in ERROR_KINDS:
                found[mine] = np.isin(self.rows[number], failing_rows(self.population, pattern, change.site))
            else:
                found[mine] = has(pattern.sites, change.site, change.shape)
            found[mine] &= on_instance(self.population, pattern, change, self.rows[number])
        return found


def on_instance(population: Population, pattern: Pattern, change: Change, rows: I8) -> B1:
    """Tell of [rows] whether a call at the site of a change runs on the instance that it is of; all where
    it is of any."""
    host = population.categories[pattern.category].host
    if change.instance is None or host is None:
        return np.ones(len(rows), dtype=np.bool_)
    start = pattern.sites.start[pattern.sites.site == change.site]
    return np.asarray(np.isin(host[np.ix_(start, rows)], change.instance.hosts).any(axis=0))


def has(sites: GraphSites, site: int, shape: int = NO_SHAPE) -> bool:
    """Tell whether a graph has a site (with a shape, if one is given)."""
    if shape == NO_SHAPE:
        return bool((sites.site == site).any() or (sites.shape_site == site).any())
    return bool((sites.shape_of[sites.shape_site == site] == shape).any())


def failing_rows(population: Population, pattern: Pattern, site: int) -> I8:
    """Find rows of the pattern's category with a failing call of a site, ascending."""
    failures = population.categories[pattern.category].failures
    if not len(failures.row):
        return np.zeros(0, dtype=np.int64)
    found: I8 = np.unique(failures.row[pattern.sites.site_at(failures.position) == site]).astype(np.int64)
    return found
