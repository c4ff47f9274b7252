"""OTLP messages span by span: protobuf's own (upb) parser to span rows.

Slow and obvious. It reads what ptars refuses, and it is the differential oracle of the fast path.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ingest.codecs.spans.span_batch import NO_TIME
from ingest.codecs.spans.span_rows import SpanRows, ns
from schemas.events import SPAN_KIND_BASE

STATUS_ERROR = 2
_MAX_KIND = 5
_LEGAL_BYTES = {"trace": (0, 8, 16), "span": (0, 8)}


def parse_request(payload: bytes) -> ExportTraceServiceRequest:
    """The message. Raises google.protobuf.message.DecodeError."""
    request: ExportTraceServiceRequest = ExportTraceServiceRequest.FromString(payload)
    return request


def spans_of(request: ExportTraceServiceRequest) -> Iterator[Span]:
    """Spans in the order in which items are numbered."""
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans


def add_request(rows: SpanRows, payload: int, request: ExportTraceServiceRequest) -> None:
    """Every span of the message as a row."""
    item = 0
    for resource in request.resource_spans:
        number = rows.add_resource(None, None, _pairs(resource.resource.attributes))
        for scope in resource.scope_spans:
            for span in scope.spans:
                _add_span(rows, payload, item, span, number)
                item += 1


def _add_span(rows: SpanRows, payload: int, item: int, span: Span, resource: int) -> None:
    rows.add(
        payload,
        item,
        (_hex(span.trace_id, "trace"), _hex(span.span_id, "span"), _hex(span.parent_span_id, "span")),
        span.name,
        SPAN_KIND_BASE + (span.kind if 0 <= span.kind <= _MAX_KIND else 0),
        (_time(span.start_time_unix_nano), _time(span.end_time_unix_nano)),
        resource,
        _pairs(span.attributes),
        error=span.status.code == STATUS_ERROR,
        trace_state=span.trace_state,
        message=span.status.message,
    )
    for event in span.events:
        rows.add_event(event.name, _time(event.time_unix_nano), _pairs(event.attributes))
    for link in span.links:
        rows.add_link(_hex(link.trace_id, "trace"), _hex(link.span_id, "span"))


def _hex(raw: bytes, what: str) -> str:
    """Hex; an id of a wrong length stays wrong (`!` is no digit)."""
    return raw.hex() if len(raw) in _LEGAL_BYTES[what] else "!"


def _time(value: int) -> int:
    return ns(value) if value else NO_TIME


def _pairs(attributes: list[KeyValue]) -> Iterator[tuple[str, object]]:
    for pair in attributes:
        yield pair.key, value_of(pair.value)


def value_of(value: AnyValue) -> object:
    """Plain Python value; bytes as base64 text, an unset value as None."""
    which = value.WhichOneof("value")
    if which is None:
        return None
    if which == "array_value":
        return [value_of(v) for v in value.array_value.values]
    if which == "kvlist_value":
        return {pair.key: value_of(pair.value) for pair in value.kvlist_value.values}
    if which == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    if which == "string_value_strindex":
        return None
    return getattr(value, which)
