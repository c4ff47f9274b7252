"""Log of a live lane: the events that it decoded, in one segment per commit, each with an index of its
requests.

A segment is an Arrow IPC file (lz4) whose name is unique to its writer; it is made durable before the commit
that names it, and is garbage if no commit names it. Its footer contains an index of requests and of record
batches, so that planning windows, or looking for a few requests, reads no event. Rows set *aside*, which are
in separate record batches, were late or duplicates when they were read, and their own commit has handled
them. Segments of older lakes have neither an index nor rows set aside.
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
from schemas.events import EVENT_SCHEMA, SPAN_KIND_BASE
from stitch.closing import NEVER, event_times
from stitch.columnar.runs import coded_words, group_stably, run_starts, whole
from stitch.lake.chain import read_tail
from stitch.lake.layout import segment_folder, segment_part, segment_seq
from stitch.lake.store import Store

BATCH_ROWS: Final = 16_384
"""Maximum number of rows in a record batch; readers decode whole record batches."""
INDEX_TYPE: Final = np.dtype([("key", "<u8"), ("first_ns", "<i8"), ("last_ns", "<i8"), ("rows", "<i4")])
"""Type of an entry of an index, one per request: key (64-bit hash), first and last event time in ns (NEVER
and -NEVER if no event has a time), number of events."""
BATCH_TYPE: Final = np.dtype([("first_ns", "<i8"), ("last_ns", "<i8"), ("aside", "?")])
"""Type of an entry per record batch of a segment: first and last event time in ns, and True if the rows are
set aside (handled by the commit that wrote them)."""
Index = npt.NDArray[np.void]
"""Structured array [requests] of INDEX_TYPE, ascending by key."""
_REQUEST_ID: Final = EVENT_SCHEMA.get_field_index("request_id")
_WORD: Final = pa.dictionary(pa.int32(), pa.string())
LOG_SCHEMA: Final = EVENT_SCHEMA.set(_REQUEST_ID, EVENT_SCHEMA.field(_REQUEST_ID).with_type(_WORD))
"""Schema of the events of a log: EVENT_SCHEMA with request ids as dictionary codes, since a request has many
events."""

_INDEX: Final = b"flowdiff.index"
_BATCHES: Final = b"flowdiff.batches"
_LOOSE: Final = b"flowdiff.loose"
_END_BYTES: Final = 2**18
"""Number of bytes read from the end of a segment to get its index: enough for 9,000 requests; a larger index
takes a second read."""
_MARK_BYTES: Final = 10
"""Size in bytes of the trailer of an Arrow file: four bytes with the size of the footer, and `ARROW1`."""
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


@dataclass(frozen=True, slots=True, eq=False)
class LogRows:
    """Events of one commit with the keys of their requests, from which `encode_segment` makes a segment."""

    events: pa.Table
    """Events (LOG_SCHEMA, each column in one chunk); the segment also stores the metadata of the schema."""
    key: U8
    """[events] key of the event's request; arbitrary where `loose` is True."""
    loose: B1 | None
    """[events] True for records without a request id; None: every event has a request id."""
    n_aside: int = 0
    """Number of rows, at the end of `events`, that are set aside: this commit itself handles them."""


def coded_ids(events: pa.Table) -> pa.Table:
    """Convert the column `request_id` of events, if it is text, to dictionary codes, as in LOG_SCHEMA.
    O(events)."""
    place = events.schema.get_field_index("request_id")
    if place < 0 or events.schema.types[place] == _WORD:
        return events
    return events.set_column(place, LOG_SCHEMA.field(_REQUEST_ID), events.column(place).dictionary_encode())


def own_ids(events: pa.Table) -> pa.Table:
    """Events (columns of LOG_SCHEMA, each in one chunk) whose dictionary of request ids has no more ids than
    there are events: rows cut from a segment else keep all its ids in memory. O(events + ids)."""
    place = events.schema.get_field_index("request_id")
    if place < 0 or events.schema.types[place] != _WORD:
        return events
    ids = whole(events.column(place))
    if len(ids.dictionary) <= len(ids):
        return events
    return events.set_column(place, events.schema.field(place), coded_words(ids))


