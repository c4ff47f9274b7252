"""Partition the events of many requests into groups of whole requests, in memory or on disk.

On disk this works like the partitioning step of an external hash join: events are read once, in runs
(batches) of about a group's size, and each run is split into one piece per group. A piece is an Arrow IPC
stream (lz4) whose dictionaries hold only values that its rows use, so reading a group costs as much as its
rows, whatever the run's dictionaries. With more groups than GROUPS_AT_ONCE, partitions are partitioned
recursively.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8, U8
from schemas.events import concat_events
from stitch.columnar.runs import group_stably, own_words, whole
from stitch.drivers.build.request_plan import Planned
from stitch.lake.disk import FILE_MODE, FOLDER_MODE
from stitch.lake.event_log import own_ids

GROUPS_AT_ONCE: Final = 32
"""Maximum number of groups into which a run is split at once: writing a piece takes a millisecond, however
small it is."""
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_ONE_THREAD: Final = pa.ipc.IpcReadOptions(use_threads=False)
_KEY: Final = "request key"


def dealt_in_memory(
    requests: Planned, group_of: I8, n_groups: int, tables: Iterable[tuple[pa.Table, U8]]
) -> Iterator[tuple[int, pa.Table, U8]]:
    """Yield (group number, events, [events] request key) of each group in order.

    requests: ascending by key; events of other requests are dropped. group_of: [requests] group number,
    0 … n_groups - 1. tables: (events, [events] request key). O(events + requests); copies one group at a
    time.
    """
    dealt = []
    for table, key in tables:
        rows, first = group_stably(_codes(requests, group_of, key, n_groups), n_groups + 1)
        dealt.append((table, key, rows, first))
    for number in range(n_groups):
        parts = [
            (own_ids(pc.take(table, pa.array(own), boundscheck=False)), key[own])
            for table, key, rows, first in dealt
            if len(own := rows[first[number] : first[number + 1]])
        ]
        yield number, *joined(parts)


def dealt_on_disk(
    requests: Planned,
    group_of: I8,
    n_groups: int,
    tables: Iterable[tuple[pa.Table, U8]],
    rows_at_once: int,
    folder: Path,
) -> Iterator[tuple[int, pa.Table, U8]]:
    """Yield (group number, events, [events] request key) of each group in order.

    requests, group_of, n_groups, tables: as `dealt_in_memory`. folder: is created, and is empty at the end.
    Memory: two runs of `rows_at_once` events, and one group. O(events + requests), and one more pass over
    the data for each factor GROUPS_AT_ONCE in the number of groups.
    """
    coarse = -(-n_groups // GROUPS_AT_ONCE)
    n_parts = -(-n_groups // coarse)
    part_of = group_of // coarse
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    path = folder / "pieces"
    places: list[list[tuple[int, int]]] = [[] for _ in range(n_parts)]
    try:
        path.touch(FILE_MODE, exist_ok=False)
        with path.open("wb") as file:
            for table, key in _runs(tables, rows_at_once):
                rows, first = group_stably(_codes(requests, part_of, key, n_parts), n_parts + 1)
                for part in np.flatnonzero(np.diff(first[:-1])).tolist():
                    own = rows[first[part] : first[part + 1]]
                    begin = file.tell()
                    file.write(_encoded(table.take(pa.array(own)), key[own]))
                    places[part].append((begin, file.tell() - begin))
        with pa.OSFile(str(path)) as pieces:
            for part, own_places in enumerate(places):
                read = (_decoded(pieces.read_at(size, begin)) for begin, size in own_places)
                if coarse == 1:
                    yield part, *joined([*read])
                    continue
                mine = part_of == part
                low, n_own = part * coarse, min(coarse, n_groups - part * coarse)
                fine = dealt_on_disk(
                    requests[mine], group_of[mine] - low, n_own, read, rows_at_once, folder / f"{part:d}"
                )
                yield from ((low + number, events, key) for number, events, key in fine)
    finally:
        path.unlink(missing_ok=True)


def equal_groups(requests: Planned, n_groups: int) -> I8:
    """Assign requests to groups with about equal numbers of events: [requests] group number, ascending.

    A request belongs to the group that contains the middle one of its events when the events are counted in
    the order of requests; so with three or more groups no group gets all requests.
    """
    ends = np.cumsum(requests["rows"])
    total = max(1, int(ends[-1])) if len(ends) else 1
    group: I8 = np.minimum((2 * ends - requests["rows"]) * n_groups // (2 * total), n_groups - 1)
    return group


def _codes(requests: Planned, group_of: I8, key: U8, n_groups: int) -> I8:
    """[events] group number of the event's request; `n_groups` if the request is not in `requests`. key:
    [events] request key."""
    known = pa.array(np.ascontiguousarray(requests["key"]))
    place = pc.index_in(pa.array(key), value_set=known).fill_null(len(known)).to_numpy()
    codes: I8 = np.append(group_of, n_groups)[place]
    return codes


def _runs(tables: Iterable[tuple[pa.Table, U8]], rows_at_once: int) -> Iterator[tuple[pa.Table, U8]]:
    """Concatenate consecutive tables to runs (each column in one chunk) of at least `rows_at_once` events,
    and yield them; only the last run may be shorter."""
    held: list[tuple[pa.Table, U8]] = []
    for part in tables:
        held.append(part)
        if sum(len(key) for _, key in held) >= rows_at_once:
            yield joined(held)
            held = []
    if held:
        yield joined(held)


def joined(parts: list[tuple[pa.Table, U8]]) -> tuple[pa.Table, U8]:
    """Concatenate (events, request keys) pairs to one: (events, each column in one chunk; [events] request
    key)."""
    keys = [np.zeros(0, np.uint64), *(key for _, key in parts)]
    return concat_events([table for table, _ in parts if table.num_rows]), np.concatenate(keys)


def _encoded(events: pa.Table, key: U8) -> pa.Buffer:
    """Encode events and their request keys as a piece: an Arrow IPC stream."""
    piece = own_words(events).append_column(_KEY, pa.array(key))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, piece.schema, options=_OPTIONS) as writer:
        writer.write_table(piece)
    return sink.getvalue()


def _decoded(data: pa.Buffer) -> tuple[pa.Table, U8]:
    """Decode a piece: (events, [events] request key)."""
    with pa.ipc.open_stream(data, options=_ONE_THREAD) as stream:
        piece = stream.read_all()
    return piece.drop_columns(_KEY), whole(piece[_KEY]).to_numpy()
