"""Decode rows of a table of spans: Arrow IPC streams, whose columns have the names of `SpanColumns`.

A table that people have is not written to any standard, so the types of its columns are taken as they come:
ids as text or bytes, times as timestamps or numbers, kinds and states as text or numbers. Columnar; Python
runs per distinct kind or state, and per row that is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.payloads import sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME, SpanBatch, log_bad_spans
from ingest.codecs.spans.spans_to_events import SpanResult, events_of_spans, in_payload_order
from ingest.codecs.values.attributes import AttributeTable, finite_or_text, no_attributes
from ingest.codecs.values.ids import bytes_of_binary, bytes_of_text, hex_of_binary, hex_of_text
from ingest.codecs.values.protobuf import owners, ragged
from ingest.codecs.values.written_numbers import with_numbers
from schemas.arrays import B1, I8
from schemas.config import DecodeConfig
from schemas.events import SPAN_KIND_BASE
from schemas.rejects import Reason, Reject

TIME_UNIT: Final = b"time_unit"
"""Of numbers that are times, in the metadata of a payload's schema."""
NS_PER_UNIT: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_KINDS: Final = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_ERRORS: Final = ("ERROR", "STATUS_CODE_ERROR", "2", "TRUE")
_HEX: Final = "^[0-9a-fA-F]*$"
_INT64_MAX: Final = np.iinfo(np.int64).max


class ColumnTypeError(Exception):
    """A column has a type that says nothing here; the message is for a reject."""


class ParquetCodec:
    """`parquet`: some rows of a table a payload. Oddity: `untimed`."""

    name = "parquet"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """See `Codec.decode`; `item` is the row in its payload. O(bytes)."""
        good, log = sized(payloads, config)
        results: list[SpanResult] = []
        for index in good:
            try:
                table = pa.ipc.open_stream(payloads[index]).read_all().combine_chunks()
                table.validate(full=True)
                spans = _span_batch(table, index)
            except (pa.ArrowException, OSError, ColumnTypeError) as error:
                is_type = isinstance(error, ColumnTypeError)
                reason = Reason.BAD_TYPE if is_type else Reason.WRONG_SHAPE
                detail = str(error) if is_type else f"no rows of a table: {error}"
                log.add(Reject(reason, detail, payloads[index], index))
                log.count(reason, max(table.num_rows, 1) - 1 if is_type else 0)
                continue
            results.append(events_of_spans(spans, config))
            _log_rows(results[-1], table, log)
        oddities = sum((result.oddities for result in results), Counter[str]())
        return Decoded(in_payload_order(results), log.in_order(), oddities, log.counts)


def _log_rows(result: SpanResult, table: pa.Table, log: RejectLog) -> None:
    def raw(row: int) -> bytes:
        one = table.slice(row, 1)
        # Python has no times in nanoseconds.
        times = [
            field.with_type(pa.int64()) if pa.types.is_temporal(field.type) else field for field in one.schema
        ]
        (values,) = one.cast(pa.schema(times)).to_pylist(maps_as_pydicts="lossy")
        return json.dumps(values, default=lambda v: v.hex() if isinstance(v, bytes) else str(v)).encode()

    log_bad_spans(result.bad, lambda _: raw, log)


