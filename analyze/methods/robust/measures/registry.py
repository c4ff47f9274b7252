"""Registry of measures: the quantities that are tested at call sites, one row of MEASURES each.

To add a measure, write a function from a `View` to an `Observed` (an `Estimate` for each call site, and
further conditions), and add a row to MEASURES that names a test case which fails without it. A new kind of
change needs a member of `ChangeKind` and a row in `kind_words`. The p of all first looks (see `Look`) are
corrected for multiple testing together, the p of each second look separately. A change counts if q is
significant, the change exceeds `min_z` standard errors that include the noise of the baseline, exceeds the
floor, and lies outside of the baseline's normal range (see `testing`).

A request counts once: several calls at a site in one request are not independent, so tests compare one value
per request (the mean over its calls, their number, or a share of them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from analyze.methods.robust.measures.far_calls import far_calls
from analyze.methods.robust.measures.instances import failing_instance, slower_instance
from analyze.methods.robust.measures.observed import Observed
from analyze.methods.robust.view import View, VisitSums, by_site, is_known
from analyze.profile.names import NO_CALLER, Names, SiteKind
from analyze.profile.profile import CALLS, OVERLAP, RATIO_SCALE, STRETCH
from analyze.stats.estimate import AFTER, BEFORE, FIRST_BLOCK, Estimate
from analyze.stats.histograms import BINS_PER_OCTAVE, Histograms, value_of
from analyze.stats.noise import LogMedians
from analyze.stats.proportions import fisher
from analyze.stats.sums import numbered, totals
from analyze.stats.time_blocks import level_estimate
from schemas.arrays import B1, F8, I8
from schemas.report.findings import ChangeKind, Unit

_ONE_CALL: Final = int(np.log2(RATIO_SCALE) * BINS_PER_OCTAVE)
"""Histogram bin of one call per request; numbers of calls are multiplied by RATIO_SCALE before binning."""


class Look(StrEnum):
    """Round of tests that a measure belongs to. First looks are all corrected for multiple testing together;
    each second look is corrected by itself."""

    FIRST = "first"
    SECOND = "second"
    """Second look at every call site, for changes that no measure of the first look can detect."""
    WHERE_SILENT = "where-silent"
    """Second look at call sites where the measure named in `Measure.of` found no significant change."""
    WHERE_FOUND = "where-found"
    """Second look at call sites where the measure named in `Measure.of` found a significant change, to find
    the instance with the change; significance level `instance_q`."""
    WITHOUT_STRUCTURE = "without-structure"
    """Second look at call sites where neither the operation nor its caller has a significant change of paths,
    calls or errors."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Quantity that is tested at call sites; one row of MEASURES."""

    name: str
    doc: str
    """Description of the measure in one sentence, for documentation."""
    case: str
    """Name of a test case that fails without the measure (docs/internals/evaluation.md)."""
    observe: Callable[[View], Observed | None]
    """Function that computes the observations from a view, for all call sites; it returns None if the view
    has no data for the measure."""
    kinds: tuple[ChangeKind, ChangeKind | None]
    """Kind of change reported for a (rise, fall) of the value; a fall with kind None is not reported. New and
    gone call patterns are reported as `NEW_PATH` and `LOST_PATH` instead."""
    unit: Unit
    """Unit in which a report shows the values before and after."""
    look: Look = Look.FIRST
    of: str = ""
    """Name of the measure of the first look whose result at a call site decides if this measure is tested
    there (for `Look.WHERE_SILENT`, `Look.WHERE_FOUND`); empty for other looks."""


# ---------------------------------------------------------------- times


def own_time(view: View) -> Observed:
    """Observe the median own time of calls, call patterns held constant; a change counts only if it lies on
    the critical path of responses.

    If a large change is significant in many requests, a smaller part of the response time suffices: 100 µs of
    20 ms (NSDI §8.6).
    """
    settings, (found, alone) = view.settings, view.own_time_change
    floor = np.log1p(settings.time_floor)
    seen = _at_sites(view, found, floor, _felt(view, found, view.before), view.slower_ns)
    if alone is None:
        return seen
    return replace(seen, reference=alone, plain_matters=_felt(view, alone, view.reference))


