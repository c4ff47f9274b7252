"""Buffer events between the codecs and the kernel: in memory while they fit, else in buckets on disk.

A request is never split: all its events reach the kernel in one group. Buckets on disk are Arrow IPC streams
below a scratch folder; they are not part of the lake, need no sync and are swept with the stage.

The kernel names records without a request id by the linked activity records of its batch
(`stitch.records.components`); a batch here is a bucket by request id, so the name must be known before. Only
the columns that link records are held in memory: bounded by the number of records *without* a request id
(about 300 bytes each) and of records linked to them.
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
"""Payload bytes up to which all events form one group: a second core would not repay the cost of
splitting."""
_MAX_GROUP_BYTES: Final = 2**29
"""Maximum payload of a group, whatever the budget: Arrow's offsets of a text column have 31 bits."""
_LEAST_GROUPS: Final = 2
"""Minimum number of groups, doubled while groups are too large: a power of two, like the number of buckets,
makes groups of equal size, and leaves none for one core alone.
"""
_ROUNDS: Final = 4
"""Divisor of the memory limit that gives the payload gathered before it is partitioned, at most
`_SMALL_BYTES`; larger is better, as writing a piece of a bucket takes 2 ms however small it is.
"""
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_LINKING = ["kind", "request_id", "breadcrumb", "id", "parents", "links"]


@dataclass(slots=True)
class Group:
    """Requests to be stitched together: their events, in memory and in streams on disk, until they are
    loaded.
    """

    held: list[pa.Table] = field(default_factory=list)
    paths: list[HandedFile] = field(default_factory=list)

    def load(self) -> pa.Table:
        """Read the events, in any thread or process. Events in memory are released by the group, streams stay
        on disk."""
        held, self.held = self.held, []
        streams = (batch for path in self.paths for batch in read_stream(path))
        return concat_events([*held, *streams])

    def forget(self) -> None:
        """Remove the streams on disk."""
        for path in self.paths:
            path.unlink()


@dataclass(frozen=True, slots=True)
class Dealt:
    """Events that one process partitioned into buckets on disk, for the process that collects them."""

    sizes: list[int]
    """[FANOUT] payload bytes of each bucket."""
    paths: list[list[HandedFile]]
    """[FANOUT] streams on disk, a list for each bucket."""
    loose: list[HandedFile]
    """Streams on disk with the activity records without a request id."""
    n_loose: int
    """Number of activity records without a request id."""

    def handed_on(self, exchange: Exchange) -> Dealt:
        """Copy whose streams were handed on to other tasks through `exchange`, all at once.

        Raises OSError.
        """
        ends = np.cumsum([len(paths) for paths in self.paths]).tolist()
        files = exchange.hand_on([*chain.from_iterable(self.paths), *self.loose])
        paths = [files[start:end] for start, end in pairwise([0, *ends])]
        return Dealt(self.sizes, paths, files[ends[-1] :], self.n_loose)


class _Pile:
    """Batches of events in order of arrival, in memory or in streams on disk."""

    def __init__(self, path: Path, *, on_disk: bool = False) -> None:
        """path: prefix of the streams' file names, to which numbers are appended."""
        self._path = path
        self._on_disk = on_disk
        self._held: list[pa.Table] = []
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self._paths: list[HandedFile] = []
        self.n_events = 0
        self.size = 0
        """Payload bytes in the pile."""

    @property
    def on_disk(self) -> bool:
        """True if events are on disk, or the next batch goes there."""
        return self._on_disk or bool(self._paths)

    def add(self, events: pa.Table) -> None:
        """Append a batch (one chunk per column)."""
        if not events.num_rows:
            return
        self.n_events += events.num_rows
        self.size += payload_bytes(events)
        self._held.append(events)
        if self._on_disk:
            self.move_to_disk()

    def move_to_disk(self) -> None:
        """Write the batches in memory, and all later ones, to disk.

        Dictionaries are reduced to the words in use: 32 copies of a long one would outweigh the events.
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
        """Append streams written by another process: files, payload bytes, number of events."""
        self._paths += paths
        self.size += size
        self.n_events += n_events

    def close(self) -> list[HandedFile]:
        """Finish the stream, so that it can be read, and return all paths; later batches go to a new
        stream."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        return self._paths

    def batches(self) -> Iterator[pa.Table]:
        """Yield every batch. Finishes the stream."""
        yield from self._held
        for path in self.close():
            yield from read_stream(path)

    def given_away(self) -> Group:
        """Return all events as a group, and empty the pile. Finishes the stream."""
        group = Group(self._held, self.close())
        self._held, self._paths = [], []
        return group


