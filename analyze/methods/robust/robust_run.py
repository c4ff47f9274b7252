"""Run robust mode: build the profile, test call sites, separate confounders, find the causes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from analyze.methods.robust.causes.context import Context, context_of, failures_begun
from analyze.methods.robust.causes.resolve import causes_of
from analyze.methods.robust.causes.symptoms import Cause
from analyze.methods.robust.causes.unrecorded_callees import unrecorded_callees
from analyze.methods.robust.comparison import Comparison
from analyze.methods.robust.confounders.registry import Confounded, adjusted, confounded, recorded_changes
from analyze.methods.robust.period_blocks import quantile_bin
from analyze.methods.robust.roles import PROBLEM, REFERENCE, slots_of
from analyze.methods.robust.segments.segment_changes import segment_changes
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.sites_seen import SitesSeen
from analyze.methods.robust.testing import Tested, judged_sites
from analyze.population import Population, no_testable_request
from analyze.profile.profile import joined
from analyze.profile.samples import ComparedSamples, beside, samples_of
from analyze.stats.histograms import bin_of, value_of
from schemas.report.findings import TIME_KINDS


@dataclass(frozen=True, kw_only=True)
class RobustRun(Comparison):
    """Comparison with the results of its tests, confounders and causes: the input of the report."""

    tested: Tested
    """Results of all tests at call sites."""
    confounded: Confounded
    """Significant changes, divided into those that become findings and those that a confounder explains."""
    context: Context
    """Symptoms, and the data from which their relations were derived."""
    causes: tuple[Cause, ...]
    """Causes of the significant changes, most important first; one finding each."""


def robust_run(
    compared: Population | ComparedSamples,
    history: Population | ComparedSamples | None,
    settings: RobustSettings,
) -> RobustRun:
    """Build the profile of the samples, test their call sites, and find the causes of significant changes.

    Findings have no example requests if the samples are stored statistics. Raises PeriodError if a period has
    no request.
    """
    comparison = adjusted(comparison_of(compared, history, settings))
    return run_of(comparison, tested_of(comparison, comparison.seen()))


def comparison_of(
    compared: Population | ComparedSamples,
    history: Population | ComparedSamples | None,
    settings: RobustSettings,
) -> Comparison:
    """Build the profile of the samples and the history; confounders have not adjusted it yet. Raises
    PeriodError if a period has no request."""
    samples = samples_of(compared)
    for number, sample in enumerate(samples.samples):
        if not samples.has_requests(number):
            raise no_testable_request(sample.name)
    past = None if history is None else samples_of(history)
    slots, roles = slots_of(
        samples.samples,
        () if past is None else past.samples,
        settings.blocks,
        kept=None if samples.kept is None else samples.kept.slots,
        kept_history=None if past is None or past.kept is None else past.kept.slots,
    )
    here = [slot for slot in slots if slot.sample <= PROBLEM]
    threshold_ns = slow_response_ns(samples.population, settings.verdict.slow_levels[0])
    profiled = samples.profiled(here, threshold_ns)
    if past is not None:
        own = [replace(slot, sample=slot.sample - PROBLEM - 1) for slot in slots[len(here) :]]
        both = beside(samples, past) or joined([profiled.profile, past.profiled(own).profile])
        profiled = profiled._replace(profile=replace(both, slots=tuple(slots)))
    return Comparison(
        samples.population,
        profiled,
        roles,
        settings,
        samples.traffic,
        threshold_ns,
        None if past is None or not past.population.categories else past.population,
        () if past is None else past.segments,
        samples.workers,
    )


def tested_of(comparison: Comparison, seen: SitesSeen) -> Tested:
    """Test the observations `seen` of a comparison's call sites."""
    names, roles = comparison.profile.names, comparison.roles
    return judged_sites(seen, names, comparison.settings, noise_assumed=roles.noise_assumed)


def run_of(comparison: Comparison, tested: Tested) -> RobustRun:
    """Find the causes of significant changes in a comparison after confounders adjusted it."""
    threshold_ns = comparison.threshold_ns
    if comparison.timeless:
        threshold_ns = np.inf
        tested = replace(
            tested,
            changes=tuple(c for c in tested.changes if c.kind not in TIME_KINDS),
            hidden=tuple(h for h in tested.hidden if h.change.kind not in TIME_KINDS),
        )
    population, profile, settings = comparison.population, comparison.profile, comparison.settings
    roles, profiled = comparison.roles, comparison.profiled
    sift = confounded(tested.changes, comparison)
    real = {id(change) for change in recorded_changes([h.change for h in tested.hidden], comparison)}
    tested = replace(tested, hidden=tuple(h for h in tested.hidden if id(h.change) in real))
    begun = failures_begun(profile, roles)
    unrecorded = unrecorded_callees(
        population, profiled.groups, profile.names, sift.kept, settings.causes, begun.more()
    )
    if unrecorded:
        profile = replace(profile, names=replace(profile.names, unrecorded=unrecorded))
        profiled = profiled._replace(profile=profile)
    segments = segment_changes(comparison, profiled)
    if comparison.timeless:
        segments = tuple(c for c in segments if c.kind not in TIME_KINDS)
    context = context_of(
        (*sift.kept, *segments), sift.changes("load"), profiled, population, roles, begun, settings.causes
    )
    causes = causes_of(context, tested.sites, settings.without)
    known = {field.name: getattr(comparison, field.name) for field in fields(Comparison)}
    return RobustRun(
        **known | {"profiled": profiled, "threshold_ns": threshold_ns},
        tested=tested,
        confounded=sift.given_up("load", {id(c) for cause in causes for c in cause.changes}, comparison),
        context=context,
        causes=causes,
    )


def slow_response_ns(population: Population, level: float) -> float:
    """Response time, ns, above which a request is slow; inf if the reference has no requests.

    It is the upper end of the histogram bin with the weighted quantile `level` of the reference's response
    times, the same threshold as in the test of whole periods (`slow_thresholds`).
    """
    response, weight = population.columns(REFERENCE, "response_ns", "weight")
    if not len(response):
        return np.inf
    place = quantile_bin(np.bincount(bin_of(response), weight), level)
    longest = int(value_of(place + 1.0))
    # The edge of a bin is no whole number of ns, so it was rounded.
    while bin_of(np.array([longest]))[0] > place:
        longest -= 1
    while bin_of(np.array([longest + 1]))[0] <= place:
        longest += 1
    return float(longest)
