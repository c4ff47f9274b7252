"""Histograms of values for each (place, column), in bins of equal ratio, with medians, quantiles and rank
tests.

Profiles store requests as such rows, one per (place, column, bin) with the number of requests; columns are
first time slots, later the periods and blocks that time slots are pooled into. Adding up millions of rows is
most of the cost of tests: `summed_rows`.

A bin is 1/32 of an octave, 2.2 % wide; so a quantile read from bins is off by 1 % at most, well under any
change that the tests report.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from analyze.stats.noise import SPREAD_WEIGHT, LogMedians, freedom_of_mean
from analyze.stats.rank import rank_p_of_groups
from analyze.stats.sums import numbered, totals
from schemas.arrays import B1, F8, I8
from schemas.report.parts import Histogram
from schemas.windows import NS_PER_US

BINS_PER_OCTAVE: Final = 32
N_BINS: Final = 64 * BINS_PER_OCTAVE
"""Number of bins, enough for all 64-bit integers."""
BIN_LOG: Final = np.log(2) / BINS_PER_OCTAVE
"""Width of a bin as a natural logarithm: ln 2 / 32."""


def bin_of(value: npt.NDArray[np.generic]) -> I8:
    """Number of the bin of each value; values under 1 are in bin 0."""
    bins: I8 = (np.log2(np.maximum(value, 1)) * BINS_PER_OCTAVE).astype(np.int64)
    return bins


def value_of(bin_place: npt.NDArray[np.generic] | float) -> F8:
    """Value at a bin number, the inverse of `bin_of`: a whole number gives the lower edge of the bin, a
    fraction interpolates (geometrically) within the bin."""
    value: F8 = np.exp2(np.asarray(bin_place, dtype=np.float64) / BINS_PER_OCTAVE)
    return value


def log_histogram(title: str, reference_us: F8, problem_us: F8, bins: int) -> Histogram:
    """Histogram of two samples of times, µs, in bins of equal width on a log scale.

    The bins reach from the smallest to the largest value of both samples. There are at most `bins` bins;
    fewer for small samples of n values, 2·√n, but at least 8, so that a plot is not a comb. Values of 0 or
    less go to the first bin, whose lower edge is then 0. If all values are equal there is one bin; two empty
    samples give no bin (one edge, 0).
    """
    both = np.concatenate([reference_us, problem_us])
    if len(both) == 0:
        return Histogram(title=title, edges_us=(0.0,), counts0=(), counts1=())
    positive = both[both > 0]
    if len(positive) == 0:
        edges = np.array([0.0, 1.0])
    else:
        low, high = float(positive.min()), float(positive.max())
        steps = 1 if low == high else min(bins, max(8, math.ceil(2 * math.sqrt(len(both)))))
        edges = np.geomspace(low, max(high, low * (1 + 1e-9)), steps + 1)
        edges[0], edges[-1] = low, max(high, edges[-1])
        if len(positive) < len(both):
            edges[0] = 0.0
    return Histogram(
        title=title,
        edges_us=tuple(float(x) for x in edges),
        counts0=_counts(reference_us, edges),
        counts1=_counts(problem_us, edges),
    )


def binned_histogram(
    title: str, samples: Sequence[tuple[npt.NDArray[np.integer[Any]], F8]], most: int
) -> Histogram:
    """Merge counts by bin (`bin_of`, of ns) of the reference and the problem into at most `most` bins of
    equal ratio.

    samples: for each of the two ([rows] bin number, [rows] number of requests); bin numbers may be repeated.
    Two empty samples give no bin (one edge, 0).
    """
    filled = [place[n > 0].astype(np.int64) for place, n in samples]
    both = np.concatenate(filled)
    if len(both) == 0:
        return Histogram(title=title, edges_us=(0.0,), counts0=(), counts1=())
    first = int(both.min())
    width = math.ceil((int(both.max()) + 1 - first) / most)
    count = (int(both.max()) - first) // width + 1
    counts = (
        np.rint(totals((place[n > 0].astype(np.int64) - first) // width, n[n > 0], count))
        .astype(int)
        .tolist()
        for place, n in samples
    )
    edges_us = value_of(first + width * np.arange(count + 1.0)) / NS_PER_US
    if first == 0:
        edges_us[0] = 0.0
    before, after = counts
    return Histogram(
        title=title, edges_us=tuple(edges_us.tolist()), counts0=tuple(before), counts1=tuple(after)
    )


def _counts(values: F8, edges: F8) -> tuple[int, ...]:
    """Counts of half-open bins, the last one closed; values below the first edge count in the first bin."""
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return tuple(int(x) for x in np.bincount(place, minlength=len(edges) - 1))


_MOST_BINS = 1 << 13
_FIRST = 1 << 10
"""Number of first rows that are checked for their order before all rows are: unsorted input is mostly
unsorted there already."""
_CELLS_A_ROW = 8
"""Maximum number of cells of the dense array in `_summed_in_cells`, per row; the array then takes half the
time of a sort, and half more memory."""
_MEDIAN_RANKS = 0.98
"""Half of 1.96: the 95 % confidence interval of a median of n values extends this number times √n ranks to
either side."""
_LEAST_SPREAD = 0.02
"""Lower bound of the relative spread of a sample: equal values have an error too, as a bin is 2.2 % wide."""


@dataclass(frozen=True, slots=True)
class Histograms:
    """Numbers of requests by (place, column, bin): one row per distinct triple, sorted.

    A place is the index of a call site, callee or the like; a column is the index of a time slot, period or
    block; bins are those of `bin_of`.
    """

    place: I8
    """int64[rows]: index of the place (call site, callee, …)."""
    column: I8
    """int64[rows]: index of the time slot, period or block."""
    bin: I8
    """int64[rows]: bin number by `bin_of`."""
    n: F8
    """float64[rows]: effective number of requests in the bin."""

    @staticmethod
    def of(place: I8, column: I8, bins: I8, n: F8) -> Histograms:
        """Histograms from unsorted rows: sums n over rows with equal (place, column, bin). All [rows]."""
        return Histograms(*summed_rows(place, column, bins, n))

    def where(self, keep: B1) -> Histograms:
        """Select rows. keep: bool[rows], True to keep a row."""
        if keep.all():
            return self
        return Histograms(self.place[keep], self.column[keep], self.bin[keep], self.n[keep])

    def pooled(self, column: I8) -> Histograms:
        """Merge columns. column: int64[old columns], new column of each old column; -1 drops an old
        column."""
        here = self.where(column[self.column] >= 0)
        return Histograms.of(here.place, column[here.column], here.bin, here.n)

    def sums(self, values: F8, n_places: int, n_columns: int) -> F8:
        """float64[places, columns]: sums of `values`, float64[rows], by place and column."""
        cell = self.place * n_columns + self.column
        return totals(cell, values, n_places * n_columns).reshape(n_places, n_columns)

    def log_medians(self, n_places: int, n_columns: int) -> tuple[LogMedians, F8]:
        """(logarithms of medians with sampling variances, numbers of requests), all [places, columns]; NaN
        without requests.

        The sampling error of a median is estimated from the ends of its confidence interval by ranks (McKean
        and Schrader 1984), which lie between the quartiles. The ends are order statistics: their distance,
        divided by the distance expected in a normal law (Blom 1958), is the spread, and the variance is that
        of a median of an odd number of normal values with this spread.
        """
        from scipy.special import ndtri  # see analyze.stats.noise

        cell = self.place * n_columns + self.column
        n = totals(cell, self.n, n_places * n_columns)
        ranks = _median_ranks(n)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = [0.5 - ranks / n, 0.5 + ranks / n]
            low, high = self._quantiles(cell, n, ends)
            # Less a rounding error, as in `_holding`: rounding must not move the end to the next value.
            places = [np.ceil(end * n - 1e-9) for end in ends]
            first, last = (ndtri((place - 0.375) / (n + 0.25)) for place in places)
            # A single value has no spread of its own.
            spread = np.where(last > first, (high - low) * BIN_LOG / (last - first), 0.0)
            freedom = _freedom_of_distance(places[1] - places[0], n)
        shape = (n_places, n_columns)
        spread, n, freedom = (values.reshape(shape) for values in (spread, n, freedom))
        middle = self._medians(cell, n.ravel()).reshape(shape)
        variance = np.pi / 2 * _variances(spread, np.where(n > 0, n + np.pi / 2 - 1, 0.0), freedom)
        return LogMedians(middle * BIN_LOG, variance, freedom, _freedom_of_median), n

    def log_means(self, number: F8, n_places: int, n_columns: int) -> tuple[LogMedians, F8]:
        """(natural logarithms of means with sampling variances, numbers of requests), all [places, columns];
        NaN without requests. number: float64[rows], value of the requests in each row."""
        n, total, squares = (self.sums(self.n * number**k, n_places, n_columns) for k in (0, 1, 2))
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = total / n
            freedom = freedom_of_mean(n)
            spread = np.sqrt(np.maximum(squares - n * mean**2, 0) / freedom) / mean
            return LogMedians(np.log(mean), _variances(spread, n, freedom), freedom), n

    def trimmed_log_means(self, n_places: int, n_columns: int, trim: float) -> tuple[LogMedians, F8]:
        """(trimmed means of logarithms with sampling variances, numbers of requests), all [places, columns];
        NaN without requests. trim: share of the requests cut off at each end, in [0, 0.5).

        For log-normal values a trimmed mean needs two thirds of the requests that a median needs for the same
        precision. The variance is that of the values winsorised at the ends (Tukey and McLaughlin).
        """
        cell = self.place * n_columns + self.column
        n = totals(cell, self.n, n_places * n_columns)
        past = np.cumsum(self.n) - (np.cumsum(n) - n)[cell]
        least, most = trim * n[cell], (1 - trim) * n[cell]
        inside = np.clip(past, least, most) - np.clip(past - self.n, least, most)
        low, high = (np.zeros(len(n), dtype=np.int64) for _ in range(2))
        filled = np.flatnonzero(n > 0)
        low[filled], high[filled] = (self.bin[at] for at in self._holding(cell, n, (trim, 1 - trim)))
        drawn = np.clip(self.bin, low[cell], high[cell])
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = totals(cell, inside * (self.bin + 0.5), len(n)) / totals(cell, inside, len(n)) * BIN_LOG
            first, second = (totals(cell, self.n * drawn**k, len(n)) / n for k in (1, 2))
            freedom = freedom_of_mean(n * (1 - 2 * trim))
            square = np.maximum(second - first**2, 0.0) * n / (freedom * (1 - 2 * trim))
            spread = np.sqrt(square) * BIN_LOG
        mean, spread, n, freedom = (
            values.reshape(n_places, n_columns) for values in (mean, spread, n, freedom)
        )
        return LogMedians(mean, _variances(spread, n, freedom), freedom), n

    def holding(self, n_places: int, quantiles: Sequence[float]) -> tuple[I8, list[I8]]:
        """Quantiles of each place as bins: (int64[n] places with requests, ascending; for each of `quantiles`
        int64[n] bin that contains it). All rows must be of one column."""
        total = totals(self.place, self.n, n_places)
        rows = self._holding(self.place, total, quantiles)
        return np.flatnonzero(total > 0), [self.bin[at] for at in rows]

    def rank_p(self, n_places: int) -> F8:
        """float64[places]: two-sided p of a rank test of column 1 against column 0."""
        group, first = numbered((self.place, self.bin))
        before, after = (totals(group, self.n * (self.column == side), len(first)) for side in (0, 1))
        return rank_p_of_groups(self.place[first], before, after, n_places)

    def _holding(self, cell: I8, n: F8, quantiles: Sequence[F8 | float]) -> list[I8]:
        """Find the row that contains each cell's quantile: an int64[non-empty cells] per quantile.

        A cell is a (place, column). cell: int64[rows], cell of each row; n: float64[cells], number of
        requests. A quantile is a number in [0, 1], the same for all cells, or float64[cells].
        """
        cumulative = np.cumsum(self.n)
        filled = np.flatnonzero(n > 0)
        before = np.concatenate(([0.0], np.cumsum(n)))[filled]
        first, past = np.searchsorted(cell, filled), np.searchsorted(cell, filled, side="right") - 1
        found = []
        for q in quantiles:
            target = before + (q * n)[filled]
            at = np.searchsorted(cumulative, target - 1e-9 * np.maximum(target, 1))
            # Rounding must not carry a quantile into the next cell.
            found.append(np.clip(np.minimum(at, len(cumulative) - 1), first, past))
        return found

    def _quantiles(self, cell: I8, n: F8, quantiles: Sequence[F8 | float]) -> list[F8]:
        """Quantiles of each cell as fractional bin numbers, interpolated linearly within the bin; NaN for an
        empty cell. A float64[cells] per quantile. Parameters as in `_holding`."""
        cumulative = np.cumsum(self.n)
        filled = np.flatnonzero(n > 0)
        before = np.concatenate(([0.0], np.cumsum(n)))[filled]
        found = []
        for q, at in zip(quantiles, self._holding(cell, n, quantiles), strict=True):
            below = cumulative[at] - self.n[at]
            place = np.full(len(n), np.nan)
            place[filled] = self.bin[at] + np.clip((before + (q * n)[filled] - below) / self.n[at], 0, 1)
            found.append(place)
        return found

    def _medians(self, cell: I8, n: F8) -> F8:
        """Median of each cell as a fractional bin number, float64[cells]; the midpoint if it lies between two
        values. NaN for an empty cell."""
        (found,) = self._quantiles(cell, n, (0.5,))
        (at,) = self._holding(cell, n, (0.5,))
        filled = np.flatnonzero(n > 0)
        after = np.minimum(at + 1, len(cell) - 1)
        past = np.cumsum(self.n)[at] - np.concatenate(([0.0], np.cumsum(n)))[filled]
        between = (np.abs(past - n[filled] / 2) <= 1e-9 * np.maximum(past, 1)) & (cell[after] == filled)
        found[filled] = np.where(between, (found[filled] + self.bin[after]) / 2, found[filled])
        return found


def _median_ranks(n: F8) -> F8:
    """float64: number of ranks from the median of n requests to either end of the median's 95 % confidence
    interval, which is cut at the quartiles."""
    ranks: F8 = np.minimum(_MEDIAN_RANKS * np.sqrt(n), n / 4)
    return ranks


def _freedom_of_median(n: F8) -> F8:
    """Degrees of freedom of a spread that is estimated from the confidence interval of the median of n
    requests (see `log_medians`)."""
    return _freedom_of_distance(2 * _median_ranks(n), n)


def _freedom_of_distance(ranks: F8, n: F8) -> F8:
    """Degrees of freedom f of a spread estimated from the distance between two of n sorted values whose ranks
    differ by `ranks`.

    The probability between the two values has the law Beta(ranks, n + 1 - ranks); f is chosen so that the
    relative variance of this law equals that of √(χ²_f / f), 1 / 2f.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.clip(ranks * (n + 2) / (2 * (n + 1 - ranks)), 0.0, freedom_of_mean(n))
    return np.where(n > 0, found, 0.0)


