"""Write tables as JSON, CSV or Parquet, for other tools."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analyze.sql.values import python_values, times_as_text
from flowdiff.cli.options import TableFormat
from flowdiff.cli.output import is_stdout, open_output
from schemas.errors import ConfigError, QueryError
from schemas.visible import ESCAPED_CLASS, escaped

_FORMULA: Final = "=+-@\t\r\n＝＋－＠"


_RUN_OR_HIDDEN: Final = f"^[{re.escape(_FORMULA)}]|{ESCAPED_CLASS}"


def print_json(table: pa.Table) -> None:
    """Print rows as a JSON array on standard output, one object a line."""
    write_json(table.to_reader(), sys.stdout.buffer)


def write_json(reader: pa.RecordBatchReader, out: BinaryIO) -> None:
    """Write rows as a JSON array, one object a line, batch by batch. NaN becomes null, times ISO 8601."""
    separator = "[\n"
    for batch in reader:
        columns = [[_plain(value) for value in python_values(column)] for column in batch.columns]
        rows = zip(*columns, strict=True)
        lines = [_text(dict(zip(batch.schema.names, row, strict=True))) for row in rows]
        if lines:
            out.write(escaped(separator + ",\n".join(lines), keep_line_ends=True).encode())
            separator = ",\n"
    out.write(b"[]\n" if separator == "[\n" else b"\n]\n")


_LINE: Final = json.JSONEncoder(ensure_ascii=False)
_INDENTED: Final = json.JSONEncoder(ensure_ascii=False, indent=1)


def _json(value: Any, encoder: json.JSONEncoder = _LINE) -> str:
    """Encode a value as JSON, with invisible and control characters escaped as `\\u200b`."""
    return escaped(_text(_plain(value), encoder), keep_line_ends=True)


def _text(plain: Any, encoder: json.JSONEncoder = _LINE) -> str:
    try:
        return encoder.encode(plain)
    except TypeError:  # a Decimal, which json cannot write
        return _spelled(plain)


def _spelled(plain: Any) -> str:
    """Encode a result of `_plain` as JSON, Decimals with all digits."""
    if isinstance(plain, dict):
        inner = (f"{json.dumps(key, ensure_ascii=False)}: {_spelled(part)}" for key, part in plain.items())
        return f"{{{', '.join(inner)}}}"
    if isinstance(plain, list):
        return f"[{', '.join(map(_spelled, plain))}]"
    return f"{plain:f}" if isinstance(plain, Decimal) else json.dumps(plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Convert a value to JSON's own types; a Decimal with a fraction that a double cannot represent is
    unchanged.
    """
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):  # DuckDB's sum of integers is one, without a fraction
        number = int(value) if value == int(value) else float(value)
        return number if Decimal(repr(number)) == value else value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def write_csv(reader: pa.RecordBatchReader, out: BinaryIO) -> None:
    """Write rows as CSV with a header; quotes only where needed.

    Null is empty, the empty text is `""`. Lists and structs are JSON. Text that a spreadsheet would execute
    gets a leading `'`, and invisible or control characters are escaped as `\\u200b` (except line ends and
    tabs); JSON and Parquet are exact. (Arrow's own writer quotes every text.)
    """
    names = pa.array([_csv_text(name) for name in reader.schema.names], pa.string())
    out.write(",".join(_quoted(names).to_pylist()).encode() + b"\n")
    for batch in reader:
        cells = [pc.fill_null(_csv_cells(column), "") for column in batch.columns]
        lines = pc.binary_join_element_wise(*cells, ",")
        out.write("".join(f"{line}\n" for line in lines.to_pylist()).encode())


def _csv_cells(column: pa.Array) -> pa.Array:
    """[rows] text of one column's cells, quoted where CSV needs it."""
    type_ = column.type
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return column.cast(pa.string())
    if pa.types.is_date(type_) or pa.types.is_time(type_) or pa.types.is_timestamp(type_):
        return times_as_text(column)
    if pa.types.is_string(type_) and not pc.any(pc.match_substring_regex(column, _RUN_OR_HIDDEN)).as_py():
        return _quoted(column)
    text = [None if value is None else _csv_text(value) for value in python_values(column)]
    return _quoted(pa.array(text, pa.string()))


def _quoted(text: pa.Array) -> pa.Array:
    """Quote texts that are empty or contain a quote, comma or line end."""
    needs = pc.match_substring_regex(text, '^$|[",\r\n]')
    inside = pc.replace_substring(text, '"', '""')
    return pc.if_else(needs, pc.binary_join_element_wise('"', inside, '"', ""), text)


def _csv_text(value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{value:f}"
    plain = _plain(value)
    if not isinstance(plain, str):
        return _json(plain)
    text = escaped(plain, keep_line_ends=True)
    return f"'{text}" if isinstance(value, str) and text.startswith(tuple(_FORMULA)) else text


def write_table(reader: pa.RecordBatchReader, form: TableFormat, output: Path | None) -> None:
    """Write a result as CSV, JSON or Parquet, to a file or to standard output.

    Raises ConfigError for Parquet on a terminal, QueryError for a column without a Parquet type.
    """
    if is_stdout(output) and form is TableFormat.PARQUET and sys.stdout.isatty():
        raise ConfigError("Parquet does not go to a terminal.", remedy="Name a file with --output.")
    with open_output(output) as out:
        write_result(reader, form, out)


def write_result(reader: pa.RecordBatchReader, form: TableFormat, out: BinaryIO) -> None:
    """Write a result as CSV, JSON or Parquet. Raises QueryError for a column without a Parquet type."""
    if form is TableFormat.JSON:
        write_json(reader, out)
    elif form is TableFormat.PARQUET:
        with _parquet(out, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    else:
        write_csv(reader, out)


def _parquet(out: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    """Make a Parquet writer. Raises QueryError for a column whose type Parquet lacks."""
    for field in schema:
        try:
            pq.ParquetWriter(io.BytesIO(), pa.schema([field])).close()
        except pa.ArrowNotImplementedError as error:
            raise QueryError(
                f"Parquet has no type for the column '{field.name}' ({field.type}).",
                remedy="Cast it, for example to VARCHAR.",
            ) from error
    return pq.ParquetWriter(out, schema, compression="zstd")


def print_json_value(value: Any) -> None:
    """Print one value as indented JSON on standard output."""
    sys.stdout.buffer.write(f"{_json(value, _INDENTED)}\n".encode())
