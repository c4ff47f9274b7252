"""Shares of very slow calls at sites (B.8, L.9 item 4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.candidates import Z95, Candidates, Usual
from analyze.methods.robust.changes import Change
from analyze.methods.robust.far_tails import far_tails
from analyze.methods.robust.noise_between import (
    LEAST_IN_ENVELOPE,
    dispersion,
    furthest,
    leaves_envelope,
    share_envelope,
    share_freedom,
)
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import Votes, holding_rows, merged
from analyze.methods.robust.visit_sums import BothSums
from analyze.profile.names import Names, SiteKind
from analyze.stats.log_bins import BINS_PER_OCTAVE, value_of
from analyze.stats.noise import enough_errors
from analyze.stats.proportions import fisher
from analyze.stats.sums import totals
from schemas.report.findings import ChangeKind

B1 = npt.NDArray[np.bool_]
F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]

_LEAST_SLOW = 3
_LEAST_COSTLY = 5
_LEAST_BLOCKS = 4
"""Blocks of the problem, from which one is left out."""
_MARGIN = 0.02
_THREE_TIMES = int(np.rint(np.log2(3.0) * BINS_PER_OCTAVE))
"""Bins from a time to three times as much."""


def tail_changes(
    votes: Votes, names: Names, roles: Roles, sums: BothSums, settings: RobustSettings
) -> Candidates:
    """Candidates of `tail`: share of votes over max(98th percentile, 3 x median) of ordinary times.

    Both are ends of bins: what is counted begins there, and that is told. Where that does not count, over far
    more than any ordinary time (`far_tails`).
    """
    n_sites = len(names.sites)
    side = roles.side
    threshold = _thresholds(votes.where(side[votes.slot] == 0), n_sites)
    over = votes.bin > threshold[votes.site]
    n_groups = 2 + max(roles.n_noise, 1)
    n, x = (np.zeros((n_sites, n_groups)) for _ in range(2))
    for base, group in ((0, side), (2, roles.noise)):
        mine = group[votes.slot] >= 0
        cell = votes.site[mine] * n_groups + base + group[votes.slot[mine]]
        for table, value in ((n, votes.n[mine]), (x, votes.n[mine] * over[mine])):
            table += totals(cell, value, n_sites * n_groups).reshape(n_sites, n_groups)
    beyond = value_of(votes.bin + 0.5) - value_of(threshold[votes.site] + 1)
    excess_sum = totals(votes.site, votes.n * over * (side[votes.slot] == 1) * beyond, n_sites)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = x / n
        pooled = (x[:, 0] + x[:, 1]) / (n[:, 0] + n[:, 1])
        phi = dispersion(x[:, 2:], n[:, 2:])
        moved = share[:, 1] - share[:, 0]
        se = np.sqrt(np.maximum(pooled * (1 - pooled), 1e-9) * phi * (1 / n[:, 0] + 1 / n[:, 1]))
        excess_ns = excess_sum / n[:, 1] * sums.calls_a_visit
    x0, n0, x1, n1 = (np.rint(v).astype(np.int64) for v in (x[:, 0], n[:, 0], x[:, 1], n[:, 1]))
    p = np.where(x1 > 0, fisher(x0, n0, x1, n1).p_more, 1.0)
    seen = np.where(n[:, 2:] >= LEAST_IN_ENVELOPE, share[:, 2:], np.nan)
    upper = np.nan_to_num(share_envelope(seen)[1])
    # Few very slow calls may be most of the time: a share below the floor counts where it takes enough.
    much = (excess_ns > settings.tail_time * sums.mean_response_ns) & (x1 >= _LEAST_COSTLY)
    freedom = share_freedom(phi, 1.0, n[:, 2:])
    passes = (x1 >= _LEAST_SLOW) & (moved > enough_errors(settings.min_z, freedom) * se)
    passes &= (moved > settings.tail_floor) | much
    passes &= excess_ns > settings.time_share * sums.mean_response_ns
    # A wait beside a longer one delays nobody: the time on the critical path must have grown as well.
    passes &= sums.slower_a_visit_ns > settings.time_share * sums.mean_response_ns / 2
    if roles.cold:
        # A burst is one event: where no history says how often there is one, the others must show it, too.
        rest_x, rest_n, several = _without_worst_block(votes, over, roles, n_sites)
        with np.errstate(divide="ignore", invalid="ignore"):
            rest_se = np.sqrt(np.maximum(pooled * (1 - pooled), 1e-9) * phi * (1 / n[:, 0] + 1 / rest_n))
            rise = rest_x / rest_n - share[:, 0]
            passes &= ~several | (rise > settings.min_z * rest_se)
    outside = share[:, 1] > upper + np.where(much, 0.0, _MARGIN)
    held = passes & ~outside
    passes &= outside & leaves_envelope(x[:, 1], n[:, 1], np.zeros(n_sites), upper)
    far = far_tails(votes, _alike(names), roles, sums, settings)
    instead = far.passes & ~passes & (sums.slower_a_visit_ns > far.excess_ns * sums.calls_a_visit / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        rare = far.n / n[:, 1]
        se = np.where(instead, np.sqrt(np.maximum(rare, 1e-9) / n[:, 1]), se)
    reach = enough_errors(Z95, np.where(instead, np.inf, freedom)) * se
    share = np.where(instead[:, None], 0.0, share)
    share[:, 1] = np.where(instead, rare, share[:, 1])
    moved = share[:, 1] - share[:, 0]
    threshold, passes = np.where(instead, far.threshold, threshold), passes | instead
    p = np.minimum(1.0, 2 * np.minimum(p, np.where(instead, far.p, 1.0)))  # two tests of a site
    sites = np.flatnonzero((n[:, :2] >= settings.min_requests).all(axis=1))
    parts, ratio = sums.slower_ns, sums.call_ratio

    def change(row: int) -> Change:
        site = int(sites[row])
        return Change(
            kind=ChangeKind.TAIL,
            site=site,
            p=float(p[site]),
            z=float(moved[site] / se[site]),
            passes=bool(passes[site]),
            unit="share",
            before=float(share[site, 0]),
            after=float(share[site, 1]),
            low=float(moved[site] - reach[site]),
            high=float(moved[site] + reach[site]),
            threshold_us=float(value_of(float(threshold[site] + 1))) / 1e3,
            n0=int(n[site, 0]),
            n1=int(n[site, 1]),
            contribution_ns=float(parts[site]),
            call_ratio=float(ratio[site]),
        )

    block, most = furthest(seen, np.ones(n_sites, dtype=np.bool_))
    usual = Usual((held & ~instead)[sites], block[sites], most[sites])
    return Candidates(sites, p[sites], passes[sites], change, usual)


def _without_worst_block(votes: Votes, over: B1, roles: Roles, n_sites: int) -> tuple[F8, F8, B1]:
    """[sites] very slow votes, and votes, of the problem without the block of time that has most very slow
    ones; and whether there are blocks enough to leave one out."""
    slots = np.flatnonzero(roles.problem)
    mine = roles.problem[votes.slot]
    cell = votes.site[mine] * len(slots) + np.searchsorted(slots, votes.slot[mine])
    x, n = (
        totals(cell, value, n_sites * len(slots)).reshape(n_sites, len(slots))
        for value in (votes.n[mine] * over[mine], votes.n[mine])
    )
    rows, worst = np.arange(n_sites), x.argmax(axis=1)
    several = (n > 0).sum(axis=1) >= _LEAST_BLOCKS
    return x.sum(axis=1) - x[rows, worst], n.sum(axis=1) - n[rows, worst], several


def _alike(names: Names) -> tuple[I8, I8]:
    """Sites of one operation; and steps of records that begin at one point."""
    operation = np.array([site.operation for site in names.sites], dtype=np.int64)
    first = len(names.operations)
    begins = [first + site.caller if site.kind is SiteKind.STEP else site.operation for site in names.sites]
    return operation, np.array(begins, dtype=np.int64)


def _thresholds(ordinary: Votes, n_sites: int) -> I8:
    """[sites] bin over which a vote is very slow: the one that holds the quantile, or three times the median.

    0 where there are no ordinary votes.
    """
    pooled = merged(ordinary.site, np.zeros_like(ordinary.slot), ordinary.bin, ordinary.n)
    total = totals(pooled.site, pooled.n, n_sites)
    filled = np.flatnonzero(total > 0)
    threshold = np.zeros(n_sites, dtype=np.int64)
    high, middle = (pooled.bin[at] for at in holding_rows(pooled.site, pooled, total, (0.98, 0.5)))
    threshold[filled] = np.maximum(high, middle + _THREE_TIMES)
    return threshold