def _felt(view: View, found: Estimate, before: VisitSums) -> B1:
    """bool[sites]: True where the change of own times lies on the critical path and is a large enough part of
    the response time. before: sums over the requests of the period before."""
    settings = view.settings
    with np.errstate(invalid="ignore", over="ignore"):
        plain = (found.p < settings.plain_p) & (np.minimum(found.n0, found.n1) >= settings.plain_requests)
        plain &= np.abs(found.change) - found.se > np.log1p(settings.plain_time)
        moved_ns = np.abs(np.exp(found.after) - np.exp(found.before)) * view.after.calls_a_visit
        least = settings.time_share * np.where(plain, settings.plain_share, 1.0) * view.after.mean_response_ns
        waited_ns = view.slower_a_visit_ns(before) * np.sign(found.change)
        return np.asarray((moved_ns > least) & (waited_ns > least / 2))


def slow_calls(view: View) -> Observed:
    """Observe the share of very slow calls: slower than max(98th percentile, 3 × median) of the baseline.

    If over half of the reference's calls exceed that limit, the limit is taken from the reference alone, and
    the history is ignored: such calls are no tail in the reference, and the history does not show how
    frequent they were.

    A rise below the floor counts if very slow calls take much of the response time. Without a history, a rise
    must remain without the problem's worst time block, since one burst does not show how often bursts occur.
    """
    values, settings, roles = view.own_times, view.settings, view.roles
    limit, slow_before = _slow_from(view)
    over = values.bin > limit[values.place]
    n = view.own_requests.copy()
    slow = values.where(over)
    x = view.sums(slow.place, slow.column, slow.n, view.n_sites)
    for sums in (x, n):
        sums[slow_before, BEFORE] -= sums[slow_before][:, FIRST_BLOCK + roles.history].sum(axis=1)
        sums[np.ix_(slow_before, FIRST_BLOCK + roles.history)] = 0.0
    slow = slow.where(roles.problem[slow.column])
    late_ns = value_of(slow.bin + 0.5) - value_of(limit[slow.place] + 1)
    excess = totals(slow.place, slow.n * late_ns, view.n_sites)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess_ns = excess / n[:, AFTER] * view.after.calls_a_visit
        much = (excess_ns > settings.tail_time * view.after.mean_response_ns) & (
            x[:, AFTER] >= settings.least_slow
        )
    found, alone = view.shares(x, n, one_sided=True)
    found = replace(found, margin=np.where(much, 0.0, settings.share_margin))
    least = settings.time_share * view.after.mean_response_ns
    matters = (
        (x[:, AFTER] >= settings.least_affected)
        & (excess_ns > least)
        & (view.slower_a_visit_ns(view.before) > least / 2)
    )
    if roles.noise_assumed:
        matters &= _without_worst_block(view, values, over, found)
    floor = np.where(much, 0.0, settings.tail_floor)
    seen = _at_sites(view, found, floor, matters, view.slower_ns)
    plain, plain_matters = _slow_against_reference(view) if len(roles.history) else (None, None)
    return replace(
        seen,
        reference=alone,
        plain=plain,
        plain_matters=plain_matters,
        threshold_us=value_of(limit + 1.0) / 1e3,
    )


