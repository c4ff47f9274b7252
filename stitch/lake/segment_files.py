"""Keep segments: raw events of a live lane that are in no published flow yet, for whoever takes it over.

One file a commit, Arrow IPC with LZ4, under a name that no two writers share. A segment that no commit names
is garbage; one that is named is read back checked.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from schemas.commits import Segment
from schemas.errors import LakeError
from schemas.events import EVENT_SCHEMA
from stitch.lake.layout import segment_folder, segment_seq
from stitch.lake.store import Store

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


def segment_name(lane: int, seq: int) -> str:
    """A new name for the segment of one attempt at a commit."""
    return f"{segment_folder(lane)}/{seq:012d}-{secrets.token_hex(8)}.arrow"


def encode_segment(name: str, events: pa.Table) -> tuple[pa.Buffer, Segment]:
    """Bytes of a segment, and what the commit says of it. `events`: EVENT_SCHEMA, metadata kept."""
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
    """Events of a segment. Raises LakeError where it is missing or not what was committed."""
    try:
        data = store.read(segment.name)
    except FileNotFoundError as error:
        raise _damaged(segment, "is missing") from error
    if data.size != segment.size or hashlib.sha256(data).hexdigest() != segment.sha256:
        raise _damaged(segment, "is not what was committed")
    events: pa.Table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    if events.num_rows != segment.rows or not events.schema.equals(EVENT_SCHEMA):
        raise _damaged(segment, "is of another version")
    return events


def _damaged(segment: Segment, what: str) -> LakeError:
    return LakeError(
        f"Segment '{segment.name}' {what}: events of open requests are in it.",
        remedy="Restore it from a backup, or let `flowdiff repair --lane` read them again: "
        "docs/runbook.md#a-damaged-segment.",
    )


class KeptSegments:
    """Segments of a lane that stay for a while after the lane needs them, for a repair.

    By the clock of this process, from when it saw them first: a new owner keeps what it finds as long again.
    """

    def __init__(self, store: Store, lane: int, keep_ns: int) -> None:
        self._store = store
        self._lane = lane
        self._keep_ns = keep_ns
        self._seen: dict[str, int] = {}

    def sweep(self, needed: Iterable[Segment], seq: int, now_ns: int | None = None) -> None:
        """Remove segments that nobody needs any more, of commits before `seq`; no `now_ns`: only where none
        are kept. Raises OSError: the rest is for the next time.
        """
        if now_ns is None and self._keep_ns:
            return
        names = {segment.name for segment in needed}
        folder = segment_folder(self._lane)
        there = set()
        for file in self._store.names(folder):
            of, name = segment_seq(file), f"{folder}/{file}"
            there.add(name)
            if of is None or of >= seq or name in names:
                continue
            if now_ns is None or self._seen.setdefault(name, now_ns) + self._keep_ns <= now_ns:
                self._store.remove(name)
        self._seen = {name: at for name, at in self._seen.items() if name in there}
