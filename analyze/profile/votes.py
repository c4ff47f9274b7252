"""Compact form of a profile's table `votes`: runs of rows with equal (measure, site, pattern, slot).

Nine of ten stored rows of a window are votes, and most have the same key as the row before. In this form the
key is stored once per run, and each row is a bin and a number of requests, six bytes.
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
from stitch.columnar.runs import offsets, ranges, run_starts

_WEIGHTS = ("n", "w", "w2")
_AT_ONCE = 1 << 11
"""Number of runs added up at once, so that their rows stay in a core's second-level cache."""


@dataclass(frozen=True, slots=True)
class Votes:
    """Rows of a profile's table `votes` (numbers of requests by histogram bin of a measure) in compact form.

    A *run* is all consecutive rows with equal keys; the keys are held once per run."""

    keys: tuple[Column, ...]
    """(measure, site, pattern, slot) of the runs, each [runs]."""
    n_rows: Column
    """[runs]: number of rows in each run."""
    bin: Column
    """[rows in the order of the runs]: histogram bin, ascending within a run."""
    sums: tuple[Column, ...]
    """(number of requests,) or, with weights other than 1, (number of requests, sum of weights, sum of
    squared weights); each [rows in the order of the runs]."""

    @staticmethod
    def of(columns: Mapping[str, Column]) -> Votes:
        """Runs of a table `votes`. columns: column name -> array; rows with equal keys must be adjacent."""
        keys = [columns[name] for name in ("measure", "site", "pattern", "slot")]
        starts = np.flatnonzero(run_starts(*keys))
        weighted = any(not np.array_equal(columns["n"], columns[name]) for name in ("w", "w2"))
        return Votes(
            tuple(key[starts] for key in keys),
            np.diff(starts, append=len(keys[0])),
            columns["bin"],
            tuple(columns[name] for name in (_WEIGHTS if weighted else ("n",))),
        )

    @property
    def weights(self) -> tuple[Column, ...]:
        """(n, w, w2), each [rows]: number of requests, sums of weights and squared weights; all three are n
        if all weights are 1."""
        return self.sums if len(self.sums) > 1 else self.sums * len(_WEIGHTS)

    def compact(self) -> Votes:
        """Copy of the votes with the smallest dtypes that hold the values."""
        types = (np.int8, np.int32, np.int32, np.int32)
        return Votes(
            tuple(key.astype(to, copy=False) for key, to in zip(self.keys, types, strict=True)),
            self.n_rows.astype(np.uint16, copy=False),
            self.bin.astype(np.uint16, copy=False),
            tuple(_narrowed(column) for column in self.sums),
        )

    def renumbered(self, site: I8, pattern: I8) -> Votes:
        """Renumber sites and call patterns. site, pattern: int64[old numbers], new number of each."""
        measure, of_site, of_pattern, slot = self.keys
        return replace(self, keys=(measure, site[of_site], pattern[of_pattern], slot))

    def where(self, runs: B1) -> Votes:
        """Select runs. runs: bool[runs], True to keep a run."""
        if runs.all():
            return self
        rows = np.repeat(runs, self.n_rows)
        return Votes(
            tuple(key[runs] for key in self.keys),
            self.n_rows[runs],
            self.bin[rows],
            tuple(column[rows] for column in self.sums),
        )

    def in_order(self, runs: I8) -> Votes:
        """Copy with the runs in another order. runs: int64[runs], index of each."""
        n_rows = self.n_rows[runs]
        rows = ranges(offsets(self.n_rows)[runs], n_rows.astype(np.int64))
        keys = tuple(key[runs] for key in self.keys)
        return Votes(keys, n_rows, self.bin[rows], tuple(column[rows] for column in self.sums))

    def ordered(self, code: Column) -> Votes:
        """The votes with runs ascending by `code`, [runs], those of equal code in the order they have."""
        if (code[1:] >= code[:-1]).all():
            return self
        return self.in_order(np.argsort(code, kind="stable"))

    def moved(self, bins: I8) -> Votes:
        """Add `bins`, int64[runs], to the bins of each run; results are clipped to [0, N_BINS)."""
        there = np.clip(self.bin + np.repeat(bins.astype(np.int32), self.n_rows), 0, N_BINS - 1)
        return replace(self, bin=there.astype(np.uint16))

    def histograms(self, place: I8, column: I8) -> Histograms:
        """Histograms of the numbers of requests. place, column: int64[runs], the histogram to which a run is
        added."""
        alike = np.zeros_like(place)
        (of, *_), rows = self.sums, self.n_rows
        summed = summed_votes([Votes((alike, place, alike, column), rows, self.bin, (of,))])
        _, place, _, column = (np.repeat(key.astype(np.int64), summed.n_rows) for key in summed.keys)
        return Histograms(place, column, summed.bin.astype(np.int64), summed.sums[0].astype(np.float64))

    def table(self) -> pa.Table:
        """The rows as a table `votes`, in the order of the runs."""
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
    """Concatenate votes without adding up: the result may have several runs with equal keys."""
    weighted = max(len(part.sums) for part in parts)
    return Votes(
        tuple(np.concatenate(columns) for columns in zip(*(part.keys for part in parts), strict=True)),
        np.concatenate([part.n_rows for part in parts]),
        np.concatenate([part.bin for part in parts]),
        tuple(map(np.concatenate, zip(*(part.weights[:weighted] for part in parts), strict=True))),
    )


def summed_votes(parts: Sequence[Votes], shard: Column | None = None) -> Votes:
    """Add up votes with equal keys: one run per key, sorted by key. O(rows + sum of the runs' bin ranges).

    shard: [sites], additional first sort key; None: none. Each result run gets a dense array with one cell
    per bin, to which rows are added in place, so that only runs are sorted, not rows.
    """
    key = [np.concatenate(columns).astype(np.int64) for columns in zip(*(p.keys for p in parts), strict=True)]
    number, first = numbered(key if shard is None else [shard[key[1]].astype(np.int64), *key])
    if len(parts) == 1 and len(first) == len(number):  # no key comes twice
        return parts[0] if (np.diff(number) > 0).all() else parts[0].in_order(first)
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
    """Votes from dense arrays of bins; empty bins are dropped, dtypes are small.

    total: [columns of `sums`, cells], one cell per run and bin. begin: int64[runs], first cell of each run.
    bin_0: int64[runs], cell in which bin 0 of the run would be. Works on `_AT_ONCE` runs at a time, so that
    intermediate arrays stay in a core's cache.
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
    """True if all sums over equal keys are integers below 2^32. run: for each part int64[runs], number of the
    run's key; keys may repeat within a part."""
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
