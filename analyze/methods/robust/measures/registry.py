"""Quantities that are tested at call sites, one row each in MEASURES.

To add a measure: write a function from a `View` to its `Observed` (an `Estimate` of every place, and further
conditions) and add its row to MEASURES with the case that fails without it. A new kind of change needs a
member of `ChangeKind` and a row in `kind_words`. All p of first looks (see `Look`) are corrected for multiple
testing together, those of each second look separately, and every row must pass the same tests: significant by
q, `min_z` standard errors including the noise of the baseline, above the floor, outside of the envelope
(`testing`).

A request counts once: several calls of a site in one request are not independent, so what is compared is one
value per request (a mean of its calls, a number of calls, a share of them).
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
"""Bin of a number of one call, as numbers of calls are scaled by RATIO_SCALE."""


class Look(StrEnum):
    """Order in which measures are tested. All first looks are corrected for multiple testing together, each
    second look separately."""

    FIRST = "first"
    SECOND = "second"
    """Second look at every call site, for changes that no first look can detect."""
    WHERE_SILENT = "where-silent"
    """Second look at the call sites where the measure `Measure.of` is not significant."""
    WHERE_FOUND = "where-found"
    """Second look at the call sites where the measure `Measure.of` is significant: locates the instance,
    tested at the level `instance_q`."""
    WITHOUT_STRUCTURE = "without-structure"
    """Second look at operations without another change of structure, neither there nor at their callers."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Quantity tested at call sites: a row of MEASURES.

    observe: function from a view to the observations; unit: of values before and after.
    """

    name: str
    doc: str
    """Description of the measure in one sentence, for documentation."""
    case: str
    """Test case that fails without the measure (docs/internals/evaluation.md)."""
    observe: Callable[[View], Observed | None]
    kinds: tuple[ChangeKind, ChangeKind | None]
    """Kinds of change: (rise, fall); None: a fall is not a change. New and gone patterns become `NEW_PATH`
    and `LOST_PATH`."""
    unit: Unit
    look: Look = Look.FIRST
    of: str = ""
    """Name of the measure of first looks that decides where this one (a second look) is tested; empty for
    none."""


# ---------------------------------------------------------------- times


def own_time(view: View) -> Observed:
    """Observe the self time of a call given its pattern; responses must have waited for the change.

    For a large change that is significant in many requests, a smaller part of the response time suffices: 100
    µs of 20 ms (NSDI §8.6).
    """
    settings, (found, alone) = view.settings, view.own_time_change
    floor = np.log1p(settings.time_floor)
    seen = _at_sites(view, found, floor, _felt(view, found, view.before), view.slower_ns)
    if alone is None:
        return seen
    return replace(seen, reference=alone, plain_matters=_felt(view, alone, view.reference))


def _felt(view: View, found: Estimate, before: VisitSums) -> B1:
    """bool[sites]: True where responses waited for the change of self times from `before` (sums of a
    period)."""
    settings = view.settings
    with np.errstate(invalid="ignore", over="ignore"):
        plain = (found.p < settings.plain_p) & (np.minimum(found.n0, found.n1) >= settings.plain_requests)
        plain &= np.abs(found.change) - found.se > np.log1p(settings.plain_time)
        moved_ns = np.abs(np.exp(found.after) - np.exp(found.before)) * view.after.calls_a_visit
        least = settings.time_share * np.where(plain, settings.plain_share, 1.0) * view.after.mean_response_ns
        waited_ns = view.slower_a_visit_ns(before) * np.sign(found.change)
        return np.asarray((moved_ns > least) & (waited_ns > least / 2))


def slow_calls(view: View) -> Observed:
    """Observe the share of calls slower than a limit: max(98th percentile, 3 × median) of the baseline.

    If half of the reference's calls are slower than that, the limit is taken from the reference alone, and
    the history is not used: there such calls are no tail, and the history does not tell how frequent they
    were.

    A rise below the floor counts if very slow calls take much of the response time. Without a history a rise
    must also show without the problem's worst block: a burst is one event of unknown frequency.
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
    """Estimate the change, against the reference alone, of the share of calls that are very slow by the
    reference's limit; by chance alone. With bool[sites]: True where responses waited for them.

    Needed because a history with an incident would raise the limit so far that no call is very slow.
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
    """Limit of slow calls: (int64[sites] highest bin that is not very slow, 0 without a baseline; bool[sites]
    True where the limit is taken from the reference alone)."""
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
    """bool[sites]: True where a rise remains without the block of the problem that has most very slow calls.

    over: mask of the very slow rows of `values`.
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
    """Observe the share of calls far slower than any baseline call; p is computed from their distance, not
    from ranks."""
    settings = view.settings
    far = far_calls(view.own_by_period, view.own_times_after, _alike(view.names), view.after, settings)
    n = view.own_requests
    x = np.zeros_like(n)
    x[:, AFTER] = far.n
    found, _ = view.shares(x, n, one_sided=True)
    # There is no scatter of what was never there.
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
    """Two partitions of the sites, int64[sites] set numbers each: by operation; by operation, but steps of
    records by their first point."""
    operation = np.array([site.operation for site in names.sites], dtype=np.int64)
    first = len(names.operations)
    begins = [first + site.caller if site.kind is SiteKind.STEP else site.operation for site in names.sites]
    return operation, np.array(begins, dtype=np.int64)


