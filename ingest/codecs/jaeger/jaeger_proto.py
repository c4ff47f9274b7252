"""Decode Jaeger protobuf: each payload is one `jaeger.api_v2.Span` message, as the Collector writes it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ingest.codecs.jaeger.jaeger_spans import JaegerFields, Reference, Tag, add_span
from ingest.codecs.payloads import sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME
from ingest.codecs.spans.span_messages import decode_messages
from ingest.codecs.spans.span_rows import SpanRows, ns
from ingest.codecs.values.ids import hex_of_id
from ingest.codecs.values.protobuf import message_classes
from schemas.config import DecodeConfig

_MESSAGES = {
    # google.protobuf.Timestamp and Duration: the same on the wire.
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
"""Message name -> its fields in api_v2/model.proto, each as number, name and type; `*` before the type:
repeated."""

_REFERENCE_TYPES: Final = {0: "CHILD_OF", 1: "FOLLOWS_FROM"}
_MAX_SECONDS: Final = 9_000_000_000
"""Maximum valid time, s since the epoch: a later one does not fit int64 nanoseconds."""

JaegerSpan = message_classes("jaeger.api_v2", _MESSAGES)["Span"]
"""Message class `jaeger.api_v2.Span`."""


class JaegerProtoCodec:
    """`jaeger-proto`: one Span message per payload."""

    name = "jaeger-proto"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """Decode payloads (`Codec.decode`). `item` of a reject is 0. O(bytes)."""
        good, log = sized(payloads, config)
        return decode_messages(payloads, good, config, log, JaegerSpan, _add)


def _add(rows: SpanRows, payload: int, item: int, span: Any) -> None:
    """Add one Span message as a row."""
    start = _start_ns(span.start_time)
    fields = JaegerFields(
        trace=hex_of_id(span.trace_id, (8, 16)),
        span=hex_of_id(span.span_id, (8,)),
        references=[_reference(reference) for reference in span.references],
        name=span.operation_name,
        start_ns=start,
        end_ns=ns(start + _duration_ns(span.duration)) if start > BAD_TIME else start,
        tags=list(_pairs(span.tags)),
        logs=[(_start_ns(log.timestamp), list(_pairs(log.fields))) for log in span.logs],
        service=span.process.service_name or None,
        process_tags=list(_pairs(span.process.tags)),
    )
    add_span(rows, payload, item, fields)


def _reference(reference: Any) -> Reference:
    trace, span = hex_of_id(reference.trace_id, (8, 16)), hex_of_id(reference.span_id, (8,))
    return _REFERENCE_TYPES.get(reference.ref_type, ""), trace, span


def _start_ns(time: Any) -> int:
    if time.seconds == 0 and time.nanos == 0:
        return NO_TIME
    if abs(time.seconds) > _MAX_SECONDS:
        return BAD_TIME
    return ns(time.seconds * 10**9 + time.nanos)


def _duration_ns(duration: Any) -> int:
    seconds = max(-_MAX_SECONDS, min(_MAX_SECONDS, duration.seconds))
    return int(seconds * 10**9 + duration.nanos)


def _pairs(pairs: Any) -> Iterator[Tag]:
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
