"""Find edges that merge two behaviours, such as cache hits and misses: more instrumentation is due (VF §4.3).

The logarithms of an edge's times are fitted by one normal distribution and by two. Two must be better by
ΔBIC > 10 *and* have two humps with a dip between them, for with thousands of requests two curves always fit
better than one, whatever the shape. The advice is a trace point or a label there, or the parameter that
already separates the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from analyze.explain.chosen_requests import Selection
from analyze.methods.variance.covariance import GroupParts
from analyze.population import Population
from analyze.profile.names import PartName
from schemas.arrays import B1, F8
from schemas.report.explanations import Explanation

_LEAST_VALUES: Final = 40
_LEAST_MODE: Final = 5
"""Values of the smaller behaviour, and at least one in a thousand."""
_MOST_VALUES: Final = 2_000
"""More are thinned, evenly over their order of size."""
_DELTA_BIC: Final = 10.0
_DIP: Final = 0.8
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
    if len(values) < _LEAST_VALUES or values[0] == values[-1]:
        return None
    step = -(-len(values) // _MOST_VALUES)
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
    least = max(_LEAST_MODE / len(thin), 1e-3)
    if delta <= _DELTA_BIC or weight.min() < least or not _has_dip(mean, sd, weight):
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
    return bool(density.min() < _DIP * min(density[0], density[-1]))


def _cut(mean: F8, sd: F8, weight: F8) -> float:
    """Where between the two means a value is as likely of the one as of the other."""
    grid = np.linspace(mean[0], mean[1], 401)
    log = np.log(weight) - np.log(sd) - 0.5 * ((grid[:, None] - mean) / sd) ** 2
    later = np.flatnonzero(log[:, 1] >= log[:, 0])
    return float(grid[later[0]] if len(later) else grid[-1])


@dataclass(frozen=True, slots=True)
class Advice:
    """An edge that merges two behaviours, as it is in the group to which it adds most."""

    group: int
    part: int
    name: PartName
    worth: float
    """Impact of the groups times share of the edge in them: a part of the variance of all."""
    found: TwoBehaviours
    groups: int = 1
    """Groups in which it does."""
    explanation: Explanation | None = None
    """What separates the two in the parameters that are there; None: not asked for."""


def merged_parts(
    group: int, parts: GroupParts, share: F8, impact: float, *, least_share: float, seed: int
) -> list[Advice]:
    """Advice on the parts of a group that have at least a share of its variance and no marker."""
    found = []
    for part in np.flatnonzero((share >= least_share) & ~parts.marked).tolist():
        two = two_behaviours(parts.us[part], seed=seed)
        if two is not None:
            found.append(Advice(group, part, parts.names[part], impact * float(share[part]), two))
    return found


def explained(
    population: Population, advice: Sequence[Advice], parts: dict[int, GroupParts], most: int
) -> list[Advice]:
    """One piece of advice an edge label, by worth; of the first `most` the parameters are compared with the
    two behaviours."""
    by_label: dict[str, list[Advice]] = {}
    for one in sorted(advice, key=lambda one: (-one.worth, one.group, one.part)):
        by_label.setdefault(one.name.text, []).append(one)
    merged = [
        replace(alike[0], worth=sum(one.worth for one in alike), groups=len({one.group for one in alike}))
        for alike in by_label.values()
    ]
    ordered = sorted(merged, key=lambda one: (-one.worth, one.group, one.part))
    return [
        replace(one, explanation=_explanation(population, parts[one.group], one)) if place < most else one
        for place, one in enumerate(ordered)
    ]


def _explanation(population: Population, parts: GroupParts, advice: Advice) -> Explanation:
    # Here: they bring scipy.stats, a second's worth, and most runs have nothing to explain.
    from analyze.explain.explanation import explain
    from analyze.explain.table import features

    us = parts.us[advice.part]
    slow = us > advice.found.cut_us
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
