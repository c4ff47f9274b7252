"""Votes in runs: one row per (place, slot), with its bins in consecutive rows.

Nine of ten stored rows of a window are votes, most with the same key as the row before. In runs a vote is a
bin and a number, six bytes; the key is stored once a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from analyze.profile.profile import SCHEMAS, Column
from analyze.stats.histograms import N_BINS, Histograms
from analyze.stats.sums import numbered
from schemas.arrays import B1, I8

_WEIGHTS = ("n", "w", "w2")
_AT_ONCE = 1 << 11
"""Runs added up at once, so that their rows stay in a core's second-level cache."""


@dataclass(frozen=True, slots=True)
class Votes:
    """Rows of the table `votes`; arrays are [runs], or [rows] in the order of the runs."""

    keys: tuple[Column, ...]
    """[runs] measure, site, pattern, slot."""
    n_rows: Column
    """Number of rows of each run."""
    bin: Column
    """[rows] bin, ascending within a run."""
    sums: tuple[Column, ...]
    """[rows] number of requests; if weighted also sums of weights and squared weights."""

    @staticmethod
    def of(columns: Mapping[str, Column]) -> Votes:
        """Make from the columns of the table; rows of one place and slot must be adjacent."""
        keys = [columns[name] for name in ("measure", "site", "pattern", "slot")]
        n = len(keys[0])
        new = np.zeros(n, dtype=np.bool_)
        new[:1] = True
        for key in keys:
            new[1:] |= key[1:] != key[:-1]
        starts = np.flatnonzero(new)
        weighted = any(not np.array_equal(columns["n"], columns[name]) for name in ("w", "w2"))
        return Votes(
            tuple(key[starts] for key in keys),
            np.diff(starts, append=n),
            columns["bin"],
            tuple(columns[name] for name in (_WEIGHTS if weighted else ("n",))),
        )

    @property
    def weights(self) -> tuple[Column, ...]:
        """[rows] n, w, w2; all three are n if unweighted."""
        return self.sums if len(self.sums) > 1 else self.sums * len(_WEIGHTS)

    def compact(self) -> Votes:
        """Copy of the votes in the smallest dtypes."""
        types = (np.int8, np.int32, np.int32, np.int32)
        return Votes(
            tuple(key.astype(to, copy=False) for key, to in zip(self.keys, types, strict=True)),
            self.n_rows.astype(np.uint16, copy=False),
            self.bin.astype(np.uint16, copy=False),
            tuple(_narrowed(column) for column in self.sums),
        )

    def renumbered(self, site: I8, pattern: I8) -> Votes:
        """Renumber sites and patterns: site, pattern: [old number] new."""
        measure, of_site, of_pattern, slot = self.keys
        return replace(self, keys=(measure, site[of_site], pattern[of_pattern], slot))

    def where(self, runs: B1) -> Votes:
        """Keep the runs marked in the mask [runs]."""
        if runs.all():
            return self
        rows = np.repeat(runs, self.n_rows)
        return Votes(
            tuple(key[runs] for key in self.keys),
            self.n_rows[runs],
            self.bin[rows],
            tuple(column[rows] for column in self.sums),
        )

    def moved(self, bins: I8) -> Votes:
        """Shift each run's bins by `bins` [runs], clipped to the range of bins."""
        there = np.clip(self.bin + np.repeat(bins.astype(np.int32), self.n_rows), 0, N_BINS - 1)
        return replace(self, bin=there.astype(np.uint16))

    def histograms(self, place: I8, column: I8) -> Histograms:
        """Add up the request counts by `place` and `column`, [runs] each."""
        alike = np.zeros_like(place)
        (of, *_), rows = self.sums, self.n_rows
        summed = summed_votes([Votes((alike, place, alike, column), rows, self.bin, (of,))])
        _, place, _, column = (np.repeat(key.astype(np.int64), summed.n_rows) for key in summed.keys)
        return Histograms(place, column, summed.bin.astype(np.int64), summed.sums[0].astype(np.float64))

    def table(self) -> pa.Table:
        """Table with its rows in the order of the runs."""
        schema = SCHEMAS["votes"]
        length = self.n_rows.astype(np.int64)
        keys = [
            np.repeat(key.astype(schema.field(name).type.to_pandas_dtype()), length)
            for name, key in zip(("measure", "site", "pattern", "slot"), self.keys, strict=True)
        ]
        values = [pa.array(column.astype(np.float64)) for column in self.sums]
        values = values if len(values) > 1 else values * len(_WEIGHTS)
        return pa.table([*map(pa.array, keys), pa.array(self.bin.astype(np.int16)), *values], schema=schema)


