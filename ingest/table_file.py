"""Read a Parquet file as a source of payloads: some rows each, columns renamed by a mapping."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.parquet.parquet import TIME_UNIT
from ingest.codecs.parquet.plain_columns import is_text
from ingest.source import Payloads
from schemas.config import SpanColumns
from schemas.rejects import Reason, Reject

_MIN_ROW_BYTES: Final = 64
"""Bounds the rows of a payload to its bytes over this: repeated values take almost no space in the file."""


def read_table(
    path: str | Path, stream: str, format_: str, columns: SpanColumns, chunk_bytes: int
) -> Iterator[Payloads]:
    """Yield the rows, about `chunk_bytes` at a time; a failure becomes a reject."""
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        with ParquetFile(path) as file:
            given = file.schema_arrow.names
            mapped = columns.found_in(given)
            if missing := columns.missing_in(given):
                detail = f"the table has no column {missing}; it has {', '.join(given)}"
                yield Payloads.refused(stream, Reject(Reason.MISSING_FIELD, detail[:1000], b""))
                return
            if twice := [name for name in mapped.values() if given.count(name) > 1]:
                detail = f"the table has '{twice[0]}' {given.count(twice[0])} times"
                yield Payloads.refused(stream, Reject(Reason.WRONG_SHAPE, detail[:1000], b""))
                return
            n_rows = file.metadata.num_rows
            groups = range(file.metadata.num_row_groups)
            size = sum(file.metadata.row_group(group).total_byte_size for group in groups)
            row_bytes = max(_MIN_ROW_BYTES, size // max(n_rows, 1))
            rows = max(1, chunk_bytes // row_bytes)
            for batch in file.iter_batches(rows, columns=[*{*mapped.values()}]):
                for part in _parts(batch, chunk_bytes):
                    payload = _payload(part, mapped, columns.time_unit)
                    until = number + part.num_rows
                    yield Payloads(stream, format_, [payload], [number], until)
                    number = until
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        detail = f"the Parquet file cannot be read to its end: {error}"
        yield Payloads.refused(stream, Reject(Reason.WRONG_SHAPE, detail[:1000], b"", number))
    else:
        if not number:
            yield Payloads.refused(stream, Reject(Reason.EMPTY, "the table has no rows", b""))


def _parts(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Halve batches that are larger in memory than their pages in the file suggest; a single row is never
    split.
    """
    half = batch.num_rows // 2
    if sum(map(_plain_bytes, batch.columns)) <= 2 * most_bytes or not half:
        yield batch
        return
    yield from _parts(batch.slice(0, half), most_bytes)
    yield from _parts(batch.slice(half), most_bytes)


def _plain_bytes(column: pa.Array) -> int:
    """Bytes of a column without dictionaries, which store a repeated text once."""
    if pa.types.is_map(column.type):
        column = column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return _plain_bytes(column.flatten())
    if pa.types.is_struct(column.type):
        return sum(map(_plain_bytes, column.flatten()))
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    if not is_text(column.type.value_type):
        return _plain_bytes(column.dictionary_decode())
    return int(pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0)


def _payload(batch: pa.RecordBatch, mapped: dict[str, str], time_unit: str) -> bytes:
    schema = pa.schema(
        [pa.field(name, batch.schema.field(column).type) for name, column in mapped.items()],
        metadata={TIME_UNIT: time_unit},
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.record_batch([batch[column] for column in mapped.values()], schema=schema))
    payload: bytes = sink.getvalue().to_pybytes()
    return payload