def _variances(spread: F8, n: F8, freedom: F8) -> F8:
    """float64[places, columns]: variances of means of n requests with the given spreads; NaN without
    requests.

    A spread estimated from few requests (low `freedom`) is shrunk towards the spread of all columns of the
    place, as four values that happen to be equal still have an error. All arguments are [places, columns].
    """
    square = np.where(freedom > 0, np.maximum(spread, _LEAST_SPREAD) ** 2, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_place = ((freedom * square).sum(axis=1) / freedom.sum(axis=1))[:, None]
        shrunk = (freedom * square + SPREAD_WEIGHT * of_place) / (freedom + SPREAD_WEIGHT)
        return np.where(n > 0, shrunk / n, np.nan)


def summed_rows(place: I8, column: I8, bins: I8, n: F8) -> tuple[I8, I8, I8, F8]:
    """Sum n over rows with equal (place, column, bin); returns (place, column, bin, n) sorted by the three.

    All arrays are [rows]; bins are clipped to 0 to 8191. O(rows) if rows are sorted by place and each place
    has a narrow range of bins (the usual case), else O(rows log rows).
    """
    bins = np.clip(bins, 0, _MOST_BINS - 1)
    n_columns = int(column.max(initial=0)) + 1
    if _ascend(place[:_FIRST], column[:_FIRST], bins[:_FIRST]) and _ascend(place, column, bins):
        return place, column, bins, n
    starts = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1])))
    if (place[starts[1:]] > place[starts[:-1]]).all():
        low = np.minimum.reduceat(bins, starts)
        width = np.maximum.reduceat(bins, starts) - low + 1
        if int(width.sum()) * n_columns <= _CELLS_A_ROW * len(place):
            return _summed_in_cells((place, column, bins, n), starts, low, width, n_columns)
    found, code = np.unique((place * n_columns + column) * _MOST_BINS + bins, return_inverse=True)
    of = found // _MOST_BINS
    return of // n_columns, of % n_columns, found % _MOST_BINS, totals(code, n, len(found))