def _slow_against_reference(view: View) -> tuple[Estimate, B1]:
    """Change of the share of very slow calls from the reference to the problem, history ignored: (estimate
    with sampling error only, bool[sites] True where very slow calls lie on the critical path).

    The limit for very slow calls is taken from the reference: an incident in the history would raise the
    limit so far that no call exceeds it.
    """
    settings, values = view.settings, view.own_by_period
    times = round(np.log2(settings.slow_times) * BINS_PER_OCTAVE)
    limit = np.full(view.n_sites, np.iinfo(np.int64).max // 2)
    reference = values.pooled(np.array([0, -1, -1]))
    there, (high, middle) = reference.holding(view.n_sites, (settings.slow_level, 0.5))
    limit[there] = np.maximum(high, middle + times)
    both = values.where(values.column < 2)
    n = totals(both.place * 2 + both.column, both.n, view.n_sites * 2).reshape(-1, 2)
    slow = both.where(both.bin > limit[both.place])
    x = totals(slow.place * 2 + slow.column, slow.n, view.n_sites * 2).reshape(-1, 2)
    late = slow.where(slow.column == 1)
    late_ns = value_of(late.bin + 0.5) - value_of(limit[late.place] + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess_ns = totals(late.place, late.n * late_ns, view.n_sites) / n[:, 1] * view.after.calls_a_visit
    least = settings.time_share * view.after.mean_response_ns
    felt = view.slower_a_visit_ns(view.reference) > least / 2
    matters = (x[:, 1] >= settings.least_affected) & (excess_ns > least) & felt
    return view.plain_shares(x, n), np.asarray(matters)


def _slow_from(view: View) -> tuple[I8, B1]:
    """Limit for very slow calls: (int64[sites] highest histogram bin that is not very slow, 0 without
    baseline calls; bool[sites] True where the limit is taken from the reference alone)."""
    times = round(np.log2(view.settings.slow_times) * BINS_PER_OCTAVE)
    limit = np.zeros(view.n_sites, dtype=np.int64)
    ordinary, reference = (view.own_by_period.pooled(np.array(part)) for part in ([0, -1, 0], [0, -1, -1]))
    there, (high, middle) = ordinary.holding(view.n_sites, (view.settings.slow_level, 0.5))
    limit[there] = np.maximum(high, middle + times)
    slow, alone = np.zeros(view.n_sites, dtype=np.bool_), view.own_time_change[1]
    if alone is not None:
        there, (high, middle) = reference.holding(view.n_sites, (view.settings.slow_level, 0.5))
        slow[there] = (middle > limit[there]) & is_known(alone, view.settings)[there]
        limit[there] = np.where(slow[there], np.maximum(high, middle + times), limit[there])
    return limit, slow


def _without_worst_block(view: View, values: Histograms, over: B1, found: Estimate) -> B1:
    """bool[sites]: True where the share of very slow calls still rises significantly without the problem's
    time block with most very slow calls, or where the problem has too few blocks to tell.

    values: own times by site and time slot; over: mask of the rows of `values` that are very slow; found:
    estimate of the share's change.
    """
    slots = np.flatnonzero(view.roles.problem)
    mine = view.roles.problem[values.column]
    cell = values.place[mine] * len(slots) + np.searchsorted(slots, values.column[mine])
    x, n = (
        totals(cell, value, view.n_sites * len(slots)).reshape(view.n_sites, len(slots))
        for value in (values.n[mine] * over[mine], values.n[mine])
    )
    few = (n > 0).sum(axis=1) < view.settings.least_blocks
    rows, worst = np.arange(view.n_sites), x.argmax(axis=1)
    rest_x, rest_n = x.sum(axis=1) - x[rows, worst], n.sum(axis=1) - n[rows, worst]
    with np.errstate(divide="ignore", invalid="ignore"):
        longer = (1 / found.n0 + 1 / rest_n) / (1 / found.n0 + 1 / found.n1)
        rise = rest_x / rest_n - found.before
        return np.asarray(few | (rise > view.settings.min_z * found.se * np.sqrt(longer)))


def far_slower_calls(view: View) -> Observed:
    """Observe the share of calls far slower than any baseline call; p is computed from how far they are, not
    from ranks (see `far_calls`)."""
    settings = view.settings
    far = far_calls(view.own_by_period, view.own_times_after, _alike(view.names), view.after, settings)
    n = view.own_requests
    x = np.zeros_like(n)
    x[:, AFTER] = far.n
    found, _ = view.shares(x, n, one_sided=True)
    # Absent calls have no observed scatter.
    sampling = np.maximum(far.n, 1e-9) / np.maximum(n[:, AFTER], 1e-9) ** 2
    found = replace(
        found, p=far.p, chance_p=None, sampling=sampling, between=np.zeros(view.n_sites), margin=0.0
    )
    matters = far.passes & (
        view.slower_a_visit_ns(view.before) > far.excess_ns * view.after.calls_a_visit / 2
    )
    seen = _at_sites(view, found, 0.0, matters, view.slower_ns)
    return replace(seen, threshold_us=value_of(far.threshold + 1.0) / 1e3, by_p_alone=True)


def _alike(names: Names) -> tuple[I8, I8]:
    """Two partitions of the sites into sets, each int64[sites] with the number of the site's set: by
    operation; and by operation except that steps between trace points are grouped by the point at which they
    begin."""
    operation = np.array([site.operation for site in names.sites], dtype=np.int64)
    first = len(names.operations)
    begins = [first + site.caller if site.kind is SiteKind.STEP else site.operation for site in names.sites]
    return operation, np.array(begins, dtype=np.int64)


def overlap(view: View) -> Observed | None:
    """Observe the mean number of child calls that run concurrently in a call.

    This number also falls if a single child gets slower while all still start together. So child calls count
    as sequential only if their total duration grew relative to the longest child's duration.
    """
    values = view.values(OVERLAP)
    if not len(values.bin):
        return None
    found, alone = view.level(view.given_pattern(values))
    together, together_alone = view.level(view.given_pattern(view.values(STRETCH)))

    def longer(found: Estimate, together: Estimate) -> B1:
        with np.errstate(invalid="ignore"):
            moved = -np.sign(found.change) * together.change
            return np.asarray(moved > np.log1p(view.settings.time_floor))

    floor = np.log1p(view.settings.count_floor)
    seen = _at_sites(view, found, floor, longer(found, together), np.zeros(view.n_sites))
    if alone is None or together_alone is None:
        return seen
    return replace(seen, reference=alone, plain_matters=longer(alone, together_alone))


# ---------------------------------------------------------------- numbers of calls


def steps(view: View) -> Observed | None:
    """Observe how often a request takes each step between two trace points of activity records. This measure
    alone detects more iterations of a loop in activity records."""
    return _calls(view, SiteKind.STEP)


def calls(view: View) -> Observed | None:
    """Observe the number of calls at a site per request that calls there; call patterns round numbers of
    calls up to powers of two, and do not distinguish 5 calls from 8."""
    return _calls(view, SiteKind.CALL)


def _calls(view: View, kind: SiteKind) -> Observed | None:
    """Observe the mean number of calls per request at sites of one kind. Means, not medians: most requests
    call once, so a median would not show a loop."""
    settings, n_sites = view.settings, view.n_sites
    chosen = np.array([s.kind is kind and s.caller != NO_CALLER for s in view.names.sites], dtype=np.bool_)
    if not chosen.any():
        return None
    values = by_site(view.values(CALLS))
    # A site that every request calls once cannot change.
    wanted = chosen & (totals(values.place, values.n * (values.bin > _ONE_CALL), n_sites) > 0)
    if not wanted.any():
        return None
    values = values.where(wanted[values.place])
    least_tau = (
        max(settings.min_tau, settings.assumed_calls_tau) if view.roles.noise_assumed else settings.min_tau
    )
    found, alone = view.levels(values, _log_means, least_tau)
    with np.errstate(divide="ignore", invalid="ignore"):
        a_call_ns = np.nan_to_num(
            (view.before.critical_ns + view.after.critical_ns) / (view.before.calls + view.after.calls)
        )
        moved_ns = np.abs(np.exp(found.after) - np.exp(found.before)) * a_call_ns
        weight = view.after.w / max(view.after.requests, 1e-300) * np.minimum(np.abs(found.change), 1.0)
    of_steps = kind is SiteKind.STEP  # of a call the time lies mostly below: what it costs its account says
    matters = (
        moved_ns > settings.time_share * view.after.mean_response_ns
        if of_steps
        else np.ones(n_sites, np.bool_)
    )
    floor = float(np.log1p(settings.time_floor if of_steps else settings.count_floor))
    before, after = view.rates
    seen = _at_sites(view, found, floor, matters, (after - before) * a_call_ns)
    return replace(seen, weight=weight, tested=seen.tested & wanted, reference=alone)


def _log_means(values: Histograms, n_places: int, n_columns: int) -> tuple[LogMedians, F8]:
    """Log of the mean number of calls, with its sampling variance, and number of requests; both [places,
    columns]."""
    # Numbers were stored in bins of ratios; rounding restores small ones exactly.
    number = np.rint(value_of(values.bin + 0.5) / RATIO_SCALE)
    return values.log_means(number, n_places, n_columns)


# ---------------------------------------------------------------- call patterns and failures


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Sums for each pair of a call site and a call pattern; arrays are float64[pairs, columns], columns as in
    `Estimate`: before, after, then the baseline blocks."""

    site: I8
    pattern: I8
    votes: F8
    """Sum of the requests' weights; the weight of a request is divided among the patterns of its calls at the
    site."""
    requests: F8
    """Number of requests with at least one call of the pattern at the site."""
    calls: F8
    """Number of calls at the site with the pattern."""
    inclusive_ns: F8
    """Sum of the durations, child calls included, of the calls with the pattern, ns."""

    @staticmethod
    def of(view: View) -> _Patterns:
        table = view.profile.patterns
        site, pattern, slot = (table[k].to_numpy().astype(np.int64) for k in ("site", "pattern", "slot"))
        pair, first = numbered((site, pattern))
        sums = (
            view.sums(pair, slot, table[k].to_numpy(), len(first))
            for k in ("votes", "n", "calls", "inclusive_ns")
        )
        return _Patterns(site[first], pattern[first], *sums)


def call_pattern(view: View) -> Observed:
    """Observe, for each call pattern at a site, the share of the site's requests whose calls have that
    pattern."""
    patterns = _Patterns.of(view)
    at = patterns.site
    # Contribution by the nested account: additional calls of a pattern, times its excess duration. Records do
    # not nest: a request counts as one call with its own duration.
    is_point = view.of_kind(SiteKind.POINT)[at][:, None]
    made = np.where(is_point, patterns.votes, patterns.calls)
    site_calls = np.where(
        is_point, view.touching[at, :2], np.stack([view.before.calls, view.after.calls], axis=1)[at]
    )
    periods = np.maximum([view.before.requests, view.after.requests], 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(made[:, :2] / site_calls)
        a_call = np.nan_to_num(patterns.inclusive_ns[:, :2].sum(axis=1) / made[:, :2].sum(axis=1))
        usual = totals(at, patterns.inclusive_ns[:, AFTER], view.n_sites)[at]
        usual = np.nan_to_num(usual / site_calls[:, AFTER])
    gain = (site_calls / periods).mean(axis=1) * (share[:, AFTER] - share[:, BEFORE]) * (a_call - usual)
    # At a site with one pattern the share cannot change.
    several = np.bincount(at, minlength=view.n_sites)[at] > 1
    worth = view.worth[at]
    change = view.shares(patterns.votes * worth, view.touching[at] * worth)
    found = _shares(view, at, change, patterns.requests)
    return replace(found, tested=found.tested & several, gain_ns=gain, pattern=patterns.pattern)


def failing_calls(view: View) -> Observed:
    """Observe the share of a request's calls at a site that fail, averaged over the requests that touch the
    site."""
    failing, requests = view.visits("failing"), view.visits("failing_n")
    found = _shares(view, np.arange(view.n_sites), view.failing_change, requests)
    return replace(found, tested=found.tested & (failing.sum(axis=1) > 0), call_ratio=view.call_ratio)


def failing_requests(view: View) -> Observed:
    """Observe the share of requests with at least one failing call at a site, for sites that requests call
    several times.

    The share of failing calls (`failing_calls`) would hide one failure among twelve calls.
    """
    n, calls = view.visits("n"), view.before.calls + view.after.calls
    several = calls > view.settings.several_calls * (view.before.w + view.after.w)
    found, alone = view.shares(np.minimum(view.visits("failing_n"), n), n)
    seen = _shares(view, np.arange(view.n_sites), view.failing_change, view.visits("failing_n"))
    weight = np.nan_to_num(np.abs(found.change)) * view.after.w / max(view.after.requests, 1e-300)
    return replace(
        seen,
        estimate=found,
        reference=alone,
        of_calls=None,
        tested=seen.tested & several & (found.before + found.after > 0),
        weight=weight,
        call_ratio=view.call_ratio,
    )


def new_failing(view: View) -> Observed | None:
    """Observe root types that do not occur in the baseline and fail: they have no value before that could
    have changed.

    The estimate is the share of the root type's requests that fail, with the standard error of a count. p is
    the probability that all requests of the root type lie in the problem by chance, given the numbers of
    requests of both periods.
    """
    settings, names = view.settings, view.names
    roots = np.array([s.kind is SiteKind.CALL and s.caller == NO_CALLER for s in names.sites], dtype=np.bool_)
    n, failing = view.visits("n"), view.visits("failing_n")
    seen = n[:, BEFORE] + n[:, FIRST_BLOCK:].sum(axis=1)
    at = np.flatnonzero(roots & (seen == 0) & (failing[:, AFTER] >= settings.least_affected))
    if not len(at):
        return None
    sides = (view.roles.ordinary, view.roles.problem)
    before, after = (round(view.profile.responded("n", slots)) for slots in sides)
    count = np.rint(np.minimum(failing[at, AFTER], n[at, AFTER])).astype(np.int64)
    none = np.zeros_like(count)
    p = fisher(none, np.full_like(count, before), count, np.full_like(count, max(after, 1))).p
    share = view.failing_change[0].after[at]
    found = level_estimate(
        np.zeros(len(at)),
        share,
        share**2 / (count + 1),
        between=np.zeros(len(at)),
        freedom=np.full(len(at), np.inf),
        inner_freedom=np.full(len(at), np.inf),
        p=p,
        n=(np.zeros(len(at)), n[at, AFTER]),
    )
    return Observed(
        at,
        replace(found, unit="share", new=np.ones(len(at), dtype=np.bool_)),
        np.ones(len(at), dtype=np.bool_),
        settings.new_floor,
        share > settings.new_floor,
        np.zeros(len(at)),
        view.after.w[at] / max(view.after.requests, 1e-300),
        np.full(len(at), np.inf),
        by_p_alone=True,
    )


def _shares(view: View, at: I8, change: tuple[Estimate, Estimate | None], requests: F8) -> Observed:
    """Build the observations for weighted shares of the requests that touch a site; a site may have several
    rows.

    at: [rows] site of each row; change: (estimate against the baseline, estimate against the reference
    alone); requests: [rows, columns] number of requests with the outcome.
    """
    settings = view.settings
    found, alone = change
    weight = np.abs(found.change) * view.touching[at, AFTER] / max(view.after.requests, 1e-300)
    return Observed(
        at,
        found,
        (np.minimum(found.n0, found.n1) >= settings.min_requests),
        np.where(found.new, settings.new_floor, settings.pattern_floor),
        np.maximum(requests[:, BEFORE], requests[:, AFTER]) >= settings.least_affected,
        np.zeros(len(at)),
        np.nan_to_num(weight),
        view.visit_ratio[at],
        reference=alone,
        of_calls=view.makes_several[at],
    )


def _at_sites(view: View, found: Estimate, floor: F8 | float, matters: B1, gain_ns: F8) -> Observed:
    """Build the observations for an estimate with one row per site, tested where both periods have
    `min_requests`."""
    return Observed(
        np.arange(view.n_sites),
        found,
        np.minimum(found.n0, found.n1) >= view.settings.min_requests,
        floor,
        matters,
        gain_ns,
        np.zeros(view.n_sites),
        view.call_ratio,
    )


MEASURES: Final = (
    Measure(
        "own-time",
        "A call takes longer by itself, its children apart.",
        "shop: network delays; 8.6; tests/unit/test_measures.py: half a percent of the page",
        own_time,
        (ChangeKind.SLOWER, ChangeKind.FASTER),
        "us",
    ),
    Measure(
        "slow-calls",
        "Few calls take very long: medians do not see them.",
        "F9, F14",
        slow_calls,
        (ChangeKind.TAIL, None),
        "share",
    ),
    Measure(
        "far-slower-calls",
        "Very few calls are far slower than any ordinary one: no test of ranks can tell.",
        "F10 of 10,000 requests; tests/unit/test_measures.py: one read in 75",
        far_slower_calls,
        (ChangeKind.TAIL, None),
        "share",
        Look.WHERE_SILENT,
        "slow-calls",
    ),
    Measure(
        "overlap",
        "Children of a call run one after the other that ran side by side.",
        "tests/unit/test_robust_overlap.py",
        overlap,
        (ChangeKind.PARALLEL, ChangeKind.SERIAL),
        "ratio",
    ),
    Measure(
        "steps",
        "A loop of activity records turns more often.",
        "F13",
        steps,
        (ChangeKind.MORE_CALLS, ChangeKind.FEWER_CALLS),
        "calls",
    ),
    Measure(
        "call-pattern",
        "A call makes other calls than it did: another path, one that is new, one that is gone.",
        "8.2, 8.3; shop: returns and exceptions",
        call_pattern,
        (ChangeKind.PATH, ChangeKind.PATH),
        "share",
    ),
    Measure(
        "failing-calls",
        "Calls fail that did not.",
        "systems: a database that fails in 12 %",
        failing_calls,
        (ChangeKind.ERRORS, ChangeKind.FEWER_ERRORS),
        "share",
    ),
    Measure(
        "failing-requests",
        "One call of many in a request fails.",
        "tests/unit/test_failing_requests.py",
        failing_requests,
        (ChangeKind.ERRORS, ChangeKind.FEWER_ERRORS),
        "share",
        Look.WHERE_SILENT,
        "failing-calls",
    ),
    Measure(
        "new-failing",
        "Requests of a kind that was never there fail.",
        "tests/unit/test_new_kinds.py: a new kind that always fails",
        new_failing,
        (ChangeKind.ERRORS, None),
        "share",
        Look.SECOND,
    ),
    Measure(
        "slower-instance",
        "One instance, or those of one version or zone, takes longer than its siblings do.",
        "recordings: one pod of five",
        slower_instance,
        (ChangeKind.SLOWER, None),
        "us",
        Look.WHERE_FOUND,
        "own-time",
    ),
    Measure(
        "failing-instance",
        "Calls fail on one instance, or on those of one version or zone.",
        "tests/unit/test_instances.py: a pod that fails in a tenth of its calls",
        failing_instance,
        (ChangeKind.ERRORS, None),
        "share",
        Look.WHERE_FOUND,
        "failing-calls",
    ),
    Measure(
        "calls",
        "A call is made more often, by less than patterns tell apart.",
        "tests/unit/test_rare_paths.py: from 5 calls to 8",
        calls,
        (ChangeKind.MORE_CALLS, ChangeKind.FEWER_CALLS),
        "calls",
        Look.WITHOUT_STRUCTURE,
    ),
)
