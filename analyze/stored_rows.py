"""Read files of a lake that a period lists, verified page by page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from analyze.scope import LakePeriod
from stitch.lake.encoding import read_rows, read_structures


def read_stored(
    found: LakePeriod,
    path: Path,
    columns: Sequence[str] | None = None,
    *,
    as_codes: Sequence[str] = (),
    where: pc.Expression | None = None,
) -> pa.Table:
    """One file of a lake, or some columns and rows of it.

    `as_codes` are Parquet column paths to be read as dictionaries instead of text. Raises LakeError where the
    file is missing, cut or damaged.
    """
    found.fetch([path])
    return read_rows(path, columns, lake=found.lake, name=found.name_of(path), as_codes=as_codes, where=where)


def read_stored_structures(
    found: LakePeriod,
    path: Path,
    columns: Sequence[str] | None = None,
    *,
    where: pc.Expression | None = None,
) -> pa.Table:
    """Rows of a file of structures: all or some columns of STRUCTURES_SCHEMA. Raises LakeError."""
    found.fetch([path])
    return read_structures(path, columns, lake=found.lake, name=found.name_of(path), where=where)