def _ascend(place: I8, column: I8, bins: I8) -> bool:
    """True if rows are sorted by (place, column, bin), without duplicates."""
    key = (place * (int(column.max(initial=0)) + 1) + column) * _MOST_BINS + bins
    return bool((key[1:] > key[:-1]).all())


def _summed_in_cells(
    rows: tuple[I8, I8, I8, F8], starts: I8, low: I8, width: I8, n_columns: int
) -> tuple[I8, I8, I8, F8]:
    """Sum rows in a dense array with one cell per (place, column, bin); returns (place, column, bin, n).

    starts, low, width: int64[places], first row, smallest bin and range of bins of each place.
    """
    place, column, bins, n = rows
    # Cells by (place, column, bin): where each column of each place begins.
    begin = np.concatenate(([0], np.cumsum(np.repeat(width, n_columns))))
    many = np.diff(starts, append=len(place))
    cell = np.repeat(begin[:-1:n_columns] - low, many)
    cell += column * np.repeat(width, many)
    cell += bins
    total = totals(cell, n, int(begin[-1]))
    filled = np.flatnonzero(total)
    many = np.diff(np.searchsorted(filled, begin))
    return (
        np.repeat(np.repeat(place[starts], n_columns), many),
        np.repeat(np.tile(np.arange(n_columns), len(starts)), many),
        filled + np.repeat(np.repeat(low, n_columns) - begin[:-1], many),
        total[filled],
    )
