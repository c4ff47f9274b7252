"""Look at all call sites, shard by shard, and put together what was seen as if it had been one look.

A shard's histograms are gone when the next is read. What is left of a site is some numbers a measure; only
what concerns all sites at once (how far levels move by themselves, q) is computed from those.
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
"""Fewest that are worth a process of their own: one takes 0.14 s of CPU. Whoever read so many votes has the
processes already."""


@dataclass(frozen=True, slots=True)
class SitesSeen:
    """Observations of all measures at call sites, by the site numbers of the whole; arrays are [sites]."""

    observed: Mapping[str, Observed]
    """By measure."""
    site_times: SiteTimes
    site: I8
    call_ratio: F8
    """Calls a request, after over before."""


def shard_view(roles: Roles, settings: RobustSettings, shard: SiteShard) -> View:
    """Look at the sites of a shard."""
    return View(shard.profile(), roles, settings, shard=shard)


def seen_by_shards(
    profile: Profile, votes: SlotVotes, roles: Roles, settings: RobustSettings, workers: int
) -> Iterator[SitesSeen]:
    """Observe shard by shard, by so many processes where there are enough shards."""
    shards = site_shards(profile, votes)
    workers = min(workers, n_shards(profile.names, votes) // SHARDS_A_WORKER)
    if workers > 1:
        give_back()
        with worker_processes(workers) as pool:
            yield from map_in_order(pool, partial(_seen_there, roles, settings), shards, workers + 1)
    else:
        yield from map(partial(seen_at_shard, roles, settings), shards)


def _seen_there(roles: Roles, settings: RobustSettings, shard: SiteShard) -> SitesSeen:
    """Observe a shard in a process of its own."""
    _begin()
    return seen_at_shard(roles, settings, shard)


@cache
def _begin() -> None:
    """Keep what is freed from here on: what was read before took more than a shard does."""
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
    """Put together what was seen at all sites, measure by measure: nothing of it is held twice for long."""
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
    """Give it with the numbers of the whole."""
    pattern = seen.pattern
    return replace(
        seen,
        site=view.site[seen.site],
        pattern=None if pattern is None else np.where(pattern < 0, pattern, view.pattern[pattern]),
    )


def _joined_rows(parts: Sequence[Observed]) -> Observed:
    """Join what was observed of several sets of sites, in the order of the sites."""
    pattern = [part.pattern for part in parts if part.pattern is not None]
    site = np.concatenate([part.site for part in parts])
    return _joined(parts, np.lexsort([np.concatenate(pattern), site] if pattern else [site]))


def _joined(parts: Sequence[_Rows], order: I8) -> _Rows:
    """Join arrays and estimates, the rows of one set behind those of another, and order them; what is no
    array is the same in all."""
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
