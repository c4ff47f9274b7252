"""Explain slow-downs by load: with more requests, each request waits longer at a busy server.

Utilization is measured by Little's law (arrivals per second times seconds per call), and queueing theory
predicts the wait under the new load. Load makes an idle operation hardly slower, so a fault there is still
found. A nearly saturated operation may get arbitrarily slow, so a fault there cannot be distinguished from
load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyze.methods.robust.changes import Change
from analyze.methods.robust.comparison import Comparison
from analyze.methods.robust.confounders.port import Confounder, Explained, counted_changes
from analyze.methods.robust.roles import PROBLEM, REFERENCE
from analyze.methods.robust.view import View, by_site
from analyze.population import Population
from analyze.profile.profile import OWN_TIME, Profile
from analyze.stats.histograms import Histograms, value_of
from analyze.stats.sums import totals
from schemas.arrays import B1, F8
from schemas.report.findings import ChangeKind

_NS_PER_S = 1e9
_MAX_NS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LoadMet:
    """Arrival rate around each request, averaged over requests, in requests per second: `before` in the
    reference, `after` in the problem."""

    before: float
    after: float

    @property
    def ratio(self) -> float:
        """`after` / `before`; 1 if either of them is 0 (unknown)."""
        return self.after / self.before if self.before > 0 and self.after > 0 else 1.0


def load_met(comparison: Comparison) -> LoadMet:
    """Arrival rate in the time block around each request, averaged over requests, for both periods.
    O(requests).

    The rate of a whole period would not show bursts: with all requests in half of the time, each meets twice
    the load. A block has about `load_requests` requests; for stored statistics it is a time slot of the
    profile.
    """
    population, roles = comparison.population, comparison.roles
    if not population.categories:
        profile = comparison.profile
        return LoadMet(*(_of_slots(profile, slots) for slots in (roles.reference, roles.problem)))
    requests = comparison.settings.confounders.load_requests
    return LoadMet(*(_of_requests(population, sample, requests) for sample in (REFERENCE, PROBLEM)))


def _of_requests(population: Population, sample: int, block_requests: int) -> float:
    start, weight = population.columns(sample, "start_ns", "weight")
    ranges = population.samples[sample].ranges or ((int(start.min()), int(start.max()) + 1),)
    seconds = sum(end - begin for begin, end in ranges) / _NS_PER_S
    # With one request in some years the block would exceed int64 ns; this limit still covers all times.
    length_ns = min(max(int(seconds * _NS_PER_S * block_requests / max(len(start), 1)), 1), _MAX_NS)
    _, block = np.unique(start // length_ns, return_inverse=True)
    n = np.bincount(block).astype(np.float64)
    kept = float(weight.mean())
    # n (n - 1): a request meets the others, not itself. For Poisson arrivals the mean is the rate.
    return float((n * (n - 1)).sum() / max(n.sum(), 1.0)) / (length_ns / _NS_PER_S) * kept


def _of_slots(profile: Profile, slots: B1) -> float:
    responses = profile.responses
    weight = totals(responses["slot"].to_numpy(), responses["w"].to_numpy(), len(slots))[slots]
    seconds = np.array([slot.seconds for slot in profile.slots])[slots]
    there = seconds > 0
    total = float(weight[there].sum())
    return float((weight[there] ** 2 / seconds[there]).sum()) / total if total else 0.0


class Load(Confounder):
    """Confounder for load: explains slow-downs by more requests, and speed-ups by fewer."""

    name = "load"
    doc = "More requests wait longer where a server was busy."
    case = "tests/unit/test_confounders.py: a full place waits"

    def explains(self, changes: Sequence[Change], comparison: Comparison) -> Explained | None:
        """Explain slow-downs no larger than queueing predicts under higher load, or speed-ups under lower
        load."""
        met = load_met(comparison)
        found = load_changes(changes, met, comparison)
        if not found:
            return None
        how, what = ("more", "slow down") if met.ratio > 1 else ("fewer", "get faster")
        return Explained(
            "load",
            f"Requests meet {met.ratio:.2f} times the load ({met.before:.3g} → {met.after:.3g} a second): "
            f"{counted_changes(found)} {what} no more than queueing with so many {how} requests does, and "
            "are reported as load, not as findings.",
            tuple(found),
        )


def load_changes(changes: Sequence[Change], met: LoadMet, comparison: Comparison) -> list[Change]:
    """Changes that load explains: slow-downs no larger than queueing predicts under higher load, or speed-ups
    under lower load; empty if the load hardly changed."""
    settings = comparison.settings.confounders
    if 1 / settings.load_ratio < met.ratio < settings.load_ratio:
        return []
    more = met.ratio > 1
    kinds = {ChangeKind.SLOWER, ChangeKind.TAIL} if more else {ChangeKind.FASTER}
    asked = [change for change in changes if change.kind in kinds]
    if not asked:
        return []
    predicted, seen = (np.ones(len(comparison.profile.names.sites)) for _ in range(2))
    for view in comparison.views():
        predicted[view.site], seen[view.site] = _factors(view, met.ratio)
    allowed = 1 + settings.load_room * (predicted - 1)
    found = []
    for change in asked:
        size = float(seen[change.site])
        if change.kind is not ChangeKind.TAIL:
            median = change.after / max(change.before, 1e-12)
            size = max(size, median) if more else min(size, median)
        if size <= allowed[change.site] if more else size >= allowed[change.site]:
            found.append(change)
    return found


def _factors(view: View, ratio: float) -> tuple[F8, F8]:
    """Factor by which mean own times change at each site: (factor that queueing predicts for the site's
    operation if the arrival rate changes by `ratio`, measured factor), both float64[sites].

    The model is one server with random arrivals (M/M/1): time t = s / (1 - rho) with rho / (1 - rho) requests
    present, so rho is computed from the number present, for each time slot. The factor is infinite if
    rho·ratio >= 1.
    """
    profile, roles, votes = view.profile, view.roles, by_site(view.values(OWN_TIME))
    n_slots, n_sites = len(profile.slots), len(profile.names.sites)
    # The reference's votes are known by block only (`gathered`), its numbers of calls by slot.
    slots = np.flatnonzero(roles.reference & (roles.noise >= 0))
    block = roles.noise[slots]
    time_ns = _mean_ns(votes.pooled(roles.noise), n_sites, roles.n_noise)[:, block]
    visits = profile.visits
    cell = visits["site"].to_numpy().astype(np.int64) * n_slots + visits["slot"].to_numpy()
    calls = totals(cell, visits["calls"].to_numpy(), n_sites * n_slots).reshape(n_sites, n_slots)[:, slots]
    seconds = np.array([max(profile.slots[slot].seconds, 1e-9) for slot in slots.tolist()])
    station, of_site = np.unique(
        np.array([(site.operation, int(site.kind)) for site in profile.names.sites]).reshape(-1, 2),
        axis=0,
        return_inverse=True,
    )
    busy_ns = np.zeros((len(station), len(slots)))
    np.add.at(busy_ns, of_site.reshape(-1), calls * np.nan_to_num(time_ns))
    there = busy_ns / _NS_PER_S / seconds
    rho = there / (1 + there)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(rho * ratio < 1, (1 - rho) / (1 - np.minimum(rho * ratio, 1)), np.inf)
        total = busy_ns.sum(axis=1)
        by_station = np.where(
            total > 0, np.where(busy_ns > 0, busy_ns * factor, 0.0).sum(axis=1) / total, 1.0
        )
    side = np.where(roles.problem, 1, np.where(roles.reference, 0, -1))
    means = _mean_ns(votes.pooled(side), n_sites, 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = np.nan_to_num(means[:, 1] / means[:, 0], nan=1.0, posinf=np.inf)
    return by_station[of_site.reshape(-1)], seen


def _mean_ns(votes: Histograms, n_places: int, n_columns: int) -> F8:
    """Mean own time by place and column, ns, float64[places, columns]; NaN without requests."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean: F8 = votes.sums(votes.n * value_of(votes.bin + 0.5), n_places, n_columns) / votes.sums(
            votes.n, n_places, n_columns
        )
    return mean
