"""Buffer events between the codecs and the kernel: in memory while they fit, otherwise partitioned into
buckets on disk.

A request is never split: all its events reach the kernel in one group. Buckets on disk are Arrow IPC streams
below a scratch folder; they are not part of the lake, need no sync, and are removed with the stage.

The kernel assigns records without a request id to requests by the records they are linked to
(`stitch.records.components`). Here events are partitioned by request id, so such a record must get its
request id before it is partitioned. Only the columns that link records stay in memory: about 300 bytes for
each record *without* a request id and for each record linked to one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.events import EVENT_SCHEMA, SPAN_KIND_BASE, concat_events
from stitch.columnar.runs import deal, own_words, whole
from stitch.drivers.partition import FANOUT, MAX_LEVEL, bucket_of, hash_requests, payload_bytes
from stitch.drivers.sharded.exchange import Exchange, HandedFile, opened, refused_if_broken
from stitch.lake.disk import FILE_MODE, FOLDER_MODE
from stitch.records.components import assign_requests, flat_list

_SMALL_BYTES: Final = 16 * 2**20
"""Payload bytes up to which all events form one group, as splitting would cost more than a second core
gains."""
_MAX_GROUP_BYTES: Final = 2**29
"""Maximum payload of a group, whatever the budget: Arrow's offsets of a text column have 31 bits."""
_LEAST_GROUPS: Final = 2
"""Minimum number of groups, doubled while groups are too large: as a power of two, like the number of
buckets, it gives groups of equal size, and never leaves a last group for one core alone."""
_ROUNDS: Final = 4
"""The memory limit divided by this is the payload gathered before it is partitioned, at most `_SMALL_BYTES`;
more is better, as writing a piece of a bucket takes at least 2 ms."""
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_LINKING = ["kind", "request_id", "breadcrumb", "id", "parents", "links"]


@dataclass(slots=True)
class Group:
    """Requests that are stitched together: their events in memory, and in files on disk until they are
    loaded."""

    held: list[pa.Table] = field(default_factory=list)
    paths: list[HandedFile] = field(default_factory=list)

    def load(self) -> pa.Table:
        """Read all events, in any thread or process. Events in memory are then released by the group; files
        stay on disk."""
        held, self.held = self.held, []
        streams = (batch for path in self.paths for batch in read_stream(path))
        return concat_events([*held, *streams])

    def forget(self) -> None:
        """Delete the files on disk."""
        for path in self.paths:
            path.unlink()


@dataclass(frozen=True, slots=True)
class Dealt:
    """Events that one process has partitioned into buckets on disk, to be collected by another process."""

    sizes: list[int]
    """[FANOUT] payload bytes of each bucket."""
    paths: list[list[HandedFile]]
    """[FANOUT] for each bucket, the files with its events (Arrow IPC streams)."""
    loose: list[HandedFile]
    """Files with the activity records that have no request id."""
    n_loose: int
    """Number of activity records without a request id."""

    def handed_on(self, exchange: Exchange) -> Dealt:
        """Copy whose files were handed on to other tasks through `exchange`, all in one call.

        Raises OSError.
        """
        ends = np.cumsum([len(paths) for paths in self.paths]).tolist()
        files = exchange.hand_on([*chain.from_iterable(self.paths), *self.loose])
        paths = [files[start:end] for start, end in pairwise([0, *ends])]
        return Dealt(self.sizes, paths, files[ends[-1] :], self.n_loose)


