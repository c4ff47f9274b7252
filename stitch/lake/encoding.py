"""Write and read Parquet as the lake wants it: zstd, one encoding per column chosen by measurement,
checksums.

The choice of encodings and its figures are in `docs/internals/performance.md`; readers need not know them.

Every failure to read a file (a flipped bit, a truncated file, a missing permission) is one `LakeError` that
names it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.errors import LakeError, UnreachableError, is_passing
from schemas.events import TEXT_EVENT_SCHEMA
from schemas.lake import (
    LAYOUT_VERSION,
    STORED_STRUCTURES_SCHEMA,
    STRUCTURES_SCHEMA,
    TABLES,
    WINDOW_START,
)
from schemas.rejects import REJECT_SCHEMA
from schemas.stored_columns import undocumented
from schemas.windows import NS_PER_US, Window
from stitch.columnar.runs import sorted_words, whole
from stitch.lake.layout import ASIDE
from stitch.lake.structure_form import nested, unnested

_ROWS_AT_ONCE: Final = 1 << 14
"""Rows of flows read per step, before rows outside the time bounds are dropped: 6 MB at 30 nodes."""


def read_rows(
    source: Path | pa.Buffer,
    columns: Sequence[str] | None = None,
    *,
    lake: Path | str,
    name: str | None = None,
    as_codes: Sequence[str] = (),
    among: Mapping[str, pa.Array] | None = None,
    started: tuple[int, int] | None = None,
) -> pa.Table:
    """Rows of one file, with the given or all columns, optionally filtered.

    name: the file's name for messages, if `source` is its content. as_codes: Parquet column paths to read as
    dictionaries instead of text. among: column -> texts of which a row must have one; row groups without
    such a row are skipped. started: bounds [first, end) of `start_ns`, ns; of other rows at most a batch is
    in memory. Raises LakeError where the file is missing, cut or damaged.
    """

    def read(source: Path | pa.BufferReader) -> pa.Table:
        return _whole(source, columns, as_codes, among, started)

    try:
        if not isinstance(source, Path):
            return read(pa.BufferReader(source))
        try:
            return read(source)
        except FileNotFoundError:
            return read(aside(source))
    except (OSError, pa.ArrowException) as error:
        raise unreadable(lake, name if name is not None else str(source), error=error) from error


def _whole(
    source: Path | pa.BufferReader,
    columns: Sequence[str] | None,
    as_codes: Sequence[str],
    among: Mapping[str, pa.Array] | None,
    started: tuple[int, int] | None,
) -> pa.Table:
    """Rows of a file, filtered as in `read_rows`, columns in the given order. Raises OSError and
    ArrowException.

    Not by `pq.read_table`, which takes longer to set up a dataset than to read a small file. By row group, as
    each has its own dictionary and one array of lists cannot have several.
    """
    names = None if columns is None else list(columns)
    try:
        codes = [*as_codes, *(among or ())]
        with pq.ParquetFile(source, read_dictionary=codes, page_checksum_verification=True) as file:
            if among is not None:
                parts = [_chosen(file, group, names, among) for group in range(file.num_row_groups)]
                table = pa.concat_tables(parts) if parts else file.read(names)
            elif started is not None:
                parts = [
                    _within(batch, started)
                    for group in range(file.num_row_groups)
                    for batch in file.iter_batches(_ROWS_AT_ONCE, [group], names, use_threads=False)
                ]
                table = pa.concat_tables(parts) if parts else file.read(names)
            elif file.num_row_groups > 1:
                parts = [file.read_row_group(group, names) for group in range(file.num_row_groups)]
                table = pa.concat_tables(parts)
            else:
                table = file.read(names)
            return table if names is None else table.select(names)
    except (KeyError, UnicodeDecodeError) as error:  # a column that is not there, or a damaged name
        raise pa.ArrowInvalid(str(error)) from error


def _chosen(
    file: pq.ParquetFile, group: int, names: list[str] | None, among: Mapping[str, pa.Array]
) -> pa.Table:
    """Rows of a row group that have one of the texts in each column of `among`. Each column is read once."""
    asked = file.read_row_group(group, list(among))
    mine = np.ones(asked.num_rows, dtype=np.bool_)
    for name, texts in among.items():
        coded = whole(asked[name])
        wanted = pc.is_in(coded.dictionary, value_set=texts.cast(coded.dictionary.type))
        mine &= wanted.to_numpy(zero_copy_only=False)[coded.indices.to_numpy()]
    rows = np.flatnonzero(mine)
    if not len(rows):
        return file.read_row_groups([], names)
    names = file.schema_arrow.names if names is None else names
    if more := [name for name in names if name not in among]:
        rest = file.read_row_group(group, more)
        for field in rest.schema:
            asked = asked.append_column(field, rest[field.name])
    return asked.select(names).take(pa.array(rows))


def _within(batch: pa.RecordBatch, started: tuple[int, int]) -> pa.Table:
    start_ns = batch["start_ns"].to_numpy()
    mine = pa.array((start_ns >= started[0]) & (start_ns < started[1]))
    return pa.Table.from_batches([batch.filter(mine)])


def aside(path: Path) -> Path:
    """Path to which a replaced data file is renamed for a grace period."""
    return path.with_name(f"{path.name}{ASIDE}")


def still_at(path: Path) -> Path:
    """Current path of a file of a snapshot: `path`, or `aside(path)` if the file was replaced since."""
    return path if path.exists() or not aside(path).exists() else aside(path)


def read_structures(
    source: Path | pa.Buffer,
    columns: Sequence[str] | None = None,
    *,
    lake: Path | str,
    name: str | None = None,
    categories: pa.Array | None = None,
) -> pa.Table:
    """Rows of a file of structures, with the given or all columns of STRUCTURES_SCHEMA.

    categories: keys of the structures to read; None: all. Raises as `read_rows`.
    """
    among = None if categories is None else {"category": categories}
    stored = read_rows(source, STORED_STRUCTURES_SCHEMA.names, lake=lake, name=name, among=among)
    return unnested(stored, columns)


def unreadable(
    lake: Path | str, name: Path | str, why: str = "", *, error: Exception | None = None
) -> LakeError:
    """Error for a file of a lake that is missing, cut or damaged; `why` adds details.

    UnreachableError if `error` is temporary: it says nothing about the file.
    """
    shown = name if str(name).startswith(f"{lake}/") else f"{lake}/{name}"
    if isinstance(error, OSError) and is_passing(error):
        return UnreachableError(f"'{shown}' cannot be read: {error.strerror}.")
    reason = f": {why}" if why else ""
    return LakeError(f"'{shown}' cannot be read{reason}.", remedy=f"Run `flowdiff fsck {lake}`.")


ZSTD_LEVEL: Final = 3
ZSTD_LEVEL_SMALL: Final = 15
"""zstd level of files below SMALL_BYTES: 5 % smaller for five times the CPU; fixed costs exceed both."""
SMALL_BYTES: Final = 384 * 2**10
VALUES_PER_GROUP: Final = 4_000_000
"""Maximum nodes (or rows, if more) in a row group: a reader needs 32 MB for the offsets."""

SCHEMAS: Final[dict[str, pa.Schema]] = {
    **TABLES,
    "late": TEXT_EVENT_SCHEMA,
    "repaired": TEXT_EVENT_SCHEMA,
    "dead_letters": REJECT_SCHEMA,
}

_EVENT_WORDS: Final = ["request_id", "component", "point", "label", "host", "peer", "status", "kind"]
_EVENT_TIMES: Final = {"ts_ns": "DELTA_BINARY_PACKED", "end_ns": "DELTA_BINARY_PACKED"}

_WORDS: Final[dict[str, list[str]]] = {
    "flows": [
        "kind",
        "root",
        "category",
        "host.list.element",
        "status",
        "inner_status",
        "error_class.list.element",
    ],
    "structures": [],  # names repeat in long runs, which zstd sees in plain text and not in packed codes
    "params": ["kind", "key", "text", "request_id", "position"],
    "late": _EVENT_WORDS,
    "repaired": _EVENT_WORDS,
    "dead_letters": ["source", "reason"],
}
_ENCODINGS: Final[dict[str, dict[str, str]]] = {
    "flows": {
        "request_id": "DELTA_LENGTH_BYTE_ARRAY",
        "start_ns": "DELTA_BINARY_PACKED",
        "response_ns": "DELTA_BINARY_PACKED",
        "offset_ns.list.element": "BYTE_STREAM_SPLIT",
    },
    "structures": {},
    "params": {},
    "late": _EVENT_TIMES,
    "repaired": _EVENT_TIMES,
    "dead_letters": {},
}

_STATISTICS: Final[dict[str, list[str]]] = {
    "flows": ["root", "category", "start_ns", WINDOW_START],
    "structures": ["category", WINDOW_START],
    "params": ["request_id", "key", WINDOW_START],
    "late": ["ts_ns"],
    "repaired": ["ts_ns"],
    "dead_letters": ["source", "reason"],
}
"""Table -> columns with Parquet statistics, by which readers skip row groups; statistics of other columns
would only enlarge footers."""

_END: Final = struct.Struct("<I4s")
"""Last bytes of a Parquet file: length of the footer, magic word."""

META_VERSION: Final = b"flowdiff.layout_version"
META_TABLE: Final = b"flowdiff.table"
META_WINDOW: Final = b"flowdiff.window"
META_ROWS: Final = b"flowdiff.rows"


def encode(table_name: str, table: pa.Table, window: Window | None) -> pa.Buffer:
    """Parquet bytes of one file; the same rows in the same order always give the same bytes.

    `table` must have the columns of the contract; structures have the columns of STRUCTURES_SCHEMA. Chunks
    and dictionaries of the input do not matter: they are unified first. `window`: for tables of windows.
    Raises pa.ArrowInvalid, KeyError or ValueError where the table breaks the contract (a bug).
    """
    schema = _plain(table_name)
    if table_name == "structures":
        table = nested(table.select(STRUCTURES_SCHEMA.names))
    if window is not None:
        start = pa.scalar(window.start_ns // NS_PER_US, schema.field(WINDOW_START).type)
        table = table.append_column(WINDOW_START, pa.repeat(start, table.num_rows))
    table = _canonical_words(table.select(schema.names).cast(schema))
    metadata = {
        META_VERSION: str(LAYOUT_VERSION).encode(),
        META_TABLE: table_name.encode(),
        META_ROWS: str(table.num_rows).encode(),
    }
    if window is not None:
        metadata[META_WINDOW] = window.name.encode()
    sink = pa.BufferOutputStream()
    options: dict[str, Any] = {
        "compression": "zstd",
        "compression_level": ZSTD_LEVEL_SMALL if table.nbytes < SMALL_BYTES else ZSTD_LEVEL,
        "use_dictionary": _WORDS[table_name],
        "column_encoding": _ENCODINGS[table_name] or None,
        "write_statistics": _STATISTICS[table_name],
        "write_page_checksum": True,
        "store_schema": False,  # a copy of the schema in Arrow's own form: 1.4 KB a file
    }
    with pq.ParquetWriter(sink, schema, **options) as writer:
        writer.write_table(table, row_group_size=_rows_per_group(table))
        writer.add_key_value_metadata(metadata)
    return sink.getvalue()


def footer_size(data: pa.Buffer) -> int:
    """Size of a Parquet file's footer, bytes, including its length field and the magic word at the end."""
    length, magic = _END.unpack(data.slice(data.size - _END.size).to_pybytes())
    assert magic == b"PAR1"
    return int(length) + _END.size


