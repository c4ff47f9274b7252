"""Log of a live lane: the events that it decoded, one segment a commit, each with an index of its requests.

A segment is an Arrow IPC file (zstd) under a name that no two writers share, durable before the commit that
names it; one that no commit names is garbage. Its footer holds an index of requests and of record batches, so
a reader that looks for a few requests, or plans windows, reads no event. Rows that were late, or repeated,
when they came stand *aside*, in batches of their own: they were settled by the same commit, and are no open
events. Segments of older lakes have neither index nor rows aside.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.arrays import B1, I8, U8
from schemas.commits import CommitRecord, Segment
from schemas.errors import LakeError
from schemas.events import EVENT_SCHEMA
from stitch.closing import NEVER, event_times
from stitch.columnar.runs import run_starts
from stitch.lake.chain import read_tail
from stitch.lake.layout import segment_folder, segment_seq
from stitch.lake.store import Store

BATCH_ROWS: Final = 16_384
"""Rows of a record batch: decoded at a time by a reader."""
INDEX_TYPE: Final = np.dtype([("key", "<u8"), ("first_ns", "<i8"), ("last_ns", "<i8"), ("rows", "<i4")])
"""Request of an index: hash, first and last time of its events (NEVER and -NEVER without one), events."""
BATCH_TYPE: Final = np.dtype([("first_ns", "<i8"), ("last_ns", "<i8"), ("aside", "?")])
"""Record batch of a segment: first and last time of its events, True for rows that stand aside."""
Index = npt.NDArray[np.void]
"""[requests] INDEX_TYPE, ascending by key."""

_INDEX: Final = b"flowdiff.index"
_BATCHES: Final = b"flowdiff.batches"
_LOOSE: Final = b"flowdiff.loose"
_END_BYTES: Final = 2**18
"""End of a segment that is read for its index: 9,000 requests; with more it is read twice."""
_MARK_BYTES: Final = 10
"""End of an Arrow file: size of its footer, four bytes, and `ARROW1`."""
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)


@dataclass(frozen=True, slots=True, eq=False)
class LogRows:
    """Events of one commit, as the log takes them."""

    events: pa.Table
    """EVENT_SCHEMA, one chunk a column; metadata of the schema is stored."""
    key: U8
    """[events] hash of the request; of any value where loose."""
    loose: B1 | None
    """[events] records without a request id; None: there are none."""
    n_aside: int = 0
    """Number of last rows that stand aside."""


def index_requests(key: U8, first_ns: I8, last_ns: I8) -> Index:
    """Index of events. O(events log events)."""
    order = np.argsort(key, kind="stable")
    keys = key[order]
    starts = np.flatnonzero(run_starts(keys))
    found = np.zeros(len(starts), INDEX_TYPE)
    if len(starts):
        found["key"], found["rows"] = keys[starts], np.diff(starts, append=len(keys))
        found["first_ns"] = np.minimum.reduceat(first_ns[order], starts)
        found["last_ns"] = np.maximum.reduceat(last_ns[order], starts)
    return found


def segment_name(lane: int, seq: int) -> str:
    """New name for the segment of one attempt at a commit."""
    return f"{segment_folder(lane)}/{seq:012d}-{secrets.token_hex(8)}.arrow"


def encode_segment(name: str, rows: LogRows) -> tuple[pa.Buffer, Segment]:
    """(Bytes of a segment, its entry in the commit)."""
    events, n = rows.events, rows.events.num_rows
    first, last = event_times(events) if n else (np.zeros(0, np.int64), np.zeros(0, np.int64))
    named = slice(None) if rows.loose is None else ~rows.loose
    index = index_requests(rows.key[named], first[named], last[named])
    cuts = [(at, min(BATCH_ROWS, end - at), aside) for at, end, aside in _batches(n, rows.n_aside)]
    # A batch with an event without any time may hold one of any time.
    lowest, highest = np.where(first == NEVER, -NEVER, first), np.where(last == -NEVER, NEVER, last)
    batches = np.array(
        [(lowest[at : at + size].min(), highest[at : at + size].max(), aside) for at, size, aside in cuts],
        BATCH_TYPE,
    )
    footer = {
        **(events.schema.metadata or {}),
        _INDEX: index.tobytes(),
        _BATCHES: batches.tobytes(),
        _LOOSE: str(0 if rows.loose is None else int(rows.loose.sum())).encode(),
    }
    events = events.replace_schema_metadata(None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, events.schema, options=_OPTIONS, metadata=footer) as writer:
        for at, size, _ in cuts:
            writer.write_table(events.slice(at, size))
    data = sink.getvalue()
    return data, Segment(name=name, sha256=hashlib.sha256(data).hexdigest(), size=data.size, rows=n)


def _batches(n: int, n_aside: int) -> Iterator[tuple[int, int, bool]]:
    """(First row, end of the part, aside) of each record batch."""
    for begin, end, aside in ((0, n - n_aside, False), (n - n_aside, n, True)):
        for at in range(begin, end, BATCH_ROWS):
            yield at, end, aside


class SegmentReader:
    """A segment, opened for its index; record batches are decoded when asked for."""

    def __init__(self, data: pa.Buffer, columns: Sequence[str] | None = None) -> None:
        """data: bytes of the segment; columns: those to decode (None: all). Raises pa.ArrowException where
        they are none.
        """
        options = None
        if columns is not None:
            fields = [EVENT_SCHEMA.get_field_index(name) for name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=fields)
        self._reader = pa.ipc.open_file(pa.BufferReader(data), options=options)
        footer = self._reader.metadata or {}
        self.schema: pa.Schema = self._reader.schema
        self.has_index = _INDEX in footer
        self.index: Index = np.frombuffer(footer.get(_INDEX, b""), INDEX_TYPE)
        """Requests of all rows, without records that name none; empty for a segment of an older lake."""
        self.batch_times = np.frombuffer(footer[_BATCHES], BATCH_TYPE) if self.has_index else None
        """[record batches] BATCH_TYPE; None for a segment of an older lake."""
        self.n_loose = int(footer.get(_LOOSE, b"0"))
        """Records without a request id."""
        own = {_INDEX, _BATCHES, _LOOSE}
        self.metadata: dict[bytes, bytes] = {
            **(self.schema.metadata or {}),
            **{key: value for key, value in footer.items() if key not in own},
        }
        """Metadata that the writer gave the events."""

    def read(self, *, aside: bool | None = None) -> pa.Table:
        """Events, with the writer's metadata: all, or only those that stand aside or do not."""
        batches = [self._reader.get_batch(place) for place in self._places(aside)]
        return pa.Table.from_batches(batches, self.schema).replace_schema_metadata(self.metadata or None)

    def batches(self, first_ns: int, last_ns: int) -> Iterator[pa.Table]:
        """Record batches, rows aside included, that may hold an event between two times, one at a time."""
        for place in range(self._reader.num_record_batches):
            if self.batch_times is None or (
                self.batch_times["first_ns"][place] <= last_ns
                and self.batch_times["last_ns"][place] >= first_ns
            ):
                yield pa.Table.from_batches([self._reader.get_batch(place)]).replace_schema_metadata(None)

    def _places(self, aside: bool | None) -> list[int]:
        if aside is None or self.batch_times is None:
            return [] if aside else list(range(self._reader.num_record_batches))
        found: list[int] = np.flatnonzero(self.batch_times["aside"] == aside).tolist()
        return found


