"""Random OTLP requests, and the slow way to read them: protobuf's own parser, span by span."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from ingest.codecs.otlp.nested_values import value_of
from ingest.codecs.otlp.otlp_arrow import MAX_KIND, STATUS_ERROR
from ingest.codecs.otlp.otlp_proto import parse_request
from ingest.codecs.spans.span_batch import NO_TIME
from ingest.codecs.spans.span_rows import SpanRows, ns
from ingest.codecs.spans.spans_to_events import events_of_spans
from ingest.codecs.values.ids import hex_of_id
from schemas.config import DecodeConfig
from schemas.events import SPAN_KIND_BASE

_hex_of_trace, _hex_of_span = partial(hex_of_id, widths=(8, 16)), partial(hex_of_id, widths=(8,))
T0 = 1_700_000_000_000_000_000

_words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_keys = st.sampled_from(
    ["a", "b", "http.url", "error.type", "peer.service", "server.address", "flowdiff.label", "é"]
)


def _any(**fields: Any) -> AnyValue:
    return AnyValue(**fields)


_scalars = st.one_of(
    _words.map(lambda v: _any(string_value=v)),
    st.booleans().map(lambda v: _any(bool_value=v)),
    st.integers(-(2**63), 2**63 - 1).map(lambda v: _any(int_value=v)),
    st.floats(allow_nan=True, allow_infinity=True).map(lambda v: _any(double_value=v)),
    st.binary(max_size=5).map(lambda v: _any(bytes_value=v)),
    st.just(_any()),
)


def _array(values: list[AnyValue]) -> AnyValue:
    out = AnyValue()
    out.array_value.values.extend(values)
    return out


def _pairs(values: list[tuple[str, AnyValue]]) -> list[KeyValue]:
    return [KeyValue(key=k, value=v) for k, v in values]


def _object(values: list[tuple[str, AnyValue]]) -> AnyValue:
    out = AnyValue()
    out.kvlist_value.values.extend(_pairs(values))
    return out


_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(_array),
        st.lists(st.tuples(_words, inner), max_size=3, unique_by=lambda p: p[0]).map(_object),
    ),
    max_leaves=4,
)
_attributes = st.lists(st.tuples(_keys, _values), max_size=5).map(_pairs)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """A sound span with everything a span can carry."""
    start = draw(st.sampled_from([0, T0, T0 + 1, T0 + 10**9]))
    span = Span(
        trace_id=draw(st.binary(min_size=16, max_size=16).filter(any)),
        span_id=draw(st.binary(min_size=8, max_size=8).filter(any)),
        parent_span_id=draw(st.sampled_from([b"", bytes(8), bytes(range(8))])),
        name=draw(st.one_of(_words, st.sampled_from(["GET /users/17", "x" * 300]))),
        kind=draw(st.sampled_from(Span.SpanKind.values())),
        start_time_unix_nano=start,
        end_time_unix_nano=draw(st.sampled_from([0, T0 + 10**9, T0 + 2 * 10**9])),
        trace_state=draw(st.sampled_from(["", "ot=th:8", "x=y,ot=rv:1;th:c", "ot=th:zz"])),
        attributes=draw(_attributes),
    )
    for name, ts in draw(
        st.lists(st.tuples(st.sampled_from(["mark", "log", "gc 12"]), st.integers(0, 50)), max_size=3)
    ):
        span.events.add(name=name, time_unix_nano=T0 + ts, attributes=draw(_attributes))
    for _ in range(draw(st.integers(0, 2))):
        span.links.add(trace_id=draw(st.binary(min_size=16, max_size=16)), span_id=bytes(range(8)))
    span.status.code = draw(st.sampled_from(Status.StatusCode.values()))
    span.status.message = draw(st.sampled_from(["", "broken"]))
    return span


@st.composite
def requests(draw: st.DrawFn) -> ExportTraceServiceRequest:
    """Some resources with some scopes with some spans."""
    request = ExportTraceServiceRequest()
    for _ in range(draw(st.integers(0, 2))):
        resource = request.resource_spans.add()
        resource.resource.attributes.extend(draw(_attributes))
        if draw(st.booleans()):
            resource.resource.attributes.add(key="service.name", value=_any(string_value=draw(_words)))
            resource.resource.attributes.add(key="host.name", value=_any(string_value="h1"))
        for _ in range(draw(st.integers(0, 2))):
            resource.scope_spans.add().spans.extend(draw(st.lists(spans(), max_size=3)))
    return request


def as_json(request: ExportTraceServiceRequest) -> bytes:
    """The request in OTLP/JSON: the protobuf JSON mapping, but ids in hex and enums as numbers."""
    document = json.loads(json_format.MessageToJson(request, use_integers_for_enums=True))
    for resource in document.get("resourceSpans", []):
        for scope in resource.get("scopeSpans", []):
            for span in scope.get("spans", []):
                _hex_ids(span)
                for link in span.get("links", []):
                    _hex_ids(link)
    return json.dumps(document or {"resourceSpans": []}).encode()


def as_printed(request: ExportTraceServiceRequest, *, enum_names: bool) -> bytes:
    """The request as protobuf's own JSON printers write it: ids in base64."""
    text = json_format.MessageToJson(request, use_integers_for_enums=not enum_names)
    return text.encode() if json.loads(text) else b'{"resourceSpans": []}'


def _hex_ids(fields: dict[str, str]) -> None:
    for name in ("traceId", "spanId", "parentSpanId"):
        if name in fields:
            fields[name] = base64.b64decode(fields[name]).hex()


def _add_request(rows: SpanRows, payload: int, request: ExportTraceServiceRequest) -> None:
    """Add every span of the message as a row."""
    item = 0
    for resource in request.resource_spans:
        number = rows.add_resource(None, None, _plain_pairs(resource.resource.attributes))
        for scope in resource.scope_spans:
            for span in scope.spans:
                _add_span(rows, payload, item, span, number)
                item += 1


def _add_span(rows: SpanRows, payload: int, item: int, span: Span, resource: int) -> None:
    rows.add(
        payload,
        item,
        (_hex_of_trace(span.trace_id), _hex_of_span(span.span_id), _hex_of_span(span.parent_span_id)),
        span.name,
        SPAN_KIND_BASE + (span.kind if 0 <= span.kind <= MAX_KIND else 0),
        (_time(span.start_time_unix_nano), _time(span.end_time_unix_nano)),
        resource,
        _plain_pairs(span.attributes),
        error=span.status.code == STATUS_ERROR,
        trace_state=span.trace_state,
        message=span.status.message,
    )
    for event in span.events:
        rows.add_event(event.name, _time(event.time_unix_nano), _plain_pairs(event.attributes))
    for link in span.links:
        rows.add_link(_hex_of_trace(link.trace_id), _hex_of_span(link.span_id))


def _time(value: int) -> int:
    return ns(value) if value else NO_TIME


def _plain_pairs(attributes: list[KeyValue]) -> Iterator[tuple[str, object]]:
    for pair in attributes:
        yield pair.key, value_of(pair.value)


def read_slowly(messages: Sequence[bytes], config: DecodeConfig) -> pa.Table:
    """Events of messages by protobuf's own parser and a loop."""
    rows = SpanRows()
    for i, message in enumerate(messages):
        _add_request(rows, i, parse_request(message))
    return events_of_spans(rows.batch(), config).events
