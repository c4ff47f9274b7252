"""Test features for divergence between the classes (DISTALYZER §3.2).

If response times have a heavy tail, slow instances are weighted by cost (DISTALYZER §3.1, §5.2.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.distalyze.features import REPEATS, TYPES, FeatureMaker, FeatureType
from analyze.methods.distalyze.instance_logs import Instances, LogSeries, VariableName
from analyze.stats.welch import WelchTests, welch_tests
from schemas.arrays import B1, F8
from schemas.report.networks import LogType

_BLOCK: Final = 128
"""Number of variables processed at a time: 128 variables of 10,000 instances are 10 MB per matrix."""
MOSTLY: Final = 0.5
"""Minimum share, in [0, 1], of a class's instances in which a variable must occur; below it only its presence
is tested."""
_HEAVY: Final = 0.011
"""Share of instances outside of mean ± 3 sigma above which a tail is heavy: four times the share of a normal
distribution."""
_MOST_WEIGHT: Final = 1000.0
_TAIL_QUANTILE: Final = 0.98


@dataclass(frozen=True, slots=True)
class Divergence:
    """Tests of all features of a log; matrices are [types, variables]."""

    log_type: LogType
    names: tuple[VariableName, ...]
    types: tuple[FeatureType, ...]
    t: F8
    """Welch's t, float64; NaN where not tested, also for features that are constant over all instances."""
    p: F8
    """Two-sided p, float64: the larger of Welch's p and the p of a test with one pooled variance for both
    classes."""
    distinct: B1
    """bool[types, variables]: True for tested features, except those with the same values as a feature tested
    before.

    For a variable that occurs at most once, first, median and last time are equal. The number of True is the
    divisor of Bonferroni's correction.
    """
    mean0: F8
    """Mean of each feature in class C0, float64."""
    mean1: F8
    """Mean of each feature in class C1, float64."""
    when_us: F8
    """Mean time of each variable's first occurrence, µs, float64[variables], as in `FeatureMaker.when_us`."""

    def significant(self, level: float) -> B1:
        """bool[types, variables]: True for features with p <= level."""
        return np.asarray(~np.isnan(self.p) & (self.p <= level))

    def strength(self, level: float) -> F8:
        """Sum of |t| over the significant features of each variable, float64[variables], by which variables
        are ranked.

        The paper says |sum of t|, in which features that changed in opposite directions cancel out.
        """
        return np.asarray(np.abs(np.where(self.significant(level), self.t, 0.0)).sum(axis=0))


def divergence(series: LogSeries, instances: Instances, weight: F8) -> Divergence:
    """Test every feature of a log, block by block. weight: float64[instances]. O(types · variables ·
    instances)."""
    n = len(series.names)
    blocks = [
        _block(FeatureMaker.of(series.between(first, min(first + _BLOCK, n)), instances), weight)
        for first in range(0, max(n, 1), _BLOCK)
    ]
    columns = [np.concatenate(column, axis=-1) for column in zip(*blocks, strict=True)]
    t, p, again, mean0, mean1, when_us = columns
    types = (*TYPES[series.log_type], FeatureType.PRESENCE)
    distinct = ~np.isnan(p) & (again == 0)
    return Divergence(series.log_type, series.names, types, t, p, distinct, mean0, mean1, when_us)


def _block(maker: FeatureMaker, weight: F8) -> tuple[F8, F8, F8, F8, F8, F8]:
    """Test the features of a block of variables: (t, p, 1 where a feature repeats another type, means of C0,
    means of C1), each float64[types, variables], and times of the first occurrence, float64[variables]."""
    seldom = (np.minimum(*maker.present()) if maker.shape[0] else np.zeros(0)) < MOSTLY
    once = maker.once()
    done: dict[FeatureType, tuple[WelchTests, B1]] = {}
    rows = []
    for type_ in (*TYPES[maker.series.log_type], FeatureType.PRESENCE):
        same = maker.same_as(type_)
        if same not in done:
            values = maker.matrix(same)
            done[same] = welch_tests(values, maker.instances.problem, weight), varies(values)
        tests, varied = done[same]
        wanted = varied & (seldom if type_ is FeatureType.PRESENCE else ~seldom)
        rows.append(
            (
                np.where(wanted, tests.t, np.nan),
                np.where(wanted, np.maximum(tests.p, tests.p_pooled), np.nan),
                once * float(type_ in REPEATS),
                tests.mean0,
                tests.mean1,
            )
        )
    t, p, again, mean0, mean1 = (np.stack(column) for column in zip(*rows, strict=True))
    return t, p, again, mean0, mean1, maker.when_us()


def varies(values: F8) -> B1:
    """bool[variables]: True unless all values of a variable are equal: a constant is not tested."""
    low, high = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)
    return np.asarray(high > low)


@dataclass(frozen=True, slots=True)
class HeavyTail:
    """Tail of the distribution of response times (the paper's P)."""

    outside: float
    """Weighted share of instances outside of mean ± 3 sigma, in [0, 1]."""
    half_us: float
    """h of the weights 2^(response time / h), µs: an increase of the response time by h doubles the weight.
    """

    @property
    def heavy(self) -> bool:
        """True if the tail is heavy enough for weights by cost."""
        return self.outside > _HEAVY


def tail_of(performance_us: F8, weight: F8) -> HeavyTail:
    """Measure the tail of the response times of all instances. performance_us, weight: float64[instances]."""
    mean = np.average(performance_us, weights=weight)
    sigma = np.sqrt(np.average((performance_us - mean) ** 2, weights=weight))
    outside = np.average(np.abs(performance_us - mean) > 3 * sigma, weights=weight)
    return HeavyTail(float(outside), float(np.quantile(performance_us, _TAIL_QUANTILE)))


def tail_weights(performance_us: F8, tail: HeavyTail) -> F8:
    """Weights of instances by cost, floor(2^(response time / h)), float64[instances], in [1, 1000]."""
    power = np.minimum(performance_us / max(tail.half_us, 1e-9), np.log2(_MOST_WEIGHT) + 1)
    return np.asarray(np.clip(np.floor(2.0**power), 1.0, _MOST_WEIGHT))
