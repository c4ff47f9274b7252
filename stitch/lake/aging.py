"""What lies in no window and is past its age, by when it was written: late events, dead letters, reports.

Commits have no time of their own, and dead letters none at all, so the store says when a file was written. An
event was recorded before it was written: events of a file that is so old belong to windows that are older.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from stitch.lake.layout import REPORTS, SIDE_TABLES, SideTable
from stitch.lake.manifest import Manifest
from stitch.lake.store import Store
from stitch.lake.upkeep import UPKEEP_LANE


@dataclass(frozen=True, slots=True)
class AgedSide:
    """Files of one table."""

    table: SideTable
    through: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: files of the lane up to that commit are past their age."""
    files: int
    rows: int


def aged_sides(store: Store, manifest: Manifest, limit_ns: int) -> list[AgedSide]:
    """Tables with files that were written at `limit_ns` or before, and all those of their lane before them.

    Only of commits that count with all before them. O(files of the tables).
    """
    heads = dict(manifest.heads)
    found = []
    for table in SIDE_TABLES:
        listed = manifest.listing.filter(pc.equal(manifest.listing["table"].cast(pa.string()), table))
        if not listed.num_rows:
            continue
        written = store.written(table)
        young: dict[int, int] = {}
        rows = [
            (int(row["lane"]), int(row["seq"]), row["name"].rpartition("/")[2], int(row["rows"]))
            for row in listed.select(["lane", "seq", "name", "rows"]).to_pylist()
        ]
        for lane, seq, name, _ in rows:
            if written.get(name, limit_ns + 1) > limit_ns or seq > heads[lane]:
                young[lane] = min(seq, young.get(lane, seq))
        old = [(lane, seq, n) for lane, seq, _, n in rows if lane not in young or seq < young[lane]]
        if old:
            through = {lane: max(seq for each, seq, _ in old if each == lane) for lane, _, _ in old}
            found.append(AgedSide(table, tuple(sorted(through.items())), len(old), sum(n for *_, n in old)))
    return found


def has_waiting(manifest: Manifest) -> bool:
    """Whether there are late events that a repair wrote anew."""
    table, lane = manifest.listing["table"].cast(pa.string()), manifest.listing["lane"]
    found = pc.any(pc.and_(pc.equal(table, "late"), pc.equal(lane, UPKEEP_LANE))).as_py()
    return bool(found)


def aged_reports(store: Store, limit_ns: int) -> list[str]:
    """Folders of reports of which every file was written at `limit_ns` or before.

    Those on their way, or left by a process that died, have a name that begins with a dot and stay.
    """
    found = []
    for report in store.names(REPORTS):
        written = store.written(f"{REPORTS}/{report}")
        if not report.startswith(".") and written and max(written.values()) <= limit_ns:
            found.append(f"{REPORTS}/{report}")
    return found
