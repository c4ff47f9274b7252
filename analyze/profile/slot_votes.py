"""Votes of a comparison's slots: keys of the runs in memory, rows in scratch files if they are many.

In the file of a slot, runs are ordered by shard (`analyze.profile.shards`), so that the process that tests a
shard reads one contiguous range of each file. No process holds all rows at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkstemp
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from analyze.profile.profile import SCHEMAS, Column
from analyze.profile.votes import Votes, joined_votes, summed_votes
from schemas.arrays import B1, I8
from stitch.columnar.runs import ranges
from stitch.scratch import Scratch

MOST_HELD: Final = 100_000
"""Maximum number of rows of a slot held in memory (half a megabyte); more are written to a file."""


class _FileColumn(NamedTuple):
    """Column stored as raw values in a file."""

    path: str
    type: str
    """numpy dtype string of the values."""
    offset: int
    """Position of the first value in the file, bytes."""
    n: int
    """Number of values."""

    def rows(self, first: int, past: int) -> Column:
        """Read the values with indices in [first, past)."""
        at = self.offset + first * np.dtype(self.type).itemsize
        return np.fromfile(self.path, self.type, past - first, offset=at)


@dataclass(frozen=True, slots=True)
class OneSlotVotes:
    """Rows of the table `votes` of one slot of time, in compact form (see `Votes`); they may be in a file."""

    slot: int
    keys: tuple[Column, ...]
    """(measure, site, pattern) of the runs, each [runs]."""
    n_rows: Column
    """[runs]: number of rows in each run."""
    first: Column
    """[runs]: index in `columns` of each run's first row."""
    columns: tuple[Column | _FileColumn, ...]
    """Histogram bins, then the columns of `Votes.sums`; each [rows], in memory or in a file."""

    @staticmethod
    def of(votes: Votes, shard: Column, folder: Callable[[], Path]) -> OneSlotVotes:
        """Take over `votes`, as slot 0; more than MOST_HELD rows are sorted by shard and written to a file in
        `folder()`. shard: [sites], shard of each site."""
        held = len(votes.bin) <= MOST_HELD
        votes = votes if held else votes.ordered(shard[votes.keys[1]])
        columns = (votes.bin, *votes.sums)
        kept = columns if held else _written(columns, folder())
        return OneSlotVotes(0, votes.keys[:3], votes.n_rows, _first(votes.n_rows), kept)

    @property
    def total_rows(self) -> int:
        """Number of rows of all runs."""
        return int(self.n_rows.sum(dtype=np.int64))

    def renumbered(self, site: I8, pattern: I8) -> OneSlotVotes:
        """Renumber sites and call patterns. site, pattern: int64[old numbers], new number of each."""
        measure, of_site, of_pattern = self.keys
        new = site[of_site].astype(np.int32), pattern[of_pattern].astype(np.int32)
        return replace(self, keys=(measure, *new))

    def some(self, runs: I8) -> OneSlotVotes:
        """Select runs. runs: int64[n], indices of runs, ascending; rows in a file are not read."""
        first, n_rows, columns = self.first[runs], self.n_rows[runs], self.columns
        if not any(isinstance(column, _FileColumn) for column in columns):
            columns = tuple(_rows(columns, first, n_rows))
            first = _first(n_rows)
        return replace(
            self, keys=tuple(key[runs] for key in self.keys), n_rows=n_rows, first=first, columns=columns
        )

    def read(self) -> Votes:
        """Read the rows of all runs into memory."""
        bins, *sums = _rows(self.columns, self.first, self.n_rows)
        slot = np.full(len(self.n_rows), self.slot, dtype=np.int32)
        return Votes((*self.keys, slot), self.n_rows, bins, tuple(sums))


def _first(n_rows: Column) -> Column:
    return (np.cumsum(n_rows, dtype=np.int64) - n_rows).astype(np.uint32)


def _rows(columns: Iterable[Column | _FileColumn], first: Column, n_rows: Column) -> Iterator[Column]:
    """Yield, for each column, the rows of all runs.

    Reads the range from the first to the last run: runs of one shard are contiguous in a file."""
    ends = first.astype(np.int64) + n_rows
    past = int(ends.max(initial=0))
    begin = int(first.min(initial=past))
    contiguous = (first[1:] == ends[:-1]).all()
    numbers = None if contiguous else ranges(ends - n_rows - begin, n_rows.astype(np.int64))
    for column in columns:
        rows = column.rows(begin, past) if isinstance(column, _FileColumn) else column[begin:past]
        yield rows if numbers is None else rows[numbers]


def _written(columns: Iterable[Column], folder: Path) -> tuple[_FileColumn, ...]:
    descriptor, path = mkstemp(dir=folder)
    found, offset = [], 0
    try:
        with os.fdopen(descriptor, "wb") as file:
            for column in columns:
                # Not `tofile`, which writes past Python's file and loses what the disk did not take.
                file.write(np.ascontiguousarray(column).view(np.uint8).data)
                found.append(_FileColumn(path, column.dtype.str, offset, len(column)))
                offset += column.nbytes
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error
    return tuple(found)


@dataclass(frozen=True, slots=True)
class SlotVotes:
    """Rows of the table `votes` of several slots of time, in compact form (see `Votes`)."""

    parts: tuple[OneSlotVotes, ...]
    """Rows of one slot of time each; a slot may have several parts."""
    scratch: tuple[Scratch, ...] = ()
    """Scratch folders with the files of `parts`; they are deleted when the last reference is gone."""

    @property
    def n_rows(self) -> int:
        """Number of rows of all parts."""
        return sum(part.total_rows for part in self.parts)

    def table(self) -> pa.Table:
        """All rows as a table `votes`, sorted by key, rows with equal keys added up."""
        if not self.parts:
            return SCHEMAS["votes"].empty_table()
        return summed_votes([part.read() for part in self.parts]).table()

    def read(self) -> Votes:
        """Read all rows into memory; the result may have several runs with equal keys."""
        return joined_votes([part.read() for part in self.parts])

    def of_sites(self, sites: B1) -> SlotVotes:
        """Select the votes of some sites. sites: bool[sites], True to select a site."""
        parts = tuple(part.some(np.flatnonzero(sites[part.keys[1]])) for part in self.parts)
        return replace(self, parts=parts)

    def renumbered(self, site: I8, pattern: I8) -> SlotVotes:
        """Renumber sites and call patterns. site, pattern: int64[old numbers], new number of each."""
        return replace(self, parts=tuple(part.renumbered(site, pattern) for part in self.parts))

    def beside(self, other: SlotVotes, n_slots: int) -> SlotVotes:
        """Append the votes of `other`, adding `n_slots` to the numbers of its slots."""
        moved = (replace(part, slot=part.slot + n_slots) for part in other.parts)
        return SlotVotes((*self.parts, *moved), self.scratch + other.scratch)