def decode(table_name: str, data: pa.Buffer, columns: list[str] | None = None) -> pa.Table:
    """Rows of a file made by `encode`, with the given or all columns."""
    schema = SCHEMAS[table_name]
    structures = table_name == "structures"
    words = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    given = [name for name in schema.names if name != WINDOW_START]
    table = _whole(
        pa.BufferReader(data), given if structures or columns is None else columns, words, None, None
    )
    if structures:
        return unnested(table, columns)
    return table.cast(pa.schema([schema.field(name) for name in table.column_names]))


@cache
def _plain(table_name: str) -> pa.Schema:
    return undocumented(SCHEMAS[table_name])


def _canonical_words(table: pa.Table) -> pa.Table:
    """Combine the chunks of each column; dictionaries have the used words only, sorted, however rows were
    batched.
    """
    columns = [_sorted_words(whole(column.unify_dictionaries())) for column in table.columns]
    return pa.table(columns, schema=table.schema)


def _sorted_words(array: pa.Array) -> pa.Array:
    if pa.types.is_list(array.type) and pa.types.is_dictionary(array.type.value_type):
        starts = array.offsets.to_numpy()
        words = sorted_words(array.flatten())
        return pa.ListArray.from_arrays(pa.array(starts - starts[0]), words, type=array.type)
    return sorted_words(array) if pa.types.is_dictionary(array.type) else array


def _rows_per_group(table: pa.Table) -> int:
    if "offset_ns" not in table.column_names or table.num_rows == 0:
        return VALUES_PER_GROUP
    nodes: int = len(table["offset_ns"].chunk(0).flatten())
    return max(1, VALUES_PER_GROUP * int(table.num_rows) // max(1, nodes))
