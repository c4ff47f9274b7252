"""Sums of a profile by call site, before and after and for each baseline block.

Measures and the verdict are computed from a `View`, which caches results that several of them need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from analyze.methods.robust.calls_by_instance import ByInstance
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.settings import RobustSettings
from analyze.profile.names import SiteKind
from analyze.profile.profile import OWN_TIME, Profile
from analyze.profile.shards import SiteShard
from analyze.profile.votes import Votes
from analyze.stats.estimate import (
    AFTER,
    BEFORE,
    FIRST_BLOCK,
    LEAST_IN_BLOCK,
    LEAST_IN_ENVELOPE,
    Estimate,
    level_change,
    share_change,
)
from analyze.stats.histograms import BIN_LOG, Histograms
from analyze.stats.noise import LogMedians
from analyze.stats.proportions import fisher, surprise
from analyze.stats.rank import requests_per_weight
from analyze.stats.sums import numbered, totals
from schemas.arrays import B1, F8, I8

CHANGE_NOISE: Final = "change-noise"
"""Name of the rule by which an assumed noise applies to a change, not to a single level (`level_change`,
`of_change`); listing it in the setting `without` disables the rule."""


@dataclass(frozen=True, slots=True)
class VisitSums:
    """Sums over the requests of one period that touch each call site; arrays are float64[sites]."""

    requests: float
    """Sum of the sampling weights of all requests in the period, whether they touch the site or not."""
    n: F8
    """Number of recorded requests that touch each site, unweighted."""
    w: F8
    """Sum of the sampling weights of the requests that touch each site."""
    calls: F8
    """Number of calls at each site, weighted by the requests' sampling weights."""
    critical_ns: F8
    """Time that calls at each site spend on the critical path, ns, weighted by the requests' sampling
    weights."""
    response_ns: F8
    """Sum of the response times of the requests that touch each site, ns, weighted by their sampling
    weights."""
    failing: F8
    """Sum, over the requests that touch each site, of the share of the request's calls there that fail,
    weighted by the requests' sampling weights."""

    @property
    def calls_a_visit(self) -> F8:
        """Mean number of calls at each site per request that touches it."""
        return self.calls / np.maximum(self.w, 1e-300)

    @property
    def mean_response_ns(self) -> F8:
        """Mean response time of the requests that touch each site, ns."""
        return self.response_ns / np.maximum(self.w, 1e-300)


