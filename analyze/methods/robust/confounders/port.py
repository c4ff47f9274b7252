"""Define what a confounder is: something other than the service that may explain a change.

To add one: a class with these members in a file of its own, and a row in `registry.CONFOUNDERS`; it says
itself which case fails without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol

from analyze.methods.robust.changes import Change
from analyze.methods.robust.instances import ByInstance
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.sites_seen import (
    SitesSeen,
    SiteView,
    seen_at_sites,
    seen_by_shards,
    seen_part,
    site_views,
    whole_view,
)
from analyze.methods.robust.view import View
from analyze.population import Population
from analyze.profile.build import Profiled
from analyze.stats.silences import ComparedTraffic

Kind = Literal["quality", "skew", "load", "labels", "history"]


@dataclass(frozen=True)
class Comparison:
    """What is compared: everything that the steps of a run look at."""

    population: Population
    """Without requests where samples are statistics."""
    profiled: Profiled
    """Of reference, problem and history; the first slots are those of the population's samples."""
    roles: Roles
    settings: RobustSettings
    traffic: ComparedTraffic
    workers: int = 1
    """Processes that may share the work."""
    noticed: Mapping[str, object] = field(default_factory=dict)
    """What confounders saw when they adjusted the profile, by name."""

    @cached_property
    def view(self) -> View:
        """The profile's call sites, before and after."""
        profile, patterns = self.profiled

        def by_instance() -> ByInstance | None:
            return ByInstance.of(self.population, patterns, profile.names, self.roles, self.settings)

        return View(profile, self.roles, self.settings, by_instance)

    def views(self) -> Iterator[SiteView]:
        """Give the same in parts that fit into memory; as one where that does."""
        if self.profiled.profile.runs is None:
            return iter([whole_view(self.view)])
        return site_views(self.profiled.profile, self.roles, self.settings)

    def seen(self) -> SitesSeen:
        """Observe every measure at every call site."""
        profile = self.profiled.profile
        parts = (
            (seen_part(whole_view(self.view)),)
            if profile.runs is None
            else seen_by_shards(profile, profile.runs, self.roles, self.settings, self.workers)
        )
        return seen_at_sites(parts, profile.names, self.settings)


@dataclass(frozen=True, slots=True)
class Explained:
    """Significant changes that something explains, and that are therefore not findings."""

    kind: Kind
    """Of the row under data quality."""
    text: str
    """One sentence or two, with the size."""
    changes: tuple[Change, ...] = ()
    severe: bool = False
    """What is left cannot be believed to be all there is."""
    hidden_paths: float = 0.0
    """Share of a path that could be its doing."""


class Confounder(Protocol):
    """A row of `registry.CONFOUNDERS`."""

    name: str
    doc: str
    """What it is for."""
    case: str
    """The case that fails without it."""

    def adjust(self, comparison: Comparison) -> Comparison:
        """Give the comparison as it is without the confounder, where that can be done; else as it is."""
        ...

    def explains(self, changes: Sequence[Change], comparison: Comparison, /) -> Explained | None:
        """Tell which of the changes it explains; None where it was not there."""
        ...


class Unadjusted:
    """What a confounder is that adjusts nothing."""

    def adjust(self, comparison: Comparison) -> Comparison:
        """Give the comparison as it is."""
        return comparison


def counted_changes(changes: Sequence[Change]) -> str:
    """Count changes in words: `3 changes at 2 call sites`."""
    sites = len({change.site for change in changes})
    noun = "change" if len(changes) == 1 else "changes"
    where = "call site" if sites == 1 else "call sites"
    return f"{len(changes)} {noun} at {sites} {where}"
