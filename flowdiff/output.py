"""Arrow tables on standard output and in files, for people's other tools."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from schemas.errors import ConfigError


class TableFormat(StrEnum):
    """Forms of a query's result."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


# A spreadsheet runs a cell that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def print_json(table: pa.Table) -> None:
    """Rows as a JSON array on standard output, one object a line."""
    write_json(table.to_reader(), sys.stdout.buffer)


def write_json(reader: pa.RecordBatchReader, out: BinaryIO) -> None:
    """Rows as a JSON array, one object a line, batch by batch. NaN becomes null, times ISO 8601."""
    separator = b"[\n"
    for batch in reader:
        for row in batch.to_pylist():
            out.write(separator + json.dumps(_plain(row), ensure_ascii=False).encode())
            separator = b",\n"
    out.write(b"[]\n" if separator == b"[\n" else b"\n]\n")


def _plain(value: Any) -> Any:
    """`value` in JSON's own types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def write_csv(reader: pa.RecordBatchReader, out: BinaryIO) -> None:
    """Rows as CSV with a header. Lists and structs as JSON; text that a spreadsheet would run gets a `'`."""
    schema = pa.schema([pa.field(f.name, _csv_type(f.type)) for f in reader.schema])
    with pyarrow.csv.CSVWriter(out, schema) as writer:
        for batch in reader:
            columns = [
                _csv_column(column, field.type) for column, field in zip(batch.columns, schema, strict=True)
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def _csv_type(type_: pa.DataType) -> pa.DataType:
    plain = pa.types.is_primitive(type_) and not pa.types.is_decimal(type_)
    return type_ if plain else pa.string()


def _csv_column(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if not pa.types.is_string(type_):
        return column
    return pa.array(
        [None if value is None else _csv_text(value) for value in column.to_pylist()], pa.string()
    )


def _csv_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)
    return f"'{text}" if text.startswith(_FORMULA) else text


def write_table(reader: pa.RecordBatchReader, form: TableFormat, output: Path | None) -> None:
    """Write a result as CSV, JSON or Parquet, to a file or (not Parquet) to standard output."""
    if output is None and form is TableFormat.PARQUET:
        raise ConfigError("Parquet does not go to a terminal.", remedy="Name a file with --output.")
    if output is None:
        _write(reader, form, sys.stdout.buffer)
        return
    with output.open("wb") as out:
        _write(reader, form, out)


def _write(reader: pa.RecordBatchReader, form: TableFormat, out: BinaryIO) -> None:
    if form is TableFormat.JSON:
        write_json(reader, out)
    elif form is TableFormat.PARQUET:
        with pq.ParquetWriter(out, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
    else:
        write_csv(reader, out)


def print_json_value(value: Any) -> None:
    """One value as indented JSON on standard output."""
    sys.stdout.write(json.dumps(_plain(value), ensure_ascii=False, indent=1) + "\n")
