"""A run of robust mode: requests to profile, tests, groups. What a report is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyze.methods.robust.causes.failing_callees import failures_begun, with_failing_callees
from analyze.methods.robust.causes.grouping import grouped
from analyze.methods.robust.causes.groups import Group
from analyze.methods.robust.causes.last_calls import last_callees
from analyze.methods.robust.causes.over_hosts import HostOf, hosts_in
from analyze.methods.robust.causes.places import Affected, Context, affected_requests
from analyze.methods.robust.causes.unrecorded_callees import unrecorded_callees
from analyze.methods.robust.changes import ERROR_KINDS, NO_SHAPE
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import PROBLEM, REFERENCE, Roles, slots_of
from analyze.methods.robust.site_requests import with_failing
from analyze.methods.robust.testing import Tested, significant_changes
from analyze.methods.robust.verdict.period_blocks import quantile_bin
from analyze.methods.robust.vetoes.renames import renames, under_old_names
from analyze.methods.robust.vetoes.sifting import Sifted, sifted
from analyze.methods.robust.vetoes.silent_components import silent_components
from analyze.methods.robust.view import View
from analyze.population import Population, no_testable_request
from analyze.profile.build import Profiled, profile_of
from analyze.profile.profile import Profile, Slot, joined
from analyze.profile.stored import SampleProfiles
from analyze.stats.log_bins import bin_of, value_of
from analyze.stats.sums import totals


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
        population, threshold_ns = compared, slow_response_ns(compared, settings.verdict.slow_levels[0])
        patterns = profile_of(compared, here, threshold_ns)
    profile = patterns.profile
    if history is not None:
        profile = replace(joined([profile, _past(history, slots[len(here) :])]), slots=tuple(slots))
    silent = silent_components(profile, roles)
    renamed = renames(profile, roles)
    if old := (*renamed, *(call for one in silent for call in one.calls)):
        patterns = under_old_names(Profiled(profile, patterns.patterns), old)
        profile = patterns.profile
    tested = significant_changes(View(profile, roles, settings))
    sift = sifted(tested, profile, patterns.patterns, roles, population, renamed, silent)
    begun = failures_begun(profile, roles)
    unrecorded = unrecorded_callees(population, patterns.patterns, profile.names, sift.kept, begun.more())
    if unrecorded:
        profile = replace(profile, names=replace(profile.names, unrecorded=unrecorded))
        patterns = patterns._replace(profile=profile)
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
    groups = with_failing_callees(
        grouped(
            sift.kept,
            context,
            affected,
            last,
            *_mean_and_change_ns(profile, roles),
            host_of=host_of,
            tested=tested.sites,
            by_load=sift.changes("load"),
        ),
        begun,
        context,
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
            found = compared.has_requests(number)
        if not found:
            raise no_testable_request(sample.name)


def slow_response_ns(population: Population, level: float) -> float:
    """Response time over which a request is slow, ns; inf without requests of the reference.

    The longest of the bin that holds the reference's weighted quantile: the requests over it are those that
    the test of the whole period counts (`slow_thresholds`).
    """
    inside = [(category, category.rows(REFERENCE)) for category in population.categories]
    response = np.concatenate([np.zeros(0, np.int64), *(c.response_ns[rows] for c, rows in inside)])
    if not len(response):
        return np.inf
    weight = np.concatenate([c.weight[rows] for c, rows in inside])
    place = quantile_bin(np.bincount(bin_of(response), weight), level)
    longest = int(value_of(place + 1.0))
    # The edge of a bin is no whole number of ns, or is rounded to one.
    while bin_of(np.array([longest]))[0] > place:
        longest -= 1
    while bin_of(np.array([longest + 1]))[0] <= place:
        longest += 1
    return float(longest)


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
