"""Compare each instance of a component, and each version or zone, with its siblings in the problem.

Siblings are the component's other instances, versions or zones. An instance got slower if its times grew
relative to its siblings' times, whatever else changed; an instance that was always slower did not. Own times
are divided by the reference's median at the same call site and pattern, so that times of a whole component
can be pooled. A request counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from scipy.special import betainc

from analyze.methods.robust.calls_by_instance import Calls, Level
from analyze.methods.robust.changes import Instance
from analyze.methods.robust.measures.observed import Observed
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.view import View
from analyze.stats.estimate import FIRST_BLOCK, Estimate, level_change, share_change
from analyze.stats.histograms import BIN_LOG, Histograms
from analyze.stats.noise import SPREAD_WEIGHT, LogMedians
from analyze.stats.sums import numbered, totals
from schemas.arrays import B1, F8, I8
from stitch.columnar.runs import group_stably

_MIDDLE: Final = 4096
"""Histogram bin of an own time equal to the reference's median (ratio 1)."""
_MEDIAN_OF_MEAN: Final = 1.57
"""Variance of a weighted median divided by the variance of the weighted mean, for three or more values; the
median of one or two values is the mean."""


class _Row(NamedTuple):
    """Comparison of an instance, version or zone at a site or component with its siblings."""

    site: int
    level: Level
    value: F8
    """float64[2 + siblings]: natural logarithm of the own time (for failures: number of failing requests) of
    the pooled siblings, of the instance, and of each sibling."""
    scale: F8
    """float64[2 + siblings]: variance of each element of `value`; for failures, the number of requests of
    each."""
    requests: float
    requests_before: float
    """Number of requests that the instance is compared with: its requests in the reference if there are
    enough; otherwise, and for failures, the siblings' requests in the problem."""
    siblings: float
    """Log ratio of the siblings' times, problem to reference; for failures, share of the siblings' requests
    in the problem that fail."""
    rank_p: float = 1.0
    past: float = np.nan
    """Share of the instance's requests in the reference that failed, in [0, 1]; NaN with too few requests."""
    added_ns: float = 0.0
    """Time that the instance's calls spend on the critical path in the problem, ns, summed over all
    requests."""
    tau: float = 0.0
    """Lower bound of the standard deviation of log times between instances."""
    known: tuple[float, float] = (np.inf, np.inf)
    """Degrees of freedom of the variance of (the pooled siblings, the instance); inf if the variance is
    exact."""


def _columns(rows: Sequence[_Row], fill: float) -> tuple[F8, F8]:
    """Stack `value` and `scale` of all rows, shorter ones padded with `fill`: two arrays float64[rows,
    columns]."""
    width = max(len(row.value) for row in rows)
    values, scales = (
        np.stack([np.pad(one, (0, width - len(one)), constant_values=fill) for one in column])
        for column in ([row.value for row in rows], [row.scale for row in rows])
    )
    return values, scales


def _observed(
    view: View, rows: Sequence[_Row], e: Estimate, floor: float, matters: B1, added_ns: F8
) -> Observed:
    """Combine the rows and their estimate `e` into the observations of a measure.

    floor: smallest change that counts, in the unit of `e`; matters: bool[rows] True for rows that meet the
    measure's further conditions; added_ns: [rows] critical time that the row adds to the problem, ns.
    """
    site = np.array([row.site for row in rows])
    requests, is_share = max(view.after.requests, 1e-300), e.unit == "share"
    return Observed(
        site,
        e,
        np.isfinite(e.change),
        floor,
        matters,
        added_ns / requests,
        np.nan_to_num(np.abs(e.change if is_share else np.zeros(len(site)))) * e.n1 / requests,
        np.ones(len(site)),
        instance=tuple(
            Instance(r.level.attribute, r.level.value, len(r.level.siblings) + 1, r.level.hosts, r.siblings)
            for r in rows
        ),
        of_calls=view.makes_several[site] if is_share else None,
    )


