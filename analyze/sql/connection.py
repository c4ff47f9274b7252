"""A DuckDB that can read a given list of files, and do nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import duckdb


@contextmanager
def locked_connection(
    readable: Sequence[Path], *, memory_limit: str = "1GB", threads: int = 2
) -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory DuckDB with everything outside switched off; closed at the end.

    It reads the listed files only: no writes (COPY TO, even onto a listed file, is refused), no spill, no
    extensions, no network, no change of settings. A query that needs more than `memory_limit` fails.
    """
    connection = duckdb.connect(
        ":memory:", config={"threads": threads, "memory_limit": memory_limit, "temp_directory": ""}
    )
    try:
        connection.execute("SET allowed_paths = ?", [[str(path) for path in readable]])
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection
    finally:
        connection.close()


def statement(name: str) -> str:
    """Text of the statement `analyze/sql/<name>.sql`."""
    return files("analyze.sql").joinpath(f"{name}.sql").read_text(encoding="utf-8")
