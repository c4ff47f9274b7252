"""Hold events between the codecs and the kernel: in memory while they fit, else in buckets on disk.

A request is never cut: all its events reach the kernel in one group. Buckets on disk are Arrow IPC streams
below a scratch folder; they are not part of the lake, need no sync and are swept with the stage.

The kernel names records without a request id by the linked records of its batch
(`stitch.records.components`); a batch here is a bucket by request id, so the name must be known before. Only
the columns that link records are held in memory: bounded by the number of records *without* a request id
(about 300 bytes each) and of those they touch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.events import EVENT_SCHEMA, SPAN_KIND_BASE, concat_events
from stitch.columnar.runs import whole
from stitch.drivers.partition import FANOUT, MAX_LEVEL, bucket_of, hash_requests, payload_bytes
from stitch.drivers.sharded.exchange import Exchange, HandedFile, opened
from stitch.lake.disk import FILE_MODE, FOLDER_MODE
from stitch.records.components import assign_requests, flat_list

_SMALL_BYTES: Final = 16 * 2**20
"""Payload that is stitched as one group: a second core would not make up for files cut in two."""
_MAX_GROUP_BYTES: Final = 2**29
"""Whatever the budget: Arrow counts the bytes of a text column in 31 bits."""
_GROUPS_IN_MEMORY: Final = 2
"""Groups to deal the payload into where no limit asks for more."""
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_LINKING = ["kind", "request_id", "breadcrumb", "id", "parents", "links"]


@dataclass(slots=True)
class Group:
    """Events of whole requests, in memory and in streams on disk, until somebody loads them."""

    held: list[pa.Table] = field(default_factory=list)
    paths: list[HandedFile] = field(default_factory=list)

    def load(self) -> pa.Table:
        """Read the events, in any thread or process. Those in memory are given away, others stay on disk."""
        held, self.held = self.held, []
        streams = (batch for path in self.paths for batch in read_stream(path))
        return concat_events([*held, *streams])

    def forget(self) -> None:
        """Remove what is on disk."""
        for path in self.paths:
            path.unlink()


@dataclass(frozen=True, slots=True)
class Dealt:
    """Events that one process has dealt to disk, for another one that collects them."""

    sizes: list[int]
    """[FANOUT] payload bytes of each bucket."""
    paths: list[list[HandedFile]]
    """[FANOUT] streams of each bucket."""
    loose: list[HandedFile]
    """Streams of records without a request id,"""
    n_loose: int
    """and how many those are."""

    def handed_on(self, exchange: Exchange) -> Dealt:
        """Hand the streams on, all at once. Raises OSError."""
        ends = np.cumsum([len(paths) for paths in self.paths]).tolist()
        files = exchange.hand_on([*chain.from_iterable(self.paths), *self.loose])
        paths = [files[start:end] for start, end in pairwise([0, *ends])]
        return Dealt(self.sizes, paths, files[ends[-1] :], self.n_loose)


class Buckets:
    """FANOUT buckets dealt by one set of bits of the request's hash, in memory or on disk."""

    def __init__(self, folder: Path, level: int, *, on_disk: bool) -> None:
        self._folder = folder
        self._level = level
        self.on_disk = on_disk
        self._held: list[list[pa.Table]] = [[] for _ in range(FANOUT)]
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        self._paths: list[list[HandedFile]] = [[] for _ in range(FANOUT)]
        self.sizes = [0] * FANOUT
        """Payload bytes of each bucket."""

    def add(self, events: pa.Table) -> None:
        """Deal a batch out. O(events)."""
        codes = bucket_of(hash_requests(events), self._level)
        # As small numbers, which numpy sorts by counting.
        order = np.argsort(codes.astype(np.uint8), kind="stable")
        dealt = events.unify_dictionaries().take(pa.array(order))
        ends = np.cumsum(np.bincount(codes, minlength=FANOUT))
        for bucket in range(FANOUT):
            start = int(ends[bucket - 1]) if bucket else 0
            part = dealt.slice(start, int(ends[bucket]) - start)
            if part.num_rows:
                self.sizes[bucket] += payload_bytes(part)
                self._put(bucket, part)

    def _put(self, bucket: int, part: pa.Table) -> None:
        if self.on_disk:
            self._writer(bucket).write_table(_own_words(part))
        else:
            self._held[bucket].append(part)

    def move_to_disk(self) -> None:
        """Write what is held, and all that comes, to the folder."""
        self.on_disk = True
        for bucket in range(FANOUT):
            parts, self._held[bucket] = self._held[bucket], []
            for part in parts:
                self._put(bucket, part)

    def _writer(self, bucket: int) -> pa.ipc.RecordBatchStreamWriter:
        if bucket not in self._writers:
            path = self._folder / f"{bucket:02d}-{len(self._paths[bucket])}.arrows"
            self._paths[bucket].append(path)
            self._writers[bucket] = new_stream(path, EVENT_SCHEMA)
        return self._writers[bucket]

    def adopt(self, dealt: Dealt) -> None:
        """Take what was dealt by the same bits elsewhere, on disk."""
        for bucket in range(FANOUT):
            self._paths[bucket] += dealt.paths[bucket]
            self.sizes[bucket] += dealt.sizes[bucket]

    def dealt(self) -> tuple[list[int], list[list[HandedFile]]]:
        """Return (payload bytes, streams) of each bucket on disk. Ends the dealing."""
        self.close()
        return self.sizes, self._paths

    def close(self) -> None:
        """End every stream, so that it can be read; what is added later goes to new ones."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}

    def batches(self, bucket: int) -> Iterator[pa.Table]:
        """Yield what was dealt to a bucket, piece by piece. Only after `close`."""
        yield from self._held[bucket]
        for path in self._paths[bucket]:
            yield from read_stream(path)

    def groups(self, limit_bytes: int) -> Iterator[Group]:
        """Yield all events in groups of whole requests, none over `limit_bytes` unless a single request is.

        Neighbouring small buckets are joined; a large one is dealt again by other bits of the hash.
        """
        pending: list[int] = []
        for bucket in range(FANOUT):
            if pending and sum(self.sizes[b] for b in [*pending, bucket]) > limit_bytes:
                yield self._group(pending)
                pending = []
            if self.sizes[bucket] > limit_bytes and self._level < MAX_LEVEL:
                yield from self._deal_again(bucket, limit_bytes)
            elif self.sizes[bucket]:
                pending.append(bucket)
        if pending:
            yield self._group(pending)

    def _group(self, buckets: list[int]) -> Group:
        group = Group()
        for bucket in buckets:
            group.held += self._held[bucket]
            group.paths += self._paths[bucket]
            self._held[bucket], self._paths[bucket] = [], []
        return group

    def _deal_again(self, bucket: int, limit_bytes: int) -> Iterator[Group]:
        below = Buckets(self._folder / f"{bucket:02d}", self._level + 1, on_disk=self.on_disk)
        for batch in self.batches(bucket):
            below.add(batch)
        below.close()
        for path in self._paths[bucket]:
            path.unlink()
        self._held[bucket], self._paths[bucket] = [], []
        yield from below.groups(limit_bytes)


def _own_words(part: pa.Table) -> pa.Table:
    """The rows with dictionaries of their own where those of the batch are longer than the rows.

    Every piece is written with its dictionaries: 32 copies of a long one would outweigh the events.
    """
    for place, named in enumerate(part.schema):
        column = part.column(place)
        if pa.types.is_dictionary(named.type) and len(column.chunk(0).dictionary) > part.num_rows:
            words = column.cast(named.type.value_type).dictionary_encode().cast(named.type)
            part = part.set_column(place, named, words)
    return part


class EventSpill:
    """Collects batches; hands them back in groups the kernel can take at once.

    Records without a request id are kept apart until all is read; then they are named, and join the others.
    """

    def __init__(self, scratch: Path, limit_bytes: int) -> None:
        """`limit_bytes` of payload are held in memory at most; a group has half of that at most."""
        self._scratch = scratch
        self._limit_bytes = limit_bytes
        self._held: list[pa.Table] = []
        self._buckets: Buckets | None = None
        self._loose = _Stash(scratch / "loose.arrows", limit_bytes)
        self._size = 0

    @property
    def spilled(self) -> bool:
        """Whether events went to disk."""
        return self._loose.spilled or (self._buckets is not None and self._buckets.on_disk)

    def add(self, events: pa.Table) -> None:
        """Take a batch. O(events)."""
        if events["request_id"].null_count:
            loose = pc.and_(pc.is_null(events["request_id"]), pc.less(events["kind"], SPAN_KIND_BASE))
            self._loose.add(events.filter(loose))
            events = events.filter(pc.invert(loose))
        self._add_named(events)

    def _add_named(self, events: pa.Table) -> None:
        self._size += payload_bytes(events)
        self._held.append(events)
        if self._buckets is None and self._size > min(_SMALL_BYTES, self._limit_bytes):
            self._buckets = Buckets(self._scratch / "events", level=0, on_disk=False)
        if self._buckets is not None:
            if self._size > self._limit_bytes and not self._buckets.on_disk:
                self._buckets.move_to_disk()
            for held in self._held:
                self._buckets.add(held)
            self._held = []

    def dealt(self) -> Dealt:
        """Return where everything lies, of a spill that holds nothing in memory. Ends the collecting."""
        sizes, paths = ([0] * FANOUT, [[]] * FANOUT) if self._buckets is None else self._buckets.dealt()
        return Dealt(sizes, paths, self._loose.close(), self._loose.n_events)

    def adopt(self, dealt: Dealt) -> None:
        """Take what another process has dealt."""
        self._size += sum(dealt.sizes)
        if self._buckets is None:
            self._buckets = Buckets(self._scratch / "events", level=0, on_disk=True)
        self._buckets.adopt(dealt)
        self._loose.adopt(dealt.loose, dealt.n_loose)

    def groups(self) -> Iterator[Group]:
        """Everything that was added, in groups of whole requests; each event once. Ends the collecting.

        Which requests share a group depends on the events alone, not on how they came.
        """
        if self._loose.n_events:
            for named in _name_records(self._loose, list(_touching(self._named(), self._loose))):
                self._add_named(named)
        if self._buckets is not None:
            self._buckets.close()
            yield from self._buckets.groups(self._group_bytes())
        elif self._held:
            held, self._held = self._held, []
            yield Group(held)

    def _group_bytes(self) -> int:
        """Half of the limit, as two groups are worked on; less where the payload makes two groups of less."""
        if self._size <= min(_SMALL_BYTES, self._limit_bytes):
            return self._size
        even = self._size // _GROUPS_IN_MEMORY
        # Buckets are not equal: a tenth more, so that two groups do not become three.
        return min(self._limit_bytes // 2, max(even + even // 10, _SMALL_BYTES), _MAX_GROUP_BYTES)

    def _named(self) -> Iterator[pa.Table]:
        """Yield every event that came with a request id, to look at."""
        yield from self._held
        if self._buckets is not None:
            self._buckets.close()
            for bucket in range(FANOUT):
                yield from self._buckets.batches(bucket)


def new_stream(path: Path, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
    """An Arrow IPC stream in a new file, whose folders are made; both are their owner's alone."""
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
    return pa.ipc.new_stream(str(path), schema, options=_OPTIONS)