def overlap(view: View) -> Observed | None:
    """Observe the mean number of concurrent children of a call.

    It also falls if only one child gets slower while all still start together. So children count as
    sequential only if their total duration grew relative to the longest child's.
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
    """Observe how many times a request takes a step between activity records: the only sign of a loop."""
    return _calls(view, SiteKind.STEP)


def calls(view: View) -> Observed | None:
    """Observe the number of calls per request among requests that call: the call pattern does not distinguish
    5 calls from 8."""
    return _calls(view, SiteKind.CALL)


def _calls(view: View, kind: SiteKind) -> Observed | None:
    """Observe mean numbers of calls of sites of one kind. Not medians: most requests call once, whatever a
    loop does."""
    settings, n_sites = view.settings, view.n_sites
    chosen = np.array([s.kind is kind and s.caller != NO_CALLER for s in view.names.sites], dtype=np.bool_)
    if not chosen.any():
        return None
    values = by_site(view.values(CALLS))
    # A site that is called once by every request has nothing to tell.
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
    """Compute (logarithms of mean numbers of calls with sampling variance, number of requests), each [places,
    columns]."""
    # Counts were put in bins of ratios; small ones are known exactly.
    number = np.rint(value_of(values.bin + 0.5) / RATIO_SCALE)
    return values.log_means(number, n_places, n_columns)


# ---------------------------------------------------------------- call patterns and failures


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Sums for pairs of a call site and a call pattern; arrays are float64[pairs, columns].

    columns: as in `Estimate` (before, after, blocks); calls: number; inclusive_ns: sum of durations, ns.
    """

    site: I8
    pattern: I8
    votes: F8
    """Sum of requests' weights, each divided among the patterns of its calls at the site."""
    requests: F8
    """Number of requests with the pattern at the site."""
    calls: F8
    inclusive_ns: F8

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
    """Observe, for each call pattern of a site, the share of the site's requests that take it."""
    patterns = _Patterns.of(view)
    at = patterns.site
    # Structure's part by the nested account: more calls of a pattern times how much longer it takes.
    # Records do not nest: there a request is one call, and takes what it takes.
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
    # A site with one pattern has nothing to choose.
    several = np.bincount(at, minlength=view.n_sites)[at] > 1
    worth = view.worth[at]
    change = view.shares(patterns.votes * worth, view.touching[at] * worth)
    found = _shares(view, at, change, patterns.requests)
    return replace(found, tested=found.tested & several, gain_ns=gain, pattern=patterns.pattern)


def failing_calls(view: View) -> Observed:
    """Observe the share of a request's calls at a site that fail, averaged over requests."""
    failing, requests = view.visits("failing"), view.visits("failing_n")
    found = _shares(view, np.arange(view.n_sites), view.failing_change, requests)
    return replace(found, tested=found.tested & (failing.sum(axis=1) > 0), call_ratio=view.call_ratio)


def failing_requests(view: View) -> Observed:
    """Observe the share of requests with at least one failing call at a site, where requests make several
    calls.

    The share of failing calls would dilute one failure among twelve calls.
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
    """Observe root types that are absent from the baseline and fail: they have no earlier value that could
    have changed.

    p is the probability that so many requests are absent from the baseline by chance. The estimate is the
    share of the root type's requests that fail, with the error of a count.
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
    """Make observations of weighted shares of the requests that touch sites; a site may have several rows.

    at: [rows] site of each row; change: (estimate, estimate against the reference alone); requests: [rows,
    columns] number of requests with the outcome.
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
    """Make observations of an estimate that has one row per site."""
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
