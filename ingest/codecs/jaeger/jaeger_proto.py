"""Jaeger protobuf: `jaeger.api_v2.Span` messages, one a payload, as the collector writes them to Kafka."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from ptars import HandlerPool

from ingest.codecs.jaeger.jaeger_columns import MAX_SECONDS, span_columns
from ingest.codecs.jaeger.jaeger_spans import add_log, add_tagged_span, sort_references, split_host
from ingest.codecs.payloads import sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME, log_bad_spans
from ingest.codecs.spans.span_rows import SpanRows, ns
from ingest.codecs.spans.spans_to_events import SpanResult, events_of_spans, in_payload_order
from ingest.codecs.values.field_count import MAX_FIELDS, has_many_fields
from ingest.codecs.values.ids import hex_of_id
from ingest.codecs.values.nested import GROUP_BYTES, PART_BYTES, batches_of, groups_of
from ingest.codecs.values.proto_messages import message_classes
from schemas.config import DecodeConfig
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
        for group in groups_of(payloads, sorted(left), PART_BYTES):
            sound = [i for i in group if not _is_crowded(payloads[i])]
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


def _is_crowded(payload: bytes) -> bool:
    return len(payload) > PART_BYTES and has_many_fields(payload, JaegerSpan.DESCRIPTOR)


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
    """One span as a row: for what ptars refuses, and the differential oracle of `jaeger_columns`."""
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