def slower_instance(view: View) -> Observed | None:
    """Observe the own time of calls on one instance, version or zone: by how much its rise over the reference
    exceeds the siblings' rise. Instances without enough requests in the reference are compared with the
    siblings' times."""
    found, after, settings = view.by_instance, view.after, view.settings
    if found is None:
        return None
    late = found.calls.late == 1
    own_ns = totals(found.calls.site[late], found.calls.own_ns[late], view.n_sites)
    waited = np.minimum(after.critical_ns / np.maximum(own_ns, 1.0), 1.0)
    calls, components, scope = _scoped(_relative(found.calls, settings.least_of_pattern))
    n_sites = len(np.unique(calls.site))
    by_scope, first = group_stably(scope, len(components))
    rows: list[_Row] = []
    for at, component in enumerate(components.tolist()):
        here = calls.where(by_scope[first[at] : first[at + 1]])
        levels = found.levels[component]
        groups = _numbers(levels)
        medians, n = _levels_by_period(here, groups, one_site=at < n_sites, trim=settings.instance_trim)
        for level in levels:
            own = groups[level.hosts]
            known = n[own, 0] >= settings.least_of_instance
            value, variance = medians.value[:, 1], medians.variance[:, 1]
            sure = np.broadcast_to(medians.freedom, n.shape)[:, 1]
            if known:  # compare all instances with their own past
                value = value - medians.value[:, 0]
                variance = np.where(
                    n[:, 0] >= settings.least_of_instance, variance + medians.variance[:, 0], np.nan
                )
                sure = np.maximum(medians.change_freedom() - SPREAD_WEIGHT, 0.0)
            usable = (n[:, 1] >= settings.least_of_instance) & np.isfinite(variance)
            others = [k for hosts in level.siblings if usable[k := groups[hosts]]]
            if not others or not usable[own]:
                continue
            tau = settings.min_tau if known else settings.instance_tau
            centre, error = _weighted_median(value[others], variance[others], tau**2)
            late, is_own = here.late == 1, np.isin(here.host, level.hosts)
            mine = late & is_own
            usual = medians.value[own, 0] - np.median(medians.value[others, 0]) if known else 0.0
            site, median = _most_of_it(here, mine)
            slower = value[own] - centre > np.log1p(settings.time_floor)
            rows.append(
                _Row(
                    site,
                    level,
                    np.r_[centre, value[own], value[others]] + median - value[own],
                    np.r_[error, variance[own], variance[others]],
                    float(n[own, 1]),
                    float(n[own, 0] if known else n[others, 1].sum()),
                    centre if known else centre - _MIDDLE * BIN_LOG,
                    # Not tested unless slower: the test costs as much, and the result would not be used.
                    rank_p=_rank_p(here.where(late), is_own[late], usual) if slower else 1.0,
                    added_ns=float((here.own_ns * waited[here.site])[mine].sum()),
                    tau=tau,
                    known=(float(sure[others].sum()), float(sure[own])),
                )
            )
    if not rows:
        return None
    value, variance = _columns(rows, np.nan)
    e = level_change(
        LogMedians(value[:, :FIRST_BLOCK], variance[:, :FIRST_BLOCK], np.array([row.known for row in rows])),
        np.array([[row.requests_before, row.requests] for row in rows]),
        np.array([row.rank_p for row in rows]),
        LogMedians(value[:, FIRST_BLOCK:], variance[:, FIRST_BLOCK:]),
        np.where(np.isnan(value[:, FIRST_BLOCK:]), 0.0, np.inf),
        # Lasting offsets of instances without a past are unknown; their `tau` allows for them.
        tau_floor=np.array([row.tau for row in rows]),
    )
    e, sites = _alone(e), np.array([row.site for row in rows])
    added_ns = np.array([row.added_ns for row in rows]) * -np.expm1(-e.change)
    weight = after.w[sites] / np.maximum(after.n[sites], 1e-300)
    least = settings.time_share * after.mean_response_ns[sites]
    matters = added_ns > least * weight * e.n1
    return _observed(view, rows, e, float(np.log1p(settings.time_floor)), matters, added_ns)


