"""Read lines of JSON into columns, by DuckDB. The only module of `ingest` that knows DuckDB.

DuckDB gives one row for every line that is not blank, in order; a line that is no object gives a row of
nulls, a field of another type than its column a null. Both are for the caller to find.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import IO

import duckdb
import pyarrow as pa

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "preserve_insertion_order": True,
}


class NdjsonReader:
    """Reads blobs of lines into columns of fixed types."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        """`columns`: field name → DuckDB type. Names and types come from code, never from input."""
        self._columns = dict(columns)
        self._connection = duckdb.connect(":memory:", config=_SETTINGS)

    def read(self, blocks: Sequence[bytes]) -> pa.Table:
        """One row a line that is not blank; a block is one or more lines. O(bytes)."""
        size = sum(len(b) + 1 for b in blocks)
        with _as_file(blocks) as path, self._connection.cursor() as cursor:
            return cursor.sql(
                "SELECT * FROM read_json($path, columns = $columns, format = 'newline_delimited',"
                " compression = 'uncompressed', ignore_errors = true, maximum_object_size = $largest)",
                params={"path": path, "columns": self._columns, "largest": max(size, 1024)},
            ).to_arrow_table()


@contextmanager
def _as_file(blocks: Sequence[bytes]) -> Iterator[str]:
    """A path that reads as the blocks, a line end after each: memory where the system can, else a file."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("flowdiff-lines")
        with os.fdopen(descriptor, "wb") as file:
            _write(file, blocks)
            yield f"/proc/self/fd/{descriptor}"
    else:
        with NamedTemporaryFile(suffix=".ndjson") as file:
            _write(file, blocks)
            yield file.name


def _write(file: IO[bytes], blocks: Sequence[bytes]) -> None:
    for block in blocks:
        file.write(block)
        file.write(b"\n")
    file.flush()
