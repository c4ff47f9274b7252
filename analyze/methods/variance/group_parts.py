"""The parts that a group's response times are the sum of: edges of a graph, or sites (ALGORITHMS E)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.variance.markers import LabelRules
from analyze.methods.variance.request_groups import NOWHERE, RequestGroups
from analyze.population import Population
from analyze.profile.names import PartName, edge_name, site_name
from analyze.profile.times import AllPathTimes, at_sites
from schemas.arrays import B1, F8, I8

MOST_SITES: Final = 60
"""Sites of rare paths told apart, those of the largest variance; the others are one part."""


@dataclass(frozen=True, slots=True)
class GroupParts:
    """One group of requests, in the order of their starts; Σ of a column of `us` is the response time."""

    names: tuple[PartName, ...]
    """[parts]"""
    us: F8
    """[parts, requests]"""
    marked: B1
    """[parts] has a marker that takes it out of the residual."""
    weight: F8
    category: I8
    row: I8
    """[requests] where each request is in the population."""

    @property
    def response_us(self) -> F8:
        """[requests]"""
        total: F8 = self.us.sum(axis=0)
        return total


def group_parts(
    population: Population,
    times: AllPathTimes,
    groups: RequestGroups,
    group: int,
    rules: LabelRules,
    *,
    by_sites: bool,
) -> GroupParts:
    """Parts of a group: of rare paths always by sites, since they share no edges. O(requests · edges)."""
    members = groups.members(group)
    alone = groups.category[group] != NOWHERE
    if alone and not by_sites:
        names, us, marked = _edges(population, times, groups, members[0], rules)
    else:
        names, us, marked = _sites(times, groups, members, rules)
    rows = [np.arange(groups.rows[c].start, groups.rows[c].stop) for c in members]
    category = np.concatenate([np.full(len(part), c) for c, part in zip(members, rows, strict=True)])
    row = np.concatenate(rows)
    start = np.concatenate([population.categories[c].start_ns[groups.rows[c]] for c in members])
    weight = np.concatenate([groups.weight[c] for c in members])
    order = np.argsort(start, kind="stable")
    return GroupParts(
        names, np.ascontiguousarray(us[:, order]), marked, weight[order], category[order], row[order]
    )


def _edges(
    population: Population, times: AllPathTimes, groups: RequestGroups, number: int, rules: LabelRules
) -> tuple[tuple[PartName, ...], F8, B1]:
    graph, mine = population.categories[number].graph, times.categories[number]
    names = tuple(edge_name(graph, edge, int(mine.site[edge])) for edge in range(len(graph.edges)))
    return names, mine.us[:, groups.rows[number]], rules.unmarked(graph, mine.site) == 0


def _sites(
    times: AllPathTimes, groups: RequestGroups, members: list[int], rules: LabelRules
) -> tuple[tuple[PartName, ...], F8, B1]:
    """By site; only a marker of the site counts: single edges are marked in their own category."""
    parts = [at_sites(times.categories[c], groups.rows[c]) for c in members]
    codes = np.unique(np.concatenate([part.codes for part in parts])) if parts else np.zeros(0, np.int64)
    energy = np.zeros(len(codes))
    for part in parts:
        energy[np.searchsorted(codes, part.codes)] += part.us.var(axis=1) * part.us.shape[1]
    kept = np.sort(codes[np.argsort(-energy, kind="stable")[:MOST_SITES]])
    others = len(codes) > len(kept)
    n = sum(part.us.shape[1] for part in parts)
    us = np.zeros((len(kept) + others, n))
    first = 0
    for part in parts:
        past = first + part.us.shape[1]
        known = np.isin(part.codes, kept)
        us[np.searchsorted(kept, part.codes[known]), first:past] = part.us[known]
        if others:
            us[-1, first:past] = part.us[~known].sum(axis=0)
        first = past
    names = [site_name(site, times.names) for site in kept.tolist()]
    marked = [rules.marks_site(name) for name in names] + [False] * others
    if others:
        names.append(PartName(f"{len(codes) - len(kept)} other sites", "", NOWHERE, NOWHERE, NOWHERE))
    return tuple(names), us, np.array(marked, dtype=np.bool_)
