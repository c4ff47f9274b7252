"""Upkeep: what it took out of the lake may be missing, and what it wrote anew holds what was there before."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from schemas.commits import CommitRecord, Upkeep
from stitch.lake.checkpoint import FILES_SCHEMA, files_table
from stitch.lake.layout import WINDOW_TABLES
from stitch.lake.upkeep.hidden import UPKEEP_LANE, Hidden, hidden_by

LATE: Final = "late"
REPAIRED: Final = "repaired"
_COUNTED = [table for table in WINDOW_TABLES if table != "structures"]
"""Tables whose rows are neither joined nor left out; a structure comes once a file."""


def hidden_in(commits: Sequence[CommitRecord]) -> Hidden:
    """What the commits of a lake (of each lane in order) hide."""
    own = [record for record in commits if record.lane == UPKEEP_LANE]
    upkeep = own[-1].standing.upkeep if own else None
    listing = files_table(own) if own else FILES_SCHEMA.empty_table()
    return hidden_by(upkeep or Upkeep(), listing, commits[-1].window_length_ns if commits else 1)


def broken_generations(commits: Iterable[CommitRecord]) -> Iterator[str]:
    """A generation of a window has as many flows and parameters as what it replaces, swept or not, but for
    what a repair says that it changed.
    """
    rows: defaultdict[tuple[str, str], Counter[tuple[int, int]]] = defaultdict(Counter)
    own = []
    for record in commits:
        if record.lane == UPKEEP_LANE and (record.publish or record.repair):
            own.append(record)
        for item in record.publish:
            if item.window is not None and item.table in _COUNTED:
                rows[item.table, item.window][record.lane, record.seq] += item.rows
    effective: dict[str, tuple[int, dict[int, int]]] = {}
    for record in own:  # ascending
        standing = record.standing.upkeep or Upkeep()
        changed = {change.window: change for change in record.repair.changed} if record.repair else {}
        windows = {*changed, *(item.window for item in record.publish if item.window is not None)}
        through = dict(next((at.through for at in standing.generations if at.seq == record.seq), ()))
        if windows and not through:
            yield f"commit {record.seq} of the upkeep lane does not say what it replaces"
            continue
        for window in sorted(windows):
            seq_before, through_before = effective.get(window, (0, {}))
            for table in _COUNTED:
                told = rows[table, window]
                before = told[UPKEEP_LANE, seq_before] + sum(
                    n
                    for (lane, seq), n in told.items()
                    if lane != UPKEEP_LANE and through_before.get(lane, 0) < seq <= through.get(lane, 0)
                )
                more = getattr(changed[window], table) if window in changed else 0
                if told[UPKEEP_LANE, record.seq] != before + more:
                    yield (
                        f"commit {record.seq} of the upkeep lane replaces {before} {table} of window "
                        f"{window} by {told[UPKEEP_LANE, record.seq]}, {more} more by its own account"
                    )
            effective[window] = (record.seq, through)


def broken_repairs(commits: Iterable[CommitRecord]) -> Iterator[str]:
    """A late event that a repair took out of `late/` waits there anew, or is under `repaired/`."""
    rows: Counter[tuple[int, int]] = Counter()
    own = []
    for record in commits:
        if record.lane == UPKEEP_LANE:
            own.append(record)
        rows[record.lane, record.seq] += sum(i.rows for i in record.publish if i.table == LATE)
    gone: dict[int, int] = {}
    for record in own:  # ascending
        standing = record.standing.upkeep or Upkeep()
        told = [at for at in standing.replaced if at.table == LATE and at.seq == record.seq]
        through = dict(told[-1].through) if told else gone
        if record.repair is not None:
            taken = sum(
                n for (lane, seq), n in rows.items() if gone.get(lane, 0) < seq <= through.get(lane, 0)
            )
            kept = sum(i.rows for i in record.publish if i.table in (LATE, REPAIRED))
            if not taken == kept + record.repair.expired == record.repair.late:
                yield (
                    f"commit {record.seq} of the upkeep lane took {taken} late events, says "
                    f"{record.repair.late}, and has {kept}"
                )
        gone = through
