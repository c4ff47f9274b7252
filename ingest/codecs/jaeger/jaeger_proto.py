"""Decode Jaeger protobuf: `jaeger.api_v2.Span` messages, one a payload, as the collector writes them.

Read all at once, from nested Arrow, or one by one; both read them as `jaeger_spans` does.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError
from ptars import HandlerPool

from ingest.codecs.jaeger.jaeger_spans import (
    FALSE_WORDS,
    HOST_TAGS,
    KINDS,
    PLAIN_ERRORS,
    add_log,
    add_tagged_span,
    sort_references,
    split_host,
)
from ingest.codecs.payloads import runs_of, sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.otlp_tags import (
    STATUS_MESSAGE,
    TRACE_STATE,
    failed_spans,
    text_of,
    without_field_tags,
)
from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME, Owned, SpanBatch, SpanEvents, log_bad_spans
from ingest.codecs.spans.span_rows import SpanRows, ns
from ingest.codecs.spans.spans_to_events import SpanResult, events_of_spans, in_payload_order
from ingest.codecs.values.attributes import AttributeTable, finite_or_text, take_first_text
from ingest.codecs.values.ids import bytes_of_binary, hex_of_binary, hex_of_id
from ingest.codecs.values.protobuf import (
    GROUP_BYTES,
    MAX_FIELDS,
    PART_BYTES,
    batches_of,
    has_many_fields,
    message_classes,
    owners,
    ragged,
)
from schemas.arrays import B1, I8
from schemas.config import DecodeConfig
from schemas.events import EventKind
from schemas.rejects import Reason, Reject

_MESSAGES = {
    # google.protobuf.Timestamp and Duration: the same on the wire, and ptars leaves them as they are.
    "Time": "1 seconds int64; 2 nanos enum",
    "KeyValue": "1 key string; 2 v_type enum; 3 v_str string; 4 v_bool bool; 5 v_int64 int64;"
    "6 v_float64 double; 7 v_binary bytes",
    "Log": "1 timestamp Time; 2 fields *KeyValue",
    "SpanRef": "1 trace_id bytes; 2 span_id bytes; 3 ref_type enum",
    "Process": "1 service_name string; 2 tags *KeyValue",
    "Span": "1 trace_id bytes; 2 span_id bytes; 3 operation_name string; 4 references *SpanRef;"
    "5 flags uint32; 6 start_time Time; 7 duration Time;"
    "8 tags *KeyValue; 9 logs *Log; 10 process Process; 11 process_id string; 12 warnings *string",
}
"""Fields of api_v2/model.proto: number, name, type; `*` repeated."""

_CROWDED = f"the span has more than {MAX_FIELDS:,} tags, logs and references"
_REFERENCE_TYPES = {0: "CHILD_OF", 1: "FOLLOWS_FROM"}


JaegerSpan = message_classes("jaeger.api_v2", _MESSAGES)["Span"]
"""Message class `jaeger.api_v2.Span`."""
_HANDLER = HandlerPool([JaegerSpan.DESCRIPTOR.file]).get_for_message(JaegerSpan.DESCRIPTOR)


class JaegerProtoCodec:
    """`jaeger-proto`: one Span message a payload."""

    name = "jaeger-proto"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """See `Codec.decode`; `item` is 0."""
        good, log = sized(payloads, config)
        results: list[SpanResult] = []
        refused: set[int] = set()
        left = _read_grouped(payloads, good, GROUP_BYTES, config, results, refused)
        # What is dense is read in small groups; what ptars refuses, by protobuf's own parser.
        for group in runs_of(sorted(left), [len(payloads[i]) for i in sorted(left)], PART_BYTES):
            sound = [
                i
                for i in group
                if len(payloads[i]) <= PART_BYTES or not has_many_fields(payloads[i], JaegerSpan.DESCRIPTOR)
            ]
            for index in sorted(set(group).difference(sound)):
                log.add(Reject(Reason.TOO_LARGE, _CROWDED, payloads[index], index))
            rows = SpanRows()
            dense = [i for i in sound if i not in refused]
            _read_grouped(payloads, dense, PART_BYTES, config, results, refused)
            for index in sorted(refused.intersection(sound)):
                try:
                    add_message(rows, index, JaegerSpan.FromString(payloads[index]))
                except DecodeError:
                    detail = "no jaeger.api_v2.Span message"
                    log.add(Reject(Reason.BAD_PROTOBUF, detail, payloads[index], index))
            if len(rows):
                results.append(events_of_spans(rows.batch(), config))
        for result in results:
            log_bad_spans(result.bad, lambda payload: lambda _: payloads[payload], log)
        oddities = sum((r.oddities for r in results), Counter[str]())
        return Decoded(in_payload_order(results), log.in_order(), oddities, log.counts)


def _read_grouped(
    payloads: Sequence[bytes],
    indexes: list[int],
    group_bytes: int,
    config: DecodeConfig,
    results: list[SpanResult],
    refused: set[int],
) -> set[int]:
    """Append events of what `batches_of` gives, in one batch; the indexes of the others."""
    pieces = list(batches_of(_HANDLER, JaegerSpan, payloads, indexes, group_bytes, refused))
    index = np.array([i for part, _ in pieces for i in part], np.int64)
    if pieces:
        table = pa.Table.from_batches([batch for _, batch in pieces]).combine_chunks()
        spans = span_columns(table.to_batches()[0])
        results.append(events_of_spans(replace(spans, payload=index[spans.payload]), config))
    return set(indexes).difference(index.tolist())


def add_message(rows: SpanRows, payload: int, span: Any) -> None:
    """Add one span as a row: for what ptars refuses, and the differential oracle of `span_columns`."""
    trace, span_id = hex_of_id(span.trace_id, (8, 16)), hex_of_id(span.span_id, (8,))
    references = [
        (_REFERENCE_TYPES.get(r.ref_type, ""), hex_of_id(r.trace_id, (8, 16)), hex_of_id(r.span_id, (8,)))
        for r in span.references
    ]
    parent, follows, links = sort_references(trace, references, None)
    start = _start_ns(span.start_time)
    end = ns(start + _duration_ns(span.duration)) if start > BAD_TIME else start
    host, tags = split_host(list(_pairs(span.process.tags)))
    resource = rows.add_resource(span.process.service_name or None, host, tags)
    ids, name = (trace, span_id, parent), span.operation_name
    add_tagged_span(
        rows, payload, 0, ids, name, (start, end), resource, list(_pairs(span.tags)), follows, links
    )
    for log in span.logs:
        add_log(rows, _start_ns(log.timestamp), list(_pairs(log.fields)))


def _start_ns(time: Any) -> int:
    if time.seconds == 0 and time.nanos == 0:
        return NO_TIME
    if abs(time.seconds) > MAX_SECONDS:
        return BAD_TIME
    return ns(time.seconds * 10**9 + time.nanos)


def _duration_ns(duration: Any) -> int:
    seconds = max(-MAX_SECONDS, min(MAX_SECONDS, duration.seconds))
    return int(seconds * 10**9 + duration.nanos)


def _pairs(pairs: Any) -> Iterator[tuple[str, object]]:
    for pair in pairs:
        kind = pair.v_type
        if kind == 0:
            yield pair.key, pair.v_str
        elif kind == 1:
            yield pair.key, pair.v_bool
        elif kind == 2:
            yield pair.key, pair.v_int64
        elif kind == 3:
            yield pair.key, pair.v_float64
        else:
            yield pair.key, base64.b64encode(pair.v_binary).decode()


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