def joined_votes(parts: Sequence[Votes]) -> Votes:
    """Concatenate votes; a key may repeat."""
    weighted = max(len(part.sums) for part in parts)
    return Votes(
        tuple(np.concatenate(columns) for columns in zip(*(part.keys for part in parts), strict=True)),
        np.concatenate([part.n_rows for part in parts]),
        np.concatenate([part.bin for part in parts]),
        tuple(map(np.concatenate, zip(*(part.weights[:weighted] for part in parts), strict=True))),
    )


def rows_of(first: I8, n_rows: Column) -> I8:
    """[rows] row indices of runs, given each run's first row and number of rows."""
    length = n_rows.astype(np.int64)
    before = np.cumsum(length) - length
    return np.repeat(first - before, length) + np.arange(int(length.sum()))


def summed_votes(parts: Sequence[Votes], shard: Column | None = None) -> Votes:
    """Add votes up: one run per key, sorted by key. O(rows and runs times the bins they span).

    shard: [sites] leading sort key. Each run gets a dense array of cells, one a bin, to which rows are added
    in place; only runs are sorted.
    """
    key = [np.concatenate(columns).astype(np.int64) for columns in zip(*(p.keys for p in parts), strict=True)]
    number, first = numbered(key if shard is None else [shard[key[1]].astype(np.int64), *key])
    if len(parts) == 1 and (np.diff(number) > 0).all():
        return parts[0]
    ends = [np.cumsum(part.n_rows, dtype=np.int64) for part in parts]
    low, high = np.full(len(first), 1 << 16), np.zeros(len(first), dtype=np.int64)
    run = np.split(number, np.cumsum([len(part.n_rows) for part in parts])[:-1])
    for part, end, mine in zip(parts, ends, run, strict=True):
        np.minimum.at(low, mine, part.bin[end - part.n_rows].astype(np.int64))
        np.maximum.at(high, mine, part.bin[end - 1].astype(np.int64))
    width = high - low + 1
    begin = np.cumsum(width) - width
    bin_0 = begin - low
    weighted = max(len(part.sums) for part in parts)
    total = np.zeros((weighted, int(width.sum())), np.uint32 if _fit_together(parts, run) else np.float64)
    for part, end, mine in zip(parts, ends, run, strict=True):
        for at in range(0, len(mine), _AT_ONCE):
            n_rows = part.n_rows[at : at + _AT_ONCE]
            rows = slice(end[at] - n_rows[0], end[at + len(n_rows) - 1])
            cell = np.repeat(bin_0[mine[at : at + _AT_ONCE]], n_rows)
            cell += part.bin[rows]
            for row, column in zip(total, part.weights[:weighted], strict=True):
                np.add.at(row, cell, column[rows].astype(row.dtype, copy=False))  # of two types it is slow
    return _filled(tuple(column[first] for column in key), begin, bin_0, total)


def _filled(keys: tuple[Column, ...], begin: I8, bin_0: I8, total: Column) -> Votes:
    """Votes from dense cells, zeros dropped, in small dtypes. total: [columns, cells]; a run's cells start at
    `begin`; `bin_0` is the offset of its bin 0.

    Works on a slice of runs at a time, so that intermediates stay in a core's cache.
    """
    to = total.dtype if total.dtype.kind == "f" else np.min_scalar_type(max(total.max(initial=0), 1 << 8))
    ends = np.append(begin, total.shape[1])
    parts: list[tuple[Column, ...]] = []
    for at in range(0, max(len(begin), 1), _AT_ONCE):
        some = ends[at : at + _AT_ONCE + 1]
        cells = total[:, some[0] : some[-1]]
        filled = np.flatnonzero(cells[0] != 0)  # of truth values a fourth of the time
        n_rows = np.diff(np.searchsorted(filled, some - some[0]))
        bins = filled - np.repeat(bin_0[at : at + _AT_ONCE] - some[0], n_rows)
        sums = (row[filled].astype(to, copy=False) for row in cells)
        parts.append((n_rows, bins.astype(np.uint16), *sums))
    columns = [np.concatenate(several) for several in zip(*parts, strict=True)]
    return Votes(keys, columns[0], columns[1], tuple(columns[2:]))


def _fit_together(parts: Sequence[Votes], run: Sequence[I8]) -> bool:
    """True if all sums are integers and fit into 32 bits. run: [parts][runs] key number of each run; a part
    may repeat a key."""
    if any(column.dtype.kind != "u" for part in parts for column in part.sums):
        return False
    most = 0
    for part, mine in zip(parts, run, strict=True):
        often = int(np.bincount(mine).max(initial=0))
        most += often * max(int(column.max(initial=0)) for column in part.sums)
    return most < 2**32


def _narrowed(column: Column) -> Column:
    if column.dtype == np.uint16:
        return column
    most = column.max(initial=0)
    whole = column.dtype.kind != "f" or bool((column == np.rint(column)).all())
    if most >= 2**32 or not whole:
        return column
    return column.astype(np.uint16 if most < 2**16 else np.uint32, copy=False)
