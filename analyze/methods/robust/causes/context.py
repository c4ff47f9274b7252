"""Know where symptoms lie, which requests show them, on which hosts they are, and where load moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analyze.methods.robust.affected_requests import affected_by_statistics
from analyze.methods.robust.causes.failures import Failures
from analyze.methods.robust.causes.hosts import Hosts, hosts_in, hosts_named
from analyze.methods.robust.causes.order import Entries, Order
from analyze.methods.robust.causes.patterns import cut_after, last_callees, load_moved
from analyze.methods.robust.causes.requests import Requests
from analyze.methods.robust.causes.settings import CausesSettings
from analyze.methods.robust.causes.symptoms import (
    Bundle,
    Symptom,
    bundles,
    covering,
    largest,
    leading,
    part_ns,
    structure_score,
    sure_part,
)
from analyze.methods.robust.changes import CALL_KINDS, NO_SHAPE, TIME_KINDS, Change
from analyze.methods.robust.roles import Roles
from analyze.population import Population
from analyze.profile.build import Profiled
from analyze.profile.names import Names
from analyze.profile.profile import Profile
from schemas.report.findings import ChangeKind


@dataclass(frozen=True, slots=True)
class Context:
    """What relations ask of symptoms."""

    names: Names
    order: Order
    hosts: Hosts
    settings: CausesSettings
    symptoms: tuple[Symptom, ...]
    moved: Mapping[int, Mapping[str, int]]
    """Operation -> components to which its calls go more often (1) or less often (-1) than before."""
    mean_ns: float
    """The larger of the two mean response times."""

    def below(self, one: Symptom, other: Symptom) -> bool:
        """Tell whether a symptom lies below another (records: after it)."""
        return self.order.is_above(other.operation, one.operation)

    def own(self, symptom: Symptom) -> str:
        """Give the component of a symptom's operation."""
        return self.names.operations[symptom.operation].component

    def callee(self, symptom: Symptom) -> str:
        """Tell whom a symptom's operation calls."""
        return self.names.callee(symptom.operation)

    def came(self, change: Change) -> float:
        """Tell how many times as much comes to a site: calls, and to a loop of records requests, however
        often it turns for each."""
        turns = change.kind in CALL_KINDS and self.names.sites[change.site].operation in self.order.records
        return change.call_ratio * change.before / change.after if turns else change.call_ratio

    def sees_other_requests(self, changes: Iterable[Change], factor: float) -> bool:
        """Tell whether so many times as much, or as little, comes to the sites of all changes."""
        return all(not 1 / factor < self.came(change) < factor for change in changes)


def context_of(
    changes: Sequence[Change],
    by_load: Sequence[Change],
    profiled: Profiled,
    population: Population,
    roles: Roles,
    begun: Failures,
    settings: CausesSettings,
) -> Context:
    """Bundle significant changes to symptoms, with what is known of them.

    by_load: changes that the load explains; those of time may still follow from paths that moved the load.
    """
    profile, patterns = profiled
    names = profile.names
    asked = {names.sites[change.site].operation for change in changes}
    order = Order.of(names, patterns, asked, None if patterns else Entries.of(profile))
    named = hosts_in(category.graph for category in population.categories) if patterns else hosts_named(names)
    hosts = Hosts(names, named)
    requests = Requests.of(population, patterns, roles.reference, roles.problem)
    mean_ns = _larger_mean_ns(profile, roles)
    last = last_callees(population, patterns, {c.shape for c in changes if c.shape != NO_SHAPE}, names)

    def symptom(place: Bundle, mine: Sequence[Change], component: str, *, by_load: bool = False) -> Symptom:
        operation, timed, *_ = place
        if timed:
            lead, suspect, shown = largest(mine), "", mine
            size = abs(part_ns(mine)) / mean_ns
            score = sure_part(lead) * size
        else:
            lead, fails = leading(mine), any(c.kind is ChangeKind.ERRORS for c in mine)
            shown = [c for c in mine if c.ups or c.kind is ChangeKind.FEWER_ERRORS]
            size = score = max(structure_score(change, mean_ns, settings.path_weight) for change in mine)
            suspect = (names.unrecorded.get(operation, "") if fails else "") or cut_after(mine, names, last)
            suspect = suspect or begun.callee(lead, names, order, settings)
        shows = requests.showing(shown)
        counted = 0 if len(shows) else max(affected_by_statistics(profile, roles, shown))
        return Symptom(
            operation, timed, tuple(mine), lead, shows, score, size, component, suspect, by_load, counted
        )

    found = bundles(changes, names)
    speaks_for = covering(found, names, settings.caller_weight)
    symptoms = [
        symptom(place, mine, speaks_for.get(place, names.operations[place[0]].component))
        for place, mine in found.items()
    ]
    symptoms += [
        symptom(place, mine, names.operations[place[0]].component, by_load=True)
        for place, mine in bundles([c for c in by_load if c.kind in TIME_KINDS], names).items()
    ]
    moved = {
        one.operation: load_moved(one.changes, one.lead, names, settings.load_moved)
        for one in symptoms
        if not one.timed
    }
    return Context(names, order, hosts, settings, tuple(symptoms), moved, mean_ns)


def _larger_mean_ns(profile: Profile, roles: Roles) -> float:
    """Give the larger of the mean response times of reference and problem, at least 1."""
    means = [
        profile.responded("ns", slots) / max(profile.responded("w", slots), 1e-300)
        for slots in (roles.reference, roles.problem)
    ]
    return max(1.0, *means)
