"""Deals what was mended to commits: so many windows each, all of a unit in one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8
from schemas.events import concat_events, with_text_ids
from schemas.rejects import REJECT_SCHEMA, Reason, rejects_table
from schemas.windows import Window
from stitch.drivers.repair.mending import Mended, Verdict
from stitch.kernel import reject_rows
from stitch.lake.merging import flow_names, merged_structures
from stitch.lake.upkeep.rewriting import Edit

WINDOWS_A_COMMIT: Final = 128
"""Bounds the record, about 1 KB a window, and what is lost by an interruption. Of windows in which a unit
begins: those that it moves out of or into come on top."""
_STUCK: Final = (Verdict.LOST, Verdict.SPLIT, Verdict.RETIRED)
"""What does not come right by waiting."""
_DETAILS: Final = {
    Reason.CONFLICT: "another version of this id was kept",
    Reason.BAD_TIME: "no event of the request has a time",
}


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What one commit does. The shares before it are done."""

    mended: Sequence[Mended]
    group: Sequence[I8]
    """Of each of `mended`: [units] the share that settles them; -1: none does."""
    number: int
    length_ns: int
    windows: tuple[int, ...]
    """Starts of those that change, ascending."""
    structures: pa.Table
    """Of all that was mended, each category once."""

    def _mine(self, place: int, unit: I8) -> B1:
        """[rows] of units that this commit settles, by the unit of each."""
        mine: B1 = self.group[place][unit] == self.number
        return mine

    @property
    def n_late(self) -> int:
        """Late events that no share before this one settled."""
        return sum(int(np.count_nonzero(left)) for left in self._left())

    @property
    def n_settled(self) -> int:
        """Late events that this one settles."""
        return sum(
            int(np.count_nonzero(self._mine(place, part.late_unit))) for place, part in enumerate(self.mended)
        )

    @property
    def n_expired(self) -> int:
        """Late events that this one drops: the first one drops all."""
        return 0 if self.number else sum(int(np.count_nonzero(_gone(part))) for part in self.mended)

    @property
    def n_requests(self) -> int:
        """Units whose flows change."""
        return sum(
            int(np.count_nonzero((own == self.number) & (part.verdict == Verdict.FOLDED)))
            for part, own in zip(self.mended, self.group, strict=True)
        )

    def _left(self) -> Iterator[B1]:
        for part, own in zip(self.mended, self.group, strict=True):
            settled_by = np.where(_gone(part), 0, own[part.late_unit])
            yield (settled_by < 0) | (settled_by >= self.number)

    def edit(self, window: Window) -> Edit:
        """What leaves a window and what comes."""
        gone, flows, params = [], [], []
        for place, part in enumerate(self.mended):
            inside = _starts(part.gone, self.length_ns) == window.start_ns
            gone.append(part.gone.filter(pa.array(inside & self._mine(place, part.gone_unit))))
            inside = _starts(part.flows, self.length_ns) == window.start_ns
            own = part.flows.filter(pa.array(inside & self._mine(place, part.flow_unit)))
            flows.append(own)
            params.append(part.params.filter(pc.is_in(flow_names(part.params), flow_names(own))))
        return Edit(
            gone=pa.concat_tables(gone).select(["request_id", "kind", "lane"]).combine_chunks(),
            flows=pa.concat_tables(flows).unify_dictionaries().combine_chunks(),
            structures=self.structures,
            params=pa.concat_tables(params).unify_dictionaries().combine_chunks(),
        )

    def late(self) -> Iterator[tuple[int, pa.Table, pa.Table]]:
        """`(lane, events that wait, events settled)`, a lane once, TEXT_EVENT_SCHEMA."""
        left = [*self._left()]
        for lane in sorted({part.lane for part in self.mended}):
            waiting, settled = [], []
            for place, part in enumerate(self.mended):
                if part.lane == lane:
                    mine = self._mine(place, part.late_unit)
                    waiting.append(part.late.filter(pa.array(left[place] & ~mine & ~_gone(part))))
                    settled.append(part.late.filter(pa.array(mine)))
            yield lane, with_text_ids(concat_events(waiting)), with_text_ids(concat_events(settled))

    def letters(self, source: str) -> pa.Table:
        """REJECT_SCHEMA: dead letters of what is settled."""
        rejects = []
        for place, part in enumerate(self.mended):
            for reason, events, unit in (
                (Reason.CONFLICT, part.conflicts, part.conflict_unit),
                (Reason.BAD_TIME, part.timeless, part.timeless_unit),
            ):
                rows = np.flatnonzero(self._mine(place, unit))
                if len(rows):
                    rejects += reject_rows(events, rows, reason, _DETAILS[reason])
        return rejects_table(rejects, source, [0]) if rejects else REJECT_SCHEMA.empty_table()


def shares(mended: Sequence[Mended], length_ns: int) -> list[Share]:
    """The commits that settle what can be settled; empty where nothing can."""
    firsts = [_first_windows(part, length_ns) for part in mended]
    folded = [part.verdict == Verdict.FOLDED for part in mended]
    same = [part.verdict == Verdict.SAME for part in mended]
    none = np.zeros(0, dtype=np.int64)
    starts = np.unique(np.concatenate([none, *(f[own] for f, own in zip(firsts, folded, strict=True))]))
    if not len(starts) and not any(own.any() for own in (*same, *map(_gone, mended))):
        return []
    group = []
    for first, own, copies in zip(firsts, folded, same, strict=True):
        place = np.searchsorted(starts, first) // WINDOWS_A_COMMIT
        group.append(np.where(own, place, np.where(copies, 0, -1)))
    structures = merged_structures([part.structures for part in mended])
    return [
        Share(mended, group, number, length_ns, _windows(mended, group, number, length_ns), structures)
        for number in range(max(1, -(-len(starts) // WINDOWS_A_COMMIT)))
    ]


def past_age(part: Mended) -> B1:
    """[late] dropped: they cannot be folded in, and `flowdiff retain` keeps late events no longer."""
    gone: B1 = part.aged & np.isin(part.verdict[part.late_unit], _STUCK)
    return gone


def _gone(part: Mended) -> B1:
    """[late] dropped: nothing of the lake is so old, or they are past the age of late events."""
    gone: B1 = past_age(part) | (part.expired & (part.verdict[part.late_unit] == Verdict.RETIRED))
    return gone


def _windows(mended: Sequence[Mended], group: Sequence[I8], number: int, length_ns: int) -> tuple[int, ...]:
    found = [np.zeros(0, dtype=np.int64)]
    for part, own in zip(mended, group, strict=True):
        for flows, unit in ((part.gone, part.gone_unit), (part.flows, part.flow_unit)):
            found.append(_starts(flows, length_ns)[own[unit] == number])
    return tuple(np.unique(np.concatenate(found)).tolist())


def _first_windows(part: Mended, length_ns: int) -> I8:
    """[units] start of the first window that changes; 0 where none does."""
    first = np.full(len(part.verdict), np.iinfo(np.int64).max)
    for flows, unit in ((part.gone, part.gone_unit), (part.flows, part.flow_unit)):
        np.minimum.at(first, unit, _starts(flows, length_ns))
    return np.where(part.verdict == Verdict.FOLDED, first, 0)


def _starts(flows: pa.Table, length_ns: int) -> I8:
    starts: I8 = flows["start_ns"].to_numpy() // length_ns * length_ns
    return starts
