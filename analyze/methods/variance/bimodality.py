"""Find edges that mix two behaviours, such as cache hits and misses, and need more instrumentation
(VarianceFinder §4.3).

The logarithms of an edge's times are fitted by one normal distribution and by a mixture of two. The mixture
must be better by ΔBIC > 10 *and* have two peaks with a dip between them, as with thousands of requests a
mixture always fits better than one distribution. The advice is to add a trace point or a label there, or to
use the parameter that already separates the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from analyze.explain.chosen_requests import Selection
from analyze.methods.variance.covariance import DecomposedGroup, GroupParts
from analyze.population import Population
from schemas.arrays import B1, F8
from schemas.report.explanations import Explanation
from schemas.report.variance import EdgeAdvice

_LEAST_VALUES: Final = 40
_LEAST_MODE: Final = 5
"""Minimum number of values in the smaller mode, which must also have at least 0.1 % of the values."""
_MOST_VALUES: Final = 2_000
"""Maximum number of values fitted; of a larger sample, values at evenly spaced ranks are used."""
_DELTA_BIC: Final = 10.0
_DIP: Final = 0.8
"""Maximum ratio of the density in the dip between two peaks to the density at the lower peak."""
_CONVERGED: Final = 1e-3
"""Gain of the mean log-likelihood per step below which a fit ends."""
_MOST_STEPS: Final = 100
_GRID: Final = 401
"""Number of points, between the means of the two components, at which the density is evaluated."""


@dataclass(frozen=True, slots=True)
class TwoBehaviours:
    """Mixture of two log-normal distributions that fits an edge's times better than one."""

    delta_bic: float
    """Improvement of the Bayesian information criterion over a single law."""
    low_us: float
    """Median of the faster mode, µs."""
    high_us: float
    """Median of the slower mode, µs."""
    high_share: float
    """Share of the slower mode among the requests that pass the edge, in [0, 1]."""
    cut_us: float
    """Time above which a request more likely belongs to the slower mode, µs."""


