"""The step between tests and findings: changes that the recording or the load explains are set aside."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from analyze.methods.robust.changes import Change
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.testing import Tested
from analyze.methods.robust.vetoes.asides import Aside, Reason
from analyze.methods.robust.vetoes.lost_records import ALLOWED, loss_aside, loss_of, lost_changes
from analyze.methods.robust.vetoes.more_load import LoadMet, load_aside, load_changes, load_met
from analyze.methods.robust.vetoes.moved_clocks import clock_aside, clock_changes
from analyze.methods.robust.vetoes.renames import Rename, rename_text
from analyze.methods.robust.vetoes.silent_components import Silent, silent_aside, silent_changes
from analyze.population import Population
from analyze.profile.build import Pattern
from analyze.profile.profile import Profile


@dataclass(frozen=True, slots=True)
class Sifted:
    """What findings are made of, and what they are not."""

    kept: tuple[Change, ...]
    asides: tuple[Aside, ...]
    load: LoadMet
    hidden_paths: float = 0.0
    """Share of a path that lost events hide."""

    def text(self, reason: Reason) -> str:
        """What is told of a reason; empty where nothing was set aside for it."""
        return next((aside.text for aside in self.asides if aside.reason == reason), "")

    def changes(self, reason: Reason) -> tuple[Change, ...]:
        """What was set aside for a reason."""
        return tuple(change for aside in self.asides if aside.reason == reason for change in aside.changes)

    def less(self, told: Collection[int]) -> Sifted:
        """Without the changes by load that findings tell of (by id)."""
        left = [change for change in self.changes("load") if id(change) not in told]
        others = tuple(aside for aside in self.asides if aside.reason != "load")
        return replace(self, asides=(*others, load_aside(self.load, left)) if left else others)


def sifted(
    tested: Tested,
    profile: Profile,
    patterns: Sequence[Pattern],
    roles: Roles,
    population: Population,
    renamed: tuple[Rename, ...],
    silent: tuple[Silent, ...] = (),
) -> Sifted:
    """Data quality first, then load: each change is set aside once, by the first reason that explains it."""
    asides = [Aside("rename", rename_text(renamed))] if renamed else []
    left = list(tested.changes)
    if silent:
        told = silent_changes(left, silent, profile.names)
        left = _without(left, told)
        asides.append(silent_aside(silent, told))
    loss = loss_of(profile, roles, population.incomplete)
    if loss is not None:
        lost = lost_changes(left, loss, profile, roles, tested.view)
        left = _without(left, lost)
        asides.append(loss_aside(loss, lost))
    if clocks := clock_changes(left, population, patterns):
        left = _without(left, clocks)
        asides.append(clock_aside(clocks, population.clock_moves))
    met = load_met(population, profile, roles)
    if loaded := load_changes(left, met, profile, roles):
        left = _without(left, loaded)
        asides.append(load_aside(met, loaded))
    return Sifted(tuple(left), tuple(asides), met, 0.0 if loss is None else ALLOWED * loss.rate)


def _without(changes: Sequence[Change], taken: Sequence[Change]) -> list[Change]:
    gone = {id(change) for change in taken}
    return [change for change in changes if id(change) not in gone]