def _span_batch(table: pa.Table, index: int) -> SpanBatch:
    """Raises ColumnTypeError, ArrowException."""
    n = table.num_rows
    columns = {
        name: table[name].chunk(0) if table[name].num_chunks else pa.array([], table[name].type)
        for name in table.column_names
    }
    unit = NS_PER_UNIT.get((table.schema.metadata or {}).get(TIME_UNIT, b"").decode())
    if unit is None or not {"trace_id", "span_id", "parent_id"} <= columns.keys():
        raise ColumnTypeError("these are no columns of spans")
    trace_id, bad_trace = _ids(columns, "trace_id", hex_of_text, lambda c: hex_of_binary(c, (8, 16)))
    span_id, bad_span = _ids(columns, "span_id", bytes_of_text, lambda c: bytes_of_binary(c, 8))
    parent_id, bad_parent = _ids(columns, "parent_id", bytes_of_text, lambda c: bytes_of_binary(c, 8))
    start_ns = _times(columns, "start", unit, n)
    end_ns = _times(columns, "end", unit, n)
    if "end" not in columns and "duration" in columns:
        end_ns = _later(start_ns, _numbers(columns, "duration", unit))
    return SpanBatch(
        payload=np.full(n, index),
        item=np.arange(n),
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


def _plain(column: pa.Array) -> pa.Array:
    """The column without a dictionary, binary ones with 32-bit offsets."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_fixed_size_binary(column.type) or pa.types.is_large_binary(column.type):
        column = column.cast(pa.binary())
    return column


def _is_text(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)
    )


def _text(columns: dict[str, pa.Array], name: str, n: int) -> pa.Array:
    """[n] string."""
    if name not in columns:
        return pa.nulls(n, pa.string())
    column = _plain(columns[name])
    if not (_is_text(column.type) or pa.types.is_binary(column.type)):
        raise _refused(name, column, "text")
    return column.cast(pa.string())


def _ids(
    columns: dict[str, pa.Array],
    name: str,
    of_text: Callable[[pa.Array], tuple[pa.Array, B1]],
    of_binary: Callable[[pa.Array], tuple[pa.Array, B1]],
) -> tuple[pa.Array, B1]:
    """Ids and those that are none (`values.ids`). Some engines write text without saying that it is text."""
    column = _plain(columns[name])
    if pa.types.is_binary(column.type) and not pc.all(pc.match_substring_regex(column, _HEX)).as_py():
        return of_binary(column)
    return of_text(_text({name: column}, name, len(column)))


def _numbers(columns: dict[str, pa.Array], name: str, unit: int) -> I8:
    """[n] ns; NO_TIME for null, BAD_TIME for what int64 cannot hold."""
    column = _plain(columns[name])
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        unit = NS_PER_UNIT[column.type.unit]
        column = column.cast(pa.int64())
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise _refused(name, columns[name], "a time, or a number")
    missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_)
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        in_range = np.abs(values) < _INT64_MAX / unit  # also false for NaN
        ns: I8 = np.where(in_range, np.rint(np.where(in_range, values, 0) * unit), 0).astype(np.int64)
    else:
        in_range = values <= _INT64_MAX // unit
        if pa.types.is_signed_integer(column.type):
            in_range &= values >= -(_INT64_MAX // unit)
        ns = np.where(in_range, values, 0).astype(np.int64) * unit
    ns[~in_range] = BAD_TIME
    ns[missing] = NO_TIME
    return ns


def _times(columns: dict[str, pa.Array], name: str, unit: int, n: int) -> I8:
    """[n] ns since the epoch; 0 means "not given", as in OTLP."""
    if name not in columns:
        return np.full(n, NO_TIME)
    ns = _numbers(columns, name, unit)
    ns[ns == 0] = NO_TIME
    return ns


def _later(start_ns: I8, duration_ns: I8) -> I8:
    """Ends; NO_TIME where one of the two is not known."""
    known = (start_ns > BAD_TIME) & (duration_ns > BAD_TIME)
    fits = duration_ns <= _INT64_MAX - np.maximum(start_ns, 0)
    end = np.where(known & fits, start_ns, 0) + np.where(known & fits, duration_ns, 0)
    end[~known] = NO_TIME
    end[(duration_ns == BAD_TIME) | (known & ~fits)] = BAD_TIME
    return end


def _per_distinct(columns: dict[str, pa.Array], name: str, n: int, of: Callable[[str], int]) -> I8:
    """[n] what `of` makes of each value in capitals, as text; of nothing where there is none."""
    if name not in columns:
        return np.full(n, of(""))
    column = _plain(columns[name])
    if pa.types.is_nested(column.type):
        raise _refused(name, column, "text, or a number")
    encoded = pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    values = np.array([of(word.upper()) for word in encoded.dictionary.to_pylist()], np.int64)
    found: I8 = values[np.asarray(encoded.indices, np.int64)] if n else np.empty(0, np.int64)
    return found


def _kind_of(word: str) -> int:
    """EventKind; what OTLP does not define reads as unspecified."""
    word = word.removeprefix("SPAN_KIND_")
    if word.isdecimal() and int(word) < len(_KINDS):
        return SPAN_KIND_BASE + int(word)
    return SPAN_KIND_BASE + (_KINDS.index(word) if word in _KINDS else 0)


def _attributes(columns: dict[str, pa.Array], name: str) -> AttributeTable:
    """Of a map, or of a list of keys with their values."""
    if name not in columns:
        return no_attributes()
    column = columns[name]
    if pa.types.is_map(column.type):
        column = column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))
    pair = column.type.value_type if pa.types.is_list(column.type) else None
    if pair is None or not pa.types.is_struct(pair) or pair.num_fields != len(("key", "value")):
        raise _refused(name, columns[name], "a map, or a list of keys with values")
    lengths, pairs = ragged(column)
    if len(pairs) == 0:
        return no_attributes()
    keys = _text({name: pairs.field(0)}, name, len(pairs))
    words = pc.fill_null(keys, "").dictionary_encode()
    values = _plain(pairs.field(1))
    num, text = pa.nulls(len(values), pa.float64()), pa.nulls(len(values), pa.string())
    if _is_text(values.type) or pa.types.is_binary(values.type) or pa.types.is_boolean(values.type):
        text = values.cast(pa.string())
    elif pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        num, text = finite_or_text(values.cast(pa.float64(), safe=False), text)
    else:
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
    return table.rows(np.asarray(there.to_numpy(zero_copy_only=False), np.bool_))


def _refused(name: str, column: pa.Array, what: str) -> ColumnTypeError:
    return ColumnTypeError(f"the column of '{name}' is {str(column.type)[:200]}, and not {what}")
