"""How often requests that touch a site call it: loops that turn more, or less, often (L.4, C.9).

Activity records do not nest: a loop shows only in how often its steps are walked. Of spans the caller's local
shape has the number, rounded up to a power of two: from 5 calls to 8 the shape is the same.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.candidates import NONE, Candidates, LogShift
from analyze.methods.robust.noise_between import noise_between
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import Spread, Votes, pooled, votes_of
from analyze.methods.robust.visit_sums import BothSums
from analyze.methods.robust.vote_ranks import rank_p
from analyze.profile.names import NO_CALLER, SiteKind
from analyze.profile.profile import CALLS, RATIO_SCALE, Profile
from analyze.stats.log_bins import value_of
from analyze.stats.sums import totals
from schemas.report.findings import ChangeKind

I8 = npt.NDArray[np.int64]

_LEAST_SPREAD = 0.02
"""Standard deviation of a request's number of calls, relative to the mean, is taken to be this at least."""
_COLD_TAU = 0.1
"""Noise of a mean number of calls where nothing tells, half that of times: how often a loop turns does not
follow from how fast a machine is today."""


def call_changes(
    profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings, kind: SiteKind
) -> Candidates:
    """Candidates of `more-calls` and `fewer-calls` at sites of a kind: calls a touching request."""
    names = profile.names
    chosen = np.array([s.kind is kind and s.caller != NO_CALLER for s in names.sites], dtype=np.bool_)
    votes, _ = votes_of(profile.votes, CALLS)
    n_sites = len(names.sites)
    # A site that is called once by every request has nothing to tell.
    wanted = chosen & (totals(votes.site, votes.n * (votes.bin > _ONE_CALL), n_sites) > 0)
    if not wanted.any():
        return NONE
    votes = votes.where(wanted[votes.site])
    side = roles.side
    periods = _means(votes, side, n_sites, 2)
    blocks = _means(votes, roles.noise, n_sites, max(roles.n_noise, 1))
    noise = noise_between(blocks, roles, settings, _COLD_TAU)
    variance = (periods.se**2).sum(axis=1) + noise.variance
    found = LogShift(
        periods, np.sqrt(variance), rank_p(pooled(votes, side), n_sites), noise.freedom_of(variance)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        calls = sums.reference.calls + sums.problem.calls
        time_ns = np.nan_to_num((sums.reference.critical_ns + sums.problem.critical_ns) / calls)
        mean = np.exp(periods.log_median)
    if kind is SiteKind.STEP:
        passes = found.exceeds(settings.min_z, settings.time_floor)
        moved_ns = np.abs(mean[:, 1] - mean[:, 0]) * time_ns
        passes &= moved_ns > settings.time_share * sums.mean_response_ns
    else:  # of a call the time lies mostly below, and what it costs is for its account to say
        passes = found.exceeds(settings.min_z, 2 * settings.time_floor)
    tested = np.asarray((periods.n >= settings.min_requests).all(axis=1)) & wanted
    weight = sums.problem.w / max(sums.problem.requests, 1e-300) * np.minimum(np.abs(found.shift), 1.0)
    return found.candidates(
        np.flatnonzero(tested),
        passes,
        noise,
        (ChangeKind.MORE_CALLS, ChangeKind.FEWER_CALLS),
        "calls",
        1.0,
        part_ns=(sums.rate1 - sums.rate0) * time_ns,
        call_ratio=sums.call_ratio,
        weight=weight,
    )


_ONE_CALL = int(np.log2(RATIO_SCALE) * 32)
"""Bin of one call."""


def _means(votes: Votes, group: I8, n_sites: int, n_groups: int) -> Spread:
    """Logarithm of the mean number of calls of each site and group of slots (`group` [slots], -1: in none).

    Of numbers the mean, not the median: most requests call once, whatever a loop does.
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
