"""A pile of event batches that can be walked again and again: in memory while small, else one file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from schemas.events import EVENT_SCHEMA
from stitch.drivers.partition import payload_bytes
from stitch.lake.disk import FILE_MODE, FOLDER_MODE

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def new_stream(path: Path) -> pa.ipc.RecordBatchStreamWriter:
    """An Arrow IPC stream of events in a new file, whose folders are made; both are their owner's alone."""
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
    return pa.ipc.new_stream(str(path), EVENT_SCHEMA, options=_OPTIONS)


def read_stream(path: Path) -> Iterator[pa.Table]:
    """The batches of an Arrow IPC stream."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield pa.Table.from_batches([batch])


class Stash:
    """Batches in the order they came."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        """`path` is made once the batches are larger than `limit_bytes`."""
        self._path = path
        self._limit_bytes = limit_bytes
        self._held: list[pa.Table] = []
        self._size = 0
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self.n_events = 0

    @property
    def spilled(self) -> bool:
        """Whether the batches are on disk."""
        return self._path.exists()

    def add(self, events: pa.Table) -> None:
        """Put a batch on the pile."""
        self.n_events += events.num_rows
        self._size += payload_bytes(events)
        self._held.append(events)
        if self._writer is None and self._size > self._limit_bytes:
            self._writer = new_stream(self._path)
        if self._writer is not None:
            for held in self._held:
                self._writer.write_table(held.unify_dictionaries().combine_chunks())
            self._held = []

    def batches(self) -> Iterator[pa.Table]:
        """Every batch. Ends the adding."""
        yield from self._held
        if self.spilled:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            yield from read_stream(self._path)
