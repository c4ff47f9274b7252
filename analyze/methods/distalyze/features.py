"""Features of a variable: numbers that summarize the variable's log entries in an instance (DISTALYZER §3.1,
Table 1).

The values of a feature type are a matrix [variables, instances], NaN where the variable does not occur.
Matrices are made one at a time, because all together would not fit into memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from analyze.methods.distalyze.instance_logs import Instances, LogSeries
from analyze.stats.sums import totals
from schemas.arrays import B1, F8, I8
from schemas.report.networks import LogType, Quantity


class FeatureType(StrEnum):
    """Type of a feature, by the name that the paper uses; `words`: text for display."""

    words: str

    def __new__(cls, name: str, words: str = "") -> FeatureType:
        """Create a member of the enumeration. name: value of the member; words: text for display."""
        made = str.__new__(cls, name)
        made._value_, made.words = name, words
        return made

    COUNT = "Count", "number of occurrences"
    FIRST = "First.Absolute", "first time"
    MEDIAN = "Median.Absolute", "median time"
    LAST = "Last.Absolute", "last time"
    FIRST_RELATIVE = "First.Relative", "first time, relative"
    MEDIAN_RELATIVE = "Median.Relative", "median time, relative"
    LAST_RELATIVE = "Last.Relative", "last time, relative"
    MINIMUM = "Minimum", "minimum"
    MEAN = "Mean", "mean"
    MAXIMUM = "Maximum", "maximum"
    FINAL = "Final", "final value"
    QUARTER = "One-fourth.Absolute", "value at ¼ of the time"
    HALF = "Half.Absolute", "value at ½ of the time"
    THREE_QUARTERS = "Three-fourth.Absolute", "value at ¾ of the time"
    QUARTER_RELATIVE = "One-fourth.Relative", "value at ¼ of the readings"
    HALF_RELATIVE = "Half.Relative", "value at ½ of the readings"
    THREE_QUARTERS_RELATIVE = "Three-fourth.Relative", "value at ¾ of the readings"
    PRESENCE = "Presence", "presence"
    """Occurrence of the variable, 0 or 1: the only feature type for variables that are rare in a class."""


_T = FeatureType
TYPES: Final[dict[LogType, tuple[FeatureType, ...]]] = {
    "event": (
        _T.LAST,
        _T.FIRST,
        _T.MEDIAN,
        _T.FIRST_RELATIVE,
        _T.MEDIAN_RELATIVE,
        _T.LAST_RELATIVE,
        _T.COUNT,
    ),
    "state": (
        _T.MEAN,
        _T.MINIMUM,
        _T.MAXIMUM,
        _T.FINAL,
        _T.QUARTER,
        _T.HALF,
        _T.THREE_QUARTERS,
        _T.QUARTER_RELATIVE,
        _T.HALF_RELATIVE,
        _T.THREE_QUARTERS_RELATIVE,
    ),
}
RELATIVE_TIMES: Final = frozenset((_T.FIRST_RELATIVE, _T.MEDIAN_RELATIVE, _T.LAST_RELATIVE))
EVENT_TIMES: Final = frozenset(TYPES["event"]) - {_T.COUNT}
_AT_TIME: Final = {_T.QUARTER: 0.25, _T.HALF: 0.5, _T.THREE_QUARTERS: 0.75}
"""Feature type -> fraction of the instance's duration at which a variable's value is read."""
_AT_PLACE: Final = {
    _T.QUARTER_RELATIVE: 0.25,
    _T.HALF_RELATIVE: 0.5,
    _T.THREE_QUARTERS_RELATIVE: 0.75,
}
"""Feature type -> fraction of a variable's readings in an instance after which the value is read."""
_ONCE: Final = {
    _T.FIRST: _T.LAST,
    _T.MEDIAN: _T.LAST,
    _T.MEDIAN_RELATIVE: _T.FIRST_RELATIVE,
    _T.LAST_RELATIVE: _T.FIRST_RELATIVE,
    _T.PRESENCE: _T.COUNT,
    **dict.fromkeys((_T.MINIMUM, _T.MAXIMUM, _T.FINAL, *_AT_PLACE), _T.MEAN),
}
"""Feature type -> the type that has the same values for variables that occur at most once."""
REPEATS: Final = frozenset(_ONCE) - {_T.PRESENCE}


def quantity_of(type_: FeatureType, logged: Quantity) -> Quantity:
    """Quantity (unit) of a feature's values. logged: quantity of the variable."""
    if type_ in (FeatureType.PRESENCE, FeatureType.COUNT):
        return "count"
    return "share" if type_ in RELATIVE_TIMES else logged


