"""A lake of very many windows with a request each, written by the real lane; its files are encoded once."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
from oracles.lake_script import flows_table, structures_table

from schemas.commits import CommitBody, Counters
from schemas.windows import NS_PER_MINUTE, Window
from stitch.lake import staging
from stitch.lake.disk import LocalDisk
from stitch.lake.encoding import encode
from stitch.lake.lane import Lane
from stitch.lake.layout import WindowTable, ensure_lake
from stitch.lake.store import LocalStore

WINDOW_NS = 5 * NS_PER_MINUTE


class _NoSync(LocalDisk):
    def sync_file(self, name: str) -> None:
        pass

    def sync_folder(self, name: str) -> None:
        pass


def make(folder: Path, windows: int, *, first_ns: int = 0) -> Path:
    """The lake, in commits of a thousand windows. 0.7 ms a window."""
    folder.mkdir()
    store = LocalStore(_NoSync(folder))
    lane = Lane(store, ensure_lake(store, WINDOW_NS, WINDOW_NS, "test"), owner="test", created_by="test")
    tables: dict[WindowTable, pa.Table] = {
        "flows": flows_table(["r"], [first_ns]),
        "structures": structures_table(),
    }
    made = {name: encode(name, table, Window(first_ns, WINDOW_NS)) for name, table in tables.items()}
    with patch.object(staging, "encode", lambda name, _table, _window: made[name]):
        for some in _thousands(windows):
            with lane.stage() as coming:
                for number in some:
                    for name, table in tables.items():
                        coming.add_window(name, Window(first_ns + number * WINDOW_NS, WINDOW_NS), 0, table)
                counted = Counters(events_read=len(some), events_published=len(some), flows=len(some))
                lane.commit(coming, CommitBody(kind="import", counters=counted))
    return folder


def _thousands(windows: int) -> list[range]:
    return [range(first, min(first + 1000, windows)) for first in range(0, windows, 1000)]
