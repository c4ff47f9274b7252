"""Jaeger span messages (nested Arrow, one row a span) to span columns; reads them as `jaeger_spans` does."""

from __future__ import annotations

import base64

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.jaeger.jaeger_spans import FALSE_WORDS, HOST_TAGS, KINDS, PLAIN_ERRORS
from ingest.codecs.spans.otlp_tags import (
    STATUS_MESSAGE,
    TRACE_STATE,
    failed_spans,
    text_of,
    without_field_tags,
)
from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME, Owned, SpanBatch, SpanEvents
from ingest.codecs.values.attributes import AttributeTable, finite_or_text, take_first_text
from ingest.codecs.values.ids import bytes_of_binary, hex_of_binary
from ingest.codecs.values.nested import owners, ragged
from schemas.arrays import B1, I8
from schemas.events import EventKind

MAX_SECONDS = 9_000_000_000
"""Times beyond are none: more would not fit int64 nanoseconds."""
_INT64_MAX = np.iinfo(np.int64).max
_STRING, _BOOL, _INT, _FLOAT = range(4)
_CHILD_OF, _FOLLOWS_FROM = range(2)


def span_columns(batch: pa.RecordBatch) -> SpanBatch:
    """Columns of the spans; `payload` is the row. O(size)."""
    n = batch.num_rows
    trace, bad_trace = hex_of_binary(batch["trace_id"], (8, 16))
    span, bad_span = bytes_of_binary(batch["span_id"], 8)
    parent, bad_parent, follows, links = _references(batch["references"], trace)
    start = _times(batch["start_time"])
    tags, _ = _tags(batch["tags"])
    kind = _kinds(tags.first_text("span.kind", n))
    named = kind != EventKind.SPAN_UNSPECIFIED
    process_tags, is_string = _tags(pc.struct_field(batch["process"], "tags"))
    host, process_tags = take_first_text(process_tags, HOST_TAGS, n, is_string)
    component = pc.struct_field(batch["process"], "service_name")
    return SpanBatch(
        payload=np.arange(n),
        item=np.zeros(n, np.int64),
        trace_id=trace,
        span_id=span,
        parent_id=parent,
        bad_id=bad_trace | bad_span | bad_parent,
        name=batch["operation_name"],
        kind=kind,
        start_ns=start,
        end_ns=_ends(start, batch["duration"]),
        error=_errors(tags, n),
        resource=np.arange(n),
        component=pc.if_else(pc.equal(component, ""), None, component),
        host=host,
        attributes=_without_columns(tags, named),
        resource_attributes=process_tags,
        trace_state=text_of(tags, TRACE_STATE, n),
        status_message=text_of(tags, STATUS_MESSAGE, n),
        events=_logs(batch["logs"]),
        links=links,
        follows=follows,
    )


def _tags(column: pa.Array) -> tuple[AttributeTable, B1]:
    """Typed values of a `list<KeyValue>` column, and which of them are text (or bytes, as base64)."""
    lengths, pairs = ragged(column)
    keys = pc.struct_field(pairs, "key").dictionary_encode()
    kind = pc.struct_field(pairs, "v_type").to_numpy()
    number = np.where(
        kind == _INT,
        pc.struct_field(pairs, "v_int64").to_numpy().astype(np.float64),
        pc.struct_field(pairs, "v_float64").to_numpy(),
    )
    num = pa.array(number, mask=(kind != _INT) & (kind != _FLOAT), from_pandas=False)
    text = pc.struct_field(pairs, "v_str")
    if (kind != _STRING).any():
        truth = pc.if_else(pc.struct_field(pairs, "v_bool"), "true", "false")
        text = pc.if_else(pa.array(kind == _STRING), text, pc.if_else(pa.array(kind == _BOOL), truth, None))
    binary = ~np.isin(kind, (_STRING, _BOOL, _INT, _FLOAT))
    if binary.any():
        values = pc.struct_field(pairs, "v_binary").filter(pa.array(binary)).to_pylist()
        encoded = pa.array([base64.b64encode(v).decode() for v in values], pa.string())
        text = pc.replace_with_mask(text, pa.array(binary), encoded)
    num, text = finite_or_text(num, text)
    code = np.asarray(keys.indices, np.int64)
    table = AttributeTable(owners(lengths), code, tuple(keys.dictionary.to_pylist()), num, text)
    return table, (kind == _STRING) | binary


def _rows_of(table: AttributeTable, key: str) -> B1:
    """Rows under a key."""
    if key not in table.keys:
        return np.zeros(len(table), np.bool_)
    rows: B1 = table.code == table.keys.index(key)
    return rows


def _kinds(text: pa.Array) -> npt.NDArray[np.uint8]:
    words = text.dictionary_encode()
    kinds = [KINDS.get(w.lower(), EventKind.SPAN_UNSPECIFIED) for w in words.dictionary.to_pylist()]
    known = pa.array(kinds, pa.uint8()).take(words.indices)
    found: npt.NDArray[np.uint8] = pc.fill_null(known, int(EventKind.SPAN_UNSPECIFIED)).to_numpy()
    return found


