"""Sum up what an instance logs of a variable in a few numbers, its features (DIST §3.1, Table 1).

A feature type is one matrix, [variables, instances], NaN where the variable does not occur. Made one at a
time, because all of them would not fit into memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from analyze.methods.distalyze.instance_logs import Instances, LogSeries, LogType, Quantity
from schemas.arrays import B1, F8, I8


class FeatureType(StrEnum):
    """What of a variable's log a feature is."""

    COUNT = "Count"
    FIRST = "First.Absolute"
    MEDIAN = "Median.Absolute"
    LAST = "Last.Absolute"
    FIRST_RELATIVE = "First.Relative"
    MEDIAN_RELATIVE = "Median.Relative"
    LAST_RELATIVE = "Last.Relative"
    MINIMUM = "Minimum"
    MEAN = "Mean"
    MAXIMUM = "Maximum"
    FINAL = "Final"
    QUARTER = "One-fourth.Absolute"
    HALF = "Half.Absolute"
    THREE_QUARTERS = "Three-fourth.Absolute"
    QUARTER_RELATIVE = "One-fourth.Relative"
    HALF_RELATIVE = "Half.Relative"
    THREE_QUARTERS_RELATIVE = "Three-fourth.Relative"
    PRESENCE = "Presence"
    """Whether it occurs at all: of variables that a class mostly lacks, instead of all the others."""


_EVENT_TYPES: Final = (
    FeatureType.LAST,
    FeatureType.FIRST,
    FeatureType.MEDIAN,
    FeatureType.FIRST_RELATIVE,
    FeatureType.MEDIAN_RELATIVE,
    FeatureType.LAST_RELATIVE,
    FeatureType.COUNT,
)


_STATE_TYPES: Final = (
    FeatureType.MEAN,
    FeatureType.MINIMUM,
    FeatureType.MAXIMUM,
    FeatureType.FINAL,
    FeatureType.QUARTER,
    FeatureType.HALF,
    FeatureType.THREE_QUARTERS,
    FeatureType.QUARTER_RELATIVE,
    FeatureType.HALF_RELATIVE,
    FeatureType.THREE_QUARTERS_RELATIVE,
)


TYPES: Final = {LogType.EVENT: _EVENT_TYPES, LogType.STATE: _STATE_TYPES}


RELATIVE_TIMES: Final = frozenset(
    (FeatureType.FIRST_RELATIVE, FeatureType.MEDIAN_RELATIVE, FeatureType.LAST_RELATIVE)
)


EVENT_TIMES: Final = frozenset(_EVENT_TYPES) - {FeatureType.COUNT}


_PART: Final = {
    FeatureType.QUARTER: 0.25,
    FeatureType.HALF: 0.5,
    FeatureType.THREE_QUARTERS: 0.75,
    FeatureType.QUARTER_RELATIVE: 0.25,
    FeatureType.HALF_RELATIVE: 0.5,
    FeatureType.THREE_QUARTERS_RELATIVE: 0.75,
}


_ONCE: Final = {
    FeatureType.FIRST: FeatureType.LAST,
    FeatureType.MEDIAN: FeatureType.LAST,
    FeatureType.MEDIAN_RELATIVE: FeatureType.FIRST_RELATIVE,
    FeatureType.LAST_RELATIVE: FeatureType.FIRST_RELATIVE,
    FeatureType.PRESENCE: FeatureType.COUNT,
    **dict.fromkeys(
        (
            FeatureType.MINIMUM,
            FeatureType.MAXIMUM,
            FeatureType.FINAL,
            FeatureType.QUARTER_RELATIVE,
            FeatureType.HALF_RELATIVE,
            FeatureType.THREE_QUARTERS_RELATIVE,
        ),
        FeatureType.MEAN,
    ),
}


REPEATS: Final = frozenset(_ONCE) - {FeatureType.PRESENCE}
"""Types whose values are another type's where a variable occurs once at most."""


_BY_TIME: Final = frozenset((FeatureType.QUARTER, FeatureType.HALF, FeatureType.THREE_QUARTERS))


def quantity_of(type_: FeatureType, logged: Quantity) -> Quantity:
    """What a feature's values are, of a variable that logs `logged`."""
    if type_ in (FeatureType.PRESENCE, FeatureType.COUNT):
        return Quantity.COUNT
    return Quantity.SHARE if type_ in RELATIVE_TIMES else logged