class Buckets:
    """FANOUT buckets, partitioned by one set of bits of the request's hash, in memory or on disk."""

    def __init__(self, folder: Path, level: int, *, on_disk: bool, pool: Executor | None = None) -> None:
        """pool: its threads write buckets concurrently."""
        self._folder = folder
        self._for_each: Callable[..., Iterator[None]] = map if pool is None else pool.map
        self._level = level
        self.on_disk = on_disk
        self._piles = [_Pile(folder / f"{bucket:02d}", on_disk=on_disk) for bucket in range(FANOUT)]

    def add(self, events: pa.Table) -> None:
        """Partition a batch into the buckets. O(events)."""
        # As small numbers, which numpy sorts by counting.
        codes = bucket_of(hash_requests(events), self._level).astype(np.uint8)
        parts = deal(events.unify_dictionaries(), codes, FANOUT)
        for _ in (self._for_each if self.on_disk else map)(_Pile.add, self._piles, parts):
            pass

    def move_to_disk(self) -> None:
        """Write the events in memory, and all later ones, to the folder."""
        self.on_disk = True
        for _ in self._for_each(_Pile.move_to_disk, self._piles):
            pass

    def adopt(self, dealt: Dealt) -> None:
        """Append events that another process partitioned by the same bits of the hash and wrote to disk."""
        for pile, paths, size in zip(self._piles, dealt.paths, dealt.sizes, strict=True):
            pile.adopt(paths, size, 0)

    def dealt(self) -> tuple[list[int], list[list[HandedFile]]]:
        """Finish all streams; return ([FANOUT] payload bytes, [FANOUT] lists of streams)."""
        return [pile.size for pile in self._piles], [pile.close() for pile in self._piles]

    def batches(self) -> Iterator[pa.Table]:
        """Yield all batches, bucket by bucket."""
        return chain.from_iterable(pile.batches() for pile in self._piles)

    def groups(self, limit_bytes: int) -> Iterator[Group]:
        """Yield all events in groups of whole requests, none over `limit_bytes` unless a single request is.

        Small adjacent buckets are joined; a large one is partitioned again by other bits of the hash.
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
    """Collector of batches of events, which yields them in groups small enough for the kernel.

    Activity records without a request id are buffered apart until all is read; then they get a name, and join
    the other events.
    """

    def __init__(self, scratch: Path, limit_bytes: int, pool: Executor | None = None) -> None:
        """limit_bytes: maximum payload in memory; one group has at most half of the limit.

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
        """True if events went to disk."""
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
        """Partition the batches in memory, all at once."""
        if self._held:
            buckets.add(concat_events(self._held))
        self._held, self._held_size = [], 0

    def dealt(self) -> Dealt:
        """Write all events to disk, and return their streams. Nothing may be added after."""
        buckets = self._buckets or Buckets(self._scratch / "events", level=0, on_disk=True)
        buckets.move_to_disk()
        self._deal(buckets)
        self._loose.move_to_disk()
        return Dealt(*buckets.dealt(), self._loose.close(), self._loose.n_events)

    def adopt(self, dealt: Dealt) -> None:
        """Add events that another process partitioned to disk."""
        self._size += sum(dealt.sizes)
        if self._buckets is None:
            self._buckets = Buckets(self._scratch / "events", level=0, on_disk=True)
        self._buckets.adopt(dealt)
        self._loose.adopt(dealt.loose, 0, dealt.n_loose)

    def groups(self) -> Iterator[Group]:
        """Yield every event once, in groups of whole requests. Nothing may be added after.

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
        """Maximum payload of a group, bytes: an even part of the total, at most half of the limit, as two
        groups are stitched at once.
        """
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
        """Yield every event that came with a request id, without removing it."""
        yield from self._held
        if self._buckets is not None:
            yield from self._buckets.batches()


def new_stream(path: Path, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
    """Writer of an Arrow IPC stream in a new file; creates its folders. All are readable by the owner
    only.
    """
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
    return pa.ipc.new_stream(str(path), schema, options=_OPTIONS)


def read_stream(path: HandedFile) -> Iterator[pa.Table]:
    """Batches of an Arrow IPC stream. Raises LakeError for other content, OSError."""
    with refused_if_broken(path), opened(path) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield pa.Table.from_batches([batch])


def _touching(named: Iterator[pa.Table], loose: _Pile) -> Iterator[pa.Table]:
    """Linking columns of activity records with a request id that share a breadcrumb or id with a record in
    `loose`.

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
    """Batches of `loose`, each activity record with the request id that the kernel would give it."""
    columns = [batch.select(_LINKING) for batch in loose.batches()]
    requests = assign_requests(pa.concat_tables([*columns, *touched]).combine_chunks())
    start = 0
    for batch in loose.batches():
        codes = requests.code[start : start + batch.num_rows]
        start += batch.num_rows
        place = batch.schema.get_field_index("request_id")
        yield batch.set_column(place, batch.schema.field(place), requests.names.take(pa.array(codes)))


def _words(loose: _Pile) -> pa.StringArray:
    """All breadcrumbs and ids named by the activity records of `loose`."""
    found = [pa.array([""], pa.string())]  # the breadcrumb of records that have none
    for batch in loose.batches():
        found += [whole(batch[name]).drop_null().cast(pa.string()) for name in ("breadcrumb", "id")]
        found += [flat_list(whole(batch[name]))[1].cast(pa.string()) for name in ("parents", "links")]
        found = [pc.unique(pa.concat_arrays(found))]
    return found[0]
