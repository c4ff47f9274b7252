"""Files of the watch under `watch/`: its commits, and tables as plain Parquet.

A commit is a file under the next number, its first line the SHA-256 of the rest. A file of a table is named
by the number of its commit and its content (`stitch.lake.kept_files`), so that the next process can put it
again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.errors import LakeError
from schemas.watch_tables import WATCH_TABLES
from stitch.lake import kept_files
from stitch.lake.layout import own_stage
from stitch.lake.store import Store

WATCH: Final = "watch"
COMMITS: Final = f"{WATCH}/commits"
KEPT_COMMITS: Final = 8
"""Commits kept; older ones are deleted, as the tables have their content."""


class TakenError(LakeError):
    """Another process committed under this number first."""

    slug = "commit-taken"


def last_body(store: Store) -> bytes | None:
    """Body of the last commit; None without one. Raises LakeError where it is damaged, OSError."""
    names = store.names(COMMITS)
    if not names:
        return None
    name = f"{COMMITS}/{names[-1]}"
    stored, body = _parts(store.read(name).to_pybytes())
    if _hash(body) != stored:
        raise LakeError(
            f"'{name}' is not what was written.",
            remedy="Remove it: the watch goes on from the commit before.",
        )
    return body


def put_body(store: Store, seq: int, body: bytes) -> None:
    """Put the commit of a number. Raises TakenError, OSError."""
    name = f"{COMMITS}/{seq:012d}.json"
    data = _hash(body).encode() + b"\n" + body
    if store.names(COMMITS, after=f"{seq:012d}.json"):  # ours may be among those that were removed
        raise _taken(seq)
    with own_stage(store, WATCH) as stage:
        try:
            store.put_if_absent(name, data, stage)
        except FileExistsError as error:
            if store.read(name).to_pybytes() != data:
                raise _taken(seq) from error


def forget_commits(store: Store) -> None:
    """Delete commits that a restart no longer needs."""
    for old in store.names(COMMITS)[:-KEPT_COMMITS]:
        store.remove(f"{COMMITS}/{old}")


def put_rows(store: Store, table: str, seq: int, rows: Sequence[dict[str, Any]]) -> None:
    """Put rows of a commit into a table, unless they exist."""
    if not rows:
        return
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([*rows], WATCH_TABLES[table]), sink, write_page_checksum=True)
    kept_files.keep(store, f"{WATCH}/{table}/{seq:012d}", bytes(sink.getvalue()), "parquet")


def table_files(store: Store, table: str) -> list[str]:
    """Names of a table's files, in the order of commits."""
    return [
        f"{WATCH}/{table}/{name}" for name in store.names(f"{WATCH}/{table}") if name.endswith(".parquet")
    ]


def read_rows_of(store: Store, table: str, names: Iterable[str] | None = None) -> pa.Table:
    """Rows of a table, of all its files or the named ones. Raises LakeError for a damaged or missing file,
    OSError.
    """
    parts = [WATCH_TABLES[table].empty_table()]
    for name in table_files(store, table) if names is None else names:
        if (data := kept_files.read_whole(store, name)) is None:
            if store.size(name) is None:
                raise LakeError(f"'{name}' is missing.", remedy="Read again: it was there a moment ago.")
            raise LakeError(
                f"'{name}' is not what was written.", remedy="Restore it from a backup, or remove it."
            )
        parts.append(pq.read_table(pa.BufferReader(data), schema=WATCH_TABLES[table]))
    return pa.concat_tables(parts)


def damaged_watch_files(store: Store) -> Iterator[str]:
    """Names of damaged files; files deleted meanwhile are skipped. Raises OSError."""
    for table in WATCH_TABLES:
        yield from kept_files.damaged(store, table_files(store, table))
    for name in store.names(COMMITS):
        with suppress(FileNotFoundError):
            stored, body = _parts(store.read(f"{COMMITS}/{name}").to_pybytes())
            if _hash(body) != stored:
                yield f"{COMMITS}/{name}"


def _parts(data: bytes) -> tuple[str, bytes]:
    stored, _, body = data.partition(b"\n")
    return stored.decode("ascii", "replace"), body


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _taken(seq: int) -> TakenError:
    return TakenError(f"Another watch took commit {seq}.", remedy="It goes on.")
