"""How often requests that touch a site call it: loops that turn more, or less, often (L.4, C.9).

Of spans the caller's local shape tells it already. Activity records do not nest: a loop shows only in how
often its steps are walked.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from analyze.findings.changes import Change
from analyze.methods.robust.noise_between import noise_between, outside
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import Spread, Votes, votes_of
from analyze.methods.robust.visit_sums import BothSums
from analyze.methods.robust.vote_ranks import rank_p
from analyze.sites.log_bins import value_of
from analyze.sites.names import SiteKind
from analyze.sites.profile import CALLS, RATIO_SCALE, Profile
from analyze.sites.totals import totals
from schemas.report.findings import ChangeKind

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]

_Z95 = 1.96
_LEAST_SPREAD = 0.02
"""Standard deviation of a request's number of calls, relative to the mean, is taken to be this at least."""


def call_changes(
    profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings
) -> Iterator[Change]:
    """Candidates of `more-calls` and `fewer-calls`: calls a touching request, of steps between records."""
    steps = np.array([site.kind is SiteKind.STEP for site in profile.names.sites], dtype=np.bool_)
    if not steps.any():
        return
    votes, _ = votes_of(profile.votes, CALLS)
    votes = votes.where(steps[votes.site])
    n_sites = len(profile.names.sites)
    side = np.where(roles.problem, 1, np.where(roles.ordinary, 0, -1))
    periods = _means(votes, side, n_sites, 2)
    noise = noise_between(_means(votes, roles.noise, n_sites, max(roles.n_noise, 1)), roles, settings)
    p = rank_p(votes, side, n_sites)
    before, after = periods.log_median[:, 0], periods.log_median[:, 1]
    se = np.sqrt((periods.se**2).sum(axis=1) + noise.variance)
    change = after - before
    with np.errstate(divide="ignore", invalid="ignore"):
        calls = sums.reference.calls + sums.problem.calls
        time_ns = np.nan_to_num((sums.reference.critical_ns + sums.problem.critical_ns) / calls)
    moved_ns = np.abs(np.exp(after) - np.exp(before)) * time_ns
    passes = (np.abs(change) > settings.min_z * se) & (np.abs(change) > np.log1p(settings.time_floor))
    passes &= outside(noise, after) & (moved_ns > settings.time_share * sums.mean_response_ns)
    ever = np.bincount(votes.site, votes.bin, n_sites) > _one_call(votes, n_sites)
    tested = (periods.n >= settings.min_requests).all(axis=1) & ever
    part, ratio = (sums.rate1 - sums.rate0) * time_ns, sums.call_ratio
    weight = sums.problem.w / max(sums.problem.requests, 1e-300) * np.minimum(np.abs(change), 1.0)
    for site in np.flatnonzero(tested).tolist():
        first = float(np.exp(before[site]))
        yield Change(
            kind=ChangeKind.MORE_CALLS if change[site] > 0 else ChangeKind.FEWER_CALLS,
            site=site,
            p=float(p[site]),
            z=float(change[site] / se[site]),
            passes=bool(passes[site]),
            unit="calls",
            before=first,
            after=float(np.exp(after[site])),
            low=first * float(np.expm1(change[site] - _Z95 * se[site])),
            high=first * float(np.expm1(change[site] + _Z95 * se[site])),
            n0=int(periods.n[site, 0]),
            n1=int(periods.n[site, 1]),
            contribution_ns=float(part[site]),
            weight=float(weight[site]),
            call_ratio=float(ratio[site]),
        )


def _one_call(votes: Votes, n_sites: int) -> F8:
    """[sites] sum of the bins of votes if every request called once."""
    one = np.log2(RATIO_SCALE) * 32
    return totals(votes.site, np.full(len(votes.site), one), n_sites)


def _means(votes: Votes, group: I8, n_sites: int, n_groups: int) -> Spread:
    """Logarithm of the mean number of calls of each site and group of slots (`group` [slots], -1: in none).

    Of numbers the mean, not the median: most requests call once, whatever the loop does.
    """
    here = votes.where(group[votes.slot] >= 0)
    cell = here.site * n_groups + group[here.slot]
    # Counts were put in bins of ratios; small ones are told apart exactly.
    number = np.rint(value_of(here.bin + 0.5) / RATIO_SCALE)
    n, total, squares = (
        totals(cell, here.n * values, n_sites * n_groups)
        for values in (np.ones(len(cell)), number, number**2)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / n
        sd = np.maximum(np.sqrt(np.maximum(squares / n - mean**2, 0)) / mean, _LEAST_SPREAD)
        found = Spread(n, np.log(mean), sd / np.sqrt(n))
    shape = (n_sites, n_groups)
    return Spread(*(values.reshape(shape) for values in (found.n, found.log_median, found.se)))
