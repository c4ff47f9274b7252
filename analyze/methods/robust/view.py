"""Sums of a profile by call site: before, after, and the blocks of the baseline.

Measures are computed from a `View`, and the verdict reads it. It caches results that several of them need.
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
"""Name of the rule (for `without`) by which assumed noise is that of a change (`of_change` of
`level_change`)."""


@dataclass(frozen=True, slots=True)
class VisitSums:
    """Sums over the requests of one period that touch a call site; arrays are float64[sites].

    w: weight of these requests; calls, critical_ns, response_ns, failing: weighted sums of calls, critical
    time, response time, and requests' shares of failing calls.
    """

    requests: float
    """Weight of all requests of the period, also those that do not touch the site."""
    n: F8
    """Number of recorded requests that touch each site."""
    w: F8
    calls: F8
    critical_ns: F8
    response_ns: F8
    failing: F8

    @property
    def calls_a_visit(self) -> F8:
        """Mean number of calls of the site per request that touches it."""
        return self.calls / np.maximum(self.w, 1e-300)

    @property
    def mean_response_ns(self) -> F8:
        """Mean response time of the requests that touch the site, ns."""
        return self.response_ns / np.maximum(self.w, 1e-300)


class View:
    """Sums of both periods and of the blocks of the baseline, by call site; arrays are [sites] unless stated
    otherwise.

    Columns: BEFORE, AFTER, then from FIRST_BLOCK the blocks.
    """

    def __init__(
        self,
        profile: Profile,
        roles: Roles,
        settings: RobustSettings,
        by_instance: Callable[[], ByInstance | None] = lambda: None,
        shard: SiteShard | None = None,
    ) -> None:
        """Sum a profile: all its sites, or those of `shard` only. by_instance: function that sums calls by
        instance."""
        self.profile, self.roles, self.settings = profile, roles, settings
        self._by_instance, self._shard = by_instance, shard
        self.names = profile.names
        self.n_sites = len(profile.names.sites)
        self.site = np.arange(self.n_sites) if shard is None else shard.site
        """Number of each site, and of each call pattern (`pattern`), in the whole profile: int64[sites],
        int64[patterns]."""
        self.pattern = np.arange(len(self.names.patterns)) if shard is None else shard.pattern
        self.n_blocks = max(roles.n_noise, 1)
        self.before, self.after = (self._visited(slots) for slots in (roles.ordinary, roles.problem))

    def _visited(self, slots: B1) -> VisitSums:
        columns = ("n", "w", "calls", "critical_ns", "response_ns", "failing")
        sums = (self.profile.at_sites("visits", column, slots) for column in columns)
        return VisitSums(self.profile.responded("w", slots), *sums)

    # -- shares: sums by column

    def sums(self, row: I8, slot: I8, value: F8, n_rows: int) -> F8:
        """Sum values by row, and by period and block: float64[n_rows, columns]. row, slot, value: equally
        long."""
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
        """Sum the column `column` of the profile's table `visits`: float64[sites, columns]."""
        table = self.profile.visits
        site, slot = (table[key].to_numpy().astype(np.int64) for key in ("site", "slot"))
        return self.sums(site, slot, table[column].to_numpy(), self.n_sites)

    @cached_property
    def touching(self) -> F8:
        """Weight of the requests that touch each site, float64[sites, columns]."""
        return self.visits("w")

    @cached_property
    def worth(self) -> F8:
        """Effective requests per unit of weight, float64[sites, columns]."""
        return requests_per_weight(self.touching, self.visits("w2"))

    def shares(self, x: F8, n: F8, *, one_sided: bool = False) -> tuple[Estimate, Estimate | None]:
        """Estimate changes of the shares x / n, both [rows, columns]: (against the baseline; with a history
        also against the reference alone, with sampling error only, else None).

        Where the reference is not normal, it is left out of the baseline.
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
        """Estimate changes of shares x / n, both [rows, 2], from reference to problem, with sampling error
        only."""
        return self._plain(share_change(x, n, margin=self.settings.share_margin, tested=False))

    def _plain(self, alone: Estimate) -> Estimate:
        """Replace p by that of Fisher's exact test in rows above `min_z`, and by 1 elsewhere: exact tails of
        large tables take a fifth of the time of testing."""
        at = np.flatnonzero(alone.within().clears(self.settings.min_z, 0.0))
        x0, x1 = (np.rint(v[at] * n[at]) for v, n in ((alone.before, alone.n0), (alone.after, alone.n1)))
        p = np.ones(len(alone.p))
        p[at] = fisher(
            *(v.astype(np.int64) for v in (x0, np.rint(alone.n0[at]), x1, np.rint(alone.n1[at])))
        ).p
        return replace(alone, p=p)

    @cached_property
    def failing_change(self) -> tuple[Estimate, Estimate | None]:
        """Change of each site's share of failing calls: (against the baseline; with a history also against
        the reference alone, else None)."""
        return self.shares(self.visits("failing") * self.worth, self.touching * self.worth)

    # -- levels: per-request values

    @cached_property
    def _votes(self) -> Votes:
        return votes_of(self.profile)

    def values(self, measure: int) -> Votes:
        """Select the per-request values of a measure, by site, call pattern and slot."""
        return values_of(self._votes, measure)

    def given_pattern(self, values: Votes) -> Histograms:
        """Scale values so that the median of each call pattern before becomes the site's median.

        So a change of paths does not look like slower calls. Values of patterns with too few values before
        are dropped; the test of patterns covers them.
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
        """First slot of the same baseline block for each slot, int64[slots]; the slot itself in the
        problem."""
        block = np.where(self.roles.noise >= 0, self.roles.noise, -1 - np.arange(len(self.roles.noise)))
        _, first, number = np.unique(block, return_index=True, return_inverse=True)
        found: I8 = first[number]
        return found

    def by_period(self, values: Histograms) -> Histograms:
        """Merge slots by period: column 0 reference, 1 problem, 2 history."""
        roles = self.roles
        return values.pooled(np.where(roles.ordinary & ~roles.reference, 2, roles.side))

    @cached_property
    def own_times(self) -> Histograms:
        """Self times of calls, scaled by pattern (`given_pattern`), by site and slot; values of a baseline
        block are in its first slot."""
        return self.given_pattern(self.values(OWN_TIME))

    @cached_property
    def own_by_period(self) -> Histograms:
        """Self times (`own_times`) with slots merged by period (`by_period`)."""
        return self.by_period(self.own_times)

    @cached_property
    def own_requests(self) -> F8:
        """Number of requests with a self time, float64[sites, columns]."""
        return self.sums(self.own_times.place, self.own_times.column, self.own_times.n, self.n_sites)

    def own_times_after(self, sites: B1) -> Histograms:
        """Self times in the problem at the sites in mask `sites`, by slot."""
        values = self.own_times
        if self._shard is not None and sites.any():  # which has blocks of the problem, and no slots
            values = View(self._shard.at_sites(sites), self.roles, self.settings).own_times
        return values.where(sites[values.place] & self.roles.problem[values.column])

    @cached_property
    def own_time_change(self) -> tuple[Estimate, Estimate | None]:
        """Change of the median self time of each site: (against the baseline; with a history also against the
        reference alone, else None)."""
        return self.level(self.own_times)

    def level(self, values: Histograms) -> tuple[Estimate, Estimate | None]:
        """Estimate the change of the median of values at each site: (against the baseline; with a history
        also against the reference alone, else None)."""
        return self.levels(values, Histograms.log_medians, self.least_tau)

    def levels(
        self,
        values: Histograms,
        medians: Callable[[Histograms, int, int], tuple[LogMedians, F8]],
        least_tau: float,
    ) -> tuple[Estimate, Estimate | None]:
        """Estimate changes of a level of values at each site, with results as in `level`.

        medians: function (values, places, columns) -> (logarithms of the level, number of requests);
        least_tau: lower bound of the noise between windows.
        """
        roles = self.roles
        blocks, blocks_n = medians(values.pooled(roles.noise), self.n_sites, self.n_blocks)
        by_period = self.own_by_period if values is self.own_times else self.by_period(values)
        own, others, alone = roles.own, roles.history, None
        # Not the reference's own: pieces of one stretch have its slow levels in common, and show less.
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
        """Lower bound of the standard deviation of log medians between windows."""
        settings = self.settings
        return max(settings.min_tau, settings.assumed_tau) if self.roles.noise_assumed else settings.min_tau

    @property
    def _of_change(self) -> bool:
        return self.roles.noise_assumed and CHANGE_NOISE not in self.settings.without

    def _by_size(self, rows: Histograms, found: Estimate, tau: float) -> Estimate:
        """Lower p of large changes with few requests, by their size instead of by ranks: ranks of four
        against four values give 3 % at best."""
        settings, least = self.settings, np.minimum(found.n0, found.n1)
        with np.errstate(invalid="ignore"):
            large = np.abs(found.change) > np.log(settings.few_times)
        few = (least <= settings.few_requests) & (least >= settings.min_requests) & large
        few &= found.p > settings.few_rank_p
        if not few.any():
            return found
        # Of few a mean of logarithms is surer than a median.
        means, n = rows.where(few[rows.place]).trimmed_log_means(self.n_sites, 2, 0.0)
        none, of_change = LogMedians(n[:, :0], n[:, :0]), self._of_change
        by_size = level_change(means, n, found.p, none, n[:, :0], tau_floor=tau, of_change=of_change)
        return replace(found, p=np.where(few, np.minimum(found.p, 2 * by_size.p_with_noise), found.p))

    @cached_property
    def by_instance(self) -> ByInstance | None:
        """Sums of calls by instance; None for statistics, or if no component has several instances."""
        return self._by_instance()

    # -- what a site has to do with the response

    @property
    def rates(self) -> tuple[F8, F8]:
        """Calls of each site per request of the period, (before, after)."""
        return tuple(side.calls / max(side.requests, 1e-300) for side in (self.before, self.after))  # type: ignore[return-value]

    @cached_property
    def reference(self) -> VisitSums:
        """Sums over the requests of the reference alone, without the history."""
        return self._visited(self.roles.reference)

    @cached_property
    def slower_ns(self) -> F8:
        """Part of the change of the mean response time due to slower or faster calls of each site, ns per
        request."""
        return self._slower_ns(self.before)

    def _slower_ns(self, before: VisitSums) -> F8:
        with np.errstate(divide="ignore", invalid="ignore"):
            first, last = (side.critical_ns / side.calls for side in (before, self.after))
        rates = (side.calls / max(side.requests, 1e-300) for side in (before, self.after))
        return np.nan_to_num(sum(rates) / 2 * (last - first), nan=0.0, posinf=0.0, neginf=0.0)

    def slower_a_visit_ns(self, before: VisitSums) -> F8:
        """Change of the critical time since `before` due to slower or faster calls of each site, ns per
        request of the problem that touches the site."""
        return self._slower_ns(before) * self.after.requests / np.maximum(self.after.w, 1e-300)

    @cached_property
    def call_ratio(self) -> F8:
        """Ratio of calls of each site per request, after to before; inf if there were none before."""
        before, after = self.rates
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(before > 0, after / before, np.inf)

    @cached_property
    def visit_ratio(self) -> F8:
        """Ratio, after to before, of the denominator of pattern tests at each site.

        It is `call_ratio`; at points of records, where a request counts once, the ratio of requests.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            first, last = (side.w / side.requests for side in (self.before, self.after))
            visits = np.where(first > 0, last / first, np.inf)
        return np.where(self.of_kind(SiteKind.POINT), visits, self.call_ratio)

    def of_kind(self, kind: SiteKind) -> B1:
        """bool[sites]: True for sites of a kind."""
        return np.array([site.kind is kind for site in self.names.sites], dtype=np.bool_)

    @property
    def makes_several(self) -> B1:
        """bool[sites]: True where some requests make several calls; always False for points of records."""
        several = [side.calls > side.w * (1 + 1e-9) for side in (self.before, self.after)]
        return np.asarray((several[0] | several[1]) & ~self.of_kind(SiteKind.POINT))


def not_normal(reference: Estimate, settings: RobustSettings) -> B1:
    """True where the reference lies outside of the history. reference: estimate against the reference
    alone."""
    return reference.before_outside() & is_known(reference, settings)


def is_known(reference: Estimate, settings: RobustSettings) -> B1:
    """True where the reference has enough requests to be distinguished from a history.

    Five are enough; fewer suffice only if they differ significantly from those of the history.
    """
    known = reference.n0 >= LEAST_IN_ENVELOPE
    return known if reference.usual_p is None else known | (reference.usual_p < settings.verdict.alpha)


def votes_of(profile: Profile, sites: B1 | None = None) -> Votes:
    """Votes (values of requests at sites) of a profile, all or those at the sites in mask `sites`."""
    if profile.runs is not None:
        return (profile.runs if sites is None else profile.runs.of_sites(sites)).read()
    votes = Votes.of({name: profile.votes[name].to_numpy() for name in profile.votes.column_names})
    return votes if sites is None else votes.where(sites[votes.keys[1]])


def values_of(votes: Votes, measure: int) -> Votes:
    """Select the per-request values of a measure, by site, call pattern and slot.

    Weighted requests are scaled to the effective number of requests.
    """
    votes = votes.where(votes.keys[0] == measure)
    if len(votes.sums) == 1:  # requests that stand for themselves
        return votes
    _, w, square = votes.sums
    _, site, _, slot = votes.keys
    group, first = numbered((site, slot))
    group = np.repeat(group, votes.n_rows)
    worth = requests_per_weight(totals(group, w, len(first)), totals(group, square, len(first)))
    return replace(votes, sums=(w * worth[group],))


def by_site(values: Votes) -> Histograms:
    """Merge the histograms of all call patterns, by site and slot."""
    return values.histograms(values.keys[1], values.keys[3])