class _Pile:
    """Batches of events in order of arrival, in memory or in files on disk (Arrow IPC streams)."""

    def __init__(self, path: Path, *, on_disk: bool = False) -> None:
        """path: prefix of the names of the files, to which numbers are appended."""
        self._path = path
        self._on_disk = on_disk
        self._held: list[pa.Table] = []
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._paths: list[HandedFile] = []
        self.n_events = 0
        self.size = 0
        """Payload bytes of all events in the pile."""

    @property
    def on_disk(self) -> bool:
        """True if events are on disk, or the next batch will be written to disk."""
        return self._on_disk or bool(self._paths)

    def add(self, events: pa.Table) -> None:
        """Append a batch (each column in one chunk)."""
        if not events.num_rows:
            return
        self.n_events += events.num_rows
        self.size += payload_bytes(events)
        self._held.append(events)
        if self._on_disk:
            self.move_to_disk()

    def move_to_disk(self) -> None:
        """Write the batches in memory to disk, and all later batches too.

        Dictionaries are reduced to the words in use: 32 copies of a long dictionary would be larger than the
        events.
        """
        self._on_disk = True
        for batch in self._held:
            if self._writer is None:
                path = self._path.with_name(f"{self._path.name}-{len(self._paths)}.arrows")
                self._paths.append(path)
                self._writer = new_stream(path, EVENT_SCHEMA)
            self._writer.write_table(own_words(batch))
        self._held = []

    def adopt(self, paths: list[HandedFile], size: int, n_events: int) -> None:
        """Append files written by another process. size: payload bytes; n_events: number of events in
        them."""
        self._paths += paths
        self.size += size
        self.n_events += n_events

    def close(self) -> list[HandedFile]:
        """Finish the current file, so that it can be read, and return the paths of all files; later batches
        go to a new file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        return self._paths

    def batches(self) -> Iterator[pa.Table]:
        """Yield every batch. Finishes the current file."""
        yield from self._held
        for path in self.close():
            yield from read_stream(path)

    def given_away(self) -> Group:
        """Return all events as a group, and leave the pile empty. Finishes the current file."""
        group = Group(self._held, self.close())
        self._held, self._paths = [], []
        return group


class Buckets:
    """FANOUT buckets of events, in memory or on disk, partitioned by the bits of the request's hash that
    belong to `level`."""

    def __init__(self, folder: Path, level: int, *, on_disk: bool, pool: Executor | None = None) -> None:
        """pool: its threads write buckets concurrently."""
        self._folder = folder
        self._for_each: Callable[..., Iterator[None]] = map if pool is None else pool.map
        self._level = level
        self.on_disk = on_disk
        self._piles = [_Pile(folder / f"{bucket:02d}", on_disk=on_disk) for bucket in range(FANOUT)]

    def add(self, events: pa.Table) -> None:
        """Partition the events of a batch into the buckets. O(events)."""
        # As small numbers, which numpy sorts by counting.
        codes = bucket_of(hash_requests(events), self._level).astype(np.uint8)
        parts = deal(events.unify_dictionaries(), codes, FANOUT)
        for _ in (self._for_each if self.on_disk else map)(_Pile.add, self._piles, parts):
            pass

    def move_to_disk(self) -> None:
        """Write the events in memory to disk, and all later events too."""
        self.on_disk = True
        for _ in self._for_each(_Pile.move_to_disk, self._piles):
            pass

    def adopt(self, dealt: Dealt) -> None:
        """Append events that another process partitioned at the same level and wrote to disk."""
        for pile, paths, size in zip(self._piles, dealt.paths, dealt.sizes, strict=True):
            pile.adopt(paths, size, 0)

    def dealt(self) -> tuple[list[int], list[list[HandedFile]]]:
        """Finish all files; return ([FANOUT] payload bytes, [FANOUT] files) of the buckets."""
        return [pile.size for pile in self._piles], [pile.close() for pile in self._piles]

    def batches(self) -> Iterator[pa.Table]:
        """Yield all batches, bucket by bucket."""
        return chain.from_iterable(pile.batches() for pile in self._piles)

    def groups(self, limit_bytes: int) -> Iterator[Group]:
        """Yield all events in groups of whole requests, each of at most `limit_bytes` unless it is a single
        request.

        Adjacent small buckets are combined; a large bucket is partitioned again, at the next level.
        """
        pending: list[_Pile] = []
        for bucket, pile in enumerate(self._piles):
            if pending and sum(each.size for each in [*pending, pile]) > limit_bytes:
                yield _group(pending)
                pending = []
            if pile.size > limit_bytes and self._level < MAX_LEVEL:
                yield from self._deal_again(bucket, limit_bytes)
            elif pile.size:
                pending.append(pile)
        if pending:
            yield _group(pending)

    def _deal_again(self, bucket: int, limit_bytes: int) -> Iterator[Group]:
        below = Buckets(self._folder / f"{bucket:02d}", self._level + 1, on_disk=self.on_disk)
        for batch in self._piles[bucket].batches():
            below.add(batch)
        self._piles[bucket].given_away().forget()
        yield from below.groups(limit_bytes)


def _group(piles: list[_Pile]) -> Group:
    group = Group()
    for pile in piles:
        own = pile.given_away()
        group.held += own.held
        group.paths += own.paths
    return group


class EventSpill:
    """Collector of batches of events, which it returns in groups small enough for the kernel.

    Activity records without a request id are buffered separately until all events are added; then they get a
    request id and join the other events.
    """

    def __init__(self, scratch: Path, limit_bytes: int, pool: Executor | None = None) -> None:
        """limit_bytes: maximum payload bytes in memory; one group has at most half of it.

        pool: its threads write to disk while events are added.
        """
        self._scratch = scratch
        self._pool = pool
        self._limit_bytes = limit_bytes
        self._held: list[pa.Table] = []
        self._buckets: Buckets | None = None
        self._loose = _Pile(scratch / "loose")
        self._size = 0
        self._held_size = 0

    @property
    def spilled(self) -> bool:
        """True if any events were written to disk."""
        return self._loose.on_disk or (self._buckets is not None and self._buckets.on_disk)

    def add(self, events: pa.Table) -> None:
        """Add a batch of events. O(events)."""
        if events["request_id"].null_count:
            loose = pc.and_(pc.is_null(events["request_id"]), pc.less(events["kind"], SPAN_KIND_BASE))
            self._loose.add(events.filter(loose).unify_dictionaries().combine_chunks())
            if self._loose.size > self._limit_bytes:
                self._loose.move_to_disk()
            events = events.filter(pc.invert(loose))
        self._add_named(events)

    def _add_named(self, events: pa.Table) -> None:
        size = payload_bytes(events)
        self._size += size
        self._held_size += size
        self._held.append(events)
        if self._buckets is None and self._size > min(_SMALL_BYTES, self._limit_bytes):
            self._buckets = Buckets(self._scratch / "events", level=0, on_disk=False, pool=self._pool)
        if self._buckets is not None:
            if self._size > self._limit_bytes and not self._buckets.on_disk:
                self._buckets.move_to_disk()
            if self._held_size > min(_SMALL_BYTES, self._limit_bytes // _ROUNDS):
                self._deal(self._buckets)

    def _deal(self, buckets: Buckets) -> None:
        """Partition all batches in memory into `buckets`, in one step."""
        if self._held:
            buckets.add(concat_events(self._held))
        self._held, self._held_size = [], 0

    def dealt(self) -> Dealt:
        """Write all events to disk, and return their files. No events may be added afterwards."""
        buckets = self._buckets or Buckets(self._scratch / "events", level=0, on_disk=True)
        buckets.move_to_disk()
        self._deal(buckets)
        self._loose.move_to_disk()
        return Dealt(*buckets.dealt(), self._loose.close(), self._loose.n_events)

    def adopt(self, dealt: Dealt) -> None:
        """Add events that another process partitioned and wrote to disk."""
        self._size += sum(dealt.sizes)
        if self._buckets is None:
            self._buckets = Buckets(self._scratch / "events", level=0, on_disk=True)
        self._buckets.adopt(dealt)
        self._loose.adopt(dealt.loose, 0, dealt.n_loose)

    def groups(self) -> Iterator[Group]:
        """Yield every event once, in groups of whole requests. No events may be added afterwards.

        Which requests share a group depends on the events alone, not on their order or batches.
        """
        if self._loose.n_events:
            for named in _name_records(self._loose, list(_touching(self._named(), self._loose))):
                self._add_named(named)
        if self._buckets is not None:
            self._deal(self._buckets)
            yield from self._buckets.groups(self._group_bytes())
        elif self._held:
            held, self._held = self._held, []
            yield Group(held)

    def _group_bytes(self) -> int:
        """Maximum payload bytes of a group: the total divided into equal groups, at most half of the limit,
        as two groups are stitched concurrently."""
        if self._size <= min(_SMALL_BYTES, self._limit_bytes):
            return self._size
        most = min(self._limit_bytes // 2, _MAX_GROUP_BYTES)
        groups = _LEAST_GROUPS
        # Buckets are not equal: a tenth more, so that two groups do not become three.
        while (even := 11 * self._size // (10 * groups)) > most and groups < FANOUT:
            groups *= 2
        return min(max(even, _SMALL_BYTES), most)

    def batches(self) -> Iterator[pa.Table]:
        """Yield every event, without removing it: in the order of requests' buckets, and records without a
        request id last, which stay without one. Nothing may be added after."""
        if self._buckets is not None:
            self._deal(self._buckets)
        yield from self._named()
        yield from self._loose.batches()

    def _named(self) -> Iterator[pa.Table]:
        """Yield all events that had a request id when they were added, without removing them."""
        yield from self._held
        if self._buckets is not None:
            yield from self._buckets.batches()


def new_stream(path: Path, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
    """Create a file, and its folders, for an Arrow IPC stream; return the stream's writer. Only the owner can
    read them."""
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
    return pa.ipc.new_stream(str(path), schema, options=_OPTIONS)


def read_stream(path: HandedFile) -> Iterator[pa.Table]:
    """Yield the batches of an Arrow IPC stream. Raises LakeError if the file is none, OSError."""
    with refused_if_broken(path), opened(path) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield pa.Table.from_batches([batch])


def _touching(named: Iterator[pa.Table], loose: _Pile) -> Iterator[pa.Table]:
    """Yield the linking columns of activity records with a request id that share a breadcrumb or id with a
    record in `loose`, the records without one.

    O(records).
    """
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


def _name_records(loose: _Pile, touched: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield the batches of `loose`, in which each activity record gets the request id that the kernel would
    give it."""
    columns = [batch.select(_LINKING) for batch in loose.batches()]
    requests = assign_requests(pa.concat_tables([*columns, *touched]).combine_chunks())
    start = 0
    for batch in loose.batches():
        codes = requests.code[start : start + batch.num_rows]
        start += batch.num_rows
        place = batch.schema.get_field_index("request_id")
        yield batch.set_column(place, batch.schema.field(place), requests.names.take(pa.array(codes)))


def _words(loose: _Pile) -> pa.StringArray:
    """All breadcrumbs and ids in the activity records of `loose`."""
    found = [pa.array([""], pa.string())]  # the breadcrumb of records that have none
    for batch in loose.batches():
        found += [whole(batch[name]).drop_null().cast(pa.string()) for name in ("breadcrumb", "id")]
        found += [flat_list(whole(batch[name]))[1].cast(pa.string()) for name in ("parents", "links")]
        found = [pc.unique(pa.concat_arrays(found))]
    return found[0]
