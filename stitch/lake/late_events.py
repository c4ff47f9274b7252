"""Find the late events of a lake by the lane on which they arrived: those that wait for a repair, and those
that a repair has handled."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa

from schemas.events import concat_events, with_binary_ids
from stitch.lake.layout import SideTable, origin
from stitch.lake.manifest import LakeFile, Manifest
from stitch.lake.upkeep.hidden import UPKEEP_LANE


def lane_of(file: LakeFile) -> int:
    """Number of the lane on which the events of a file arrived; for a file written by upkeep, the file's part
    number."""
    parts = origin(file.name.rpartition("/")[2])
    return parts[2] if parts is not None and file.lane == UPKEEP_LANE else file.lane


def late_files(manifest: Manifest, table: SideTable) -> dict[int, list[LakeFile]]:
    """Lane number -> files of the table `late` or `repaired` whose commits are published, as are all earlier
    commits."""
    heads = dict(manifest.heads)
    found: defaultdict[int, list[LakeFile]] = defaultdict(list)
    for file in manifest.files(table):
        if file.seq <= heads[file.lane]:
            found[lane_of(file)].append(file)
    return dict(sorted(found.items()))


def read_events(manifest: Manifest, files: list[LakeFile]) -> pa.Table:
    """Read files of the table `late` or `repaired` as a table with EVENT_SCHEMA, each column in one chunk.
    Raises LakeError."""
    return concat_events([with_binary_ids(manifest.decoded(file)) for file in files])