def read_stream(path: HandedFile) -> Iterator[pa.Table]:
    """The batches of an Arrow IPC stream."""
    with opened(path) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield pa.Table.from_batches([batch])


class _Stash:
    """Batches in the order they came."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        """`path` is made once the batches are larger than `limit_bytes`."""
        self._path = path
        self._limit_bytes = limit_bytes
        self._held: list[pa.Table] = []
        self._size = 0
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._adopted: list[HandedFile] = []
        self.n_events = 0

    @property
    def spilled(self) -> bool:
        """Whether the batches are on disk."""
        return bool(self._adopted) or self._path.exists()

    def add(self, events: pa.Table) -> None:
        """Put a batch on the pile."""
        self.n_events += events.num_rows
        self._size += payload_bytes(events)
        self._held.append(events)
        if self._writer is None and self._size > self._limit_bytes:
            self._writer = new_stream(self._path, EVENT_SCHEMA)
        if self._writer is not None:
            for held in self._held:
                self._writer.write_table(held.unify_dictionaries().combine_chunks())
            self._held = []

    def adopt(self, paths: list[HandedFile], n_events: int) -> None:
        """Take streams that another process has written."""
        self._adopted += paths
        self.n_events += n_events

    def close(self) -> list[HandedFile]:
        """Return the streams on disk, ready to be read. Ends the adding."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        own = [self._path] if self._path.exists() else []
        return [*own, *self._adopted]

    def batches(self) -> Iterator[pa.Table]:
        """Yield every batch. Ends the adding."""
        yield from self._held
        for path in self.close():
            yield from read_stream(path)


