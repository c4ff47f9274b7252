"""Run robust mode: profile the requests, test their call sites, find the causes. What a report is made of."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from analyze.methods.robust.causes.context import Context, context_of, failures_begun
from analyze.methods.robust.causes.resolve import causes_of
from analyze.methods.robust.causes.symptoms import Cause
from analyze.methods.robust.causes.unrecorded_callees import unrecorded_callees
from analyze.methods.robust.comparison import Comparison
from analyze.methods.robust.confounders.registry import Confounded, adjusted, confounded
from analyze.methods.robust.period_blocks import quantile_bin
from analyze.methods.robust.roles import PROBLEM, REFERENCE, Roles, slots_of
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.sites_seen import SitesSeen
from analyze.methods.robust.testing import Tested, judged_sites
from analyze.population import Population, no_testable_request
from analyze.profile.build import Profiled
from analyze.profile.profile import joined
from analyze.profile.samples import ComparedSamples, beside, samples_of
from analyze.stats.histograms import bin_of, value_of
from schemas.report.findings import TIME_KINDS


@dataclass(frozen=True, kw_only=True)
class RobustRun(Comparison):
    """What was compared, and what was found."""

    tested: Tested
    confounded: Confounded
    """What of it findings are made of."""
    context: Context
    causes: tuple[Cause, ...]
    """The most important first."""
    threshold_ns: float
    """What the tail account counts requests over; infinite where no request is at hand."""


def robust_run(
    compared: Population | ComparedSamples,
    history: Population | ComparedSamples | None,
    settings: RobustSettings,
) -> RobustRun:
    """Profile the samples, test their sites, find the causes of what changed.

    Of samples that are statistics no request is at hand: what was found has no examples. Raises PeriodError
    where a period has no request.
    """
    return Observing.of(compared, history, settings).run()


@dataclass(frozen=True, slots=True)
class Observing:
    """What was observed at call sites, before it is judged.

    The evaluation of rules judges it again without each of them; a report judges it once (`robust_run`)."""

    plain: Comparison
    """As the samples are."""
    comparison: Comparison
    """As confounders adjusted it."""
    seen: SitesSeen
    threshold_ns: float

    @staticmethod
    def of(
        compared: Population | ComparedSamples,
        history: Population | ComparedSamples | None,
        settings: RobustSettings,
    ) -> Observing:
        """Profile the samples and observe every measure."""
        samples = samples_of(compared)
        profiled, roles, threshold_ns = _profiled(samples, history, settings)
        plain = Comparison(
            samples.population, profiled, roles, settings, samples.traffic, workers=samples.workers
        )
        return Observing.of_comparison(plain, threshold_ns)

    @staticmethod
    def of_comparison(plain: Comparison, threshold_ns: float) -> Observing:
        """Observe every measure once confounders have adjusted the profile."""
        comparison = adjusted(plain)
        limit_ns = np.inf if comparison.timeless else threshold_ns
        return Observing(plain, comparison, comparison.seen(), limit_ns)

    def run(self, tested: Tested | None = None) -> RobustRun:
        """Find the causes of what was observed, as judged here or given."""
        comparison = self.comparison
        tested = tested or judged_sites(self.seen)
        if comparison.timeless:
            tested = replace(tested, changes=tuple(c for c in tested.changes if c.kind not in TIME_KINDS))
        population, profile, settings = comparison.population, comparison.profile, comparison.settings
        roles, profiled = comparison.roles, comparison.profiled
        sift = confounded(tested.changes, comparison)
        begun = failures_begun(profile, roles)
        unrecorded = unrecorded_callees(
            population, profiled.groups, profile.names, sift.kept, settings.causes, begun.more()
        )
        if unrecorded:
            profile = replace(profile, names=replace(profile.names, unrecorded=unrecorded))
            profiled = profiled._replace(profile=profile)
        context = context_of(
            sift.kept, sift.changes("load"), profiled, population, roles, begun, settings.causes
        )
        causes = causes_of(context, tested.sites, settings.without)
        sift = sift.given_up("load", {id(c) for cause in causes for c in cause.changes}, comparison)
        known = {field.name: getattr(comparison, field.name) for field in fields(Comparison)}
        return RobustRun(
            **known | {"profiled": profiled},
            tested=tested,
            confounded=sift,
            context=context,
            causes=causes,
            threshold_ns=self.threshold_ns,
        )


def _profiled(
    compared: ComparedSamples, history: Population | ComparedSamples | None, settings: RobustSettings
) -> tuple[Profiled, Roles, float]:
    """Profile samples and history: (profile, which slots play which part, limit of a slow response)."""
    for number, sample in enumerate(compared.samples):
        if not compared.has_requests(number):
            raise no_testable_request(sample.name)
    past = None if history is None else samples_of(history)
    slots, roles = slots_of(
        compared.samples,
        () if past is None else past.samples,
        settings.blocks,
        kept=None if compared.kept is None else compared.kept.slots,
        kept_history=None if past is None or past.kept is None else past.kept.slots,
    )
    here = [slot for slot in slots if slot.sample <= PROBLEM]
    threshold_ns = slow_response_ns(compared.population, settings.verdict.slow_levels[0])
    profiled = compared.profiled(here, threshold_ns)
    if past is None:
        return profiled, roles, threshold_ns
    own = [replace(slot, sample=slot.sample - PROBLEM - 1) for slot in slots[len(here) :]]
    both = beside(compared, past) or joined([profiled.profile, past.profiled(own).profile])
    return profiled._replace(profile=replace(both, slots=tuple(slots))), roles, threshold_ns


def slow_response_ns(population: Population, level: float) -> float:
    """Find the response time over which a request is slow, ns; inf without requests of the reference.

    The longest of the bin that holds the reference's weighted quantile: the requests over it are those that
    the test of the whole period counts (`slow_thresholds`).
    """
    response, weight = population.columns(REFERENCE, "response_ns", "weight")
    if not len(response):
        return np.inf
    place = quantile_bin(np.bincount(bin_of(response), weight), level)
    longest = int(value_of(place + 1.0))
    # The edge of a bin is no whole number of ns, or is rounded to one.
    while bin_of(np.array([longest]))[0] > place:
        longest -= 1
    while bin_of(np.array([longest + 1]))[0] <= place:
        longest += 1
    return float(longest)