class View:
    """Sums of a profile by call site; arrays are [sites] unless stated otherwise.

    The columns of [sites, columns] arrays are BEFORE (baseline), AFTER (problem), then the baseline blocks
    from FIRST_BLOCK on.
    """

    def __init__(
        self,
        profile: Profile,
        roles: Roles,
        settings: RobustSettings,
        by_instance: Callable[[], ByInstance | None] = lambda: None,
        shard: SiteShard | None = None,
    ) -> None:
        """Sum a profile, for all its sites or only for the sites of `shard`. by_instance: function that sums
        calls by instance, called when first needed."""
        self.profile, self.roles, self.settings = profile, roles, settings
        self._by_instance, self._shard = by_instance, shard
        self.names = profile.names
        self.n_sites = len(profile.names.sites)
        self.site = np.arange(self.n_sites) if shard is None else shard.site
        """int64[sites]: index of each of the view's sites in the whole profile."""
        self.pattern = np.arange(len(self.names.patterns)) if shard is None else shard.pattern
        self.n_blocks = max(roles.n_noise, 1)
        self.before, self.after = (self._visited(slots) for slots in (roles.ordinary, roles.problem))

    def _visited(self, slots: B1) -> VisitSums:
        columns = ("n", "w", "calls", "critical_ns", "response_ns", "failing")
        sums = (self.profile.at_sites("visits", column, slots) for column in columns)
        return VisitSums(self.profile.responded("w", slots), *sums)

    # -- shares: sums by column

    def sums(self, row: I8, slot: I8, value: F8, n_rows: int) -> F8:
        """Sum values by row and column: float64[n_rows, columns], columns as in `View`.

        row, slot, value: arrays of equal length, the row, time slot and amount of each summand.
        """
        roles, n_slots = self.roles, len(self.roles.noise)
        by_slot = totals(row * n_slots + slot, value, n_rows * n_slots).reshape(n_rows, n_slots)
        found = np.zeros((n_rows, FIRST_BLOCK + self.n_blocks))
        found[:, BEFORE], found[:, AFTER] = (
            by_slot[:, inside].sum(axis=1) for inside in (roles.ordinary, roles.problem)
        )
        for column, block in zip(by_slot.T, roles.noise.tolist(), strict=True):
            if block >= 0:
                found[:, FIRST_BLOCK + block] += column
        return found

    def visits(self, column: str) -> F8:
        """Column `column` of the profile's table `visits`, summed by site: float64[sites, columns]."""
        table = self.profile.visits
        site, slot = (table[key].to_numpy().astype(np.int64) for key in ("site", "slot"))
        return self.sums(site, slot, table[column].to_numpy(), self.n_sites)

    @cached_property
    def touching(self) -> F8:
        """Sum of the sampling weights of the requests that touch each site, float64[sites, columns]."""
        return self.visits("w")

    @cached_property
    def worth(self) -> F8:
        """Effective sample size per unit of sampling weight at each site, float64[sites, columns]."""
        return requests_per_weight(self.touching, self.visits("w2"))

    def shares(self, x: F8, n: F8, *, one_sided: bool = False) -> tuple[Estimate, Estimate | None]:
        """Estimate the changes of the shares x / n, both [rows, columns]: (change from the baseline, change
        from the reference alone with sampling error only; None without a history).

        Rows whose reference is not normal (`not_normal`) have only the history as baseline. one_sided: p is
        of a rise.
        """
        prior = self.settings.assumed_phi if self.roles.noise_assumed and not one_sided else 1.0
        margin, alone = self.settings.share_margin, None
        own, others = (FIRST_BLOCK + blocks for blocks in (self.roles.own, self.roles.history))
        if len(others):
            reference = [v[:, own].sum(axis=1, keepdims=True) for v in (x, n)]
            columns = [
                np.concatenate([before, v[:, [AFTER]], v[:, others]], axis=1)
                for before, v in zip(reference, (x, n), strict=True)
            ]
            alone = self._plain(share_change(*columns, prior_phi=prior, margin=margin, tested=False))
            abnormal = not_normal(alone, self.settings)
            x, n = x.copy(), n.copy()
            for v, before in zip((x, n), reference, strict=True):
                v[abnormal, BEFORE] -= before[abnormal, 0]
                v[np.ix_(abnormal, own)] = 0.0
        found = share_change(x, n, prior_phi=prior, one_sided=one_sided, margin=margin)
        if len(others):
            (periods_x, windows_x), (periods_n, windows_n) = (
                (v[:, [BEFORE, AFTER]], v[:, others]) for v in (x, n)
            )
            q = self.settings.q
            p = surprise(periods_x, periods_n, windows_x, windows_n, found.p, q=q, one_sided=one_sided)
            found = replace(found, p=p, chance_p=found.p)
        return found, alone

    def plain_shares(self, x: F8, n: F8) -> Estimate:
        """Estimate the changes of the shares x / n from reference to problem, both [rows, 2], with sampling
        error only."""
        return self._plain(share_change(x, n, margin=self.settings.share_margin, tested=False))

    def _plain(self, alone: Estimate) -> Estimate:
        """Set p to that of Fisher's exact test in rows that exceed `min_z` standard errors, and to 1 in the
        others: exact tests of all rows would take a fifth of the time of testing."""
        at = np.flatnonzero(alone.within().clears(self.settings.min_z, 0.0))
        x0, x1 = (np.rint(v[at] * n[at]) for v, n in ((alone.before, alone.n0), (alone.after, alone.n1)))
        p = np.ones(len(alone.p))
        p[at] = fisher(
            *(v.astype(np.int64) for v in (x0, np.rint(alone.n0[at]), x1, np.rint(alone.n1[at])))
        ).p
        return replace(alone, p=p)

    @cached_property
    def failing_change(self) -> tuple[Estimate, Estimate | None]:
        """Change of the share of failing calls at each site: (from the baseline, from the reference alone;
        None without a history)."""
        return self.shares(self.visits("failing") * self.worth, self.touching * self.worth)

    # -- levels: per-request values

    @cached_property
    def _votes(self) -> Votes:
        return votes_of(self.profile)

    def values(self, measure: int) -> Votes:
        """Votes (one value per request at a site) of a measure, e.g. OWN_TIME, by site, call pattern and time
        slot."""
        return values_of(self._votes, measure)

    def given_pattern(self, values: Votes) -> Histograms:
        """Scale values so that each call pattern's baseline median equals the median of its site: a changed
        mix of patterns then does not look like slower calls.

        Values of patterns with fewer than `least_of_pattern` baseline requests are dropped; the measure of
        call patterns covers them.
        """
        _, site, pattern, slot = values.keys
        code, first = numbered((site, pattern))
        ordinary = self.roles.ordinary[slot]
        mine = values.where(ordinary).histograms(code[ordinary], np.zeros_like(code[ordinary]))
        medians, n = mine.log_medians(len(first), 1)
        every = Histograms.of(site[first[mine.place]].astype(np.int64), mine.column, mine.bin, mine.n)
        of_site, _ = every.log_medians(self.n_sites, 1)
        site_median = of_site.value[site[first], 0]
        usable = (n[:, 0] >= self.settings.least_of_pattern) & ~np.isnan(site_median)
        shift = np.zeros(len(first), dtype=np.int64)
        shift[usable] = np.rint((site_median[usable] - medians.value[usable, 0]) / BIN_LOG)
        keep = usable[code]
        here = values.where(keep).moved(shift[code[keep]])
        return here.histograms(site[keep], self._first[slot[keep]])

    @cached_property
    def _first(self) -> I8:
        """int64[slots]: first time slot of the baseline block that each slot belongs to; the slot itself
        outside of blocks."""
        block = np.where(self.roles.noise >= 0, self.roles.noise, -1 - np.arange(len(self.roles.noise)))
        _, first, number = np.unique(block, return_index=True, return_inverse=True)
        found: I8 = first[number]
        return found

    def by_period(self, values: Histograms) -> Histograms:
        """Sum histograms over the time slots of a period: column 0 reference, 1 problem, 2 history."""
        roles = self.roles
        return values.pooled(np.where(roles.ordinary & ~roles.reference, 2, roles.side))

    @cached_property
    def own_times(self) -> Histograms:
        """Own times of calls, scaled by call pattern (`given_pattern`), by site and time slot; values of a
        baseline block are all in the block's first slot."""
        return self.given_pattern(self.values(OWN_TIME))

    @cached_property
    def own_by_period(self) -> Histograms:
        """Own times of calls, scaled by call pattern, by site and period: column 0 reference, 1 problem, 2
        history."""
        return self.by_period(self.own_times)

    @cached_property
    def own_requests(self) -> F8:
        """Number of requests with an own time at each site, float64[sites, columns]."""
        return self.sums(self.own_times.place, self.own_times.column, self.own_times.n, self.n_sites)

    def own_times_after(self, sites: B1) -> Histograms:
        """Own times in the problem, at sites in the mask `sites` (bool[sites]) only, by time slot."""
        values = self.own_times
        if self._shard is not None and sites.any():  # a shard has blocks of the problem instead of slots
            values = View(self._shard.at_sites(sites), self.roles, self.settings).own_times
        return values.where(sites[values.place] & self.roles.problem[values.column])

    @cached_property
    def own_time_change(self) -> tuple[Estimate, Estimate | None]:
        """Change of the median own time at each site: (from the baseline, from the reference alone; None
        without a history)."""
        return self.level(self.own_times)

    def level(self, values: Histograms) -> tuple[Estimate, Estimate | None]:
        """Estimate the change of the median of `values` at each site: (from the baseline, from the reference
        alone; None without a history)."""
        return self.levels(values, Histograms.log_medians, self.least_tau)

    def levels(
        self,
        values: Histograms,
        medians: Callable[[Histograms, int, int], tuple[LogMedians, F8]],
        least_tau: float,
    ) -> tuple[Estimate, Estimate | None]:
        """Estimate the change of a level (median or mean) of `values` at each site: (from the baseline, from
        the reference alone; None without a history).

        medians: function (values, number of places, number of columns) -> (logarithms of the level, number of
        requests); least_tau: lower bound of the standard deviation of the log level between windows.
        """
        roles = self.roles
        blocks, blocks_n = medians(values.pooled(roles.noise), self.n_sites, self.n_blocks)
        by_period = self.own_by_period if values is self.own_times else self.by_period(values)
        own, others, alone = roles.own, roles.history, None
        # Blocks of the reference do not count: pieces of one stretch share its slow levels, and scatter less.
        told = (blocks_n[:, others] >= LEAST_IN_BLOCK).sum(axis=1) >= self.settings.enough_blocks
        if len(others):
            history = LogMedians(blocks.value[:, others], blocks.variance[:, others])
            periods, n = medians(by_period.pooled(np.array([0, 1, -1])), self.n_sites, 2)
            untested = np.ones(self.n_sites)
            alone = level_change(
                periods, n, untested, history, blocks_n[:, others], tau_floor=least_tau, tau_estimated=told
            )
            few = n[:, BEFORE] < LEAST_IN_ENVELOPE
            against = by_period.where(few[by_period.place]).pooled(np.array([1, -1, 0]))
            near = alone.within().clears(self.settings.min_z, 0.0)
            plain = by_period.where(near[by_period.place]).pooled(np.array([0, 1, -1]))
            alone = replace(
                alone,
                usual_p=against.rank_p(self.n_sites),
                p=np.where(near, plain.rank_p(self.n_sites), 1.0),
            )
            abnormal = not_normal(alone, self.settings)
            by_period = by_period.where(~(abnormal[by_period.place] & (by_period.column == 0)))
            blocks_n[np.ix_(abnormal, own)] = 0.0
        rows = by_period.pooled(np.array([0, 1, 0]))
        periods, n = medians(rows, self.n_sites, 2)
        p = rows.rank_p(self.n_sites)
        found = level_change(
            periods,
            n,
            p,
            blocks,
            blocks_n,
            tau_floor=least_tau,
            of_change=self._of_change,
            tau_estimated=told,
        )
        if medians is Histograms.log_medians:
            found = self._by_size(rows, found, least_tau)
        return found, alone

    @property
    def least_tau(self) -> float:
        """Lower bound of the standard deviation of a site's log median between windows."""
        settings = self.settings
        return max(settings.min_tau, settings.assumed_tau) if self.roles.noise_assumed else settings.min_tau

    @property
    def _of_change(self) -> bool:
        return self.roles.noise_assumed and CHANGE_NOISE not in self.settings.without

    def _by_size(self, rows: Histograms, found: Estimate, tau: float) -> Estimate:
        """Lower p where few requests changed by a large factor, using the size of the change: the rank test
        of four against four values reaches at best p = 0.03."""
        settings, least = self.settings, np.minimum(found.n0, found.n1)
        with np.errstate(invalid="ignore"):
            large = np.abs(found.change) > np.log(settings.few_times)
        few = (least <= settings.few_requests) & (least >= settings.min_requests) & large
        few &= found.p > settings.few_rank_p
        if not few.any():
            return found
        # For few values a mean of logarithms is more precise than a median.
        means, n = rows.where(few[rows.place]).trimmed_log_means(self.n_sites, 2, 0.0)
        none, of_change = LogMedians(n[:, :0], n[:, :0]), self._of_change
        by_size = level_change(means, n, found.p, none, n[:, :0], tau_floor=tau, of_change=of_change)
        return replace(found, p=np.where(few, np.minimum(found.p, 2 * by_size.p_with_noise), found.p))

    @cached_property
    def by_instance(self) -> ByInstance | None:
        """Sums of calls by instance; None for stored statistics, or if no component runs on several
        instances."""
        return self._by_instance()

    # -- what a site has to do with the response

    @property
    def rates(self) -> tuple[F8, F8]:
        """Mean number of calls at each site per request of the period: (baseline, problem), each
        float64[sites]."""
        return tuple(side.calls / max(side.requests, 1e-300) for side in (self.before, self.after))  # type: ignore[return-value]

    @cached_property
    def reference(self) -> VisitSums:
        """Sums over the requests of the reference, without the history."""
        return self._visited(self.roles.reference)

    @cached_property
    def slower_ns(self) -> F8:
        """Part of the change of the mean response time that is due to calls of each site getting slower or
        faster on the critical path, ns per request."""
        return self._slower_ns(self.before)

    def _slower_ns(self, before: VisitSums) -> F8:
        with np.errstate(divide="ignore", invalid="ignore"):
            first, last = (side.critical_ns / side.calls for side in (before, self.after))
        rates = (side.calls / max(side.requests, 1e-300) for side in (before, self.after))
        return np.nan_to_num(sum(rates) / 2 * (last - first), nan=0.0, posinf=0.0, neginf=0.0)

    def slower_a_visit_ns(self, before: VisitSums) -> F8:
        """Change of the critical time due to calls of each site getting slower or faster since the period
        `before`, ns per request of the problem that touches the site."""
        return self._slower_ns(before) * self.after.requests / np.maximum(self.after.w, 1e-300)

    @cached_property
    def call_ratio(self) -> F8:
        """Calls at each site per request of the problem, divided by those per request of the baseline; inf if
        the baseline has none."""
        before, after = self.rates
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(before > 0, after / before, np.inf)

    @cached_property
    def visit_ratio(self) -> F8:
        """Problem divided by baseline of the quantity that pattern shares are computed over: calls at the
        site per request (`call_ratio`) or, at trace points of activity records, share of requests that pass
        the point."""
        with np.errstate(divide="ignore", invalid="ignore"):
            first, last = (side.w / side.requests for side in (self.before, self.after))
            visits = np.where(first > 0, last / first, np.inf)
        return np.where(self.of_kind(SiteKind.POINT), visits, self.call_ratio)

    def of_kind(self, kind: SiteKind) -> B1:
        """bool[sites]: True for sites of the given kind."""
        return np.array([site.kind is kind for site in self.names.sites], dtype=np.bool_)

    @property
    def makes_several(self) -> B1:
        """bool[sites]: True where some requests make several calls; False for trace points of activity
        records."""
        several = [side.calls > side.w * (1 + 1e-9) for side in (self.before, self.after)]
        return np.asarray((several[0] | several[1]) & ~self.of_kind(SiteKind.POINT))


