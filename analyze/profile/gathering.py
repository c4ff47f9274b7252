"""Add windows up while they are read: what is held is a slot a block of time, however many windows it has.

Names are numbered once for all windows of a run. Slots of one run lie beside each other without being
renumbered: whoever reads a history after the samples goes on with their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from analyze.population import FoldedNames
from analyze.profile.encoding import Stored
from analyze.profile.folded_names import folded, folding_of
from analyze.profile.names import Names
from analyze.profile.numbering import RunNames
from analyze.profile.profile import SCHEMAS, Profile, Slot, Watched, joined, summed
from analyze.profile.shards import MOST_VOTES
from analyze.profile.votes import SlotVotes, Votes, summed_votes

MOST_ROWS: Final = 2_000_000
"""Rows of a table that are put in order; in more nobody looks for an order."""
_TABLES: Final = tuple(name for name in SCHEMAS if name != "votes")


@dataclass(slots=True)
class Gathering:
    """Slots as they are read."""

    run: RunNames
    keep_account: bool = True
    """A breakdown is of the samples that are compared, not of ordinary times."""
    slots: list[tuple[int, Slot]] = field(default_factory=list)
    """(part of its sample, slot)"""
    votes: list[Votes] = field(default_factory=list)
    tables: dict[str, list[pa.Table]] = field(default_factory=lambda: {name: [] for name in _TABLES})
    folded: set[FoldedNames] = field(default_factory=set)
    """As windows were folded, each by itself."""
    _part: int = 0
    _open: list[tuple[Slot, Votes, Mapping[str, pa.Table]]] = field(default_factory=list)
    """Windows of the next slot."""

    def add(self, stored: Stored, part: int, sample: int) -> None:
        """Take a window into the next slot."""
        codes = self.run.taken_in(stored.names)
        self.folded.update(stored.folded)
        new = codes._asdict()
        votes = stored.votes.renumbered(codes.site, codes.shape).compact()
        found = {}
        for name in _TABLES:
            if name == "account" and not self.keep_account:
                continue
            columns = stored.tables[name]
            arrays = [
                pa.array(new[key][columns[key]].astype(columns[key].dtype) if key in new else columns[key])
                for key in SCHEMAS[name].names
            ]
            found[name] = pa.table(arrays, schema=SCHEMAS[name])
        (slot,) = stored.slots
        self._part = part
        self._open.append((replace(slot, sample=sample), votes, found))

    def close(self) -> None:
        """End the slot."""
        if not self._open:
            return
        number, several = len(self.slots), len(self._open) > 1
        first = self._open[0][0]
        if several:
            watched = tuple(
                Watched(slot.start_ns, slot.end_ns, *_requests(tables["responses"]))
                for slot, _, tables in self._open
            )
            first = replace(first, end_ns=self._open[-1][0].end_ns, watched=watched)
        self.slots.append((self._part, first))
        self.votes.append(summed_votes([votes for _, votes, _ in self._open], number).compact())
        for name, parts in self.tables.items():
            mine = [tables[name] for _, _, tables in self._open if name in tables]
            parts += [summed(name, mine)] if several and mine else mine
        self._open = []

    def add_silent(self, part: int, slot: Slot) -> None:
        """Take in a stretch without a request: with windows that were added up, or a slot of its own."""
        mine = [
            at
            for at, (of, other) in enumerate(self.slots)
            if of == part and other.watched and other.start_ns <= slot.start_ns
        ]
        if not mine:
            self.slots.append((part, slot))
            return
        other = self.slots[mine[-1]][1]
        watched = (*other.watched, Watched(slot.start_ns, slot.end_ns))
        self.slots[mine[-1]] = part, replace(other, watched=watched)

    def gathered(self) -> Gathered:
        """What was read, slots of a part in the order of time."""
        order = sorted(range(len(self.slots)), key=lambda at: (self.slots[at][0], self.slots[at][1].start_ns))
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        return Gathered(
            self.run,
            self.run.names(),
            tuple(self.slots[at][1] for at in order),
            SlotVotes(tuple(votes.at(int(slot)) for votes, slot in zip(self.votes, number, strict=False))),
            {
                name: pa.concat_tables(
                    [
                        SCHEMAS[name].empty_table(),
                        *(_in_slot(part, name, int(number[at])) for at, part in enumerate(parts)),
                    ]
                )
                for name, parts in self.tables.items()
            },
            tuple(sorted(self.folded, key=str)),
        )


@dataclass(frozen=True, slots=True)
class Gathered:
    """Slots of a run."""

    run: RunNames
    names: Names
    """As far as they were numbered then."""
    slots: tuple[Slot, ...]
    votes: SlotVotes
    tables: Mapping[str, pa.Table]
    folded: tuple[FoldedNames, ...]

    def beside(self, other: Gathered) -> Gathered:
        """With the slots of what was read after it, numbered by the same run."""
        n = len(self.slots)
        moved = {name: _moved(table, name, n) for name, table in other.tables.items()}
        return Gathered(
            self.run,
            other.names,
            (*self.slots, *other.slots),
            self.votes.beside(other.votes, n),
            {name: pa.concat_tables([table, moved[name]]) for name, table in self.tables.items()},
            (*self.folded, *other.folded),
        )

    def profile(self, most_names: int | None = None) -> Profile:
        """The profile; names that were folded stay so, and those that are more than `most_names` are."""
        large = self.votes.n_rows > MOST_VOTES
        votes = SCHEMAS["votes"].empty_table() if large else self.votes.table()
        tables = {
            name: table if table.num_rows > MOST_ROWS else summed(name, [table])
            for name, table in self.tables.items()
        }
        profile = Profile(self.names, self.slots, votes=votes, **tables, runs=self.votes if large else None)
        folding = folding_of([self.names], self.folded, most_names)
        if not folding.folds:
            return profile
        under = replace(profile, names=folded(self.names, (), folding))
        return replace(joined([under]), folded=folding.folds)


def _requests(responses: pa.Table) -> tuple[float, float]:
    return float(responses["n"].to_numpy().sum()), float(responses["w"].to_numpy().sum())


def _moved(table: pa.Table, name: str, by: int) -> pa.Table:
    """Rows of slots that are `by` further on."""
    place = SCHEMAS[name].names.index("slot")
    return table.set_column(
        place, SCHEMAS[name].field("slot"), pa.array(table["slot"].to_numpy() + np.int32(by))
    )


def _in_slot(table: pa.Table, name: str, slot: int) -> pa.Table:
    place = SCHEMAS[name].names.index("slot")
    field = SCHEMAS[name].field("slot")
    return table.set_column(place, field, pa.repeat(pa.scalar(slot, field.type), table.num_rows))
