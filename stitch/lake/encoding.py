"""Write and read the lake's Parquet files: zstd, checksums, and an encoding per column that was chosen by
measurement.

The measurements are in `docs/internals/performance.md`; readers of the files need not know the encodings.

Every failure to read a file (a flipped bit, a truncated file, a missing permission) becomes a `LakeError`
that names the file.
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
"""Number of rows of flows read per step, before rows outside the time bounds are dropped: 6 MB at 30 nodes
per flow."""


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
    """Read the rows of one file, optionally filtered. columns: names of the columns; None: all.

    name: the file's name for messages, if `source` is its content. as_codes: Parquet column paths to read as
    dictionaries instead of text. among: column -> texts of which a row must have one; row groups without such
    a row are skipped. started: bounds [first, end) on `start_ns`, ns; of rows outside at most one batch is in
    memory. Raises LakeError if the file is missing, truncated or damaged.
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
    """Read the rows of a file, filtered as in `read_rows`, with columns in the given order. Raises OSError
    and ArrowException.

    Does not use `pq.read_table`, which takes longer to set up a dataset than to read a small file. Reads one
    row group at a time, as each has a dictionary and an array of lists cannot have several.
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
    """Rows of a row group that, in each column of `among`, have one of the given texts. Each column is read
    once."""
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
    """Path to which the data file at `path` is renamed when it is replaced, for a grace period."""
    return path.with_name(f"{path.name}{ASIDE}")


def still_at(path: Path) -> Path:
    """Current path of a file that a snapshot of the lake lists: `path`, or `aside(path)` if the file was
    replaced since."""
    return path if path.exists() or not aside(path).exists() else aside(path)


def read_structures(
    source: Path | pa.Buffer,
    columns: Sequence[str] | None = None,
    *,
    lake: Path | str,
    name: str | None = None,
    categories: pa.Array | None = None,
) -> pa.Table:
    """Read the rows of a file of structures. columns: names of columns of STRUCTURES_SCHEMA; None: all.

    categories: keys of the structures to read; None: all. Raises as `read_rows`.
    """
    among = None if categories is None else {"category": categories}
    stored = read_rows(source, STORED_STRUCTURES_SCHEMA.names, lake=lake, name=name, among=among)
    return unnested(stored, columns)


def unreadable(
    lake: Path | str, name: Path | str, why: str = "", *, error: Exception | None = None
) -> LakeError:
    """Error for a file of a lake that is missing, truncated or damaged; why: details.

    The result is an UnreachableError if `error` is temporary, as the file itself may then be intact.
    """
    shown = name if str(name).startswith(f"{lake}/") else f"{lake}/{name}"
    if isinstance(error, OSError) and is_passing(error):
        return UnreachableError(f"'{shown}' cannot be read: {error.strerror}.")
    reason = f": {why}" if why else ""
    return LakeError(f"'{shown}' cannot be read{reason}.", remedy=f"Run `flowdiff fsck {lake}`.")


ZSTD_LEVEL: Final = 3
ZSTD_LEVEL_SMALL: Final = 15
"""zstd level of files below SMALL_BYTES: files get 5 % smaller for five times the CPU time, which is little
compared with the fixed cost of a file."""
SMALL_BYTES: Final = 384 * 2**10
VALUES_AT_ONCE: Final = 1 << 16
"""Number of values that the Parquet writer encodes at once: its default, 1,024, takes a seventh more CPU."""
VALUES_PER_GROUP: Final = 4_000_000
"""Maximum number of nodes (or rows, if more) in a row group: a reader needs 32 MB for their offsets."""

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
would only make footers larger."""

_END: Final = struct.Struct("<I4s")
"""Layout of the last bytes of a Parquet file: length of the footer, magic number."""

META_VERSION: Final = b"flowdiff.layout_version"
META_TABLE: Final = b"flowdiff.table"
META_WINDOW: Final = b"flowdiff.window"
META_ROWS: Final = b"flowdiff.rows"


def encode(table_name: str, table: pa.Table, window: Window | None) -> pa.Buffer:
    """Encode a table as a Parquet file; the same rows in the same order always give the same bytes.

    table: columns as in the schema of `table_name` (for structures STRUCTURES_SCHEMA), in any chunks and with
    any dictionaries. window: window of the rows; None for tables without windows. Raises pa.ArrowInvalid,
    KeyError or ValueError if the table does not have its schema (a bug).
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
        "write_batch_size": VALUES_AT_ONCE,
        "store_schema": False,  # a copy of the schema in Arrow's own form: 1.4 KB a file
    }
    with pq.ParquetWriter(sink, schema, **options) as writer:
        writer.write_table(table, row_group_size=_rows_per_group(table))
        writer.add_key_value_metadata(metadata)
    return sink.getvalue()


def footer_size(data: pa.Buffer) -> int:
    """Size of the footer of a Parquet file, bytes, including the length field and the magic number at the
    end."""
    length, magic = _END.unpack(data.slice(data.size - _END.size).to_pybytes())
    assert magic == b"PAR1"
    return int(length) + _END.size


def decode(table_name: str, data: pa.Buffer, columns: list[str] | None = None) -> pa.Table:
    """Decode a file made by `encode`. columns: names of the columns; None: all."""
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
    """Copy with one chunk per column, and dictionaries that contain the used words only, sorted, so that the
    bytes do not depend on how rows were batched."""
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
