"""Input of a run: the samples, their profile, the role of each time slot, and adjustments by confounders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import TypeVar

from analyze.methods.robust.calls_by_instance import ByInstance
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.sites_seen import (
    SitesSeen,
    seen_at_sites,
    seen_by_shards,
    seen_in,
    shard_view,
)
from analyze.methods.robust.view import View
from analyze.population import Population
from analyze.profile.build import Profiled
from analyze.profile.profile import Profile
from analyze.profile.segment_sums import SegmentSums
from analyze.profile.shards import site_shards
from analyze.stats.silences import ComparedTraffic


class Noticed:
    """Base class of what a confounder stores when it adjusts a comparison; one dataclass per confounder."""

    __slots__ = ()


N = TypeVar("N", bound=Noticed)


@dataclass(frozen=True)
class Comparison:
    """Input of a run: requests of both periods, profile, roles of its time slots, history, settings."""

    population: Population
    """Requests of reference and problem; has no categories if the samples are stored statistics."""
    profiled: Profiled
    """Profile of reference, problem and history, with the groups of the population's requests; time slots of
    reference and problem come before those of the history."""
    roles: Roles
    """Role of each time slot of the profile: problem, reference, history, and number of its baseline
    block."""
    settings: RobustSettings
    traffic: ComparedTraffic
    """Number of requests, observed time and silences (intervals without requests) of reference and
    problem."""
    threshold_ns: float = inf
    """Response time, ns, above which a request is slow in the breakdown of the tail; inf if there are no
    requests."""
    history: Population | None = None
    """Requests of the history; None without a history, or if the history is stored statistics."""
    kept_segments: tuple[SegmentSums, ...] = ()
    """Stored numbers of requests by attribute value, one element per sample of the history; empty unless the
    history is stored statistics."""
    workers: int = 1
    """Maximum number of worker processes."""
    noticed: tuple[Noticed, ...] = ()
    """Records that confounders stored when they adjusted the comparison; at most one per class."""

    def with_noticed(self, one: Noticed) -> Comparison:
        """Copy with the element `one` appended to `noticed`."""
        return replace(self, noticed=(*self.noticed, one))

    def noticed_as(self, kind: type[N]) -> N | None:
        """Element of `noticed` of the class `kind`; None if that confounder adjusted nothing."""
        return next((one for one in self.noticed if isinstance(one, kind)), None)

    @property
    def profile(self) -> Profile:
        """Profile of reference, problem and history: sums by call site, calling path and time slot."""
        return self.profiled.profile

    @cached_property
    def timeless(self) -> bool:
        """True if all requests of the reference, or of the problem, took 0 ns: times then carry no
        information."""
        return any(
            self.profile.responded("w", slots) > 0 and not self.profile.responded("ns", slots)
            for slots in (self.roles.reference, self.roles.problem)
        )

    @cached_property
    def view(self) -> View:
        """View of all call sites, with baseline and problem as columns."""
        profile, groups, _ = self.profiled
        by_instance = partial(
            ByInstance.of, self.population, groups, profile.names, self.roles, self.settings
        )
        return View(profile, self.roles, self.settings, by_instance)

    def views(self) -> Iterator[View]:
        """Yield views that together contain each call site once: a single view or, for a profile too large
        for memory, one per shard of sites."""
        if self.profile.runs is None:
            return iter([self.view])
        shards = site_shards(self.profile, self.profile.runs)
        return map(partial(shard_view, self.roles, self.settings), shards)

    def seen(self) -> SitesSeen:
        """Observations of every measure at every call site; computed shard by shard for a profile too large
        for memory."""
        profile = self.profile
        parts = (
            (seen_in(self.view),)
            if profile.runs is None
            else seen_by_shards(profile, profile.runs, self.roles, self.settings, self.workers)
        )
        return seen_at_sites(parts)