@dataclass(frozen=True, slots=True)
class FeatureMaker:
    """A log cut into segments, what one variable did in one instance; arrays are [segments]."""

    series: LogSeries
    instances: Instances
    begin: I8
    size: I8
    variable: I8
    instance: I8

    @classmethod
    def of(cls, series: LogSeries, instances: Instances) -> FeatureMaker:
        """Cut a log. O(entries)."""
        n = len(series.instance)
        fresh = np.ones(n, np.bool_)
        fresh[1:] = series.instance[1:] != series.instance[:-1]
        fresh[series.first[:-1][series.first[:-1] < n]] = True
        begin = np.flatnonzero(fresh)
        return cls(
            series,
            instances,
            begin,
            np.diff(begin, append=n),
            np.searchsorted(series.first, begin, side="right") - 1,
            series.instance[begin].astype(np.int64),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(variables, instances)"""
        return len(self.series.names), len(self.instances)

    def once(self) -> B1:
        """[variables] whether a variable occurs once at most, in every instance."""
        found = np.ones(self.shape[0], np.bool_)
        found[self.variable[self.size > 1]] = False
        return found

    def same_as(self, type_: FeatureType) -> FeatureType:
        """A type with the same values: of what occurs once at most, first, median and last are one."""
        return _ONCE.get(type_, type_) if bool((self.size <= 1).all()) else type_

    def matrix(self, type_: FeatureType) -> F8:
        """[variables, instances] the feature; NaN where the variable does not occur (counts: 0)."""
        if type_ in (FeatureType.COUNT, FeatureType.PRESENCE):
            found = np.zeros(self.shape)
            found[self.variable, self.instance] = self.size if type_ is FeatureType.COUNT else 1.0
            return found
        found = np.full(self.shape, np.nan)
        found[self.variable, self.instance] = self._values(type_)
        return found

    def _values(self, type_: FeatureType) -> F8:
        last = self.begin + self.size - 1
        values = self.series.value
        if values is None:
            times = self.series.time_us
            if type_ in (FeatureType.FIRST, FeatureType.FIRST_RELATIVE):
                found = times[self.begin]
            elif type_ in (FeatureType.LAST, FeatureType.LAST_RELATIVE):
                found = times[last]
            else:
                found = (times[self.begin + (self.size - 1) // 2] + times[self.begin + self.size // 2]) / 2
            if type_ in RELATIVE_TIMES:
                duration = self.instances.duration_us[self.instance]
                found = np.where(duration > 0, found / np.where(duration > 0, duration, 1.0), np.nan)
            return found
        if len(values) == 0:
            return np.zeros(0)
        if type_ is FeatureType.MINIMUM:
            return np.asarray(np.minimum.reduceat(values, self.begin))
        if type_ is FeatureType.MAXIMUM:
            return np.asarray(np.maximum.reduceat(values, self.begin))
        if type_ is FeatureType.MEAN:
            return np.asarray(np.add.reduceat(values, self.begin) / self.size)
        if type_ is FeatureType.FINAL:
            return np.asarray(values[last])
        if type_ in _BY_TIME:
            return self._at_time(values, _PART[type_])
        return np.asarray(
            values[self.begin + np.minimum((_PART[type_] * self.size).astype(np.int64), self.size - 1)]
        )

    def _at_time(self, values: F8, part: float) -> F8:
        """The last value read until this part of the instance's time; NaN before the first."""
        until = part * self.instances.duration_us[self.series.instance]
        read = np.add.reduceat((self.series.time_us <= until).astype(np.int64), self.begin)
        return np.where(read > 0, values[self.begin + np.maximum(read - 1, 0)], np.nan)

    def present(self) -> tuple[F8, F8]:
        """[variables] share of the instances of C0, of C1, in which the variable occurs."""
        late = self.instances.problem[self.instance]
        n = self.shape[0]
        both = []
        for mask, size in (
            (~late, int((~self.instances.problem).sum())),
            (late, int(self.instances.problem.sum())),
        ):
            both.append(np.bincount(self.variable[mask], minlength=n) / max(size, 1))
        return both[0], both[1]

    def when_us(self) -> F8:
        """[variables] mean time of the first occurrence, in C1 where it occurs there; NaN: never."""
        time = self.series.time_us[self.begin]
        late = self.instances.problem[self.instance]
        n = self.shape[0]
        with np.errstate(invalid="ignore", divide="ignore"):
            of_late = np.bincount(self.variable[late], time[late], n) / np.bincount(
                self.variable[late], minlength=n
            )
            of_all = np.bincount(self.variable, time, n) / np.bincount(self.variable, minlength=n)
        return np.where(np.isnan(of_late), of_all, of_late)
