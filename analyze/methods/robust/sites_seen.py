"""Observe every measure at all call sites, shard by shard, and merge the results.

A shard's histograms are released before the next shard is read; only a few numbers per site and measure
remain. Quantities that need all sites at once (normal variation of levels, q) are computed from those
numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Any, Final, TypeVar

import numpy as np

from analyze.methods.robust.measures.observed import Observed
from analyze.methods.robust.measures.registry import MEASURES
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.site_times import SiteTimes, site_times_of
from analyze.methods.robust.view import View
from analyze.profile.profile import Profile
from analyze.profile.shards import SiteShard, n_shards, site_shards
from analyze.profile.slot_votes import SlotVotes
from analyze.stats.estimate import Estimate, joined_estimates
from schemas.arrays import F8, I8
from stitch.heap import give_back, keep_freed
from stitch.processes import map_in_order, worker_processes

_Rows = TypeVar("_Rows", Observed, SiteTimes)
SHARDS_A_WORKER: Final = 5
"""Minimum number of shards per worker process: starting one costs 0.14 s of CPU. A sample with so many votes
was read by processes that still run."""


@dataclass(frozen=True, slots=True)
class SitesSeen:
    """Observations of all measures at call sites.

    site: int64[sites] index of each site in the whole profile.
    """

    observed: Mapping[str, Observed]
    """Name of a measure -> its observations; sites are numbered as in the whole profile."""
    site_times: SiteTimes
    site: I8
    call_ratio: F8
    """Ratio of calls of the site per request, problem to baseline; float64[sites]."""


def shard_view(roles: Roles, settings: RobustSettings, shard: SiteShard) -> View:
    """View of the call sites of one shard."""
    return View(shard.profile(), roles, settings, shard=shard)


def seen_by_shards(
    profile: Profile, votes: SlotVotes, roles: Roles, settings: RobustSettings, workers: int
) -> Iterator[SitesSeen]:
    """Yield the observations of each shard, in up to `workers` processes if there are enough shards."""
    shards = site_shards(profile, votes)
    workers = min(workers, n_shards(profile.names, votes) // SHARDS_A_WORKER)
    if workers > 1:
        give_back()
        with worker_processes(workers) as pool:
            yield from map_in_order(pool, partial(_seen_there, roles, settings), shards, workers + 1)
    else:
        yield from map(partial(seen_at_shard, roles, settings), shards)


def _seen_there(roles: Roles, settings: RobustSettings, shard: SiteShard) -> SitesSeen:
    """Observe the sites of one shard, in a worker process."""
    _begin()
    return seen_at_shard(roles, settings, shard)


@cache
def _begin() -> None:
    """Prepare the worker process, once: return freed memory to the system, then keep memory that shards free
    for reuse."""
    give_back()
    keep_freed()


def seen_at_shard(roles: Roles, settings: RobustSettings, shard: SiteShard) -> SitesSeen:
    """Observe every measure at the sites of a shard."""
    return seen_in(shard_view(roles, settings, shard))


def seen_in(view: View) -> SitesSeen:
    """Observe every measure at the sites of a view."""
    observed = {
        measure.name: _placed(found, view)
        for measure in MEASURES
        if (found := measure.observe(view)) is not None
    }
    return SitesSeen(observed, site_times_of(view), view.site, view.call_ratio)


def seen_at_sites(parts: Iterable[SitesSeen]) -> SitesSeen:
    """Merge observations of disjoint sets of sites, measure by measure, releasing parts on the way."""
    by_measure: dict[str, list[Observed]] = {}
    rest: list[SitesSeen] = []
    for part in parts:
        for name, observed in part.observed.items():
            by_measure.setdefault(name, []).append(observed)
        rest.append(replace(part, observed={}))
    site = np.concatenate([part.site for part in rest])
    order = np.argsort(site, kind="stable")
    return SitesSeen(
        {name: _joined_rows(by_measure.pop(name)) for name in [*by_measure]},
        _joined([part.site_times for part in rest], order),
        site[order],
        np.concatenate([part.call_ratio for part in rest])[order],
    )


def _placed(seen: Observed, view: View) -> Observed:
    """Replace a view's numbers of sites and patterns by those of the whole profile."""
    pattern = seen.pattern
    return replace(
        seen,
        site=view.site[seen.site],
        pattern=None if pattern is None else np.where(pattern < 0, pattern, view.pattern[pattern]),
    )


def _joined_rows(parts: Sequence[Observed]) -> Observed:
    """Concatenate observations of disjoint sets of sites, sorted by site."""
    pattern = [part.pattern for part in parts if part.pattern is not None]
    site = np.concatenate([part.site for part in parts])
    return _joined(parts, np.lexsort([np.concatenate(pattern), site] if pattern else [site]))


def _joined(parts: Sequence[_Rows], order: I8) -> _Rows:
    """Concatenate arrays and estimates of several objects row by row, and sort the rows by `order`; other
    fields are copied from the first object."""
    first = parts[0]
    if len(parts) == 1:
        return first
    joined: dict[str, Any] = {}
    for name in (field.name for field in fields(first)):
        values = [getattr(part, name) for part in parts]
        if isinstance(values[0], Estimate):
            joined[name] = joined_estimates(values).take(order)
        elif isinstance(values[0], np.ndarray):
            joined[name] = np.concatenate(values)[order]
    return replace(first, **joined)