def index_requests(key: U8, first_ns: I8, last_ns: I8, code: I8 | None = None) -> Index:
    """Build an index: group events by request key. O(events + requests log requests), with `code`.

    key: [events] request key. first_ns, last_ns: [events] first and last time, ns. code: [events] number of
    the request id, from 0 on; events of one number have one key; None: not known.
    """
    if not len(key):
        return np.zeros(0, INDEX_TYPE)
    code = np.unique(key, return_inverse=True)[1] if code is None else code
    order, bounds = group_stably(code, int(code.max()) + 1)
    starts = bounds[:-1][np.diff(bounds) > 0]
    found = np.zeros(len(starts), INDEX_TYPE)
    found["key"], found["rows"] = key[order[starts]], np.diff(starts, append=len(key))
    found["first_ns"] = np.minimum.reduceat(first_ns[order], starts)
    found["last_ns"] = np.maximum.reduceat(last_ns[order], starts)
    found = found[np.argsort(found["key"])]
    is_first = run_starts(found["key"])
    return found if is_first.all() else _merged(found, np.flatnonzero(is_first))


def _merged(entries: Index, starts: I8) -> Index:
    """Merge entries of one key, which request ids with the same hash have, to one. entries: ascending by key;
    starts: [keys] first entry of each key."""
    found = entries[starts]
    found["first_ns"] = np.minimum.reduceat(entries["first_ns"], starts)
    found["last_ns"] = np.maximum.reduceat(entries["last_ns"], starts)
    found["rows"] = np.add.reduceat(entries["rows"], starts)
    return found


def segment_name(lane: int, seq: int, part: int = 0) -> str:
    """New unique path for segment `part` of commit `seq` of a lane; each attempt at the commit needs its
    own."""
    return f"{segment_folder(lane)}/{seq:012d}-{part:05d}-{secrets.token_hex(8)}.arrow"


def encode_segment(name: str, rows: LogRows) -> tuple[pa.Buffer, Segment]:
    """Encode events as a segment: (its bytes, its entry for the commit). name: path of the segment in the
    lake."""
    events, n = rows.events, rows.events.num_rows
    first, last = event_times(events) if n else (np.zeros(0, np.int64), np.zeros(0, np.int64))
    named = slice(None) if rows.loose is None else ~rows.loose
    index = index_requests(rows.key[named], first[named], last[named], _codes(events)[named])
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


def _codes(events: pa.Table) -> I8:
    """[events] number of the event's request; arbitrary where it has no request id. events: LOG_SCHEMA."""
    is_span = events["kind"].to_numpy() >= SPAN_KIND_BASE
    words = whole(events["request_id"]).indices.fill_null(0).to_numpy(zero_copy_only=False)
    code: I8 = 2 * words.astype(np.int64) + is_span
    return code


def _batches(n: int, n_aside: int) -> Iterator[tuple[int, int, bool]]:
    """Divide the `n` rows of a segment into record batches: yield (first row, end of the part of the segment
    that contains the batch, True if set aside) for each."""
    for begin, end, aside in ((0, n - n_aside, False), (n - n_aside, n, True)):
        for at in range(begin, end, BATCH_ROWS):
            yield at, end, aside


