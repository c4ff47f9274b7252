"""Stage the files of the next commit, including segments of the log; they are removed unless they are
committed."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from schemas.commits import Publish, Segment
from schemas.windows import Window
from stitch.lake.encoding import encode, footer_size
from stitch.lake.event_log import LogRows, encode_segment, segment_name
from stitch.lake.flow_counts import count_flows
from stitch.lake.layout import (
    SideTable,
    WindowTable,
    file_name,
    stage_folder,
    window_folder,
)
from stitch.lake.store import Store


class Staging:
    """Files that the next commit will publish. `Lane.stage` creates it; several threads may add files.

    Part numbers must be unique among the files of one table and window.
    """

    def __init__(self, store: Store, lane: int, seq: int) -> None:
        self.seq = seq
        self.lane = lane
        self._store = store
        self._items: list[Publish] = []
        self._segments: list[str] = []
        self._lock = threading.Lock()
        self.folder = stage_folder(lane, seq)
        """Name of the stage folder for the files, which only this writer uses."""
        self._adopted: list[Publish] = []
        self._attempts: str | None = None

    @classmethod
    def attempt(cls, store: Store, lane: int, seq: int, attempts: str) -> Staging:
        """Staging for one attempt at a part of the commit's work, in a stage folder whose name begins with
        `attempts`."""
        staging = cls(store, lane, seq)
        staging.folder = f"{attempts}{secrets.token_hex(8)}"
        return staging

    def attempts(self) -> str:
        """Prefix of the names of the attempts' stage folders (`attempt`), which are removed together with
        `folder`."""
        self._attempts = f"{self.folder}-"
        return self._attempts

    def persisted(self) -> tuple[Publish, ...]:
        """Make the staged files durable, and return them for `adopt` of another Staging. Raises OSError."""
        if written := self.names():
            self._store.persist(written)
        return self.items()

    def adopt(self, items: Iterable[Publish]) -> None:
        """Add files that an attempt has staged and made durable."""
        self._adopted += items

    def add_window(self, table_name: WindowTable, window: Window, part: int, table: pa.Table) -> None:
        """Write one file of a window's table, unless the table is empty. Raises OSError."""
        if table.num_rows:
            final = f"{window_folder(table_name, window)}/{file_name(self.lane, self.seq, part)}"
            self._add(table_name, f"{table_name}-{window.name}-{part:05d}", final, window, table)

    def add_side(self, table_name: SideTable, part: int, table: pa.Table) -> None:
        """Write one file of late events or dead letters, unless the table is empty. Raises OSError."""
        if table.num_rows:
            final = f"{table_name}/{file_name(self.lane, self.seq, part)}"
            self._add(table_name, f"{table_name}-{part:05d}", final, None, table)

    def hashes(self, window: Window) -> list[str]:
        """SHA-256 of the staged files of a window, sorted."""
        return sorted(item.sha256 for item in self._items if item.window == window.name)

    def drop_window(self, window: Window) -> None:
        """Exclude the staged files of a window from the commit; they are removed together with the stage
        folder."""
        with self._lock:
            self._items = [item for item in self._items if item.window != window.name]

    def add_segment(self, rows: LogRows, seq: int | None = None, part: int = 0) -> Segment:
        """Write raw events as log segment `part` of commit `seq` (default: this one). Raises OSError."""
        name = segment_name(self.lane, self.seq if seq is None else seq, part)
        data, segment = encode_segment(name, rows)
        self._store.put(name, data)
        with self._lock:
            self._segments.append(name)
        return segment

    def names(self) -> list[str]:
        """Names of all files written here, which must be made durable before the commit."""
        return [*(item.stage for item in self._items), *self._segments]

    def _add(self, table_name: str, stem: str, final: str, window: Window | None, table: pa.Table) -> None:
        data = encode(table_name, table, window)
        item = described(table_name, window, f"{self.folder}/{stem}.parquet", final, table, data)
        self._store.put(item.stage, data)
        with self._lock:
            self._items.append(item)

    def items(self) -> tuple[Publish, ...]:
        """All staged or adopted files, sorted by final name."""
        return tuple(sorted([*self._items, *self._adopted], key=lambda item: item.final))

    def clear(self) -> None:
        """Remove the stage folder with its files, and the stage folders of attempts. Raises OSError."""
        self._store.remove(self.folder)
        if self._attempts is not None:
            above, _, beginning = self._attempts.rpartition("/")
            for name in self._store.names(above):
                if name.startswith(beginning):
                    self._store.remove(f"{above}/{name}")

    def discard(self) -> None:
        """Remove the stage folder, and the log segments written for the commit. Raises OSError."""
        segments, self._items, self._segments, self._adopted = self._segments, [], [], []
        self.clear()
        for name in segments:
            self._store.remove(name)


def described(
    table_name: str, window: Window | None, stage: str, final: str, table: pa.Table, data: pa.Buffer
) -> Publish:
    """Entry of a staged file for the commit. table: its rows, not empty; data: `table` encoded."""
    footer = data.slice(data.size - footer_size(data))
    return Publish(
        table=table_name,
        window=None if window is None else window.name,
        stage=stage,
        final=final,
        sha256=hashlib.sha256(data).hexdigest(),
        size=data.size,
        rows=table.num_rows,
        footer_size=footer.size,
        footer_sha256=hashlib.sha256(footer).hexdigest(),
        last_ns=_last_ns(table_name, table),
        counts=count_flows(table) if table_name == "flows" else None,
    )


def _last_ns(table_name: str, table: pa.Table) -> int | None:
    """Latest end of a flow or late event in a table, ns; None for other tables, or if no end is known."""
    if table_name == "flows":
        ends = pc.add(table["start_ns"], table["response_ns"])
    elif table_name == "late":
        ends = pc.max_element_wise(table["ts_ns"], table["end_ns"])
    else:
        return None
    last: int | None = pc.max(ends).as_py()
    return last
