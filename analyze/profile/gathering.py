"""Add up the statistics of windows while they are read, so that memory holds one slot per block of windows.

Names are numbered once for all windows of a run (`RunNames`), so slots of one run can be concatenated without
renumbering: a history that is read after the samples uses the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from analyze.population import FoldedNames
from analyze.profile.encoding import Stored
from analyze.profile.folded_names import folded, folding_of
from analyze.profile.name_rows import NameRows
from analyze.profile.names import Names
from analyze.profile.numbering import RunNames
from analyze.profile.profile import (
    SCHEMAS,
    Column,
    Profile,
    Slot,
    Watched,
    columns_of,
    joined,
    renumbered,
    summed,
    summed_columns,
    table_of,
)
from analyze.profile.segment_sums import SegmentSums, summed_segments
from analyze.profile.shards import BY_SITE, MOST_VOTES, site_parts
from analyze.profile.slot_votes import OneSlotVotes, SlotVotes
from analyze.profile.votes import Votes, summed_votes
from schemas.arrays import I8
from stitch.scratch import Scratch

MOST_APART: Final = 1 << 26
"""Maximum size of the rows of `votes` that `Adding` holds beside those of the first window or of a sum,
bytes: 4 a row, up to 26 if requests have weights; with more, it sums them."""
A_WINDOW: Final = 1 << 18
"""Size of the other tables of a small window, bytes."""
MOST_ROWS: Final = 200_000
"""Maximum number of rows of a table to sort by key; a larger table stays unsorted, as no reader needs an
order."""
_TABLES: Final = tuple(name for name in SCHEMAS if name != "votes")


class Added(NamedTuple):
    """Sum of several windows as one slot, to be passed to `Gathering.add`."""

    names: NameRows
    """Names; empty if numbers are those of the `RunNames` of the `Gathering`."""
    slot: Slot
    votes: OneSlotVotes
    tables: Mapping[str, Mapping[str, Column]]
    folded: tuple[FoldedNames, ...]
    segments: SegmentSums


class Adding:
    """Accumulator of the statistics of windows into one slot.

    keep_account: keep the table `account`, which is needed only for compared samples. run: numbering of names
    to use, that of the `Gathering` to which the sum goes; None: a separate one.
    """

    def __init__(self, *, keep_account: bool = True, run: RunNames | None = None) -> None:
        self._names = [name for name in _TABLES if keep_account or name != "account"]
        self.run = RunNames() if run is None else run
        """Numbering of names, for which windows can be read without names."""
        self._is_shared = run is not None
        self._votes: list[Votes] = []
        self._tables: dict[str, list[Mapping[str, Column]]] = {name: [] for name in self._names}
        self._watched: list[Watched] = []
        self._folded: set[FoldedNames] = set()
        self._segments: list[SegmentSums] = []

    def add(self, window: Stored) -> None:
        """Add the statistics of a window."""
        if window.names:
            window = window.renumbered(self.run.taken_in(window.names))
        self._votes.append(window.votes)
        for name, parts in self._tables.items():
            parts.append(window.tables[name])
        self._segments.append(window.segments)
        # Without those of the first, which may be a sum: a large one is not added up again for each window.
        sizes = [one.nbytes for votes in self._votes[1:] for one in (votes.bin, *votes.sums)]
        if sizes and sum(sizes) + len(self._votes) * A_WINDOW > MOST_APART:
            self._add_up()
        for slot in window.slots:
            self._watched += slot.watched
        self._folded.update(window.folded)

    def _add_up(self, shard: Column | None = None) -> None:
        self._votes = [summed_votes(self._votes, shard).compact()]
        self._tables = {name: [summed_columns(name, parts)] for name, parts in self._tables.items()}
        self._segments = [summed_segments(self._segments)]

    def stored(self) -> Stored | None:
        """Sum of the statistics of all windows added; None if no window was added."""
        return self._summed()[0]

    def _summed(self) -> tuple[Stored | None, Column]:
        """(sum of all windows or None; [sites] part, see `site_parts`, of each site).

        Votes are sorted by part if several windows were added."""
        names = self.run.rows()
        parts = site_parts(names)
        if not self._votes:
            return None, parts
        if len(self._votes) > 1:
            self._add_up(parts)
        (votes,), whole = self._votes, {name: columns for name, (columns,) in self._tables.items()}
        stored = Stored(
            names,
            (Slot(0, self._watched[0].start_ns, self._watched[-1].end_ns, tuple(self._watched)),),
            votes,
            whole,
            tuple(sorted(self._folded, key=str)),
            self._segments[0],
        )
        return stored, parts

    def added(self, folder: Callable[[], Path]) -> Added | None:
        """Sum of all windows as `Added`; None if no window was added.

        folder: returns the scratch folder to which votes are written if they are many."""
        stored, parts = self._summed()
        if stored is None:
            return None
        (slot,) = stored.slots
        votes = OneSlotVotes.of(stored.votes, parts, folder)
        tables = {**stored.tables}
        for name in BY_SITE:
            order = np.argsort(parts[tables[name]["site"]], kind="stable")
            tables[name] = {key: column[order] for key, column in tables[name].items()}
        names = {} if self._is_shared else stored.names
        return Added(names, slot, votes, tables, stored.folded, stored.segments)


@dataclass(slots=True)
class Gathering:
    """Collects the slots of all samples while they are read."""

    run: RunNames
    scratch: Scratch = field(default_factory=Scratch)
    slots: list[Slot] = field(default_factory=list)
    votes: list[OneSlotVotes] = field(default_factory=list)
    tables: dict[str, list[pa.Table]] = field(default_factory=lambda: {name: [] for name in _TABLES})
    folded: set[FoldedNames] = field(default_factory=set)
    """Components whose names were folded (ids replaced by `#`) in any window."""
    segments: dict[int, list[SegmentSums]] = field(default_factory=dict)
    """Index of a sample -> numbers of requests by attribute value, one entry per slot."""
    most_votes: int | None = None
    """Maximum number of rows of `votes` held as a table; more are held in compact form. None: MOST_VOTES."""

    def add(self, added: Added, sample: int) -> None:
        """Add a slot of sample number `sample`."""
        votes, tables = added.votes, added.tables
        if added.names:
            codes = self.run.taken_in(added.names)
            votes = votes.renumbered(codes["site"], codes["pattern"])
            tables = {name: renumbered(columns, codes) for name, columns in tables.items()}
        self.folded.update(added.folded)
        self.slots.append(replace(added.slot, sample=sample))
        self.segments.setdefault(sample, []).append(added.segments)
        self.votes.append(votes)
        for name, columns in tables.items():
            self.tables[name].append(table_of(name, columns))

    def add_silent(self, slot: Slot) -> None:
        """Add a slot without requests whose time was recorded.

        Its interval joins the watched intervals of an earlier slot: the last one of the same sample that sums
        several windows. Without such a slot, it is added as a slot of its own."""
        mine = [
            at
            for at, other in enumerate(self.slots)
            if other.sample == slot.sample and len(other.watched) > 1 and other.start_ns <= slot.start_ns
        ]
        if not mine:
            self.slots.append(slot)
            return
        last = max(mine, key=lambda at: self.slots[at].start_ns)
        watched = (*self.slots[last].watched, Watched(slot.start_ns, slot.end_ns))
        self.slots[last] = replace(self.slots[last], watched=watched)

    def gathered(self, n_blocks: int | None = None) -> Gathered:
        """All slots added so far, sorted by sample and time.

        n_blocks: number of blocks into which the first sample's slots are grouped to estimate noise
        (`blocks_of_slots`). All votes of a block are put into its first slot, as no test needs them by slot.
        None: each slot keeps its votes.
        """
        order = sorted(
            range(len(self.slots)), key=lambda at: (self.slots[at].sample, self.slots[at].start_ns)
        )
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        first = np.arange(len(order))
        if n_blocks is not None:
            block = blocks_of_slots(sum(slot.sample == 0 for slot in self.slots), n_blocks)
            first[: len(block)] = np.searchsorted(block, block)
        slots = first[number].tolist()
        return Gathered(
            self.run,
            self.run.names(),
            tuple(self.slots[at] for at in order),
            SlotVotes(
                tuple(replace(votes, slot=slot) for votes, slot in zip(self.votes, slots, strict=False)),
                (self.scratch,),
            ),
            {
                name: _ordered(name, [_in_slots(name, part, number[at:]) for at, part in enumerate(parts)])
                for name, parts in self.tables.items()
            },
            tuple(sorted(self.folded, key=str)),
            {sample: summed_segments(parts) for sample, parts in self.segments.items()},
            self.most_votes,
        )


@dataclass(frozen=True, slots=True)
class Gathered:
    """Slots of samples, sorted by sample and time, with the sums of each slot."""

    run: RunNames
    names: Names
    """All names of the run so far; numbers in `votes` and `tables` refer to them."""
    slots: tuple[Slot, ...]
    votes: SlotVotes
    tables: Mapping[str, pa.Table]
    folded: tuple[FoldedNames, ...]
    segments: Mapping[int, SegmentSums]
    """Index of a sample -> numbers of requests by attribute value."""
    most_votes: int | None = None

    def beside(self, other: Gathered) -> Gathered:
        """Append the slots of `other`, which must have been read later with the same `run`."""
        n = len(self.slots)
        slots = n + np.arange(len(other.slots))
        return Gathered(
            self.run,
            other.names,
            (*self.slots, *other.slots),
            self.votes.beside(other.votes, n),
            {
                name: _ordered(name, [table, _in_slots(name, other.tables[name], slots)])
                for name, table in self.tables.items()
            },
            (*self.folded, *other.folded),
            {},
            self.most_votes,
        )

    def profile(self, most_names: int | None = None) -> Profile:
        """The slots as a profile.

        Names that are folded in any window are folded in all; components with more than `most_names` names
        are folded, too (None: no limit)."""
        most = MOST_VOTES if self.most_votes is None else min(MOST_VOTES, self.most_votes)
        large = self.votes.n_rows > most
        votes = SCHEMAS["votes"].empty_table() if large else self.votes.table()
        runs = self.votes if large else None
        profile = Profile(self.names, self.slots, votes=votes, **self.tables, runs=runs)
        folding = folding_of([self.names], self.folded, most_names)
        if not folding.folds:
            return profile
        under = replace(profile, names=folded(self.names, (), folding))
        return replace(joined([under]), folded=folding.folds)


def _ordered(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Concatenate rows of table `name` from several slots; sorted by key if they are at most MOST_ROWS."""
    rows = pa.concat_tables([SCHEMAS[name].empty_table(), *parts])
    return rows if rows.num_rows > MOST_ROWS else summed(name, [rows])


def blocks_of_slots(n_slots: int, n_blocks: int) -> I8:
    """int64[n_slots]: block of each slot of a sample, for `n_blocks` blocks of about equally many slots."""
    return np.arange(n_slots) * min(n_blocks, n_slots) // max(n_slots, 1)


def _in_slots(name: str, table: pa.Table, slots: I8) -> pa.Table:
    """Renumber the slots in table `name`. slots: int64[old numbers], new number of each."""
    return table_of(name, renumbered(columns_of(table), {"slot": slots}))
