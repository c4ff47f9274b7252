"""OTLP protobuf: `ExportTraceServiceRequest` messages, as the Collector's Kafka and file exporters write.

ptars turns all payloads into nested Arrow at once; those that it refuses go span by span through protobuf's
own parser (upb): slow and obvious, so it is also the differential oracle of the fast path.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import DESCRIPTOR, ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from ptars import HandlerPool

from ingest.codecs.otlp.otlp_arrow import MAX_KIND, STATUS_ERROR, OtlpArrowReader
from ingest.codecs.payloads import sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import NO_TIME, SpanBatch, log_bad_spans
from ingest.codecs.spans.span_rows import SpanRows, ns
from ingest.codecs.spans.spans_to_events import events_of_spans, in_payload_order
from ingest.codecs.values.nested import batches_of
from schemas.config import DecodeConfig
from schemas.events import SPAN_KIND_BASE
from schemas.rejects import Reason, Reject

_LEGAL_BYTES = {"trace": (0, 8, 16), "span": (0, 8)}
_HANDLER = HandlerPool([DESCRIPTOR]).get_for_message(ExportTraceServiceRequest.DESCRIPTOR)


class OtlpProtoCodec:
    """`otlp-proto`: one request message a payload."""

    name = "otlp-proto"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """See `Codec.decode`. O(bytes)."""
        good, log = sized(payloads, config)
        pieces = [
            (part, batch.column(0))
            for part, batch in batches_of(_HANDLER, ExportTraceServiceRequest, payloads, good)
        ]
        rows = SpanRows()
        for index in sorted(set(good).difference(*(part for part, _ in pieces))):
            try:
                add_request(rows, index, parse_request(payloads[index]))
            except DecodeError:
                detail = "no ExportTraceServiceRequest message"
                log.add(Reject(Reason.BAD_PROTOBUF, detail, payloads[index], index))
        batches = [rows.batch()] if len(rows) else []
        if pieces:
            batches.append(_span_batch(pieces))
        results = [events_of_spans(batch, config) for batch in batches]
        oddities: Counter[str] = Counter()
        for result in results:
            oddities += result.oddities
            log_bad_spans(result.bad, lambda p: _raw_spans(payloads[p]), log)
        return Decoded(in_payload_order(results), log.in_order(), oddities, log.counts)


def _span_batch(pieces: list[tuple[list[int], pa.Array]]) -> SpanBatch:
    """One batch of all pieces, its payload numbers those of the codec's list."""
    columns = [column for _, column in pieces]
    spans = _READER.spans(columns[0] if len(columns) == 1 else pa.concat_arrays(columns))
    index = np.array([i for part, _ in pieces for i in part], np.int64)
    return replace(spans, payload=index[spans.payload])


def _nested_text(column: pa.Array, which: str) -> pa.Array:
    """Base64 of bytes; compact JSON of arrays and key-value lists, whose elements ptars leaves serialised.

    Python per value, once per distinct one: command lines and the like repeat in every resource.
    """
    known: dict[tuple[bytes, ...], str] = {}
    out: list[str | None] = []
    for value in column.to_pylist():
        if value is None:
            out.append(None)
            continue
        if which == "bytes_value":
            out.append(base64.b64encode(value).decode())
            continue
        elements = tuple(value["values"] or ())
        if elements not in known:
            known[elements] = _json_of(elements, which)
        out.append(known[elements])
    return pa.array(out, pa.string())


def _json_of(elements: tuple[bytes, ...], which: str) -> str:
    """JSON of the elements; base64 of their bytes if protobuf refuses them (nested deeper than 100)."""
    try:
        if which == "array_value":
            plain: object = [value_of(AnyValue.FromString(e)) for e in elements]
        else:
            pairs = [KeyValue.FromString(e) for e in elements]
            plain = {pair.key: value_of(pair.value) for pair in pairs}
    except DecodeError:
        plain = [base64.b64encode(e).decode() for e in elements]
    return msgspec.json.encode(plain).decode()


def _raw_spans(payload: bytes) -> Callable[[int], bytes]:
    """Bytes of a span of the message by item; of the whole message if protobuf itself refuses it."""
    try:
        spans = list(spans_of(parse_request(payload)))
    except DecodeError:
        return lambda _: payload
    return lambda item: spans[item].SerializeToString()


_READER = OtlpArrowReader(lambda name: name, _nested_text)


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
        SPAN_KIND_BASE + (span.kind if 0 <= span.kind <= MAX_KIND else 0),
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
