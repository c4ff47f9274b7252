"""Look at all call sites, shard by shard, and put together what was seen as if it had been one look.

A shard's histograms are gone when the next is read. What is left of a site is some numbers a measure; only
what concerns all sites at once (how far levels move by themselves, q) is computed from those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from analyze.methods.robust.measures import MEASURES, Measure, Observed
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.verdict.places import Places, joined_places, places_of
from analyze.methods.robust.view import View
from analyze.profile.names import Names
from analyze.profile.profile import Profile
from analyze.profile.shards import SHARD_VOTES, site_shards
from analyze.stats.estimate import joined_estimates
from schemas.arrays import F8, I8


class SiteView(NamedTuple):
    """A view of some call sites."""

    view: View
    site: I8
    """What number each site has in the whole; likewise the call patterns."""
    shape: I8


@dataclass(frozen=True, slots=True)
class SitesSeen:
    """What was seen at all call sites."""

    names: Names
    settings: RobustSettings
    observed: tuple[tuple[Measure, Observed], ...]
    noise_assumed: bool
    """No history and no long reference shows how much ordinary times differ."""
    places: Places
    call_ratio: F8
    """[sites] calls a request, after over before."""


def site_views(
    profile: Profile, roles: Roles, settings: RobustSettings, most_votes: int = SHARD_VOTES
) -> Iterator[SiteView]:
    """Give views of the sites of a profile, one after the other."""
    for shard in site_shards(profile, most_votes):
        yield SiteView(View(shard.profile, roles, settings), shard.site, shard.shape)


def whole_view(view: View) -> SiteView:
    """Give a view of all sites as that."""
    return SiteView(view, np.arange(view.n_sites), np.arange(len(view.names.shapes)))


def seen_at_sites(views: Iterable[SiteView], names: Names, settings: RobustSettings) -> SitesSeen:
    """Observe every measure at every site."""
    observed: dict[str, list[Observed]] = {measure.name: [] for measure in MEASURES}
    places: list[Places] = []
    sites: list[I8] = []
    ratios: list[F8] = []
    noise_assumed = False
    for part in views:
        for measure in MEASURES:
            found = measure.observe(part.view)
            if found is not None:
                observed[measure.name].append(_placed(found, part))
        places.append(places_of(part.view))
        ratios.append(part.view.call_ratio)
        sites.append(part.site)
        noise_assumed = part.view.roles.noise_assumed
    order = np.argsort(np.concatenate(sites), kind="stable")
    return SitesSeen(
        names,
        settings,
        tuple((m, _joined(observed[m.name])) for m in MEASURES if observed[m.name]),
        noise_assumed,
        joined_places(places, order),
        np.concatenate(ratios)[order],
    )


def _placed(seen: Observed, part: SiteView) -> Observed:
    """Give it with the numbers of the whole."""
    pattern = seen.pattern
    return replace(
        seen,
        site=part.site[seen.site],
        pattern=None if pattern is None else np.where(pattern < 0, pattern, part.shape[pattern]),
    )


def _joined(parts: Sequence[Observed]) -> Observed:
    """Join what was observed of several sets of sites, in the order of the sites."""
    first = parts[0]
    if len(parts) == 1:
        return first
    site = np.concatenate([part.site for part in parts])
    pattern = [part.pattern for part in parts if part.pattern is not None]
    order = np.lexsort([np.concatenate(pattern), site] if pattern else [site])

    def column(name: str) -> F8 | I8 | None:
        if getattr(first, name) is None:
            return None
        columns = [np.broadcast_to(getattr(part, name), part.site.shape) for part in parts]
        return np.concatenate(columns)[order]

    plain = {
        name: column(name)
        for name in (field.name for field in fields(Observed))
        if name not in ("estimate", "reference")
    }
    array = [part.reference for part in parts if part.reference is not None]
    return Observed(
        **plain,  # type: ignore[arg-type]
        estimate=joined_estimates([part.estimate for part in parts]).take(order),
        reference=joined_estimates(array).take(order) if array else None,
    )