@dataclass(frozen=True, slots=True)
class FeatureMaker:
    """Maker of feature matrices from a log, sorted so that the entries of one variable in one instance are
    adjacent; such a group is called a segment here. Arrays are int64[segments].
    """

    series: LogSeries
    instances: Instances
    begin: I8
    """Index in the log of the first entry of each segment."""
    size: I8
    """Number of log entries of each segment."""
    variable: I8
    """Index of the variable of each segment."""
    instance: I8
    """Index of the instance of each segment."""

    @classmethod
    def of(cls, series: LogSeries, instances: Instances) -> FeatureMaker:
        """Group the entries of a log by variable and instance. O(entries)."""
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
        """Shape of a feature matrix: (number of variables, number of instances)."""
        return len(self.series.names), len(self.instances)

    def once(self) -> B1:
        """bool[variables]: True if a variable occurs at most once in every instance."""
        found = np.ones(self.shape[0], np.bool_)
        found[self.variable[self.size > 1]] = False
        return found

    def same_as(self, type_: FeatureType) -> FeatureType:
        """Feature type with the same values as `type_`, used instead: `last` for first and median if all
        variables occur at most once; else `type_` itself."""
        return _ONCE.get(type_, type_) if bool((self.size <= 1).all()) else type_

    def matrix(self, type_: FeatureType) -> F8:
        """Values of a feature, float64[variables, instances]; NaN where the variable does not occur (counts:
        0)."""
        if type_ in (FeatureType.COUNT, FeatureType.PRESENCE):
            found = np.zeros(self.shape)
            found[self.variable, self.instance] = self.size if type_ is FeatureType.COUNT else 1.0
            return found
        found = np.full(self.shape, np.nan)
        found[self.variable, self.instance] = self._values(type_)
        return found

    def _values(self, type_: FeatureType) -> F8:
        begin, size, values = self.begin, self.size, self.series.value
        if values is None:
            return self._times(type_)
        if type_ is FeatureType.FINAL:
            return np.asarray(values[begin + size - 1])
        if type_ in _AT_TIME:
            return self._at_time(values, _AT_TIME[type_])
        if type_ in _AT_PLACE:
            return np.asarray(
                values[begin + np.minimum((_AT_PLACE[type_] * size).astype(np.int64), size - 1)]
            )
        if not len(values):
            return np.zeros(0)
        if type_ is FeatureType.MEAN:
            return np.asarray(np.add.reduceat(values, begin) / size)
        least_or_most = np.minimum if type_ is FeatureType.MINIMUM else np.maximum
        return np.asarray(least_or_most.reduceat(values, begin))

    def _times(self, type_: FeatureType) -> F8:
        """Times of the first, median or last occurrence, µs, or relative to the instance's duration;
        float64[segments]."""
        times, begin, size = self.series.time_us, self.begin, self.size
        if type_ in (FeatureType.FIRST, FeatureType.FIRST_RELATIVE):
            found = times[begin]
        elif type_ in (FeatureType.LAST, FeatureType.LAST_RELATIVE):
            found = times[begin + size - 1]
        else:
            found = (times[begin + (size - 1) // 2] + times[begin + size // 2]) / 2
        if type_ not in RELATIVE_TIMES:
            return found
        duration = self.instances.duration_us[self.instance]
        return np.asarray(np.divide(found, duration, out=np.full(len(found), np.nan), where=duration > 0))

    def _at_time(self, values: F8, part: float) -> F8:
        """Value of each segment's variable at the fraction `part` of the instance's duration,
        float64[segments]; NaN before the first value."""
        until = part * self.instances.duration_us[self.series.instance]
        read = np.add.reduceat((self.series.time_us <= until).astype(np.int64), self.begin)
        return np.where(read > 0, values[self.begin + np.maximum(read - 1, 0)], np.nan)

    def present(self) -> tuple[F8, F8]:
        """(share of the instances of class 0, of class 1) in which each variable occurs, in [0, 1]; each
        float64[variables]. Class 1 is the problem (or the slow) instances, class 0 the other ones."""
        late, problem = self.instances.problem[self.instance], self.instances.problem
        of_c0, of_c1 = (
            np.bincount(self.variable[late == side], minlength=self.shape[0])
            / max(int((problem == side).sum()), 1)
            for side in (False, True)
        )
        return of_c0, of_c1

    def when_us(self) -> F8:
        """float64[variables]: mean time of each variable's first occurrence in an instance, µs: over the
        instances of class 1, or over all if it occurs in none of class 1; NaN if it never occurs."""
        time = self.series.time_us[self.begin]
        late = self.instances.problem[self.instance]
        with np.errstate(invalid="ignore", divide="ignore"):
            of_late, of_all = (
                totals(self.variable[mine], time[mine], self.shape[0])
                / np.bincount(self.variable[mine], minlength=self.shape[0])
                for mine in (late, np.ones_like(late))
            )
        return np.where(np.isnan(of_late), of_all, of_late)
