"""Decode rows of a table of spans: Arrow IPC streams, whose columns have the names of `SpanColumns`.

As no standard exists for these tables, many column types are accepted: ids as text or bytes, times as
timestamps or numbers, kinds and states as text or numbers. Python code runs per distinct kind or state and
per refused row, never per row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import localcontext
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.parquet.plain_columns import RepeatedTextError, is_pairs, plain_columns
from ingest.codecs.payloads import json_bytes, sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME, SpanBatch, log_bad_spans
from ingest.codecs.spans.spans_to_events import SpanResult, decoded_spans, events_of_spans
from ingest.codecs.values.attributes import AttributeTable, finite_or_text, no_attributes
from ingest.codecs.values.columns import mask, owners, ragged
from ingest.codecs.values.ids import bytes_of_binary, bytes_of_text, hex_of_binary, hex_of_text
from ingest.codecs.values.written_numbers import with_numbers
from schemas.arrays import B1, I8
from schemas.config import DecodeConfig
from schemas.events import SPAN_KIND_BASE, SPAN_KINDS, EventKind
from schemas.rejects import Reason, Reject

TIME_UNIT: Final = b"time_unit"
"""Key, in the metadata of a payload's schema, of the unit of numeric times."""
NS_PER_UNIT: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_ERRORS: Final = ("ERROR", "STATUS_CODE_ERROR", "2", "TRUE")
_KIND_NUMBERS: Final = ("0", "1", "2", "3", "4", "5")
_IDS: Final = ("trace_id", "span_id", "parent_id")
_HEX: Final = "^([0-9a-fA-F]{1,7}|[0-9a-fA-F]{9,})$"
"""Pattern of ids that are stored as bytes of hex digits, of any length but eight; eight bytes are a binary
id."""
INDEX_BYTES: Final = 4
"""Bytes of a dictionary index in Arrow."""
_DIGITS: Final = 100
"""Decimal digits of precision in converting decimal numbers to ns: exact for 76 digits."""
_INT64_MAX: Final = np.iinfo(np.int64).max


class ColumnTypeError(Exception):
    """A column has a type that cannot be read as spans; the message becomes the detail of a reject."""


class ParquetCodec:
    """`parquet`: each payload is a group of rows of a table. Counts the oddity `untimed`."""

    name = "parquet"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """Decode payloads (`Codec.decode`). `item` of a reject is the index of the row in its payload.
        O(bytes)."""
        good, log = sized(payloads, config)
        results: list[SpanResult] = []
        for index in good:
            n_rows = 1
            try:
                table = pa.ipc.open_stream(payloads[index]).read_all()
                n_rows = max(table.num_rows, 1)
                most_bytes = most_plain_bytes(payloads[index], config)
                results.append(_read_rows(table.combine_chunks(), index, most_bytes, config, log))
            except RepeatedTextError as error:
                reject = Reject(Reason.TOO_LARGE, str(error), payloads[index], index)
            except ColumnTypeError as error:
                reject = Reject(Reason.BAD_TYPE, str(error), payloads[index], index)
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                detail = f"no rows of a table: {error}"
                reject = Reject(Reason.WRONG_SHAPE, detail, payloads[index], index)
            else:
                continue
            log.add(reject)
            log.count(reject.reason, n_rows - 1)
        return decoded_spans(results, log)