def _errors(tags: AttributeTable, n: int) -> B1:
    """Spans whose `error` is not false, or whose `otel.status_code` is ERROR."""
    error = pc.utf8_lower(tags.first_text("error", n))
    said = pc.and_(error.is_valid(), pc.invert(pc.is_in(error, pa.array(FALSE_WORDS))))
    return _mask(said) | failed_spans(tags, n)


def _without_columns(tags: AttributeTable, named: B1) -> AttributeTable:
    """Without what has columns of its own: the kind, where it is one, bare errors, fields of OTLP."""
    drop = _rows_of(tags, "span.kind") & named[tags.owner]
    errors = np.flatnonzero(_rows_of(tags, "error"))
    if len(errors):
        plain = pc.is_in(tags.text.take(pa.array(errors)), pa.array(PLAIN_ERRORS))
        drop[errors[plain.to_numpy(zero_copy_only=False)]] = True
    return without_field_tags(tags.rows(~drop))


def _times(column: pa.Array) -> I8:
    """`Time` structs as ns; absent and zero mean none."""
    seconds = pc.fill_null(pc.struct_field(column, "seconds"), 0).to_numpy()
    nanos = pc.fill_null(pc.struct_field(column, "nanos"), 0).to_numpy().astype(np.int64)
    far = np.abs(seconds) > MAX_SECONDS
    ts: I8 = np.where(far, 0, seconds) * 10**9 + nanos
    ts[far | (ts < 0)] = BAD_TIME
    ts[(seconds == 0) & (nanos == 0)] = NO_TIME
    return ts


def _ends(start: I8, column: pa.Array) -> I8:
    """Start plus duration, at most the end of int64 (which is no time); as the start where that is none."""
    seconds = pc.fill_null(pc.struct_field(column, "seconds"), 0).to_numpy()
    nanos = pc.fill_null(pc.struct_field(column, "nanos"), 0).to_numpy().astype(np.int64)
    timed = start > BAD_TIME
    base = np.where(timed, start, 0)
    duration = np.clip(seconds, -MAX_SECONDS, MAX_SECONDS) * 10**9 + nanos
    end: I8 = base + np.clip(duration, -base - 1, _INT64_MAX - base)
    end[end < 0] = BAD_TIME
    end[~timed] = start[~timed]
    return end


def _references(column: pa.Array, trace: pa.Array) -> tuple[pa.Array, B1, Owned, Owned]:
    """(parent, whether it is no id, follows, links); which is which: `jaeger_spans.sort_references`."""
    n = len(column)
    lengths, references = ragged(column)
    owner = owners(lengths)
    other, bad_other = hex_of_binary(pc.struct_field(references, "trace_id"), (8, 16))
    span, bad_span = bytes_of_binary(pc.struct_field(references, "span_id"), 8)
    kind = pc.struct_field(references, "ref_type").to_numpy()
    own = trace.take(pa.array(owner))
    equal = pc.equal(pc.utf8_ltrim(other, "0"), pc.utf8_ltrim(own, "0"))
    same = (_mask(equal) | _mask(other.is_null())) & ~bad_other
    child = np.flatnonzero(same & (kind == _CHILD_OF) & (_mask(span.is_valid()) | bad_span))
    first = child[np.unique(owner[child], return_index=True)[1]]
    has_parent = np.zeros(n, np.bool_)
    has_parent[owner[first]] = True
    parent = pc.replace_with_mask(pa.nulls(n, pa.binary()), pa.array(has_parent), span.take(pa.array(first)))
    bad_parent = np.zeros(n, np.bool_)
    bad_parent[owner[first[bad_span[first]]]] = True
    follows = same & (kind == _FOLLOWS_FROM)
    of_parent = same & _mask(pc.equal(span, parent.take(pa.array(owner))))
    linked = ~follows & ~of_parent
    linked[first] = False
    digits, _ = hex_of_binary(span, (8,))
    text = pc.binary_join_element_wise(pc.coalesce(other, own), digits, "/")
    return parent, bad_parent, _owned(owner, span, follows), _owned(owner, text, linked & ~bad_other)


def _mask(column: pa.Array) -> B1:
    """Boolean column as numpy; null counts as False."""
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), np.bool_)


def _owned(owner: I8, text: pa.Array, rows: B1) -> Owned:
    rows = rows & _mask(text.is_valid())
    return Owned(owner[rows], text.filter(pa.array(rows)))


def _logs(column: pa.Array) -> SpanEvents:
    """Logs as span events; which field is the name: `jaeger_spans.add_log`."""
    lengths, logs = ragged(column)
    fields, is_string = _tags(pc.struct_field(logs, "fields"))
    strings, n = fields.rows(is_string), len(logs)
    by_event, by_message = strings.first_text("event", n), strings.first_text("message", n)
    drop = _rows_of(fields, "event") & _mask(by_event.is_valid())[fields.owner]
    drop |= (
        _rows_of(fields, "message")
        & _mask(pc.and_not(by_message.is_valid(), by_event.is_valid()))[fields.owner]
    )
    return SpanEvents(
        owners(lengths),
        _times(pc.struct_field(logs, "timestamp")),
        pc.fill_null(pc.coalesce(by_event, by_message), "log"),
        fields.rows(~drop),
    )
