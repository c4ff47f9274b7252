"""Own times, tails, overlap and numbers of calls at sites: one request, one vote (L.4, L.9 items 2 and 3)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.stats import hypergeom

from analyze.findings.changes import Change
from analyze.methods.robust.noise_between import LEAST_IN_ENVELOPE, Noise, noise_between, outside
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import Spread, Votes, merged, spread, votes_of
from analyze.methods.robust.visit_sums import BothSums
from analyze.methods.robust.vote_ranks import rank_p
from analyze.sites.log_bins import BIN_LOG, value_of
from analyze.sites.profile import OVERLAP, OWN_TIME, Profile
from analyze.sites.totals import totals
from schemas.report.findings import ChangeKind

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

_LEAST_OF_A_SHAPE = 3
"""Votes that a shape needs in the reference for its median."""
_Z95 = 1.96
_PLAIN = float(np.log(1.5))
_PLAIN_P = 1e-6
_PLAIN_REQUESTS = 30
_PLAIN_SHARE = 0.1


def time_changes(
    profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings
) -> Iterator[Change]:
    """Candidates of the families `slower`, `faster` and `tail`."""
    votes, shape = votes_of(profile.votes, OWN_TIME)
    votes = given_shape(votes, shape, roles)
    n_sites = len(profile.names.sites)
    side = np.where(roles.problem, 1, np.where(roles.ordinary, 0, -1))
    periods = spread(votes, side, n_sites, 2)
    noise = noise_between(spread(votes, roles.noise, n_sites, max(roles.n_noise, 1)), roles, settings)
    p = rank_p(votes, side, n_sites)
    yield from _shifts(p, periods, noise, sums, settings)
    yield from _tails(votes, side, noise, roles, sums, settings, n_sites)


def overlap_changes(
    profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings
) -> Iterator[Change]:
    """Candidates of `serial` and `parallel`: the children of a call overlap less, or more, than they did."""
    votes, shape = votes_of(profile.votes, OVERLAP)
    if not len(votes.n):
        return
    votes = given_shape(votes, shape, roles)
    n_sites = len(profile.names.sites)
    side = np.where(roles.problem, 1, np.where(roles.ordinary, 0, -1))
    periods = spread(votes, side, n_sites, 2)
    noise = noise_between(spread(votes, roles.noise, n_sites, max(roles.n_noise, 1)), roles, settings)
    p = rank_p(votes, side, n_sites)
    before, after = periods.log_median[:, 0], periods.log_median[:, 1]
    se = np.sqrt((periods.se**2).sum(axis=1) + noise.variance)
    change = after - before
    tested = (periods.n >= settings.min_requests).all(axis=1)
    passes = (np.abs(change) > settings.min_z * se) & (np.abs(change) > np.log1p(2 * settings.time_floor))
    passes &= outside(noise, after)
    scale = np.log(65536.0)
    for site in np.flatnonzero(tested).tolist():
        low, high = change[site] - _Z95 * se[site], change[site] + _Z95 * se[site]
        first = float(np.exp(before[site] - scale))
        yield Change(
            kind=ChangeKind.PARALLEL if change[site] > 0 else ChangeKind.SERIAL,
            site=site,
            p=float(p[site]),
            z=float(change[site] / se[site]),
            passes=bool(passes[site]),
            unit="ratio",
            before=first,
            after=float(np.exp(after[site] - scale)),
            low=first * float(np.expm1(low)),
            high=first * float(np.expm1(high)),
            n0=int(periods.n[site, 0]),
            n1=int(periods.n[site, 1]),
            contribution_ns=0.0,
            call_ratio=float(sums.call_ratio[site]),
        )


def given_shape(votes: Votes, shape: I8, roles: Roles) -> Votes:
    """Votes over the reference median of their shape: a call that took another path is no slower call.

    Scaled to the site's own median. A shape that the reference never had is for the shape test alone.
    """
    width = int(shape.max(initial=0)) + 1
    pair = votes.site * width + shape
    found, code = np.unique(pair, return_inverse=True)
    medians = spread(Votes(code, votes.slot, votes.bin, votes.n), _as_group(roles.ordinary), len(found), 1)
    enough = medians.n[:, 0] >= _LEAST_OF_A_SHAPE
    sites = spread(votes, _as_group(roles.ordinary), int(votes.site.max(initial=0)) + 1, 1)
    shift = np.zeros(len(found), dtype=np.int64)
    of_site = sites.log_median[found // width, 0]
    usable = enough & ~np.isnan(of_site)
    shift[usable] = np.rint((of_site[usable] - medians.log_median[usable, 0]) / BIN_LOG)
    keep = usable[code]
    return merged(votes.site[keep], votes.slot[keep], votes.bin[keep] + shift[code[keep]], votes.n[keep])


def _as_group(slots: B1) -> I8:
    return np.where(slots, 0, -1).astype(np.int64)


def _shifts(
    p: F8, periods: Spread, noise: Noise, sums: BothSums, settings: RobustSettings
) -> Iterator[Change]:
    before, after = periods.log_median[:, 0], periods.log_median[:, 1]
    se = np.sqrt((periods.se**2).sum(axis=1) + noise.variance)
    change = after - before
    moved_ns = np.abs(np.exp(after) - np.exp(before)) * sums.calls_a_visit
    passes = (np.abs(change) > settings.min_z * se) & (np.abs(change) > np.log1p(settings.time_floor))
    # What is plain (half as much again, in many requests) counts though responses hardly feel it.
    plain = (np.abs(change) > _PLAIN) & (p < _PLAIN_P) & (periods.n >= _PLAIN_REQUESTS).all(axis=1)
    least = np.where(plain, _PLAIN_SHARE, 1.0) * settings.time_share * sums.mean_response_ns
    passes &= outside(noise, after) & (moved_ns > least)
    # The response must have waited for it: means on the critical path move the same way, and by enough.
    waited = sums.slower_a_visit_ns * np.sign(change)
    passes &= waited > least / 2
    tested = (periods.n >= settings.min_requests).all(axis=1)
    parts, ratio = sums.slower_ns, sums.call_ratio
    for site in np.flatnonzero(tested).tolist():
        first = float(np.exp(before[site])) / 1e3
        yield Change(
            kind=ChangeKind.SLOWER if change[site] > 0 else ChangeKind.FASTER,
            site=site,
            p=float(p[site]),
            z=float(change[site] / se[site]),
            passes=bool(passes[site]),
            unit="us",
            before=first,
            after=float(np.exp(after[site])) / 1e3,
            low=first * float(np.expm1(change[site] - _Z95 * se[site])),
            high=first * float(np.expm1(change[site] + _Z95 * se[site])),
            n0=int(periods.n[site, 0]),
            n1=int(periods.n[site, 1]),
            contribution_ns=float(parts[site]),
            call_ratio=float(ratio[site]),
        )


def _tails(
    votes: Votes,
    side: I8,
    noise: Noise,
    roles: Roles,
    sums: BothSums,
    settings: RobustSettings,
    n_sites: int,
) -> Iterator[Change]:
    """Share of votes over max(98th percentile, 3 x median) of the reference (B.8, L.9 item 4)."""
    inside = votes.where(side[votes.slot] == 0)
    reference = merged(inside.site, np.zeros_like(inside.slot), inside.bin, inside.n)
    total = totals(reference.site, reference.n, n_sites)
    cumulative = np.cumsum(reference.n)
    start = np.concatenate(([0.0], np.cumsum(total)))[:-1]
    within = (cumulative - start[reference.site]) / total[reference.site]
    threshold = np.full(n_sites, np.iinfo(np.int64).max, dtype=np.int64)
    for q, times_over in ((0.98, 1.0), (0.5, 3.0)):
        reached = np.full(n_sites, -1, dtype=np.int64)
        upto = within >= q - 1e-12
        np.maximum.at(reached, reference.site[~upto], reference.bin[~upto])
        at = reached + 1 + int(np.rint(np.log2(times_over) * 32))
        threshold = at if q == 0.98 else np.maximum(threshold, at)
    over = votes.bin > threshold[votes.site]
    n_groups = 2 + max(roles.n_noise, 1)
    n, x = (np.zeros((n_sites, n_groups)) for _ in range(2))
    for base, group in ((0, side), (2, roles.noise)):
        mine = group[votes.slot] >= 0
        column = base + group[votes.slot[mine]]
        np.add.at(n, (votes.site[mine], column), votes.n[mine])
        np.add.at(x, (votes.site[mine], column), votes.n[mine] * over[mine])
    excess_sum: F8 = totals(
        votes.site,
        votes.n
        * over
        * (side[votes.slot] == 1)
        * (value_of(votes.bin + 0.5) - value_of(threshold[votes.site])),
        n_sites,
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        share = x / n
        pooled = (x[:, 0] + x[:, 1]) / (n[:, 0] + n[:, 1])
        phi = noise.dispersion(x[:, 2:], n[:, 2:], 1.0)
        change = share[:, 1] - share[:, 0]
        se = np.sqrt(np.maximum(pooled * (1 - pooled), 1e-9) * phi * (1 / n[:, 0] + 1 / n[:, 1]))
        excess_ns = excess_sum / n[:, 1] * sums.calls_a_visit
    tail_p: F8 = hypergeom.sf(
        np.rint(x[:, 1]) - 1, np.rint(n[:, :2].sum(axis=1)), np.rint(x[:, :2].sum(axis=1)), np.rint(n[:, 1])
    )
    upper = noise.upper_share(np.where(n[:, 2:] >= LEAST_IN_ENVELOPE, share[:, 2:], np.nan))
    # Few very slow calls may be most of the time: a share below the floor counts where it takes enough.
    much = (excess_ns > settings.tail_time * sums.mean_response_ns) & (np.rint(x[:, 1]) >= 5)
    passes = (np.rint(x[:, 1]) >= 3) & (change > settings.min_z * se)
    passes &= (change > settings.tail_floor) | much
    passes &= (share[:, 1] > upper + np.where(much, 0.0, 0.02)) & (
        excess_ns > settings.time_share * sums.mean_response_ns
    )
    # A wait beside a longer one delays nobody: the time on the critical path must have grown as well.
    passes &= sums.slower_a_visit_ns > settings.time_share * sums.mean_response_ns / 2
    tested = (n[:, :2] >= settings.min_requests).all(axis=1)
    parts, ratio = sums.slower_ns, sums.call_ratio
    for site in np.flatnonzero(tested).tolist():
        yield Change(
            kind=ChangeKind.TAIL,
            site=site,
            p=min(float(tail_p[site]), 1.0) if x[site, 1] else 1.0,
            z=float(change[site] / se[site]),
            passes=bool(passes[site]),
            unit="share",
            before=float(share[site, 0]),
            after=float(share[site, 1]),
            low=float(change[site] - _Z95 * se[site]),
            high=float(change[site] + _Z95 * se[site]),
            threshold_us=float(value_of(float(threshold[site]))) / 1e3,
            n0=int(n[site, 0]),
            n1=int(n[site, 1]),
            contribution_ns=float(parts[site]),
            call_ratio=float(ratio[site]),
        )