def open_segment(store: Store, segment: Segment, columns: Sequence[str] | None = None) -> SegmentReader:
    """Segment, verified; columns: those to decode (None: all). Raises LakeError where it is missing or
    differs from the commit.
    """
    try:
        data = store.read(segment.name)
    except FileNotFoundError as error:
        raise _damaged(segment, "is missing") from error
    if data.size != segment.size or hashlib.sha256(data).hexdigest() != segment.sha256:
        raise _damaged(segment, "is not what was committed")
    found = SegmentReader(data, columns)
    if columns is None and found.schema.names != EVENT_SCHEMA.names:
        raise _damaged(segment, "is of another version")
    return found


def open_index(store: Store, segment: Segment) -> SegmentReader:
    """Segment of which only the index is read: the end of the file, at most twice. Events are not verified.
    Raises LakeError where it is missing, or has another size or form than the commit says.
    """
    try:
        if store.size(segment.name) != segment.size:
            raise _damaged(segment, "is missing or is not what was committed")
        end = store.read_end(segment.name, _END_BYTES)
        n_bytes = int.from_bytes(end.slice(end.size - _MARK_BYTES, 4).to_pybytes(), "little") + _MARK_BYTES
        if n_bytes > end.size:
            end = store.read_end(segment.name, n_bytes)
    except FileNotFoundError as error:
        raise _damaged(segment, "is missing") from error
    whole = np.zeros(segment.size, np.uint8)  # pages that nobody touches take no memory
    whole[segment.size - end.size :] = np.frombuffer(end, np.uint8)
    try:
        return SegmentReader(pa.py_buffer(whole), [])
    except pa.ArrowException as error:
        raise _damaged(segment, "is not what was committed") from error


def read_segment(store: Store, segment: Segment) -> pa.Table:
    """Events of a segment that were open when they came (EVENT_SCHEMA, the writer's metadata). Raises
    LakeError where it is missing or differs from the commit.
    """
    return events_of(open_segment(store, segment), segment)


def events_of(opened: SegmentReader, segment: Segment) -> pa.Table:
    """Read an open segment as `read_segment` does."""
    events = opened.read(aside=False)
    if events.schema.equals(EVENT_SCHEMA):
        return events
    try:  # parameters were plain text once
        return events.cast(EVENT_SCHEMA).replace_schema_metadata(events.schema.metadata)
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

    def kept_from(self, seq: int, now_ns: int, built_to: int) -> int:
        """First commit whose segment is retained after commit `seq`, which is about to be made; built_to: the
        last one whose events need not be kept for windows that are to be built.
        """
        if not self._commits or self._commits[-1][1] != seq:
            self._commits.append((now_ns, seq))
        while (
            self._commits
            and self._commits[0][0] + self._keep_ns <= now_ns
            and self._commits[0][1] <= built_to
        ):
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
    standing = commits[-1].standing if commits else None
    if standing is None or standing.kept_from is None or standing.ended_to_ns is not None:
        return []
    kept_from: int | None = standing.kept_from
    by_seq = {segment_seq(name.rpartition("/")[2]): one for name, one in named_segments(commits).items()}
    there = {*store.names(folder := segment_folder(lane))}
    lost = [
        (seq, segment)
        for seq, segment in by_seq.items()
        if seq is not None
        and seq >= standing.kept_from
        and segment.name.removeprefix(f"{folder}/") not in there
    ]
    if lost:  # or swept in the meantime
        kept_from = read_tail(store, lane).standing.kept_from
    return [segment for seq, segment in lost if kept_from is not None and seq >= kept_from]
