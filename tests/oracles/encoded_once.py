"""Encode and decode each file of a lake once: schedules of crashes make the same few a thousand times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from unittest.mock import patch

import pyarrow as pa

from schemas.windows import Window
from stitch.lake import encoding

KEPT = 4096
"""Files; those of a schedule are a few KB."""


@lru_cache(KEPT)
def _encoded(table_name: str, stream: bytes, window: Window | None) -> pa.Buffer:
    return encoding.encode(table_name, pa.ipc.open_stream(stream).read_all(), window)


@lru_cache(KEPT)
def _decoded(table_name: str, data: bytes, columns: tuple[str, ...] | None) -> pa.Table:
    return encoding.decode(table_name, pa.py_buffer(data), None if columns is None else [*columns])


def _encode(table_name: str, table: pa.Table, window: Window | None) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return _encoded(table_name, sink.getvalue().to_pybytes(), window)


def _decode(table_name: str, data: pa.Buffer, columns: list[str] | None = None) -> pa.Table:
    return _decoded(table_name, data.to_pybytes(), None if columns is None else tuple(columns))


@contextmanager
def encoded_once() -> Iterator[None]:
    """Within, what the writer and `fsck` ask of the encoding a second time is what it said the first time."""
    with patch("stitch.lake.staging.encode", _encode), patch("stitch.lake.fsck.decode", _decode):
        yield
