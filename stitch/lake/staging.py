"""Stage the files of one coming commit: written, listed, and gone again unless committed."""

from __future__ import annotations

import hashlib
import threading

import pyarrow as pa
import pyarrow.compute as pc

from schemas.commits import Publish, Segment
from schemas.windows import Window
from stitch.lake.encoding import encode, footer_size
from stitch.lake.layout import SideTable, WindowTable, file_name, stage_folder, window_folder
from stitch.lake.segment_files import encode_segment, segment_name
from stitch.lake.store import Store


class Staging:
    """What a commit will publish. May be filled from several threads; made by `Lane.stage`.

    Part numbers must be unique among the files of one table and window.
    """

    def __init__(self, store: Store, lane: int, seq: int) -> None:
        self.seq = seq
        self._lane = lane
        self._store = store
        self._items: list[Publish] = []
        self._segments: list[str] = []
        self._lock = threading.Lock()
        self.folder = stage_folder(lane, seq)
        """Where the files are; nobody else writes there."""

    def add_window(self, table_name: WindowTable, window: Window, part: int, table: pa.Table) -> None:
        """Write one file of a window; nothing happens for a table without rows. Raises OSError."""
        if table.num_rows:
            final = f"{window_folder(table_name, window)}/{file_name(self._lane, self.seq, part)}"
            self._add(table_name, f"{table_name}-{window.name}-{part:05d}", final, window.name, table)

    def add_side(self, table_name: SideTable, part: int, table: pa.Table) -> None:
        """Write one file of late events or dead letters; as `add_window`."""
        if table.num_rows:
            final = f"{table_name}/{file_name(self._lane, self.seq, part)}"
            self._add(table_name, f"{table_name}-{part:05d}", final, None, table)

    def add_segment(self, events: pa.Table, seq: int | None = None) -> Segment:
        """Write raw events that stay open, of commit `seq` if not of this one. Raises OSError."""
        name = segment_name(self._lane, self.seq if seq is None else seq)
        data, segment = encode_segment(name, events)
        self._store.put(name, data)
        with self._lock:
            self._segments.append(name)
        return segment

    def names(self) -> list[str]:
        """Every file that was written, all to be made durable before the commit."""
        return [*(item.stage for item in self.items()), *self._segments]

    def _add(self, table_name: str, stem: str, final: str, window: str | None, table: pa.Table) -> None:
        data = encode(table_name, table, window)
        item = described(table_name, window, f"{self.folder}/{stem}.parquet", final, table, data)
        self._store.put(item.stage, data)
        with self._lock:
            self._items.append(item)

    def items(self) -> tuple[Publish, ...]:
        """Everything that was staged, by final name."""
        return tuple(sorted(self._items, key=lambda item: item.final))

    def discard(self) -> None:
        """Remove what was staged. Raises OSError."""
        segments, self._items, self._segments = self._segments, [], []
        self._store.remove(self.folder)
        for name in segments:
            self._store.remove(name)


def described(
    table_name: str, window: str | None, stage: str, final: str, table: pa.Table, data: pa.Buffer
) -> Publish:
    """What a commit says of a file: `data` is `table` (not empty) as written."""
    footer = data.slice(data.size - footer_size(data))
    return Publish(
        table=table_name,
        window=window,
        stage=stage,
        final=final,
        sha256=hashlib.sha256(data).hexdigest(),
        size=data.size,
        rows=table.num_rows,
        footer_size=footer.size,
        footer_sha256=hashlib.sha256(footer).hexdigest(),
        last_ns=_last_ns(table_name, table),
    )


def _last_ns(table_name: str, table: pa.Table) -> int | None:
    """When the last response of flows was over, or the last event of late ones; None where none tells."""
    if table_name == "flows":
        ends = pc.add(table["start_ns"], table["response_ns"])
    elif table_name == "late":
        ends = pc.max_element_wise(table["ts_ns"], table["end_ns"])
    else:
        return None
    last: int | None = pc.max(ends).as_py()
    return last