def _scoped(calls: Calls) -> tuple[Calls, I8, I8]:
    """List calls by call site, and again by component for components with several sites. Each site and each
    such component is a scope, in which instances are compared.

    Returns (calls, int64[scopes] component of each scope, int64[calls] scope of each call).
    """
    sites, code = np.unique(calls.site, return_inverse=True)
    component = np.zeros(len(sites), dtype=np.int64)
    component[code] = calls.component
    wide = np.flatnonzero(np.bincount(component) > 1)
    place = np.full(int(component.max(initial=0)) + 1, -1, dtype=np.int64)
    place[wide] = len(sites) + np.arange(len(wide))
    pooled = place[calls.component] >= 0
    more = replace(calls, n=calls.of_component).where(pooled)
    both = Calls(*(np.concatenate([getattr(calls, n), getattr(more, n)]) for n in Calls.__slots__))
    return both, np.r_[component, wide], np.r_[code, place[calls.component[pooled]]]


def _numbers(levels: Sequence[Level]) -> dict[tuple[int, ...], int]:
    return {hosts: number for number, hosts in enumerate(dict.fromkeys(level.hosts for level in levels))}


def _levels_by_period(
    calls: Calls, groups: Mapping[tuple[int, ...], int], *, one_site: bool, trim: float
) -> tuple[LogMedians, F8]:
    """Log time of each group of hosts in reference and problem, with sampling variances, and number of
    requests; both [groups, (reference, problem)].

    groups: host indices -> number of the group. one_site: True for calls of one site, summarized by a mean
    without the share `trim` of the extremes, which needs fewest requests; False for calls of a component,
    summarized by the median: most calls must be slower, as a single slow operation is reported by itself.
    """
    parts = [(number, np.flatnonzero(np.isin(calls.host, hosts))) for hosts, number in groups.items()]
    rows = np.concatenate([mine for _, mine in parts])
    place = np.concatenate([np.full(len(mine), number, dtype=np.int64) for number, mine in parts])
    table = Histograms.of(place, calls.late[rows], calls.bin[rows], calls.n[rows])
    if one_site:
        return table.trimmed_log_means(len(groups), 2, trim)
    return table.log_medians(len(groups), 2)


def _most_of_it(calls: Calls, mine: B1) -> tuple[int, float]:
    """Site at which the calls in the mask `mine` spend most time: (index of the site, natural logarithm of
    the median own time, ns, of these calls at the site)."""
    sites, code = np.unique(calls.site[mine], return_inverse=True)
    best = int(totals(code, calls.own_ns[mine], len(sites)).argmax())
    here = np.flatnonzero(mine)[code == best]
    mean_ns = calls.own_ns[here] / calls.count[here]
    order = np.argsort(mean_ns)
    past = np.cumsum(calls.count[here][order])
    median_ns = mean_ns[order][np.searchsorted(past, past[-1] / 2)]
    return int(sites[best]), float(np.log(max(median_ns, 1.0)))


def _rank_p(calls: Calls, own: B1, usual: float) -> float:
    """p of a rank-sum test of one instance's times against the times of all other instances, after
    subtracting its usual difference.

    own: mask of the instance's calls; usual: log ratio of its times to the others' in the reference.
    """
    bins = calls.bin - own * round(usual / BIN_LOG)
    return float(Histograms.of(np.zeros_like(bins), own.astype(np.int64), bins, calls.n).rank_p(1)[0])


def _weighted_median(value: F8, sampling: F8, between: float) -> tuple[float, float]:
    """Weighted median with weights 1 / (sampling + between): (median, its sampling variance).

    value: [values]; sampling: [values] sampling variance of each value; between: variance between instances.
    """
    order = np.argsort(value)
    weight = 1 / (sampling[order] + between)
    past = np.cumsum(weight) - weight / 2
    middle = float(np.interp(weight.sum() / 2, past, value[order]))
    of_mean = float((weight**2 * sampling[order]).sum() / weight.sum() ** 2)
    return middle, of_mean if len(value) <= 2 else _MEDIAN_OF_MEAN * of_mean