def _touching(named: Iterator[pa.Table], loose: _Stash) -> Iterator[pa.Table]:
    """Linking columns of those named records that share a breadcrumb or id with the loose. O(records)."""
    words = _words(loose)
    for events in named:
        records = events.select(_LINKING).filter(pc.less(events["kind"], SPAN_KIND_BASE))
        touches = np.zeros(records.num_rows, dtype=np.bool_)
        for name in ("breadcrumb", "id"):
            found = pc.is_in(whole(records[name]).cast(pa.string()), value_set=words, skip_nulls=True)
            touches |= found.to_numpy(zero_copy_only=False)
        for name in ("parents", "links"):
            row, word = flat_list(whole(records[name]))
            touches[row[pc.is_in(word.cast(pa.string()), value_set=words).to_numpy(zero_copy_only=False)]] = (
                True
            )
        if touches.any():
            yield records.filter(pa.array(touches))


def _name_records(loose: _Stash, touched: list[pa.Table]) -> Iterator[pa.Table]:
    """The loose batches again, each record with the request id that the kernel would give it."""
    columns = [batch.select(_LINKING) for batch in loose.batches()]
    requests = assign_requests(pa.concat_tables([*columns, *touched]).combine_chunks())
    start = 0
    for batch in loose.batches():
        codes = requests.code[start : start + batch.num_rows]
        start += batch.num_rows
        place = batch.schema.get_field_index("request_id")
        yield batch.set_column(place, batch.schema.field(place), requests.names.take(pa.array(codes)))


def _words(loose: _Stash) -> pa.StringArray:
    """Return every breadcrumb and id that the loose records name."""
    found = [pa.array([""], pa.string())]  # the breadcrumb of records that have none
    for batch in loose.batches():
        found += [whole(batch[name]).drop_null().cast(pa.string()) for name in ("breadcrumb", "id")]
        found += [flat_list(whole(batch[name]))[1].cast(pa.string()) for name in ("parents", "links")]
        found = [pc.unique(pa.concat_arrays(found))]
    return found[0]
