"""Encode, decode, stitch, count and parse the same once: schedules of crashes make it a thousand times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Generic, TypeVar
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.codecs.port import Decoded
from ingest.formats import codec_for
from schemas.commits import CommitRecord, FlowCounts, Segment
from schemas.config import DecodeConfig, StitchConfig
from schemas.windows import Window
from stitch.kernel import Stitched, stitch
from stitch.lake import encoding, event_log
from stitch.lake.chain import Chained, files_table, read_record
from stitch.lake.flow_counts import count_flows
from stitch.lake.layout import commit_name
from stitch.lake.store import Store
from stitch.structures import StructureMemo

T = TypeVar("T")
KEPT = 4096
"""Files; those of a schedule are a few KB."""
FILES = ("stitch.lake.fsck", "stitch.lake.manifest", "stitch.lake.upkeep.compaction")
"""Modules that decode files of the lake."""
SEGMENTS = ("stitch.lake.fsck", "stitch.drivers.live.older_segments")
"""Modules that read the events of open requests."""
STITCH = ("stitch.drivers.build.group_work",)
"""Modules that stitch."""


@lru_cache(KEPT)
def _encoded(table_name: str, stream: bytes, window: Window | None) -> pa.Buffer:
    return encoding.encode(table_name, pa.ipc.open_stream(stream).read_all(), window)


@lru_cache(KEPT)
def _decoded(table_name: str, data: bytes, columns: tuple[str, ...] | None) -> pa.Table:
    return encoding.decode(table_name, pa.py_buffer(data), None if columns is None else [*columns])


@dataclass(frozen=True)
class _Held:
    """The bytes that a store gave."""

    data: bytes

    def read(self, name: str) -> pa.Buffer:
        return pa.py_buffer(self.data)


@lru_cache(KEPT)
def _segment(segment: Segment, held: _Held) -> pa.Table:
    return event_log.read_segment(held, segment)  # type: ignore[arg-type]


@lru_cache(KEPT)
def _events(format_: str, payloads: tuple[bytes, ...], config: DecodeConfig) -> Decoded:
    return codec_for(format_).decode(payloads, config)


_parsed = lru_cache(KEPT)(CommitRecord.model_validate_json)


def _streamed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    streamed: bytes = sink.getvalue().to_pybytes()
    return streamed


def _encode(table_name: str, table: pa.Table, window: Window | None) -> pa.Buffer:
    return _encoded(table_name, _streamed(table), window)


@lru_cache(KEPT)
def _stitched(stream: bytes, config: StitchConfig, lane: int) -> Stitched:
    return stitch(pa.ipc.open_stream(stream).read_all(), config, lane=lane)


def _stitch(
    events: pa.Table, config: StitchConfig, *, lane: int = 0, memo: StructureMemo | None = None
) -> Stitched:
    del memo  # makes it faster, and changes nothing
    return _stitched(_streamed(events), config, lane)


def _decode(table_name: str, data: pa.Buffer, columns: list[str] | None = None) -> pa.Table:
    return _decoded(table_name, data.to_pybytes(), None if columns is None else tuple(columns))


def _read_segment(store: Store, segment: Segment) -> pa.Table:
    try:
        data = store.read(segment.name).to_pybytes()
    except FileNotFoundError:
        return event_log.read_segment(store, segment)  # says what is missing
    return _segment(segment, _Held(data))


class Same(Generic[T]):
    """A thing by which object it is: a table or record that was decoded once is asked about once."""

    def __init__(self, thing: T) -> None:
        self.thing = thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.thing is self.thing


@lru_cache(KEPT)
def _counted(flows: Same[pa.Table]) -> FlowCounts:
    return count_flows(flows.thing)


def _count_flows(flows: pa.Table) -> FlowCounts:
    return _counted(Same(flows))


@lru_cache(KEPT)
def _record(lane: int, seq: int, held: _Held) -> Chained:
    return read_record(held, lane, seq)  # type: ignore[arg-type]


def _read_record(store: Store, lane: int, seq: int) -> Chained:
    try:
        data = store.read(commit_name(lane, seq)).to_pybytes()
    except FileNotFoundError:
        return read_record(store, lane, seq)  # says what is missing
    return _record(lane, seq, _Held(data))


class _Checkpoint:
    """A table of a checkpoint, of which the same is read once; as much of `ParquetFile` as is used."""

    def __init__(self, data: bytes) -> None:
        file = pq.ParquetFile(pa.BufferReader(data))
        self.metadata, self.num_row_groups = file.metadata, file.num_row_groups
        self._read, self._read_some = lru_cache()(file.read), lru_cache()(file.read_row_groups)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows."""
        return self._read(None if columns is None else tuple(columns))

    def read_row_groups(self, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Those of some groups."""
        return self._read_some(tuple(groups), tuple(columns))


_opened = lru_cache(KEPT)(_Checkpoint)


def _open(data: pa.Buffer) -> _Checkpoint:
    return _opened(data.to_pybytes())


@lru_cache(KEPT)
def _listed(records: tuple[Same[CommitRecord], ...]) -> pa.Table:
    return files_table(record.thing for record in records)


def _files_table(records: Iterable[CommitRecord]) -> pa.Table:
    return _listed(tuple(map(Same, records)))


@dataclass(frozen=True)
class _Codec:
    name: str

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        found = _events(self.name, tuple(payloads), config)
        return replace(found, rejects=[*found.rejects])


@contextmanager
def encoded_once() -> Iterator[None]:
    """Within, what is asked of codecs, encoding and records a second time is what they said the first time.

    What is the same is decided by the bytes: a damaged file is another one.
    """
    with ExitStack() as patches:
        patches.enter_context(patch("stitch.lake.staging.encode", _encode))
        for module in FILES:
            patches.enter_context(patch(f"{module}.decode", _decode))
        for module in SEGMENTS:
            patches.enter_context(patch(f"{module}.read_segment", _read_segment))
        for module in ("stitch.lake.fsck", "stitch.lake.staging"):
            patches.enter_context(patch(f"{module}.count_flows", _count_flows))
        for module in STITCH:
            patches.enter_context(patch(f"{module}.stitch", _stitch))
        patches.enter_context(patch("stitch.lake.chain.read_record", _read_record))
        patches.enter_context(patch("stitch.lake.chain.files_table", _files_table))
        patches.enter_context(patch("stitch.lake.chain._opened", _open))
        patches.enter_context(patch("stitch.drivers.live.decoders.codec_for", _Codec))
        patches.enter_context(patch.object(CommitRecord, "model_validate_json", _parsed))
        yield