def most_plain_bytes(payload: bytes, config: DecodeConfig) -> int:
    """Maximum bytes that the rows of a payload may take once dictionaries are replaced by values.

    A row takes INDEX_BYTES per word. If the rows take more, they share words whose average length is over the
    maximum of a text parameter (`max_text_bytes`).
    """
    return len(payload) * max(1, config.max_text_bytes // INDEX_BYTES)


def _read_rows(
    table: pa.Table, index: int, most_bytes: int, config: DecodeConfig, log: RejectLog
) -> SpanResult:
    """Convert the rows of the payload `index` to events; rows that are no valid spans are added to `log`.

    Raises ColumnTypeError, RepeatedTextError, ArrowException.
    """
    unit = NS_PER_UNIT.get((table.schema.metadata or {}).get(TIME_UNIT, b"").decode(errors="replace"))
    if unit is None or not {*_IDS} <= {*table.column_names} or not table.num_rows:
        raise ColumnTypeError("these are no columns of spans")
    columns, not_utf8 = plain_columns(table, _IDS, most_bytes)
    unread = np.logical_or.reduce([np.zeros(table.num_rows, np.bool_), *not_utf8.values()])
    rows = np.flatnonzero(~unread)
    readable = columns
    if unread.any():
        readable = {name: column.take(pa.array(rows)) for name, column in columns.items()}
    result = events_of_spans(_span_batch(readable, rows, unit, index), config)

    def raw(row: int) -> bytes:
        return json_bytes({name: _shown(column.slice(row, 1)) for name, column in columns.items()})

    for row in np.flatnonzero(unread).tolist():
        if log.is_full:
            log.count(Reason.NOT_UTF8)
            continue
        name = next(name for name, bad in not_utf8.items() if bad[row])
        log.add(Reject(Reason.NOT_UTF8, f"text of '{name}' is not UTF-8", raw(row), index, row))
    log_bad_spans(result.bad, lambda _: raw, log)
    return result


def _shown(cell: pa.Array) -> object:
    """JSON value of one cell, for display in a reject: attributes as an object, binary ids as hex."""
    if pa.types.is_timestamp(cell.type) or pa.types.is_duration(cell.type):
        cell = cell.view(pa.int64())  # Python has no times in nanoseconds
    (value,) = cell.to_pylist()
    if isinstance(value, bytes):
        return value.decode() if value.isascii() and value.decode().isprintable() else value.hex()
    if isinstance(value, list):
        return {pair["key"] or "": pair["value"] for pair in value}
    return value


def _span_batch(columns: dict[str, pa.Array], rows: I8, unit: int, index: int) -> SpanBatch:
    """Convert plain columns to a SpanBatch. rows: rows' indexes in the payload; unit: ns per unit of numeric
    times; index: payload. Raises ColumnTypeError, ArrowException."""
    n = len(rows)
    trace_id, bad_trace = _ids(columns, "trace_id", hex_of_text, lambda c: hex_of_binary(c, (8, 16)))
    span_id, bad_span = _ids(columns, "span_id", bytes_of_text, lambda c: bytes_of_binary(c, 8))
    parent_id, bad_parent = _ids(columns, "parent_id", bytes_of_text, lambda c: bytes_of_binary(c, 8))
    start_ns = _times(columns, "start", unit, n)
    end_ns = _times(columns, "end", unit, n)
    if "end" not in columns and "duration" in columns:
        end_ns = _later(start_ns, _numbers(columns, "duration", unit))
    return SpanBatch(
        payload=np.full(n, index),
        item=rows,
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        bad_id=bad_trace | bad_span | bad_parent,
        name=_text(columns, "name", n),
        kind=_per_distinct(columns, "kind", n, _kind_of).astype(np.uint8),
        start_ns=start_ns,
        end_ns=end_ns,
        error=_per_distinct(columns, "status", n, lambda state: state in _ERRORS).astype(np.bool_),
        resource=np.arange(n),
        component=_text(columns, "service", n),
        host=_text(columns, "host", n),
        attributes=_attributes(columns, "attributes"),
        resource_attributes=_attributes(columns, "resource_attributes"),
        trace_state=_text(columns, "trace_state", n) if "trace_state" in columns else None,
        status_message=_text(columns, "status_message", n) if "status_message" in columns else None,
    )


def _text(columns: dict[str, pa.Array], name: str, n: int) -> pa.Array:
    """[n] strings of the column `name`; null if it is missing. Raises ColumnTypeError for another type."""
    if name not in columns or pa.types.is_null(columns[name].type):
        return pa.nulls(n, pa.string())
    if not pa.types.is_string(columns[name].type):
        raise _refused(name, columns[name], "text")
    return columns[name]


def _ids(
    columns: dict[str, pa.Array],
    name: str,
    of_text: Callable[[pa.Array], tuple[pa.Array, B1]],
    of_binary: Callable[[pa.Array], tuple[pa.Array, B1]],
) -> tuple[pa.Array, B1]:
    """Convert the column `name` to ids: (ids, [n] True if invalid), with a function of `values.ids` for text
    or binary columns.

    Binary ids may also be hex digits as bytes, because some engines write text without marking it as text.
    """
    column = columns[name]
    if not pa.types.is_binary(column.type):
        return of_text(_text(columns, name, len(column)))
    is_text = pc.match_substring_regex(column, _HEX)
    if not pc.any(is_text).as_py():
        return of_binary(column)
    none = pa.scalar(None, pa.binary())
    text, bad_text = of_text(pc.if_else(is_text, column, none).cast(pa.string()))
    binary, bad_binary = of_binary(pc.if_else(is_text, none, column))
    return pc.coalesce(text, binary), bad_text | bad_binary


def _numbers(columns: dict[str, pa.Array], name: str, unit: int) -> I8:
    """[n] values of the column `name` in ns; NO_TIME for null, BAD_TIME for values outside int64. unit: ns
    per unit of the column."""
    column = columns[name]
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        unit = NS_PER_UNIT[column.type.unit]
        column = column.view(pa.int64())
    if pa.types.is_null(column.type):
        return np.full(len(column), NO_TIME)
    if pa.types.is_decimal(column.type):
        return _decimals(column, unit)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise _refused(name, columns[name], "a time, or a number")
    missing = mask(column.is_null())
    if pa.types.is_floating(column.type):
        values = pc.fill_null(column.cast(pa.float64()), 0).to_numpy(zero_copy_only=False)
        in_range = np.abs(values) < _INT64_MAX / unit  # also false for NaN
        ns: I8 = np.rint(np.where(in_range, values, 0) * unit).astype(np.int64)
    else:
        values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
        in_range = values <= _INT64_MAX // unit
        if pa.types.is_signed_integer(column.type):
            in_range &= values >= -(_INT64_MAX // unit)
        ns = np.where(in_range, values, 0).astype(np.int64) * unit
    ns[~in_range] = BAD_TIME
    ns[missing] = NO_TIME
    return ns


def _decimals(column: pa.Array, unit: int) -> I8:
    """[n] values of a decimal column in ns, exact; NO_TIME for null, BAD_TIME for values outside int64. unit:
    ns per unit of the column."""
    with localcontext(prec=_DIGITS):
        values = [None if value is None else round(value * unit) for value in column.to_pylist()]
    ns = [NO_TIME if v is None else v if abs(v) <= _INT64_MAX else BAD_TIME for v in values]
    return np.array(ns, np.int64)


def _times(columns: dict[str, pa.Array], name: str, unit: int, n: int) -> I8:
    """[n] times of the column `name`, ns since the epoch; NO_TIME for 0 and null. unit: ns per unit of a
    numeric column."""
    if name not in columns:
        return np.full(n, NO_TIME)
    ns = _numbers(columns, name, unit)
    ns[ns == 0] = NO_TIME
    return ns


def _later(start_ns: I8, duration_ns: I8) -> I8:
    """[n] end times, start plus duration, ns; NO_TIME if start or duration is missing, BAD_TIME if outside
    int64."""
    known = (start_ns > BAD_TIME) & (duration_ns > BAD_TIME)
    fits = duration_ns <= _INT64_MAX - np.maximum(start_ns, 0)
    end = np.where(known & fits, start_ns, 0) + np.where(known & fits, duration_ns, 0)
    end[~known] = NO_TIME
    end[(duration_ns == BAD_TIME) | (known & ~fits)] = BAD_TIME
    return end


def _per_distinct(columns: dict[str, pa.Array], name: str, n: int, of: Callable[[str], int]) -> I8:
    """Apply `of` to the column `name`, once per distinct value: [n] results. Values are passed as upper-case
    text, null as ""."""
    if name not in columns or pa.types.is_null(columns[name].type):
        return np.full(n, of(""))
    column = columns[name]
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
    elif not (
        pa.types.is_string(column.type)
        or pa.types.is_boolean(column.type)
        or pa.types.is_integer(column.type)
        or pa.types.is_decimal(column.type)
    ):
        raise _refused(name, column, "text, or a number")
    encoded = pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    values = np.array([of(word.upper()) for word in encoded.dictionary.to_pylist()], np.int64)
    found: I8 = values[np.asarray(encoded.indices, np.int64)] if n else np.empty(0, np.int64)
    return found


def _kind_of(word: str) -> int:
    """EventKind for a kind's name or number, in upper case; unspecified if OTLP does not define it."""
    word = word.removeprefix("SPAN_KIND_")
    if word in _KIND_NUMBERS:
        return SPAN_KIND_BASE + _KIND_NUMBERS.index(word)
    return SPAN_KINDS.get(word, EventKind.SPAN_UNSPECIFIED)


def _attributes(columns: dict[str, pa.Array], name: str) -> AttributeTable:
    """Read attributes from the column `name`, a map or a list of key-value structs. Raises
    ColumnTypeError."""
    if name not in columns or pa.types.is_null(columns[name].type):
        return no_attributes()
    column = columns[name]
    if not is_pairs(column.type):
        raise _refused(name, column, "a map, or a list of keys with values")
    lengths, pairs = ragged(column)
    if len(pairs) == 0:
        return no_attributes()
    words = pc.fill_null(_text({name: pairs.field(0)}, name, len(pairs)), "").dictionary_encode()
    values = pairs.field(1)
    num, text = pa.nulls(len(values), pa.float64()), pa.nulls(len(values), pa.string())
    if pa.types.is_string(values.type) or pa.types.is_boolean(values.type):
        text = values.cast(pa.string())
    elif (
        pa.types.is_integer(values.type)
        or pa.types.is_floating(values.type)
        or pa.types.is_decimal(values.type)
    ):
        num, text = finite_or_text(values.cast(pa.float64(), safe=False), text)
    elif not pa.types.is_null(values.type):
        raise _refused(name, column, "of text or numbers")
    there = pc.or_(pc.is_valid(num), pc.is_valid(text))
    table = AttributeTable(
        owners(lengths),
        np.asarray(words.indices, np.int64),
        tuple(words.dictionary.to_pylist()),
        num,
        text,
    )
    table = with_numbers(table)  # in a map of text, numbers are text as well
    return table.rows(mask(there))


def _refused(name: str, column: pa.Array, what: str) -> ColumnTypeError:
    return ColumnTypeError(f"the column of '{name}' is {str(column.type)[:200]}, and not {what}")
