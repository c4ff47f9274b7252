"""Which paths got slower or faster, by their response times (ALGORITHMS B.2, B.4, L.9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.paths.path_settings import PathSettings
from analyze.paths.path_table import PathTable
from analyze.stats.multiple import q_values
from analyze.stats.noise import LogMedians, log_medians, window_noise
from analyze.stats.rank import rank_tests
from analyze.stats.tolerant_ks import tolerant_ks
from schemas.arrays import B1, F8
from schemas.windows import NS_PER_US

_SMALL = 20
"""Below so many requests on a side, by what weights are worth, the exact rank test is used, above the
tolerant KS."""
_LEAST_US = 1e-3
"""1 ns: what a time of 0 is raised to before its logarithm is taken."""


@dataclass(frozen=True, slots=True)
class TimeTests:
    """[categories] each; NaN where nothing was tested."""

    p: F8
    q: F8
    z: F8
    """Change of the log-median over its standard error, noise between windows included."""
    changed: B1


def time_tests(table: PathTable, settings: PathSettings) -> TimeTests:
    """Test the response times of every category with enough requests in both periods.

    Requests count by their weight, and as many as the weights are worth (A.7).
    """
    n = len(table.graphs)
    tested = table.moments.count.min(axis=0) >= settings.min_requests
    places = np.flatnonzero(tested)
    columns = [(i, c) for i, c in enumerate(table.categories) if c is not None and tested[i]]
    nothing = np.full(n, np.nan)
    if not columns:
        return TimeTests(nothing, nothing, nothing, tested)
    us = np.concatenate([c.response_ns for _, c in columns]) / NS_PER_US
    late = np.concatenate([c.sample for _, c in columns]) == 1
    weight = np.concatenate([c.weight for _, c in columns])
    test = np.repeat(np.arange(len(columns)), [c.n_requests for _, c in columns])
    side = test + late * len(columns)
    medians = log_medians(us, side, 2 * len(columns), least=_LEAST_US, weight=weight)
    value, variance = (x.reshape(2, -1) for x in (medians.value, medians.variance))
    noise = window_noise(_by_window(table, places), floor=_floor(table, settings))
    windows0, windows1 = max(len(table.history), 1), max(len(table.problem), 1)
    spread = np.sqrt(noise.tau2 * (1 / windows0 + 1 / windows1))
    delta = np.maximum(settings.floor_time, np.expm1(2.0 * spread))
    ranked = rank_tests(us, late, test, len(columns), weight)
    stretched = tolerant_ks(us, weight, late, test, delta)
    # Sums of weights that are worth 20 requests may fall short of it by rounding.
    small = np.minimum(stretched.effective0, stretched.effective1) < _SMALL * (1 - 1e-9)
    p = np.where(small, ranked.p, stretched.p)
    change = value[1] - value[0]
    z = change / np.sqrt(noise.variance_of_change(variance[0], variance[1], windows0, windows1))
    clear = (np.abs(z) >= settings.least_z) & (np.abs(change) > np.log1p(delta)) & noise.outside(value[1])
    q = q_values(p)

    def spread_out(part: F8) -> F8:
        whole = nothing.copy()
        whole[places] = part
        return whole

    changed = np.zeros(n, np.bool_)
    changed[places] = clear & (q <= settings.q)
    return TimeTests(spread_out(p), spread_out(q), spread_out(z), changed)


def _floor(table: PathTable, settings: PathSettings) -> float:
    """Least noise between windows: what is assumed, unless there are windows enough to see it."""
    return settings.cold_tau if len(table.history) < 3 else 0.05


def _by_window(table: PathTable, places: npt.NDArray[np.intp]) -> LogMedians:
    """[tested categories, windows] log-medians of the windows of reference and history."""
    windows = len(table.history)
    column = np.full(len(table.graphs), -1, np.int64)
    column[places] = np.arange(len(places))
    mine = column[table.past.category] >= 0
    group = column[table.past.category[mine]] * windows + table.past.window[mine]
    found = log_medians(
        table.past.response_us[mine],
        group,
        len(places) * windows,
        least=_LEAST_US,
        weight=table.past.weight[mine],
    )
    return LogMedians(found.value.reshape(len(places), windows), found.variance.reshape(len(places), windows))
