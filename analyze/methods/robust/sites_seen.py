"""Compute all measures at all call sites, shard by shard, and merge the results.

A shard's histograms are released before the next shard is read; only a few numbers per site and measure
remain. Quantities that need all sites at once (noise between blocks, q) are computed from these numbers.
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
"""Minimum number of shards per worker process; with fewer, starting a process (0.14 s of CPU) does not pay
off."""


@dataclass(frozen=True, slots=True)
class SitesSeen:
    """Observations of all measures at a set of call sites."""

    observed: Mapping[str, Observed]
    """Name of a measure -> its observations, with the sites' indices in the whole profile; measures without
    data have no entry."""
    site_times: SiteTimes
    site: I8
    """int64[sites]: index in the whole profile of each site of `site_times` and `call_ratio`."""
    call_ratio: F8
    """float64[sites]: calls per request in the problem, divided by those in the baseline; inf if the baseline
    has none."""


def shard_view(roles: Roles, settings: RobustSettings, shard: SiteShard) -> View:
    """View of the call sites of one shard."""
    return View(shard.profile(), roles, settings, shard=shard)


def seen_by_shards(
    profile: Profile, votes: SlotVotes, roles: Roles, settings: RobustSettings, workers: int
) -> Iterator[SitesSeen]:
    """Yield the observations of each shard, computed in up to `workers` processes if there are enough
    shards."""
    shards = site_shards(profile, votes)
    workers = min(workers, n_shards(profile.names, votes) // SHARDS_A_WORKER)
    if workers > 1:
        give_back()
        with worker_processes(workers) as pool:
            yield from map_in_order(pool, partial(_seen_there, roles, settings), shards, workers + 1)
    else:
        yield from map(partial(seen_at_shard, roles, settings), shards)


def _seen_there(roles: Roles, settings: RobustSettings, shard: SiteShard) -> SitesSeen:
    """Compute every measure at the sites of one shard; runs in a worker process."""
    _begin()
    return seen_at_shard(roles, settings, shard)


@cache
def _begin() -> None:
    """Set up memory allocation in a worker process; later calls do nothing.

    Memory that is free now is returned to the system; memory freed after a shard is kept for the next."""
    give_back()
    keep_freed()


def seen_at_shard(roles: Roles, settings: RobustSettings, shard: SiteShard) -> SitesSeen:
    """Compute every measure at the sites of one shard."""
    return seen_in(shard_view(roles, settings, shard))


def seen_in(view: View) -> SitesSeen:
    """Compute every measure at the sites of a view."""
    observed = {
        measure.name: _placed(found, view)
        for measure in MEASURES
        if (found := measure.observe(view)) is not None
    }
    return SitesSeen(observed, site_times_of(view), view.site, view.call_ratio)


def seen_at_sites(parts: Iterable[SitesSeen]) -> SitesSeen:
    """Merge the observations of disjoint sets of sites, one measure at a time to save memory."""
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
    """Convert indices of sites and call patterns from those of the view to those of the whole profile."""
    pattern = seen.pattern
    return replace(
        seen,
        site=view.site[seen.site],
        pattern=None if pattern is None else np.where(pattern < 0, pattern, view.pattern[pattern]),
    )


def _joined_rows(parts: Sequence[Observed]) -> Observed:
    """Concatenate one measure's observations of disjoint sets of sites, sorted by site and call pattern."""
    pattern = [part.pattern for part in parts if part.pattern is not None]
    site = np.concatenate([part.site for part in parts])
    return _joined(parts, np.lexsort([np.concatenate(pattern), site] if pattern else [site]))


def _joined(parts: Sequence[_Rows], order: I8) -> _Rows:
    """Concatenate the arrays and estimates of several objects and sort the rows by `order`; other fields are
    those of the first object."""
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
