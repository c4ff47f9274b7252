"""Read rows of a lake's files by Arrow, in the one way: checksums of pages are verified.

Whatever is wrong with a file is one `LakeError` that names it: a bit that turned, a file that was cut, a
permission that is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.errors import LakeError
from schemas.lake import STORED_STRUCTURES_SCHEMA
from stitch.lake.layout import ASIDE
from stitch.lake.structure_form import unnested


def read_rows(
    source: Path | pa.Buffer,
    columns: Sequence[str] | None = None,
    *,
    lake: Path | str,
    name: str | None = None,
    as_codes: Sequence[str] = (),
    where: pc.Expression | None = None,
) -> pa.Table:
    """Rows of one file, all or some columns and rows of it.

    `name` is the file's, for messages, where `source` is its content. `as_codes` are Parquet column paths to
    be read as dictionaries instead of text. Raises LakeError where the file is missing, cut or damaged.
    """

    def read(source: Path | pa.BufferReader) -> pa.Table:
        return pq.read_table(
            source,
            columns=None if columns is None else list(columns),
            partitioning=None,
            read_dictionary=list(as_codes),
            filters=where,
            page_checksum_verification=True,
        )

    try:
        if not isinstance(source, Path):
            return read(pa.BufferReader(source))
        try:
            return read(source)
        except FileNotFoundError:
            return read(aside(source))
    except (OSError, pa.ArrowException) as error:
        raise unreadable(lake, name if name is not None else str(source)) from error


def aside(path: Path) -> Path:
    """Where a file of a snapshot is once a later generation replaced it, until its grace is over."""
    return path.with_name(f"{path.name}{ASIDE}")


def still_at(path: Path) -> Path:
    """Where a file of a snapshot is now."""
    return path if path.exists() or not aside(path).exists() else aside(path)


def read_structures(
    source: Path | pa.Buffer,
    columns: Sequence[str] | None = None,
    *,
    lake: Path | str,
    name: str | None = None,
    where: pc.Expression | None = None,
) -> pa.Table:
    """Rows of a file of structures: all or some columns of STRUCTURES_SCHEMA.

    As `read_rows`; `where` may ask for categories.
    """
    stored = read_rows(source, STORED_STRUCTURES_SCHEMA.names, lake=lake, name=name, where=where)
    return unnested(stored, columns)


def unreadable(lake: Path | str, name: Path | str, why: str = "") -> LakeError:
    """What to raise where a file of a lake is missing, cut or damaged; `why` where more is known."""
    shown = name if str(name).startswith(f"{lake}/") else f"{lake}/{name}"
    told = f": {why}" if why else ""
    return LakeError(f"'{shown}' cannot be read{told}.", remedy=f"Run `flowdiff fsck {lake}`.")
