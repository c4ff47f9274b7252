"""Votes of a comparison's slots: keys of the runs are in memory, their rows in files if they are many.

A slot's file holds the runs of a shard side by side (`analyze.profile.shards`): a shard needs one contiguous
piece of every file, which the process that tests it reads. No process holds all rows at once.
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
from analyze.profile.votes import Votes, joined_votes, rows_of, summed_votes
from schemas.arrays import B1, I8
from stitch.scratch import Scratch

MOST_HELD: Final = 100_000
"""Maximum number of rows of a slot kept in memory: half a megabyte."""


class _FileColumn(NamedTuple):
    """A column stored in a file at an offset; `type` is its dtype, `n` its length."""

    path: str
    type: str
    offset: int
    n: int

    def rows(self, first: int, past: int) -> Column:
        """Read rows [first, past)."""
        at = self.offset + first * np.dtype(self.type).itemsize
        return np.fromfile(self.path, self.type, past - first, offset=at)


@dataclass(frozen=True, slots=True)
class OneSlotVotes:
    """Votes of one slot; arrays are [runs]."""

    slot: int
    keys: tuple[Column, ...]
    """measure, site, pattern."""
    n_rows: Column
    """Number of rows of each run."""
    first: Column
    """Index of the first row of each run."""
    columns: tuple[Column | _FileColumn, ...]
    """Bins, then the columns of `Votes.sums`."""

    @staticmethod
    def of(votes: Votes, shard: Column, folder: Callable[[], Path]) -> OneSlotVotes:
        """Spill votes to a file in a scratch `folder` if they are many; shard: [sites] shard of each, to
        order by."""
        held = len(votes.bin) <= MOST_HELD
        votes = votes if held else summed_votes([votes], shard).compact()
        columns = (votes.bin, *votes.sums)
        kept = columns if held else _written(columns, folder())
        return OneSlotVotes(0, votes.keys[:3], votes.n_rows, _first(votes.n_rows), kept)

    @property
    def total_rows(self) -> int:
        """Rows of all runs."""
        return int(self.n_rows.sum(dtype=np.int64))

    def renumbered(self, site: I8, pattern: I8) -> OneSlotVotes:
        """Renumber sites and patterns: site, pattern: [old number] new."""
        measure, of_site, of_pattern = self.keys
        new = site[of_site].astype(np.int32), pattern[of_pattern].astype(np.int32)
        return replace(self, keys=(measure, *new))

    def some(self, runs: I8) -> OneSlotVotes:
        """Select runs by index; rows in a file stay there."""
        first, n_rows, columns = self.first[runs], self.n_rows[runs], self.columns
        if not any(isinstance(column, _FileColumn) for column in columns):
            columns = tuple(_rows(columns, first, n_rows))
            first = _first(n_rows)
        return replace(
            self, keys=tuple(key[runs] for key in self.keys), n_rows=n_rows, first=first, columns=columns
        )

    def read(self) -> Votes:
        """Read all rows."""
        bins, *sums = _rows(self.columns, self.first, self.n_rows)
        slot = np.full(len(self.n_rows), self.slot, dtype=np.int32)
        return Votes((*self.keys, slot), self.n_rows, bins, tuple(sums))


def _first(n_rows: Column) -> Column:
    return (np.cumsum(n_rows, dtype=np.int64) - n_rows).astype(np.uint32)


def _rows(columns: Iterable[Column | _FileColumn], first: Column, n_rows: Column) -> Iterator[Column]:
    """Yield the runs' rows of each column. Reads from first to last run: a shard's lie side by side."""
    ends = first.astype(np.int64) + n_rows
    past = int(ends.max(initial=0))
    begin = int(first.min(initial=past))
    numbers = None if (first[1:] == ends[:-1]).all() else rows_of(first - begin, n_rows)
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
    """Votes of several slots; several parts may belong to one slot."""

    parts: tuple[OneSlotVotes, ...]
    scratch: tuple[Scratch, ...] = ()
    """Scratch folders that hold the rows; kept alive here."""

    @property
    def n_rows(self) -> int:
        """Rows of all parts."""
        return sum(part.total_rows for part in self.parts)

    def table(self) -> pa.Table:
        """Table sorted by key, equal keys added up."""
        if not self.parts:
            return SCHEMAS["votes"].empty_table()
        return summed_votes([part.read() for part in self.parts]).table()

    def read(self) -> Votes:
        """Read all rows; keys may repeat."""
        return joined_votes([part.read() for part in self.parts])

    def of_sites(self, sites: B1) -> SlotVotes:
        """Select the votes of sites. sites: [sites] mask."""
        parts = tuple(part.some(np.flatnonzero(sites[part.keys[1]])) for part in self.parts)
        return replace(self, parts=parts)

    def renumbered(self, site: I8, pattern: I8) -> SlotVotes:
        """Renumber sites and patterns: site, pattern: [old number] new."""
        return replace(self, parts=tuple(part.renumbered(site, pattern) for part in self.parts))

    def beside(self, other: SlotVotes, n_slots: int) -> SlotVotes:
        """Append the votes of `other`, whose slots are shifted by n_slots."""
        moved = (replace(part, slot=part.slot + n_slots) for part in other.parts)
        return SlotVotes((*self.parts, *moved), self.scratch + other.scratch)