class SegmentReader:
    """An open segment: its index is read immediately, record batches are decoded on demand."""

    def __init__(self, data: pa.Buffer, columns: Sequence[str] | None = None) -> None:
        """data: bytes of the segment. columns: names of the columns to decode; None: all. Raises
        pa.ArrowException if `data` is no Arrow file."""
        options = None
        if columns is not None:
            fields = [EVENT_SCHEMA.get_field_index(name) for name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=fields)
        self._reader = pa.ipc.open_file(pa.BufferReader(data), options=options)
        footer = self._reader.metadata or {}
        self.schema: pa.Schema = self._reader.schema
        self.has_index = _INDEX in footer
        self.index: Index = np.frombuffer(footer.get(_INDEX, b""), INDEX_TYPE)
        """Index of all requests that have a request id; empty for a segment of an older lake."""
        self.batch_times = np.frombuffer(footer[_BATCHES], BATCH_TYPE) if self.has_index else None
        """Structured array [record batches] of BATCH_TYPE; None for a segment of an older lake."""
        self.n_loose = int(footer.get(_LOOSE, b"0"))
        """Number of records without a request id."""
        own = {_INDEX, _BATCHES, _LOOSE}
        self.metadata: dict[bytes, bytes] = {
            **(self.schema.metadata or {}),
            **{key: value for key, value in footer.items() if key not in own},
        }
        """Metadata of the schema of the events, as written."""

    @property
    def last_ns(self) -> int:
        """Latest time of an event, ns; -NEVER if no event has one. Needs an index, NEVER without one."""
        if self.batch_times is None:
            return int(NEVER)
        # An event without any time lets a batch reach to NEVER.
        times = self.index["last_ns"] if not self.n_loose else self.batch_times["last_ns"]
        return int(times.max(initial=-NEVER))

    def read(self, *, aside: bool | None = None) -> pa.Table:
        """Decode the events (LOG_SCHEMA), with the metadata of the writer's schema.

        aside: True: only rows set aside; False: only other rows; None: all rows.
        """
        batches = [self._reader.get_batch(place) for place in self._places(aside)]
        events = coded_ids(pa.Table.from_batches(batches, self.schema))
        return events.replace_schema_metadata(self.metadata or None)

    def batches(self, first_ns: int, last_ns: int) -> Iterator[pa.Table]:
        """Yield, as tables (LOG_SCHEMA, see `own_ids`), the record batches that may contain an event in
        [first_ns, last_ns], including batches of rows set aside."""
        for place in range(self._reader.num_record_batches):
            if self.batch_times is None or (
                self.batch_times["first_ns"][place] <= last_ns
                and self.batch_times["last_ns"][place] >= first_ns
            ):
                batch = pa.Table.from_batches([self._reader.get_batch(place)])
                yield own_ids(coded_ids(batch)).replace_schema_metadata(None)

    def _places(self, aside: bool | None) -> list[int]:
        if aside is None or self.batch_times is None:
            return [] if aside else list(range(self._reader.num_record_batches))
        found: list[int] = np.flatnonzero(self.batch_times["aside"] == aside).tolist()
        return found


def open_segment(store: Store, segment: Segment, columns: Sequence[str] | None = None) -> SegmentReader:
    """Read a segment and verify its hash. columns: names of the columns to decode; None: all. Raises
    LakeError if the segment is missing or its hash differs from the commit's."""
    try:
        data = store.read(segment.name)
    except FileNotFoundError as error:
        raise _damaged(segment, "is missing") from error
    if data.size != segment.size or hashlib.sha256(data).hexdigest() != segment.sha256:
        raise _damaged(segment, "is not what was committed")
    try:
        found = SegmentReader(data, columns)
    except (pa.ArrowException, ValueError) as error:
        raise _damaged(segment, "is no log segment") from error
    if columns is None and found.schema.names != EVENT_SCHEMA.names:
        raise _damaged(segment, "is of another version")
    return found


