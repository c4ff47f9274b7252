"""Stage the files of one coming commit, segments included; they are removed unless committed.

A segment has the raw events of a live lane that are in no published flow yet, for its next owner: one file a
commit, Arrow IPC with LZ4, under a name that no two writers share. A segment that no commit names is garbage;
others are verified when read.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from schemas.commits import CommitRecord, Publish, Segment
from schemas.errors import LakeError
from schemas.events import EVENT_SCHEMA
from schemas.windows import Window
from stitch.lake.chain import read_tail
from stitch.lake.encoding import encode, footer_size
from stitch.lake.flow_counts import count_flows
from stitch.lake.layout import (
    SideTable,
    WindowTable,
    file_name,
    segment_folder,
    segment_seq,
    stage_folder,
    window_folder,
)
from stitch.lake.store import Store

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)


def segment_name(lane: int, seq: int) -> str:
    """New name for the segment of one attempt at a commit."""
    return f"{segment_folder(lane)}/{seq:012d}-{secrets.token_hex(8)}.arrow"


def encode_segment(name: str, events: pa.Table) -> tuple[pa.Buffer, Segment]:
    """(Bytes of a segment, its entry in the commit). `events`: EVENT_SCHEMA, metadata kept."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, events.schema, options=_OPTIONS) as writer:
        writer.write_table(events.combine_chunks())
    data = sink.getvalue()
    return data, Segment(
        name=name,
        sha256=hashlib.sha256(data).hexdigest(),
        size=data.size,
        rows=events.num_rows,
    )


def read_segment(store: Store, segment: Segment) -> pa.Table:
    """Events of a segment. Raises LakeError where it is missing or differs from the commit."""
    try:
        data = store.read(segment.name)
    except FileNotFoundError as error:
        raise _damaged(segment, "is missing") from error
    if data.size != segment.size or hashlib.sha256(data).hexdigest() != segment.sha256:
        raise _damaged(segment, "is not what was committed")
    events: pa.Table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    if events.num_rows != segment.rows or events.column_names != EVENT_SCHEMA.names:
        raise _damaged(segment, "is of another version")
    if events.schema.equals(EVENT_SCHEMA):
        return events
    try:  # parameters were plain text once
        return events.cast(EVENT_SCHEMA)
    except pa.ArrowException as error:
        raise _damaged(segment, "is of another version") from error


def _damaged(segment: Segment, what: str) -> LakeError:
    return LakeError(
        f"Segment '{segment.name}' {what}: events of open requests are in it.",
        remedy="Restore it from a backup, or let `flowdiff repair --lane` read them again: "
        "docs/internals/runbook.md#a-damaged-segment.",
    )


class KeptSegments:
    """Segments of a lane that are retained for a repair after the lane no longer needs them.

    A commit says from which commit on they are retained, and only then the others are removed: what is
    missing was lost. Ages count by this process's clock from the commit, or from the first one of this
    process: a new owner retains them for the full time again.
    """

    def __init__(self, store: Store, lane: int, keep_ns: int, head: int, kept_from: int | None) -> None:
        """`head`: number of the lane's last commit; `kept_from`: what it says."""
        self._store = store
        self._lane = lane
        self._keep_ns = keep_ns
        self._aged_to = 0 if kept_from is None else kept_from - 1
        """Segments of commits up to this one are removed."""
        self._promised = head + 1 if kept_from is None else kept_from
        self._commits: deque[tuple[int, int]] = deque()
        """(time, number) of this process's commits whose segments are not past their time."""

    def kept_from(self, seq: int, now_ns: int) -> int:
        """First commit whose segment is retained after commit `seq`, which is about to be made."""
        self._commits.append((now_ns, seq))
        while self._commits and self._commits[0][0] + self._keep_ns <= now_ns:
            self._aged_to = max(self._aged_to, self._commits.popleft()[1])
        return max(self._promised, self._aged_to + 1)

    def sweep(self, needed: Iterable[Segment]) -> None:
        """Remove segments that the last commit says are not retained, but for `needed` ones. Raises OSError:
        the rest is removed next time.
        """
        sweep_segments(self._store, self._lane, self._aged_to, needed)


def sweep_segments(store: Store, lane: int, to_seq: int, needed: Iterable[Segment]) -> None:
    """Remove a lane's segments of commits up to `to_seq`, but for `needed` ones. Raises OSError."""
    names, folder = {segment.name for segment in needed}, segment_folder(lane)
    for file in store.names(folder):
        seq, name = segment_seq(file), f"{folder}/{file}"
        if seq is not None and seq <= to_seq and name not in names:
            store.remove(name)


def named_segments(commits: Iterable[CommitRecord]) -> dict[str, Segment]:
    """Segments that commits of a lane (ascending) name, by name, in order of their first commit."""
    return {segment.name: segment for record in commits for segment in record.standing.segments}


