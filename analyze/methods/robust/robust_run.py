"""Run robust mode: profile the requests, test their call sites, find the causes. What a report is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from analyze.methods.robust.causes.cause import Cause
from analyze.methods.robust.causes.context import Context, context_of
from analyze.methods.robust.causes.failures import failures_begun
from analyze.methods.robust.causes.resolve import causes_of
from analyze.methods.robust.causes.unrecorded_callees import unrecorded_callees
from analyze.methods.robust.confounders.port import Comparison
from analyze.methods.robust.confounders.registry import Confounded, adjusted, confounded
from analyze.methods.robust.roles import PROBLEM, REFERENCE, Roles, slots_of
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.testing import Tested, significant_changes
from analyze.methods.robust.verdict.period_blocks import quantile_bin
from analyze.population import Population, no_testable_request
from analyze.profile.build import Profiled
from analyze.profile.profile import Profile, Slot, joined
from analyze.profile.stored import Profilable, SampleProfiles, profilable
from analyze.stats.log_bins import bin_of, value_of


@dataclass(frozen=True, slots=True)
class RobustRun:
    """What was found, and where it came from."""

    population: Population
    profile: Profile
    """Of reference, problem and history; the first slots are those of the population's samples."""
    patterns: Profiled
    roles: Roles
    tested: Tested
    confounded: Confounded
    """What of it findings are made of."""
    context: Context
    causes: tuple[Cause, ...]
    """The most important first."""
    threshold_ns: float
    """What the tail account counts requests over; infinite where no request is at hand."""


def robust_run(
    compared: Population | SampleProfiles,
    history: Population | SampleProfiles | None,
    settings: RobustSettings,
) -> RobustRun:
    """Profile the samples, test their sites, find the causes of what changed.

    Of samples that are statistics no request is at hand: what was found has no examples. Raises PeriodError
    where a period has no request.
    """
    profiled, roles, threshold_ns = _profiled(profilable(compared), history, settings)
    population = profilable(compared).population
    comparison = adjusted(Comparison(population, profiled, roles, settings))
    patterns, profile = comparison.profiled, comparison.profiled.profile
    tested = significant_changes(comparison.view)
    sift = confounded(tested.changes, comparison)
    begun = failures_begun(profile, roles)
    unrecorded = unrecorded_callees(population, patterns.patterns, profile.names, sift.kept, begun.more())
    if unrecorded:
        profile = replace(profile, names=replace(profile.names, unrecorded=unrecorded))
        patterns = patterns._replace(profile=profile)
    context = context_of(sift.kept, sift.changes("load"), patterns, population, roles, begun, settings.causes)
    causes = causes_of(context, tested.sites, settings.without)
    sift = sift.without("load", {id(c) for cause in causes for c in cause.changes}, comparison)
    return RobustRun(
        population=population,
        profile=profile,
        patterns=patterns,
        roles=roles,
        tested=tested,
        confounded=sift,
        context=context,
        causes=causes,
        threshold_ns=threshold_ns,
    )


def _profiled(
    compared: Profilable, history: Population | SampleProfiles | None, settings: RobustSettings
) -> tuple[Profiled, Roles, float]:
    """Profile samples and history: (profile, which slots play which part, limit of a slow response)."""
    for number, sample in enumerate(compared.samples):
        if not compared.has_requests(number):
            raise no_testable_request(sample.name)
    past = None if history is None else profilable(history)
    slots, roles = slots_of(
        compared.samples,
        () if past is None else past.samples,
        settings.blocks,
        kept=compared.kept_slots,
        kept_history=None if past is None else past.kept_slots,
    )
    here = [slot for slot in slots if slot.sample <= PROBLEM]
    threshold_ns = slow_response_ns(compared.population, settings.verdict.slow_levels[0])
    profiled = compared.profiled(here, threshold_ns)
    if past is None:
        return profiled, roles, threshold_ns
    own = [Slot(slot.sample - PROBLEM - 1, slot.start_ns, slot.end_ns) for slot in slots[len(here) :]]
    both = replace(joined([profiled.profile, past.profiled(own).profile]), slots=tuple(slots))
    return profiled._replace(profile=both), roles, threshold_ns


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