def _relative(calls: Calls, least: int) -> Calls:
    """Divide own times by the reference's median at the same site and call pattern. Calls are dropped if the
    reference has fewer than `least` requests there."""
    code, first = numbered((calls.site, calls.pattern))
    before = calls.late == 0
    table = Histograms.of(
        code[before], np.zeros(int(before.sum()), np.int64), calls.bin[before], calls.n[before]
    )
    medians, n = table.log_medians(len(first), 1)
    base = np.where(n[:, 0] >= least, medians.value[:, 0] / BIN_LOG, np.nan)[code]
    known = np.isfinite(base)
    shifted = np.rint(calls.bin[known] - base[known]).astype(np.int64) + _MIDDLE
    return replace(calls.where(known), bin=shifted)


def failing_instance(view: View) -> Observed | None:
    """Observe the share of requests that fail on one instance, version or zone, compared with the siblings'
    share in the problem, and with the instance's share in the reference if known."""
    found, settings = view.by_instance, view.settings
    if found is None:
        return None
    calls = found.calls
    rows: list[_Row] = []
    for site in np.unique(calls.site[(calls.failing > 0) & (calls.late == 1)]).tolist():
        here = calls.where(calls.site == site)
        levels = found.levels[int(here.component[0])]
        groups = _numbers(levels)
        x, n = (
            np.array(
                [
                    [value[np.isin(here.host, hosts) & (here.late == late)].sum() for late in (0, 1)]
                    for hosts in groups
                ]
            )
            for value in (here.failing, here.n)
        )
        for level in levels:
            own, others = groups[level.hosts], [groups[hosts] for hosts in level.siblings]
            if min(n[own, 1], n[others, 1].sum()) >= settings.min_requests:
                known = n[own, 0] >= settings.least_of_instance
                rows.append(
                    _Row(
                        site,
                        level,
                        np.r_[x[others, 1].sum(), x[own, 1], x[others, 1]],
                        np.r_[n[others, 1].sum(), n[own, 1], n[others, 1]],
                        float(n[own, 1]),
                        float(n[others, 1].sum()),
                        float(x[others, 1].sum() / n[others, 1].sum()),
                        past=float(x[own, 0] / n[own, 0]) if known else np.nan,
                    )
                )
    if not rows:
        return None
    e = _alone(share_change(*_columns(rows, 0.0), one_sided=True))
    rises = _rises_from(np.array([row.past for row in rows]), e, settings)
    least = settings.least_affected - 0.5
    matters = rises & (e.after * e.n1 >= least)
    seen = _observed(view, rows, e, settings.new_floor, matters, np.zeros(len(rows)))
    return replace(seen, tested=seen.tested & (e.before * e.n0 + e.after * e.n1 >= least))


def _rises_from(past: F8, e: Estimate, settings: RobustSettings) -> B1:
    """bool[rows]: True where the share in the problem exceeds the share `past` in the reference by the floor
    and by more than chance; True if `past` is NaN (unknown)."""
    x = np.maximum(e.after * e.n1, 0.0)
    with np.errstate(invalid="ignore"):
        # Probability of at least x of n1 at the share of the past.
        chance = np.where(
            (past > 0) & (x > 0), betainc(np.maximum(x, 1e-9), np.maximum(e.n1 - x + 1, 1e-9), past), 0.0
        )
        risen = (e.after - past > settings.new_floor) & (chance < settings.instance_q)
        return np.asarray(np.isnan(past) | risen)


def _alone(e: Estimate) -> Estimate:
    """Remove the block values from an estimate: its blocks are siblings, not time blocks that define a normal
    range; their scatter is included in p instead."""
    n = len(e.p)
    return replace(
        e,
        p=np.maximum(e.p_with_noise, e.p),
        blocks=np.full((n, 0), np.nan),
        low=np.full(n, -np.inf),
        high=np.full(n, np.inf),
    )
