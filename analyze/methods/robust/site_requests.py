"""Requests at a site: their values, those that a change affects, examples, and the categories they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.causes.requests import failing_rows, has, on_instance
from analyze.methods.robust.changes import ERROR_KINDS, PATH_KINDS, TIME_KINDS, Change
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.population import Population
from analyze.profile.build import Pattern
from analyze.profile.call_sites import GraphSites
from analyze.profile.times import own_time_ns
from schemas.arrays import B1, F8, I8


@dataclass(frozen=True, slots=True)
class AtSite:
    """The requests of one category that touch a site."""

    category: int
    rows: I8
    """Rows of the category, both samples."""
    sample: npt.NDArray[np.uint8]
    value_us: F8
    """[rows] mean own time of the site's calls; 0 where the site has none. Of several sites their mean."""
    hit: B1
    """[rows] has what the change is about: the shape, a failing call, a slow one."""
    inside: B1
    """[rows] on an instance that the change is of."""


def requests_at(
    population: Population, patterns: Sequence[Pattern], changes: Sequence[Change]
) -> list[AtSite]:
    """Requests that touch the site of any of the changes, category by category: one change, and the same on
    other hosts. O(requests that touch them · changes)."""
    found = []
    for pattern in patterns:
        sites = pattern.sites
        here = [change for change in changes if has(sites, change.site)]
        if not here:
            continue
        category = population.categories[pattern.category]
        rows = np.sort(pattern.rows)
        values = [_own_us(category.node_ns[:, rows], sites, change.site) for change in here]
        hit, inside = np.zeros((2, len(rows)), dtype=np.bool_)
        for change, value in zip(here, values, strict=True):
            mine = on_instance(population, pattern, change, rows)
            hit |= _hits(population, pattern, change, rows, value) & mine
            inside |= mine
        mean = np.mean(values, axis=0)
        found.append(AtSite(pattern.category, rows, category.sample[rows], mean, hit, inside))
    return found


def _own_us(times: I8, sites: GraphSites, site: int) -> F8:
    """[requests] mean own time of a site's calls; `times` [nodes, requests]."""
    units = np.flatnonzero(sites.site == site)
    if not len(units):
        return np.zeros(times.shape[1])
    mean: F8 = own_time_ns(times, sites, units).mean(axis=0) / 1e3
    return mean


def _hits(population: Population, pattern: Pattern, change: Change, rows: I8, value: F8) -> B1:
    if change.kind in PATH_KINDS:
        return np.full(len(rows), has(pattern.sites, change.site, change.shape))
    if change.kind in ERROR_KINDS:
        return np.isin(rows, failing_rows(population, pattern, change.site))
    if change.kind in TIME_KINDS and change.unit == "us":
        return np.asarray(value > change.middle if change.ups else value < change.middle)
    if change.kind in TIME_KINDS:
        return np.asarray(value >= change.threshold_us)
    return np.ones(len(rows), dtype=np.bool_)


def values_of(found: Sequence[AtSite], sample: int) -> F8:
    """[requests] values of one sample's requests, on the instance that the change is of."""
    parts = [at.value_us[(at.sample == sample) & at.inside] for at in found]
    return np.concatenate(parts) if parts else np.zeros(0)


def selected(found: Sequence[AtSite], sample: int, *, hit: bool | None) -> dict[int, I8]:
    """Category -> rows of a sample's requests: those hit, those not, or all."""
    chosen: dict[int, list[I8]] = {}
    for at in found:
        keep = at.sample == sample
        if hit is not None:
            keep = keep & (at.hit == hit)
        if keep.any():
            chosen.setdefault(at.category, []).append(at.rows[keep])
    return {category: np.sort(np.concatenate(rows)) for category, rows in chosen.items()}


def affected_counts(found: Sequence[AtSite]) -> tuple[int, int]:
    """Requests with what the change is about, reference and problem."""
    return tuple(  # type: ignore[return-value]
        int(sum((at.hit & (at.sample == sample)).sum() for at in found)) for sample in (REFERENCE, PROBLEM)
    )
