"""Edges that merge unlike behaviours, such as cache hits and misses: more instrumentation is due (VF §4.3).

The logarithms of an edge's times are fitted by one normal distribution and by two. Two must be better by
ΔBIC > 10 *and* have two humps with a dip between them, for with thousands of requests two curves always fit
better than one, whatever the shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.arrays import F8

LEAST_VALUES: Final = 40
LEAST_MODE: Final = 5
"""Values of the smaller behaviour, and at least one in a thousand."""
MOST_VALUES: Final = 2_000
"""More are thinned, evenly over their order of size."""
DELTA_BIC: Final = 10.0
DIP: Final = 0.8
"""The density between the humps falls below this part of the lower one."""


@dataclass(frozen=True, slots=True)
class TwoBehaviours:
    """A mixture of two log-normal distributions that is better than one."""

    delta_bic: float
    low_us: float
    high_us: float
    """Medians of the faster and the slower one."""
    high_share: float
    """Of the requests that pass the edge."""
    cut_us: float
    """Longer times are rather of the slower one."""


def two_behaviours(us: F8, *, seed: int) -> TwoBehaviours | None:
    """The two behaviours of positive times, or None where one distribution will do."""
    values = np.sort(np.log(us[us > 0]))
    if len(values) < LEAST_VALUES or values[0] == values[-1]:
        return None
    step = -(-len(values) // MOST_VALUES)
    # Few long times must not be lost when a long list is thinned: its ends stay.
    thin = np.concatenate([values[::step], values[-1:]]) if step > 1 else values
    # Here, because it takes half a second: only who has something to fit waits for it.
    from sklearn.mixture import GaussianMixture

    column = thin[:, None]
    floor = max(1e-4, (1e-3 * float(thin.std())) ** 2)
    one = GaussianMixture(1, init_params="random_from_data", reg_covar=floor, random_state=seed).fit(column)
    found = None
    # From the bulk against the slow end, from the fast end against the bulk, and from the middle.
    for part in (0.05, 0.5, 0.95, 0.99):
        at = np.quantile(thin, part)
        lower, upper = thin[thin <= at], thin[thin > at]
        if len(lower) < 2 or len(upper) < 2:
            continue
        start = np.array([[lower.mean()], [upper.mean()]])
        fit = GaussianMixture(
            2,
            # Not by K-means, which would be run and thrown away.
            init_params="random_from_data",
            reg_covar=floor,
            random_state=seed,
            means_init=start,
            weights_init=[len(lower) / len(thin), len(upper) / len(thin)],
            precisions_init=1 / np.maximum([[[lower.var()]], [[upper.var()]]], floor),
        ).fit(column)
        if found is None or fit.lower_bound_ > found.lower_bound_:
            found = fit
    if found is None:
        return None
    delta = float(one.bic(column) - found.bic(column))
    order = np.argsort(found.means_[:, 0])
    mean, sd = found.means_[order, 0], np.sqrt(found.covariances_[order, 0, 0])
    weight = found.weights_[order]
    least = max(LEAST_MODE / len(thin), 1e-3)
    if delta <= DELTA_BIC or weight.min() < least or not _has_dip(mean, sd, weight):
        return None
    cut = _cut(mean, sd, weight)
    return TwoBehaviours(
        delta,
        float(np.exp(mean[0])),
        float(np.exp(mean[1])),
        float((values > cut).mean()),
        float(np.exp(cut)),
    )


def _has_dip(mean: F8, sd: F8, weight: F8) -> bool:
    """Whether the density of the mixture has two humps, one at each mean."""
    grid = np.linspace(mean[0], mean[1], 401)
    density = (weight / sd * np.exp(-0.5 * ((grid[:, None] - mean) / sd) ** 2)).sum(axis=1)
    return bool(density.min() < DIP * min(density[0], density[-1]))


def _cut(mean: F8, sd: F8, weight: F8) -> float:
    """Where between the two means a value is as likely of the one as of the other."""
    grid = np.linspace(mean[0], mean[1], 401)
    log = np.log(weight) - np.log(sd) - 0.5 * ((grid[:, None] - mean) / sd) ** 2
    later = np.flatnonzero(log[:, 1] >= log[:, 0])
    return float(grid[later[0]] if len(later) else grid[-1])