def not_normal(reference: Estimate, settings: RobustSettings) -> B1:
    """bool[rows]: True where the reference lies outside of the history's normal range. reference: estimate of
    the change from the reference alone."""
    return reference.before_outside() & is_known(reference, settings)


def is_known(reference: Estimate, settings: RobustSettings) -> B1:
    """bool[rows]: True where the reference has enough requests to compare it with the history.

    Five requests are enough. Fewer are enough if they differ significantly from those of the history.
    reference: estimate of the change from the reference alone.
    """
    known = reference.n0 >= LEAST_IN_ENVELOPE
    return known if reference.usual_p is None else known | (reference.usual_p < settings.verdict.alpha)


def votes_of(profile: Profile, sites: B1 | None = None) -> Votes:
    """Votes (one value per request at a site) of a profile, for all sites or for those in the mask
    `sites`."""
    if profile.runs is not None:
        return (profile.runs if sites is None else profile.runs.of_sites(sites)).read()
    votes = Votes.of({name: profile.votes[name].to_numpy() for name in profile.votes.column_names})
    return votes if sites is None else votes.where(sites[votes.keys[1]])


def values_of(votes: Votes, measure: int) -> Votes:
    """Votes of one measure, by site, call pattern and time slot.

    Votes of sampled requests are scaled so that their weights add up to the effective sample size.
    """
    votes = votes.where(votes.keys[0] == measure)
    if len(votes.sums) == 1:  # unweighted requests
        return votes
    _, w, square = votes.sums
    _, site, _, slot = votes.keys
    group, first = numbered((site, slot))
    group = np.repeat(group, votes.n_rows)
    worth = requests_per_weight(totals(group, w, len(first)), totals(group, square, len(first)))
    return replace(votes, sums=(w * worth[group],))


def by_site(values: Votes) -> Histograms:
    """Sum the histograms of all call patterns, by site and time slot."""
    return values.histograms(values.keys[1], values.keys[3])
