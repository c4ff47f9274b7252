"""Event batch: output of every codec and input of the stitch kernel (Arrow, one row per event).

An event is a native activity record (a *point*: `ts_ns` only) or a span (`ts_ns` to `end_ns`). `kind` says
which: values from `SPAN_KIND_BASE` up are spans.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8, U1
from schemas.stored_columns import list_of, stored


class EventKind(IntEnum):
    """Kind of an event. 0-3 are activity records, 16-21 spans (OTLP's span kind + 16)."""

    EVENT = 0
    SPLIT = 1
    JOIN = 2
    END = 3
    SPAN_UNSPECIFIED = 16
    SPAN_INTERNAL = 17
    SPAN_SERVER = 18
    SPAN_CLIENT = 19
    SPAN_PRODUCER = 20
    SPAN_CONSUMER = 21


SPAN_KIND_BASE = 16
SPAN_KINDS = {kind.name.removeprefix("SPAN_"): kind for kind in EventKind if kind >= SPAN_KIND_BASE}
"""Span kind's name in OTLP, without `SPAN_KIND_` -> EventKind."""
SMALLEST_RATE = 2.0**-56
"""Smallest sampling rate of OpenTelemetry, whose thresholds have 56 bits. With rates at or above it, sums of
weights and of weights times nanoseconds stay finite."""

_word = pa.dictionary(pa.int32(), pa.string())
_id = pa.binary()

PARAM_TYPE = pa.struct(
    [
        stored(28, "key", _word, "parameter name", nullable=True),
        stored(29, "num", pa.float64(), "value, where it is a number", nullable=True),
        stored(30, "text", _word, "value, where it is text", nullable=True),
    ]
)
"""One low-level parameter: exactly one of `num` and `text` is set. Booleans are text `true`/`false`."""

MARK_TYPE = pa.struct(
    [
        stored(25, "ts_ns", pa.int64(), "when, ns since the epoch", nullable=True),
        stored(26, "name", pa.string(), "which", nullable=True),
    ]
)
"""Arrow type of a span event (time, name) that is allow-listed, and so becomes an inner node of its span."""

_COLUMNS: tuple[tuple[str, pa.DataType, bool, str], ...] = (
    ("kind", pa.uint8(), False, "EventKind"),
    (
        "request_id",
        pa.string(),
        True,
        "trace id (lower-case hex, 16 or 32 digits) or native request id; null: by breadcrumbs",
    ),
    ("breadcrumb", pa.string(), True, "records: the strand; null on spans"),
    ("id", _id, True, "span id: its 8 (or 16) bytes; record id: its text in UTF-8"),
    ("parents", list_of(21, _id), True, "ids that happen before: the parent span, or X-Trace style edges"),
    ("follows", list_of(22, _id), True, "spans: ids of FOLLOWS_FROM parents (asynchronous)"),
    (
        "links",
        list_of(23, pa.string()),
        True,
        "records: breadcrumbs split or joined; spans: linked `trace/span`",
    ),
    ("seq", pa.int64(), True, "records: order on the breadcrumb"),
    (
        "ts_ns",
        pa.int64(),
        True,
        "time of the record or start of the span, ns since the epoch; null: span without time",
    ),
    (
        "end_ns",
        pa.int64(),
        True,
        "end of the span, ns since the epoch; null on records and spans without duration",
    ),
    ("component", _word, False, "service or component; `?` where the source has none"),
    ("point", _word, False, "trace point or operation name"),
    ("label", _word, True, "semantic label from the allow-list"),
    ("host", _word, True, "machine, pod or instance"),
    ("peer", _word, True, "spans: name of the called service, where the source says"),
    ("shared", pa.bool_(), False, "Zipkin: a server span that shares its client's id"),
    ("status", _word, False, "`ok` or an error class"),
    (
        "sample_rate",
        pa.float64(),
        True,
        "probability with which the request was kept, 2^-56 to 1; null: unknown",
    ),
    ("marks", list_of(24, MARK_TYPE), True, "allow-listed span events, in time order"),
    ("params", list_of(27, PARAM_TYPE), True, "low-level parameters, sorted by key"),
)

EVENT_SCHEMA = pa.schema(
    [stored(at, n, t, doc, nullable=null) for at, (n, t, null, doc) in enumerate(_COLUMNS, 1)]
)
"""Schema of an event batch. Strings are UTF-8 without NUL; sizes are bounded by `DecodeConfig`."""


_TEXT_IDS = {"id": pa.string(), "parents": list_of(21, pa.string()), "follows": list_of(22, pa.string())}
_STORED_TYPES = {**_TEXT_IDS, "kind": pa.int32()}
TEXT_EVENT_SCHEMA = pa.schema([f.with_type(_STORED_TYPES.get(f.name, f.type)) for f in EVENT_SCHEMA])
"""Schema of events for display and for storage outside windows: span ids as lower-case hex text."""


def with_text_ids(events: pa.Table) -> pa.Table:
    """Events converted to TEXT_EVENT_SCHEMA, by converting ids of spans to hex text; ids of records are text.
    O(rows + bytes of ids).

    Raises pa.ArrowInvalid where the id of a record is not UTF-8 (no codec makes one).
    """
    if events.schema.equals(TEXT_EVENT_SCHEMA):
        return events
    if not events.num_rows:
        return TEXT_EVENT_SCHEMA.empty_table()
    is_span = pc.greater_equal(events["kind"], SPAN_KIND_BASE).to_numpy()
    if not is_span.any():
        return events.cast(TEXT_EVENT_SCHEMA)
    if is_span.all():
        for name in _TEXT_IDS:
            field, place = TEXT_EVENT_SCHEMA.field(name), events.schema.get_field_index(name)
            chunks = [_in_hex(chunk) for chunk in events[name].chunks]
            events = events.set_column(place, field, pa.chunked_array(chunks, field.type))
        return events.cast(TEXT_EVENT_SCHEMA)
    rows = [np.flatnonzero(is_span), np.flatnonzero(~is_span)]
    parts = pa.concat_tables(with_text_ids(events.take(pa.array(some))) for some in rows)
    return parts.take(pa.array(np.argsort(np.concatenate(rows))))


def _in_hex(ids: pa.Array) -> pa.Array:
    """Apply `_hex` to an array of ids, or to the elements of an array of lists of ids."""
    if not pa.types.is_list(ids.type):
        return _hex(ids)
    bounds = ids.offsets.to_numpy().astype(np.int64)
    inner = _hex(ids.values.slice(int(bounds[0]), int(bounds[-1] - bounds[0])))
    missing = ids.is_null() if ids.null_count else None
    return pa.ListArray.from_arrays(pa.array(bounds - bounds[0], pa.int32()), inner, mask=missing)


def _content(ids: pa.Array) -> tuple[I8, U1]:
    """Return (offsets int64[n + 1] that start at 0, bytes of all `n` ids concatenated)."""
    if not len(ids):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    bounds = np.frombuffer(ids.buffers()[1], np.int32, len(ids) + 1, 4 * ids.offset).astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    data = np.frombuffer(ids.buffers()[2], np.uint8)[first:last] if last > first else np.zeros(0, np.uint8)
    return bounds - first, data


_HEX = np.frombuffer(b"".join(f"{byte:02x}".encode() for byte in range(256)), dtype=np.uint16)
"""uint16[256]: byte -> two lower-case hex digits as one 16-bit number, in memory order."""


def _hex(ids: pa.Array) -> pa.Array:
    """Convert an array of binary ids to lower-case hexadecimal text."""
    bounds, data = _content(ids)
    offsets = pa.py_buffer((bounds * 2).astype(np.int32).tobytes())
    text = pa.StringArray.from_buffers(len(ids), offsets, pa.py_buffer(_HEX[data].tobytes()))
    return pc.if_else(ids.is_valid(), text, pa.scalar(None, pa.string())) if ids.null_count else text


@cache
def empty_events() -> pa.Table:
    """An event batch with no rows."""
    return EVENT_SCHEMA.empty_table()


def concat_events(batches: list[pa.Table]) -> pa.Table:
    """Concatenate event batches into one chunk per column, with one dictionary per column.

    Returns an empty batch for an empty list; a single batch of that form is returned unchanged. O(rows).
    """
    if not batches:
        return empty_events()
    if len(batches) == 1 and all(
        column.num_chunks == 1 and column.chunk(0).offset == 0 for column in batches[0].columns
    ):  # a slice is copied: it would keep the whole buffer alive
        return batches[0]
    return pa.concat_tables(batches).unify_dictionaries().combine_chunks()