def two_behaviours(us: F8) -> TwoBehaviours | None:
    """Fit a mixture of two modes to the times of an edge.

    us: positive times, µs, of the requests that pass it. None if one distribution suffices.
    """
    values = np.sort(np.log(us[us > 0]))
    if len(values) < _LEAST_VALUES or values[0] == values[-1]:
        return None
    step = -(-len(values) // _MOST_VALUES)
    # Thinning keeps the longest time, so that a few long times are not lost.
    thin = np.concatenate([values[::step], values[-1:]]) if step > 1 else values
    floor = max(1e-4, (1e-3 * float(thin.std())) ** 2)
    one = _maximised(thin, np.ones((len(thin), 1)), floor)
    # Starts: bulk and slow end, fast end and bulk, and two halves.
    fits = [
        two_normals(thin, float(cut), floor)
        for cut in np.quantile(thin, (0.05, 0.5, 0.95, 0.99))
        if (thin <= cut).sum() >= 2 and (thin > cut).sum() >= 2
    ]
    if not fits:
        return None
    found = max(fits, key=lambda fit: fit.log_likelihood(thin))
    order = np.argsort(found.mean)
    found = Mixture(found.weight[order], found.mean[order], found.variance[order])
    delta = one.bic(thin) - found.bic(thin)
    least = max(_LEAST_MODE / len(thin), 1e-3)
    if delta <= _DELTA_BIC or found.weight.min() < least:
        return None
    between = np.linspace(found.mean[0], found.mean[1], _GRID)
    log = found.log_densities(between)
    height = np.exp(np.logaddexp.reduce(log, axis=1))
    if height.min() >= _DIP * min(height[0], height[-1]):
        return None  # one peak
    # The first value that belongs to the slower peak as probably as to the faster one.
    later = np.flatnonzero(log[:, 1] >= log[:, 0])
    cut = float(between[later[0]] if len(later) else between[-1])
    return TwoBehaviours(
        delta,
        float(np.exp(found.mean[0])),
        float(np.exp(found.mean[1])),
        float((values > cut).mean()),
        float(np.exp(cut)),
    )


@dataclass(frozen=True, slots=True)
class Mixture:
    """Mixture of normal laws; arrays are float64[components]."""

    weight: F8
    mean: F8
    variance: F8

    def log_densities(self, values: F8) -> F8:
        """Weighted log-density of each value [n] in each component, float64[n, components]."""
        squared = (values[:, None] - self.mean) ** 2 / self.variance
        return np.log(self.weight) - 0.5 * (np.log(2 * np.pi * self.variance) + squared)

    def log_likelihood(self, values: F8) -> float:
        """Log-likelihood of `values` under the mixture."""
        return float(np.logaddexp.reduce(self.log_densities(values), axis=1).sum())

    def bic(self, values: F8) -> float:
        """Bayesian information criterion of `values` [n]; lower is better."""
        return (3 * len(self.mean) - 1) * float(np.log(len(values))) - 2 * self.log_likelihood(values)


def two_normals(values: F8, cut: float, floor: float) -> Mixture:
    """Fit a mixture of two normal laws by expectation maximisation, starting from the values below and above
    `cut`.

    floor: added to the variances, so that no component shrinks to a point.
    """
    above = (values > cut).astype(np.float64)
    belongs = np.stack([1 - above, above], axis=1)
    found, likelihood = _maximised(values, belongs, floor), -np.inf
    for _ in range(_MOST_STEPS):
        log = found.log_densities(values)
        each = np.logaddexp.reduce(log, axis=1)
        found = _maximised(values, np.exp(log - each[:, None]), floor)
        before, likelihood = likelihood, float(each.mean())
        if likelihood - before < _CONVERGED:
            break
    return found


def _maximised(values: F8, belongs: F8, floor: float) -> Mixture:
    """Mixture of maximum likelihood for `values` [n].

    belongs: [n, components] probability that each value belongs to each component.
    """
    # A component without values keeps a positive weight, for its logarithm.
    count = belongs.sum(axis=0) + np.finfo(np.float64).eps
    mean = values @ belongs / count
    variance = ((values[:, None] - mean) ** 2 * belongs).sum(axis=0) / count + floor
    return Mixture(count / count.sum(), mean, variance)


def edge_advice(
    population: Population, looked: Sequence[DecomposedGroup], *, least_share: float, most: int
) -> list[EdgeAdvice]:
    """Advise on instrumentation: edges with a large, unmarked part of a group's variance whose times mix two
    modes.

    One piece of advice per edge label, the largest share of the total variance first, for the group to which
    the label adds most. For the first `most` pieces, parameters are compared between the two modes.
    """
    by_label: dict[str, list[tuple[float, DecomposedGroup, int, TwoBehaviours]]] = {}
    for of in looked:
        for part in np.flatnonzero((of.shares.share >= least_share) & ~of.parts.marked).tolist():
            if (two := two_behaviours(of.parts.us[part])) is not None:
                worth = of.impact * float(of.shares.share[part])
                by_label.setdefault(of.parts.names[part].text, []).append((worth, of, part, two))

    def order(alike: Sequence[tuple[float, DecomposedGroup, int, TwoBehaviours]]) -> tuple[float, int, int]:
        _, of, part, _ = alike[0]
        return -sum(worth for worth, *_ in alike), of.group, part

    for alike in by_label.values():
        alike.sort(key=lambda one: (-one[0], one[1].group, one[2]))
    return [
        EdgeAdvice(
            category=of.category,
            categories=len({other.group for _, other, *_ in alike}),
            label=of.parts.names[part].text,
            worth=-order(alike)[0],
            **asdict(two),
            explanation=_explanation(population, of.parts, part, two) if place < most else None,
        )
        for place, alike in enumerate(sorted(by_label.values(), key=order))
        for _, of, part, two in alike[:1]
    ]


def _explanation(population: Population, parts: GroupParts, part: int, two: TwoBehaviours) -> Explanation:
    # Imported here: they import scipy.stats, which takes a second, and most runs explain nothing.
    from analyze.explain.explanation import explain
    from analyze.explain.table import features

    us = parts.us[part]
    slow = us > two.cut_us
    table = features(
        population,
        _selection(parts, slow),
        _selection(parts, (us > 0) & ~slow),
        words=("slow requests", "fast requests"),
    )
    return explain(table)


def _selection(parts: GroupParts, chosen: B1) -> Selection:
    category, row = parts.category[chosen], parts.row[chosen]
    return Selection({int(c): np.sort(row[category == c]) for c in np.unique(category)})
