"""A run of robust mode: requests to profile, tests, groups. What a report is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyze.findings.changes import NO_SHAPE
from analyze.findings.grouping import grouped
from analyze.findings.groups import ERROR_KINDS, Group
from analyze.findings.last_calls import last_callees
from analyze.findings.over_hosts import HostOf, hosts_in
from analyze.findings.places import Affected, Context, affected_requests
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import PROBLEM, REFERENCE, Roles, slots_of
from analyze.methods.robust.site_requests import with_failing
from analyze.methods.robust.testing import Tested, tested_changes
from analyze.methods.robust.vetoes.renames import renames, under_old_names
from analyze.methods.robust.vetoes.sifting import Sifted, sifted
from analyze.methods.robust.vetoes.silent_components import silent_components
from analyze.population import Population
from analyze.sites.profile import Profile, Slot, joined
from analyze.sites.profiling import Profiled, profile_of
from analyze.sites.sample_profiles import SampleProfiles
from analyze.sites.totals import totals
from schemas.errors import PeriodError


@dataclass(frozen=True, slots=True)
class RobustRun:
    """What was found, and where it came from."""

    population: Population
    profile: Profile
    """Of reference, problem and history; the first slots are those of the population's samples."""
    patterns: Profiled
    roles: Roles
    tested: Tested
    sifted: Sifted
    """What of it findings are made of."""
    context: Context
    affected: Affected
    groups: tuple[Group, ...]
    threshold_ns: float
    """What the tail account counts requests over; infinite where no request is at hand."""
    host_of: HostOf
    """Components of sites that are those of a host."""


def robust_run(
    compared: Population | SampleProfiles,
    history: Population | SampleProfiles | None,
    settings: RobustSettings,
) -> RobustRun:
    """Profile the samples, test their sites, group what changed.

    Of samples that are statistics no request is at hand: what was found has no examples. Raises PeriodError
    where a period has no request.
    """
    _refuse_empty(compared)
    slots, roles = slots_of(
        compared.samples,
        () if history is None else history.samples,
        settings.blocks,
        kept=compared.profile.slots if isinstance(compared, SampleProfiles) else None,
        kept_history=history.profile.slots if isinstance(history, SampleProfiles) else None,
    )
    here = [slot for slot in slots if slot.sample <= PROBLEM]
    if isinstance(compared, SampleProfiles):
        population, patterns, threshold_ns = (
            compared.without_requests(),
            Profiled(compared.profile, ()),
            np.inf,
        )
    else:
        population, threshold_ns = compared, slow_response_ns(compared)
        patterns = profile_of(compared, here, threshold_ns)
    profile = patterns.profile
    if history is not None:
        profile = replace(joined([profile, _past(history, slots[len(here) :])]), slots=tuple(slots))
    silent = silent_components(profile, roles)
    renamed = renames(profile, roles)
    if old := (*renamed, *(call for one in silent for call in one.calls)):
        patterns = under_old_names(Profiled(profile, patterns.patterns), old)
        profile = patterns.profile
    tested = tested_changes(profile, roles, settings)
    sift = sifted(tested, profile, patterns.patterns, roles, population, renamed, silent)
    operations = {profile.names.sites[change.site].operation for change in sift.kept}
    context = Context.of(profile.names, patterns.patterns, operations)
    affected = with_failing(
        affected_requests(patterns.patterns, roles.reference[: len(here)], roles.problem[: len(here)]),
        population,
        sorted({change.site for change in sift.kept if change.kind in ERROR_KINDS}),
    )
    shapes = {change.shape for change in sift.kept if change.shape != NO_SHAPE}
    last = last_callees(population, patterns.patterns, shapes, profile.names)
    host_of = hosts_in(category.graph for category in population.categories)
    groups = tuple(
        grouped(
            sift.kept,
            context,
            affected,
            last,
            *_mean_and_change_ns(profile, roles),
            host_of=host_of,
            tested=tested.sites,
            by_load=sift.changes("load"),
        )
    )
    sift = sift.less({id(change) for group in groups for change in group.changes})
    return RobustRun(
        population=population,
        profile=profile,
        patterns=patterns,
        roles=roles,
        tested=tested,
        sifted=sift,
        context=context,
        affected=affected,
        groups=groups,
        threshold_ns=threshold_ns,
        host_of=host_of,
    )


def _refuse_empty(compared: Population | SampleProfiles) -> None:
    """Raise PeriodError where a sample has no request that tests may use."""
    for number, sample in enumerate(compared.samples):
        if isinstance(compared, SampleProfiles):
            table = compared.profile.responses
            mine = np.array([slot.sample == number for slot in compared.profile.slots], dtype=np.bool_)
            found = bool(mine[table["slot"].to_numpy()].any())
        else:
            found = any(c.rows(number).stop > c.rows(number).start for c in compared.categories)
        if not found:
            raise PeriodError(
                f"No request of the {sample.name} period can be tested.",
                remedy="Take a longer period; what was left out as damaged is told by `flowdiff windows`.",
            )


def slow_response_ns(population: Population, part: float = 0.95) -> float:
    """Response time that `part` of the reference's requests, by weight, do not exceed; inf without any."""
    rows = [(category, category.rows(REFERENCE)) for category in population.categories]
    if not any(mine.stop - mine.start for _, mine in rows):
        return np.inf
    response = np.concatenate([category.response_ns[mine] for category, mine in rows])
    weight = np.concatenate([category.weight[mine] for category, mine in rows])
    order = np.argsort(response, kind="stable")
    upto = np.cumsum(weight[order])
    return float(response[order[np.searchsorted(upto, part * upto[-1] * (1 - 1e-12))]])


def _past(history: Population | SampleProfiles, slots: Sequence[Slot]) -> Profile:
    """The profile of the history, slot by slot."""
    if isinstance(history, SampleProfiles):
        return history.profile
    own = [Slot(slot.sample - PROBLEM - 1, slot.start_ns, slot.end_ns) for slot in slots]
    return profile_of(history, own).profile


def _mean_and_change_ns(profile: Profile, roles: Roles) -> tuple[float, float]:
    """(larger of the two mean response times, their difference)."""
    table = profile.responses
    slot = table["slot"].to_numpy()
    n = len(roles.problem)
    ns, w = totals(slot, table["ns"].to_numpy(), n), totals(slot, table["w"].to_numpy(), n)
    before, after = (
        float(ns[inside].sum() / max(w[inside].sum(), 1e-300)) for inside in (roles.reference, roles.problem)
    )
    return max(before, after), after - before