def open_index(store: Store, segment: Segment) -> SegmentReader:
    """Read only the index of a segment, with at most two reads from the end of the file.

    The hash is not verified, and events cannot be read. Raises LakeError if the segment is missing, has
    another size than its commit says, or is no Arrow file.
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
    except (pa.ArrowException, ValueError) as error:
        raise _damaged(segment, "is not what was committed") from error


def read_segment(store: Store, segment: Segment) -> pa.Table:
    """Events of a segment (EVENT_SCHEMA, with the writer's metadata) except rows set aside. Raises LakeError
    if the segment is missing or differs from its commit, or its index is not of its events.
    """
    opened = open_segment(store, segment)
    _verify_index(opened, segment)
    try:
        return events_of(opened, segment)
    except (pa.ArrowException, ValueError) as error:
        raise _damaged(segment, "cannot be decoded") from error


def _verify_index(opened: SegmentReader, segment: Segment) -> None:
    """Raise LakeError unless the index of a segment lists each request once, with at least one event each,
    and has as many events as the segment; segments of older lakes have no index."""
    index = opened.index
    rows = index["rows"].astype(np.int64)
    is_sound = (
        bool((index["key"][1:] > index["key"][:-1]).all())
        and bool((rows > 0).all())
        and int(rows.sum()) + opened.n_loose == segment.rows
        and opened.n_loose >= 0
    )
    if opened.has_index and not is_sound:
        raise _damaged(segment, "has an index that is not of its events")


def events_of(opened: SegmentReader, segment: Segment) -> pa.Table:
    """Events of an open segment, as `read_segment` returns them. segment: its entry in the commit."""
    events = opened.read(aside=False)
    try:  # request ids are codes, and parameters were plain text once
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
    """Decides which segments of a lane are kept, as builders and repairs need them, and deletes the others.

    A commit records the first commit whose segment is retained, and only afterwards earlier segments are
    deleted, so a missing retained segment was lost. The age of a segment is measured by this process's clock
    from its commit; that of a segment of an earlier owner from the time at which the store wrote it.
    """

    def __init__(self, store: Store, lane: int, keep_ns: int, head: int, kept_from: int | None) -> None:
        """keep_ns: minimum time for which segments are retained; head: number of the lane's last commit;
        kept_from: `Standing.kept_from` of that commit. Raises OSError."""
        self._store = store
        self._lane = lane
        self._keep_ns = keep_ns
        self._aged_to = 0 if kept_from is None else kept_from - 1
        """Commit number n such that the segments of commits 1 to n are old enough to be deleted."""
        self._promised = head + 1 if kept_from is None else kept_from
        self._commits: deque[tuple[int, int]] = deque()
        """(time in ns, number) of commits whose segments must still be retained, ascending."""
        written_ns = 0
        for file, at_ns in sorted(store.written(segment_folder(lane)).items()):  # by number of the commit
            seq = segment_seq(file)
            if seq is not None and self._aged_to < seq <= head:
                written_ns = max(written_ns, at_ns)
                self._commits.append((written_ns, seq))

    def kept_from(self, seq: int, now_ns: int, built_to: int) -> int:
        """Number of the first commit whose segment is retained once commit `seq`, the next one, is made.

        built_to: commit number n such that windows still to be built need no segment of commits 1 to n.
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
        """Delete the segments that are no longer retained, except `needed` ones. Call it after the commit.
        Raises OSError; the next call then deletes the rest."""
        sweep_segments(self._store, self._lane, self._aged_to, needed)


def sweep_segments(store: Store, lane: int, to_seq: int, needed: Iterable[Segment]) -> int:
    """Delete a lane's segments of commits up to and including `to_seq`, except `needed` ones; returns their
    number. Raises OSError."""
    n_removed = 0
    names, folder = {segment.name for segment in needed}, segment_folder(lane)
    for file in store.names(folder):
        seq, name = segment_seq(file), f"{folder}/{file}"
        if seq is not None and seq <= to_seq and name not in names:
            store.remove(name)
            n_removed += 1
    return n_removed


def named_segments(commits: Iterable[CommitRecord]) -> dict[str, Segment]:
    """Segments named by `commits` (of one lane, ascending): name -> segment, in the order in which they are
    first named."""
    return {segment.name: segment for record in commits for segment in record.standing.segments}


def lost_segments(store: Store, lane: int, commits: Sequence[CommitRecord]) -> list[Segment]:
    """Segments that are missing although the last of `commits` (ascending, of one lane) says that the lane
    retains them.

    If several segments have the number of one commit, the last one has replaced the others. Raises LakeError,
    OSError.
    """
    standing = commits[-1].standing if commits else None
    if standing is None or standing.kept_from is None or standing.ended_to_ns is not None:
        return []
    kept_from: int | None = standing.kept_from
    files = {name.rpartition("/")[2]: one for name, one in named_segments(commits).items()}
    by_place = {(segment_seq(file), segment_part(file)): one for file, one in files.items()}
    there = {*store.names(folder := segment_folder(lane))}
    lost = [
        (seq, segment)
        for (seq, _), segment in by_place.items()
        if seq is not None
        and seq >= standing.kept_from
        and segment.name.removeprefix(f"{folder}/") not in there
    ]
    if lost:  # or swept in the meantime
        kept_from = read_tail(store, lane).standing.kept_from
    return [segment for seq, segment in lost if kept_from is not None and seq >= kept_from]
