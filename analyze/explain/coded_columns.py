"""Code columns of attributes as small integers, so that one sparse product counts the codes of all columns at
once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analyze.explain.columns import MISSING, OTHER, AttributeColumn
from schemas.arrays import B1, F4, F8, I2, I4, I8

if TYPE_CHECKING:
    from scipy import sparse

_Coded = tuple[I4, F8, F8, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class CodedColumns:
    """Columns of attributes as integer codes: numbers are binned, words are numbered, and the last code
    stands for a missing value.
    """

    columns: tuple[AttributeColumn, ...]
    codes: I2
    """int16[columns, requests]: code of each value, from 0 to `width - 1`; `width - 1` means missing."""
    width: int
    """Number of codes, the same for all columns: codes of the column with the most, plus one for missing
    values. Other columns do not use all codes."""
    numeric: B1
    """bool[columns]: True for columns of numbers."""
    low: tuple[F8, ...]
    """Smallest value of each bin: a float64[bins] per column, empty for a column of words."""
    high: tuple[F8, ...]
    """Largest value of each bin: a float64[bins] per column, empty for a column of words."""
    levels: tuple[tuple[str, ...], ...]
    """Words of each column, in the order of the codes; empty for a column of numbers."""
    askable: B1
    """bool[columns, width]: True for codes by which a tree may split a column of words.

    False for the code of pooled rare words: "one of the rare words" explains nothing, and which words are
    pooled may depend on the order of equally frequent words."""

    @property
    def n_requests(self) -> int:
        """Number of coded requests."""
        return int(self.codes.shape[1])

    def word(self, column: int, code: int) -> str:
        """Word that `code` stands for in text column number `column`; `(missing)` for the last code."""
        return MISSING if code == self.width - 1 else self.levels[column][code]

    @property
    def n_codes(self) -> I8:
        """int64[columns]: number of codes of each column, without the code for missing values."""
        return np.array([max(len(low), len(words)) for low, words in zip(self.low, self.levels, strict=True)])

    def counts(self, rows: I8, *classes: F4) -> list[F4]:
        """Count requests with each code: a float32[columns, width, labellings] per class.

        rows: int64[rows], indices of the requests. classes: for each class float32[rows, labellings], how
        often the request counts in the class under every labelling (assignment of requests to classes). Exact
        below 2**24. O(columns · rows · labellings).
        """
        incidence = self._incidence(rows)
        shape = len(self.columns), self.width
        return [np.asarray(incidence @ one).reshape(*shape, one.shape[1]) for one in classes]

    def _incidence(self, rows: I8) -> sparse.csc_array:
        """Sparse matrix [columns * width, rows]: 1 if the request has the code in the column, else 0."""
        from scipy import sparse  # a tenth of a second, and only where something is to be explained

        n_columns, n = len(self.columns), len(rows)
        place = self.codes.T[rows] + np.arange(n_columns, dtype=np.int32) * self.width
        first = np.arange(n + 1, dtype=np.int32) * n_columns
        ones = np.ones(n_columns * n, np.float32)
        return sparse.csc_array((ones, place.ravel(), first), shape=(n_columns * self.width, n))


def code_columns(columns: Sequence[AttributeColumn], n_requests: int, bins: int, levels: int) -> CodedColumns:
    """Code columns of attributes: numbers in at most `bins` bins of about equally many requests; the `levels`
    most frequent words with separate codes, all other words with one code.

    Bins and words are chosen without regard to the classes: otherwise the pooled words might be those of one
    class, and noise would have an explanation. Equal numbers share a bin. O(columns · requests log requests).
    """
    parts = [_bins(column.values, bins) if column.numeric else _levels(column, levels) for column in columns]
    width = 1 + max((max(len(low), len(words)) for _, low, _, words in parts), default=0)
    codes = np.zeros((len(parts), n_requests), np.int16)
    for number, (code, _, _, _) in enumerate(parts):
        codes[number] = np.where(code < 0, width - 1, code)
    askable = np.ones((len(parts), width), dtype=np.bool_)
    for number, (_, _, _, words) in enumerate(parts):
        if words and words[-1] == OTHER:
            askable[number, len(words) - 1] = False
    return CodedColumns(
        tuple(columns),
        codes,
        width,
        np.array([column.numeric for column in columns], dtype=np.bool_),
        tuple(low for _, low, _, _ in parts),
        tuple(high for _, _, high, _ in parts),
        tuple(words for _, _, _, words in parts),
        askable,
    )


def _bins(values: F8, most: int) -> _Coded:
    """Code a column of numbers: (int32[requests] bin, -1 for missing; smallest value of each bin; largest
    value of each bin; empty tuple of words). most: maximum number of bins.
    """
    known = ~np.isnan(values)
    distinct, place, times = np.unique(values[known], return_inverse=True, return_counts=True)
    if len(distinct) <= most:
        of_value = np.arange(len(distinct))
    else:
        middle = np.cumsum(times) - times / 2
        of_value = np.unique((middle * most / times.sum()).astype(np.int64), return_inverse=True)[1]
    code = np.full(len(values), -1, np.int32)
    code[known] = of_value[place]
    first = (
        np.flatnonzero(np.r_[True, of_value[1:] != of_value[:-1]]) if len(distinct) else np.zeros(0, np.int64)
    )
    last = np.r_[first[1:], len(distinct)] - 1 if len(distinct) else first
    return code, distinct[first], distinct[last], ()


def _levels(column: AttributeColumn, most: int) -> _Coded:
    """Code a column of words: (int32[requests] code, -1 for missing; empty array; empty array; words by
    code, most frequent first).

    The `most` most frequent words have separate codes; all other words are pooled in a last code, OTHER.
    """
    assert column.levels is not None
    known = ~np.isnan(column.values)
    place = column.values[known].astype(np.int64)
    times = np.bincount(place, minlength=len(column.levels))
    order = np.argsort(-times, kind="stable")
    order = order[times[order] > 0]
    kept, rare = (order, order[:0]) if len(order) <= most + 1 else (order[:most], order[most:])
    rank = np.zeros(len(column.levels), np.int32)
    rank[kept] = np.arange(len(kept))
    rank[rare] = len(kept)
    code = np.full(len(column.values), -1, np.int32)
    code[known] = rank[place]
    words = (*(column.levels[int(k)] for k in kept), *((OTHER,) if len(rare) else ()))
    return code, np.zeros(0), np.zeros(0), words
