"""Input of a run: samples, their profile, the role of each slot of time, and the state of confounders."""

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
    """Base class of the states that confounders store when they adjust a comparison; one dataclass per
    confounder."""

    __slots__ = ()


N = TypeVar("N", bound=Noticed)


@dataclass(frozen=True)
class Comparison:
    """Input of a run: requests, their profile, the roles of its slots, history, settings.

    roles: role of each slot; traffic: requests, observed time and silences of the two samples.
    """

    population: Population
    """Requests of reference and problem; without categories if the samples are stored statistics."""
    profiled: Profiled
    """Profile of reference, problem and history, with the groups of requests; its first slots are those of
    the population's samples."""
    roles: Roles
    settings: RobustSettings
    traffic: ComparedTraffic
    threshold_ns: float = inf
    """Response time above which a request is slow, ns, for the breakdown of the tail; inf if there are no
    requests."""
    history: Population | None = None
    """Requests of the history; None without a history, or if it is stored statistics."""
    kept_segments: tuple[SegmentSums, ...] = ()
    """Counts by value of attributes, for a history of stored statistics; one per sample."""
    workers: int = 1
    """Maximum number of processes to work with."""
    noticed: tuple[Noticed, ...] = ()
    """States of the confounders that adjusted the comparison, at most one per class."""

    def with_noticed(self, one: Noticed) -> Comparison:
        """Comparison with the state of one more confounder."""
        return replace(self, noticed=(*self.noticed, one))

    def noticed_as(self, kind: type[N]) -> N | None:
        """State of a confounder, by its class; None if the confounder adjusted nothing."""
        return next((one for one in self.noticed if isinstance(one, kind)), None)

    @property
    def profile(self) -> Profile:
        """Profile of all requests: sums by site, path and slot."""
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
        """View of all call sites, before and after."""
        profile, groups = self.profiled
        by_instance = partial(
            ByInstance.of, self.population, groups, profile.names, self.roles, self.settings
        )
        return View(profile, self.roles, self.settings, by_instance)

    def views(self) -> Iterator[View]:
        """Yield views that together contain all call sites: a single view, or one per shard that fits into
        memory."""
        if self.profile.runs is None:
            return iter([self.view])
        shards = site_shards(self.profile, self.profile.runs)
        return map(partial(shard_view, self.roles, self.settings), shards)

    def seen(self) -> SitesSeen:
        """Observations of every measure at every call site, shard by shard if necessary."""
        profile = self.profile
        parts = (
            (seen_in(self.view),)
            if profile.runs is None
            else seen_by_shards(profile, profile.runs, self.roles, self.settings, self.workers)
        )
        return seen_at_sites(parts)
