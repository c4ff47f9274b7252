"""Facts about symptoms that the relations look up: order of operations, affected requests, hosts, callees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analyze.methods.robust.affected_requests import affected_by_statistics, showing
from analyze.methods.robust.causes.order import Entries, Order
from analyze.methods.robust.causes.patterns import calls_rerouted, cut_after, last_callees
from analyze.methods.robust.causes.symptoms import (
    BundleKey,
    Symptom,
    bundles,
    covering,
    largest,
    leading,
    part_ns,
    sure_part,
)
from analyze.methods.robust.changes import FAMILIES, NO_PATTERN, Change
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import CausesSettings
from analyze.population import Graph, Population
from analyze.profile.build import Profiled
from analyze.profile.names import Names, OperationName, SiteKind
from analyze.profile.profile import Profile
from analyze.stats.proportions import fisher
from schemas.arrays import I8
from schemas.report.findings import CALL_KINDS, PATH_KINDS, TIME_KINDS, ChangeKind

HostOf = Mapping[str, tuple[str, str]]
"""Component as named in activity records, `host/component` -> (host, component); components without a host
have no entry."""


def hosts_in(graphs: Iterable[Graph]) -> dict[str, tuple[str, str]]:
    """Components of graph nodes that name a host: `host/component` -> (host, component). O(nodes)."""
    named = {(node.host, node.component) for graph in graphs for node in graph.nodes if node.host}
    return {f"{host}/{component}": (host, component) for host, component in sorted(named)}


def hosts_named(names: Names) -> dict[str, tuple[str, str]]:
    """Components of activity records whose name begins with a host: `host/component` -> (host, component).
    O(sites).

    Used for stored statistics, which have no graphs: the part of the name before the first `/` is taken as
    the host.
    """
    records = {
        names.operation(at).component for at, s in enumerate(names.sites) if s.kind is not SiteKind.CALL
    }
    parts = {component: component.partition("/") for component in sorted(records)}
    return {component: (host, rest) for component, (host, _, rest) in parts.items() if rest}


@dataclass(frozen=True, slots=True)
class Hosts:
    """Keys that identify sites and changes without their host, so that equal sites on several hosts compare
    equal."""

    names: Names
    host_of: HostOf

    def host(self, site: int) -> str:
        """Host of a site, from its component's name; empty if the component names none."""
        return self.host_of.get(self.names.operation(site).component, ("", ""))[0]

    def place(self, site: int) -> tuple[object, ...]:
        """Key of a site that is equal on all hosts: (caller's operation or None, operation, kind of the
        site)."""
        caller = self.names.caller(site)
        return (
            None if caller is None else self._hostless(caller),
            self._hostless(self.names.operation(site)),
            self.names.sites[site].kind,
        )

    def what(self, change: Change) -> tuple[object, ...]:
        """Key of a change that is equal on all hosts: (key of its site as in `place`, set of kinds in
        FAMILIES that contains its kind, True if the value rose)."""
        family = next((family for family in FAMILIES if change.kind in family), change.kind)
        return (*self.place(change.site), family, change.ups)

    def _hostless(self, name: OperationName) -> OperationName:
        return name._replace(component=self.host_of.get(name.component, ("", name.component))[1])


_FELT = frozenset({ChangeKind.ERRORS}) | PATH_KINDS | CALL_KINDS


@dataclass(frozen=True, slots=True)
class Failures:
    """Number of failed requests by the operation at which the request's first failure began.

    With few requests, a caller's failures may be significant while the failures at each of its callees are
    not; these counts show the callee at which most of them began.
    """

    n: I8
    """int64[2]: number of requests in (reference, problem)."""
    failed: I8
    """int64[operations, 2]: number of requests whose first failure began at the operation, in (reference,
    problem)."""

    def more(self) -> list[int]:
        """Indices of operations at which failures began in a larger share of requests than in the reference,
        largest rise first."""
        share = self.failed / np.maximum(self.n, 1)
        rise = share[:, 1] - share[:, 0]
        order = np.argsort(-rise, kind="stable")
        return [int(at) for at in order.tolist() if rise[at] > 0]

    def callee(self, lead: Change, names: Names, order: Order, settings: CausesSettings) -> str:
        """Component of the callee at which most of the failures that the change `lead` reports began; empty
        if none is significant, or if it is the component of `lead` itself.

        Counts failures that began at the operation of `lead` or below it.
        """
        operation = names.sites[lead.site].operation
        if lead.kind not in _FELT or operation in order.records:
            return ""
        own = names.operations[operation].component
        failed: dict[str, I8] = defaultdict(lambda: np.zeros(2, dtype=np.int64))
        for below in np.flatnonzero(self.failed.any(axis=1)).tolist():
            if below == operation or order.is_above(operation, below):
                component = names.operations[below].component
                callee = names.unrecorded.get(below, "")
                failed[callee or (component if component != own else "")] += self.failed[below]
        name = max(failed, key=lambda name: (int(failed[name][1]), name), default="")
        if not name:
            return ""
        (x0, x1), (n0, n1) = failed[name], self.n
        by_chance = float(fisher(*(np.array([value]) for value in (x0, n0, x1, n1))).p_more[0])
        enough = x1 / n1 - x0 / n0 >= settings.failed_by_one * lead.weight
        return name if enough and by_chance <= settings.failed_by_chance else ""


