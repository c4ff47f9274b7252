"""Open a DuckDB restricted to reading a given list of files, and interruptible by Ctrl-C."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from analyze.scope import LakePeriod
from schemas.errors import ConfigError, LakeError
from stitch.lake.encoding import still_at, unreadable

_NO_THRIFT: Final = "TProtocolException"
"""Text in DuckDB's error for a page header or footer that cannot be read."""
_Result = TypeVar("_Result")
_ASK_AGAIN_SECONDS: Final = 0.05
"""Interval between repeated interrupts, s: DuckDB ignores an interrupt that comes just before a statement
begins."""


@contextmanager
def locked_connection(
    readable: Sequence[Path], *, memory_limit: str = "1GB", threads: int = 2
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an in-memory DuckDB restricted to reading `readable`; closed at the end.

    Refused are writes (COPY TO, even onto a listed file), spilling to disk, extensions, network access and
    changes of settings. A query that needs more than `memory_limit` fails. Raises ConfigError if that is not
    a size. Costs 12 µs per file.
    """
    try:
        connection = silent_connection(threads=threads, memory_limit=memory_limit, temp_directory="")
    except duckdb.ParserException as error:
        raise ConfigError(
            f"'{memory_limit}' is not a memory limit.", remedy="Write 512MB, 2GB or the like."
        ) from error
    try:
        with _interruptible():
            connection.execute("SET allowed_paths = ?", [[str(path) for path in readable]])
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            yield connection
    finally:
        connection.close()


def silent_connection(**settings: str | int | bool) -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB whose local time is UTC, as the lake's times are, and that never draws a
    progress bar.

    The bar would go to standard output, between the rows. In a notebook's kernel without ipywidgets the bar
    is off, and DuckDB refuses to change that setting.
    """
    connection = duckdb.connect(":memory:", config=dict[str, str | bool | int | float | list[str]](settings))
    if connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() != [(False,)]:
        connection.execute("SET enable_progress_bar = false")
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


@contextmanager
def _interruptible() -> Iterator[None]:
    """Convert the RuntimeError that DuckDB raises at Ctrl-C to KeyboardInterrupt."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from error


def arrays(
    found: LakePeriod, readable: Sequence[Path], text: str, values: Mapping[str, object]
) -> dict[str, npt.NDArray[Any]]:
    """Run a SQL statement of this package on local copies of a lake's files; return column name -> values.

    Raises LakeError if one of the files cannot be read.
    """
    now = {str(path): str(still_at(path)) for path in readable}
    bound = {
        name: [now.get(item, item) for item in value] if isinstance(value, list) else value
        for name, value in values.items()
    }
    with locked_connection([Path(path) for path in now.values()]) as connection:
        try:
            answer: dict[str, npt.NDArray[Any]] = connection.execute(text, bound).fetchnumpy()
        except duckdb.Error as error:
            if any(path != str(still_at(Path(path))) for path in now.values()):  # set aside just now
                return arrays(found, readable, text, values)
            broken = unreadable_file(found, readable, error)
            if broken is None:
                raise
            raise broken from error
    return answer


def unreadable_file(found: LakePeriod, readable: Sequence[Path], error: Exception) -> LakeError | None:
    """LakeError that names the unreadable file, if `error` is about one of `readable`; else None.

    DuckDB names the file, except for a page or footer that does not parse: then all files are read to find
    it.
    """
    message = str(error)
    path = next((path for path in readable if str(path) in message), None)
    if path is None and _NO_THRIFT in message:
        path = next((path for path in readable if not _is_whole(path)), found.root)
    return None if path is None else unreadable(found.lake, found.name_of(path))


def _is_whole(path: Path) -> bool:
    try:
        deque(pq.ParquetFile(path).iter_batches(), maxlen=0)
    except (OSError, pa.ArrowException):
        return False
    return True


def statement(name: str) -> str:
    """Text of the SQL statement in `analyze/sql/<name>.sql`."""
    return files("analyze.sql").joinpath(f"{name}.sql").read_text(encoding="utf-8")


def run_interruptible(work: Callable[[], _Result], stop: Callable[[], None]) -> _Result:
    """Run part of a query; on Ctrl-C call `stop` from another thread.

    The work runs in a thread of its own: in the thread that receives Ctrl-C, DuckDB checks for it only at
    some points, and not while it computes the next batch. Raises what `work` raises, KeyboardInterrupt.
    """
    with ThreadPoolExecutor(1, "query") as thread:
        part = thread.submit(work)
        try:
            wait([part])
        finally:
            while not part.done():
                stop()
                wait([part], _ASK_AGAIN_SECONDS)
    return part.result()