def lost_segments(store: Store, lane: int, commits: Sequence[CommitRecord]) -> list[Segment]:
    """Segments that the last of some commits of a lane (ascending) retains, and that are missing.

    Of the segments with the number of one commit the last one counts: it replaced the others. Raises
    LakeError, OSError.
    """
    kept_from = commits[-1].standing.kept_from if commits else None
    if kept_from is None:
        return []
    by_seq = {segment_seq(name.rpartition("/")[2]): one for name, one in named_segments(commits).items()}
    there = {*store.names(folder := segment_folder(lane))}
    lost = [
        (seq, segment)
        for seq, segment in by_seq.items()
        if seq is not None and seq >= kept_from and segment.name.removeprefix(f"{folder}/") not in there
    ]
    if lost:  # or swept in the meantime
        kept_from = read_tail(store, lane).standing.kept_from
    return [segment for seq, segment in lost if kept_from is not None and seq >= kept_from]


class Staging:
    """Files that a commit will publish. Several threads may add files; made by `Lane.stage`.

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
        """Folder of the files, used by this writer only."""
        self._adopted: list[Publish] = []
        self._attempts: str | None = None

    @classmethod
    def attempt(cls, store: Store, lane: int, seq: int, attempts: str) -> Staging:
        """Stage for one attempt at a part of the work, in a folder that begins with `attempts`."""
        staging = cls(store, lane, seq)
        staging.folder = f"{attempts}{secrets.token_hex(8)}"
        return staging

    def attempts(self) -> str:
        """Prefix of the folders of attempts, which may be made from now on and are removed with this
        stage.
        """
        self._attempts = f"{self.folder}-"
        return self._attempts

    def persisted(self) -> tuple[Publish, ...]:
        """Make the staged files durable and list them for adoption. Raises OSError."""
        if written := self.names():
            self._store.persist(written)
        return self.items()

    def adopt(self, items: Iterable[Publish]) -> None:
        """Add files that an attempt has made durable."""
        self._adopted += items

    def add_window(self, table_name: WindowTable, window: Window, part: int, table: pa.Table) -> None:
        """Write one file of a window, unless the table is empty. Raises OSError."""
        if table.num_rows:
            final = f"{window_folder(table_name, window)}/{file_name(self.lane, self.seq, part)}"
            self._add(table_name, f"{table_name}-{window.name}-{part:05d}", final, window, table)

    def add_side(self, table_name: SideTable, part: int, table: pa.Table) -> None:
        """Write one file of late events or dead letters; as `add_window`."""
        if table.num_rows:
            final = f"{table_name}/{file_name(self.lane, self.seq, part)}"
            self._add(table_name, f"{table_name}-{part:05d}", final, None, table)

    def add_segment(self, events: pa.Table, seq: int | None = None) -> Segment:
        """Write raw events that stay open, as a segment of commit `seq` (default: this one). Raises
        OSError.
        """
        name = segment_name(self.lane, self.seq if seq is None else seq)
        data, segment = encode_segment(name, events)
        self._store.put(name, data)
        with self._lock:
            self._segments.append(name)
        return segment

    def names(self) -> list[str]:
        """Every file written here, to be made durable before the commit."""
        return [*(item.stage for item in self._items), *self._segments]

    def _add(self, table_name: str, stem: str, final: str, window: Window | None, table: pa.Table) -> None:
        data = encode(table_name, table, window)
        item = described(table_name, window, f"{self.folder}/{stem}.parquet", final, table, data)
        self._store.put(item.stage, data)
        with self._lock:
            self._items.append(item)

    def items(self) -> tuple[Publish, ...]:
        """Every staged or adopted file, by final name."""
        return tuple(sorted([*self._items, *self._adopted], key=lambda item: item.final))

    def clear(self) -> None:
        """Remove the stage's files, of attempts too. Raises OSError."""
        self._store.remove(self.folder)
        if self._attempts is not None:
            above, _, beginning = self._attempts.rpartition("/")
            for name in self._store.names(above):
                if name.startswith(beginning):
                    self._store.remove(f"{above}/{name}")

    def discard(self) -> None:
        """Remove the stage's files and segments. Raises OSError."""
        segments, self._items, self._segments, self._adopted = self._segments, [], [], []
        self.clear()
        for name in segments:
            self._store.remove(name)


def described(
    table_name: str, window: Window | None, stage: str, final: str, table: pa.Table, data: pa.Buffer
) -> Publish:
    """Entry of a file in its commit: `data` is `table` (not empty) as written."""
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
    """Time of the last end of a flow or late event in a table; None where unknown."""
    if table_name == "flows":
        ends = pc.add(table["start_ns"], table["response_ns"])
    elif table_name == "late":
        ends = pc.max_element_wise(table["ts_ns"], table["end_ns"])
    else:
        return None
    last: int | None = pc.max(ends).as_py()
    return last