def failures_begun(profile: Profile, roles: Roles) -> Failures:
    """Count failed requests by the operation at which the first failure began, from the profile's table
    `origins`. O(rows)."""
    sides = roles.reference, roles.problem
    n = [profile.responded("n", slots) for slots in sides]
    failed = [profile.at_operations("origins", "n", slots) for slots in sides]
    return Failures(np.rint(n).astype(np.int64), np.rint(np.stack(failed, axis=1)).astype(np.int64))


@dataclass(frozen=True, slots=True)
class Context:
    """Data that relations look up: symptoms, names, order of operations, hosts, settings."""

    names: Names
    order: Order
    hosts: Hosts
    settings: CausesSettings
    symptoms: tuple[Symptom, ...]
    moved: Mapping[int, Mapping[str, int]]
    """Index of an operation -> callee's component -> 1 if a larger share of the operation's requests calls
    the component than before, -1 if a smaller share; unchanged components are left out."""
    mean_ns: float
    """Mean response time of the reference or the problem, whichever is larger, ns; at least 1."""

    def below(self, one: Symptom, other: Symptom) -> bool:
        """True if the operation of `one` is called, directly or indirectly, by the operation of `other`
        (activity records: comes after it in time)."""
        return self.order.is_above(other.operation, one.operation)

    def own(self, symptom: Symptom) -> str:
        """Component of the symptom's operation."""
        return self.names.operations[symptom.operation].component

    def callee(self, symptom: Symptom) -> str:
        """Component that the symptom's operation calls; empty if the operation calls none."""
        return self.names.callee(symptom.operation)

    def came(self, change: Change) -> float:
        """Factor by which traffic at the change's site grew: calls per request after / before. For a loop of
        activity records, whose iterations count as calls, requests after / before."""
        turns = change.kind in CALL_KINDS and self.names.sites[change.site].operation in self.order.records
        return change.call_ratio * change.before / change.after if turns else change.call_ratio


def context_of(
    changes: Sequence[Change],
    by_load: Sequence[Change],
    profiled: Profiled,
    population: Population,
    roles: Roles,
    begun: Failures,
    settings: CausesSettings,
) -> Context:
    """Group significant changes into symptoms, and collect the data that relations look up.

    by_load: changes that a change of load explains. Changes of time among them also become symptoms
    (`Symptom.by_load`), since changed paths may have caused the load. begun: number of failed requests by the
    operation where the failure began.
    """
    profile, groups, _ = profiled
    names = profile.names
    asked = {names.sites[change.site].operation for change in changes}
    order = Order.of(names, groups, asked, None if groups else Entries.of(profile))
    named = hosts_in(category.graph for category in population.categories) if groups else hosts_named(names)
    hosts = Hosts(names, named)
    mean_ns = _larger_mean_ns(profile, roles)
    last = last_callees(population, groups, {c.pattern for c in changes if c.pattern != NO_PATTERN}, names)

    def symptom(
        place: BundleKey, mine: Sequence[Change], component: str, *, by_load: bool = False
    ) -> Symptom:
        operation, timed, *_ = place
        if timed:
            lead, suspect, shown = largest(mine), "", mine
            size = abs(part_ns(mine)) / mean_ns
            score = sure_part(lead) * size
        else:
            lead, fails = leading(mine), any(c.kind is ChangeKind.ERRORS for c in mine)
            shown = [c for c in mine if c.ups or c.kind is ChangeKind.FEWER_ERRORS]
            size = score = max(
                sure_part(c) * max(abs(c.contribution_ns) / mean_ns, settings.path_weight * c.weight)
                for c in mine
            )
            suspect = (names.unrecorded.get(operation, "") if fails else "") or cut_after(mine, names, last)
            suspect = suspect or begun.callee(lead, names, order, settings)
        shows = showing(population, groups, roles, shown)
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
        one.operation: calls_rerouted(one.changes, one.lead, names, settings.calls_rerouted)
        for one in symptoms
        if not one.timed
    }
    return Context(names, order, hosts, settings, tuple(symptoms), moved, mean_ns)


def _larger_mean_ns(profile: Profile, roles: Roles) -> float:
    """Mean response time of the reference or the problem, whichever is larger, ns; at least 1."""
    means = [
        profile.responded("ns", slots) / max(profile.responded("w", slots), 1e-300)
        for slots in (roles.reference, roles.problem)
    ]
    return max(1.0, *means)
