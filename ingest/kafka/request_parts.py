"""Split messages by request, so that each request can go to one partition. Only ids and times are decoded.

A part is a payload's spans or records of one request, in the payload's own format; `joined` combines parts of
several requests of one partition, if the format allows it. Unreadable items, and items without an id, become
parts without a request: they are passed on unchanged, in separate messages, and do not affect other items.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from ingest.codecs.named_twice import members
from ingest.codecs.otlp.otlp_json import texts_of
from ingest.codecs.otlp.otlp_json_items import camel
from ingest.codecs.payloads import DENSE_JSON, JSON_ERRORS, documents_of, is_dense_json, is_json, without_bom
from ingest.codecs.values.ids import hex_of_base64_id
from schemas.errors import InputError

_BASE64_ID: Final = 24
"""Number of base64 characters of a 16-byte id."""


@dataclass(frozen=True, slots=True)
class RequestPart:
    """Spans or records of one request, cut out of a payload, in its format."""

    request: bytes
    """Id of the request, as written in the payload's format; empty if the part is unreadable or has no id."""
    ts_ns: int
    """Earliest time in the part, ns since the epoch; 0: unknown."""
    items: int
    """Number of spans or records in the part."""
    body: bytes


class PartError(ValueError):
    """A payload is not in the expected format at all."""


def partition_of(request: bytes, partitions: int) -> int:
    """Partition number for a request id: the same for all writers to a topic, whatever their client."""
    return zlib.crc32(request) % partitions


def request_parts(format_: str, payload: bytes) -> list[RequestPart]:
    """Split a payload into parts, one per request.

    Raises PartError; InputError for a format that cannot be split.
    """
    cut = _FORMATS.get(format_)
    if cut is None:
        raise InputError(
            f"Messages of format '{format_}' are not cut by request.",
            remedy=f"Use one of: {', '.join(_FORMATS)}.",
        )
    try:
        return cut.parts(payload)
    except (*JSON_ERRORS, DecodeError, ValueError) as error:
        raise PartError(str(error)) from None


def joined(format_: str, parts: Sequence[bytes]) -> bytes | None:
    """Combine several parts into one message; None if a message of the format can only have one item."""
    join = _FORMATS[format_].join
    return parts[0] if len(parts) == 1 else None if join is None else join(parts)


_Number = str | int | float | None
"""Number in any of the JSON representations that writers use for it."""


def _whole(value: _Number) -> int:
    """Integer value of a number; 0 if missing or invalid."""
    try:
        return int(value or 0)
    except (ValueError, OverflowError):
        return 0


def _raws(text: bytes) -> list[msgspec.Raw]:
    """Elements of a JSON array, undecoded."""
    if is_dense_json(text):
        raise PartError(DENSE_JSON)
    return _RAWS.decode(text)


def _unread(body: bytes) -> RequestPart:
    return RequestPart(b"", 0, 1, body)


class _Record(msgspec.Struct):
    request_id: _Number = None
    breadcrumb: _Number = None
    ts: Any = None


def _native(payload: bytes) -> list[RequestPart]:
    """Split a payload of native records, one per line, into parts.

    A record without a request id is assigned by its breadcrumb, so a request's strands may end up in
    different parts.
    """
    lines: dict[bytes, list[bytes]] = defaultdict(list)
    times: dict[bytes, int] = {}
    unread: list[bytes] = []
    text = without_bom(payload).strip(b" \t\r\n")
    for line in _native_lines(text):
        if not line or line.isspace():
            continue
        try:
            record = _RECORD.decode(line)
            if line.count(b'"request_id"') > 1 or line.count(b'"breadcrumb"') > 1:  # the first one counts
                record = msgspec.convert(dict(reversed(members(line))), _Record)
        except JSON_ERRORS:
            unread.append(line)
            continue
        name = record.request_id
        if name is None or name == "":
            name = record.breadcrumb
        request = b"" if name is None else str(name).encode()
        lines[request].append(line)
        if isinstance(record.ts, int):
            times[request] = min(record.ts, times.get(request, record.ts))
    if unread and not lines:
        if b"\n" in text and is_json(text):  # one record, indented
            return _native(msgspec.json.format(text, indent=-1))
        raise PartError("no record is in it")
    unread += lines.pop(b"", [])
    return [
        RequestPart(request, times.get(request, 0), len(of), b"\n".join(of)) for request, of in lines.items()
    ] + list(map(_unread, unread))


def _native_lines(text: bytes) -> list[bytes]:
    """Lines of a text; for a JSON array, its elements as one line each."""
    if text.startswith(b"["):
        with suppress(*JSON_ERRORS):
            raws = map(bytes, _raws(text))
            return [msgspec.json.format(raw, indent=-1) if b"\n" in raw else raw for raw in raws]
    return text.split(b"\n")


class _SpanHead(msgspec.Struct, rename="camel"):
    trace_id: str | None = None
    start_time_unix_nano: _Number = None


class _SnakeSpanHead(msgspec.Struct):
    trace_id: str | None = None
    start_time_unix_nano: _Number = None


_Fields = dict[str, Any]
"""Fields of an OTLP JSON object, by their current names; nested values stay undecoded text
(`msgspec.Raw`)."""


def _otlp_json(payload: bytes) -> list[RequestPart]:
    blocks: dict[bytes, list[_Fields]] = defaultdict(list)
    counts: dict[bytes, int] = defaultdict(int)
    times: dict[bytes, int] = {}
    unread: list[bytes] = []
    documents = texts_of(payload)
    for document in documents:
        for resource, scopes in _otlp_resources(document, unread):
            of: dict[bytes, list[_Fields]] = {}
            for scope, every in scopes:
                spans: dict[bytes, list[msgspec.Raw]] = defaultdict(list)
                for span in every:
                    trace, start = _otlp_head(span)
                    spans[trace].append(span)
                    counts[trace] += 1
                    times[trace] = min(start, times.get(trace, start))
                for trace, those in spans.items():
                    if trace not in of:
                        of[trace] = []
                        blocks[trace].append({**resource, "scopeSpans": of[trace]})
                    of[trace].append({**scope, "spans": those})
    if len(unread) == len(documents) and not blocks:
        raise PartError("no request of OTLP is in it")
    return [
        RequestPart(trace, times[trace], counts[trace], msgspec.json.encode({"resourceSpans": those}))
        for trace, those in blocks.items()
    ] + list(map(_unread, unread))


def _otlp_head(span: msgspec.Raw) -> tuple[bytes, int]:
    """(trace id, start time in ns) of a span; (empty, 0) if the span is unreadable."""
    for decoder in (_SPAN_HEAD, _SNAKE_SPAN_HEAD):
        try:
            head = decoder.decode(span)
        except JSON_ERRORS:
            continue
        if head.trace_id:
            return (hex_of_base64_id(head.trace_id) or "").lower().encode(), _whole(head.start_time_unix_nano)
    return b"", 0


def _otlp_resources(
    document: bytes, unread: list[bytes]
) -> Iterator[tuple[_Fields, list[tuple[_Fields, list[msgspec.Raw]]]]]:
    """Yield the resources of a document: (fields of the resource, list of (fields of a scope, spans)).

    Unreadable parts are appended to `unread`, each as a document.
    """
    try:
        found = _fields(document)
        if "resourceSpans" not in found and "trace" in found:  # Tempo's API, which ingest reads, too
            found = _fields(found["trace"])
        resources = _RAWS.decode(found["resourceSpans" if "resourceSpans" in found else "batches"])
    except (*JSON_ERRORS, KeyError):
        unread.append(document)
        return
    for resource in resources:
        try:
            fields = _fields(resource)
            scopes = _taken(fields, "scopeSpans")
        except JSON_ERRORS:
            unread.append(b'{"resourceSpans":[%b]}' % bytes(resource))
            continue
        whole = []
        for scope in scopes:
            try:
                inner = _fields(scope)
                whole.append((inner, _taken(inner, "spans")))
            except JSON_ERRORS:
                unread.append(b'{"resourceSpans":[{"scopeSpans":[%b]}]}' % bytes(scope))
        yield fields, whole


def _fields(text: bytes | msgspec.Raw) -> _Fields:
    fields = _OBJECT.decode(text)
    return {camel(name): fields.get(camel(name), value) for name, value in fields.items()}


def _taken(fields: _Fields, name: str) -> list[msgspec.Raw]:
    """Remove the list `name` from the fields of an object and return it; empty if null or missing."""
    return _RAWS_OR_NULL.decode(fields.pop(name, b"null")) or []


def _otlp_proto(payload: bytes) -> list[RequestPart]:
    """Split a protobuf request into parts. TracesData has the same wire format; unknown fields are
    preserved."""
    messages: dict[bytes, TracesData] = {}
    counts: dict[bytes, int] = defaultdict(int)
    times: dict[bytes, int] = {}
    for resource in TracesData.FromString(payload).resource_spans:
        for scope in resource.scope_spans:
            spans: dict[bytes, list[Span]] = defaultdict(list)
            for span in scope.spans:
                spans[span.trace_id].append(span)
            for trace, those in spans.items():
                block = messages.setdefault(trace, TracesData()).resource_spans.add(
                    schema_url=resource.schema_url
                )
                block.resource.CopyFrom(resource.resource)
                part = block.scope_spans.add(schema_url=scope.schema_url)
                part.scope.CopyFrom(scope.scope)
                part.spans.extend(those)
                counts[trace] += len(those)
                start = min(span.start_time_unix_nano for span in those)
                times[trace] = min(start, times.get(trace, start))
    return [
        RequestPart(trace.hex().encode(), times[trace], counts[trace], message.SerializeToString())
        for trace, message in messages.items()
    ]


class _ZipkinHead(msgspec.Struct, rename="camel"):
    trace_id: str | None = None
    timestamp: _Number = None


def _zipkin(payload: bytes) -> list[RequestPart]:
    spans: dict[bytes, list[msgspec.Raw]] = defaultdict(list)
    times: dict[bytes, int] = {}
    for span in _zipkin_spans(without_bom(payload).lstrip()):
        try:
            head = _ZIPKIN_HEAD.decode(span)
        except JSON_ERRORS:
            head = _ZipkinHead()
        trace, start = (head.trace_id or "").lower().encode(), 1_000 * _whole(head.timestamp)
        spans[trace].append(span)
        times[trace] = min(start, times.get(trace, start))
    return [
        RequestPart(trace, times[trace], len(those), msgspec.json.encode(those))
        for trace, those in spans.items()
    ]


def _zipkin_spans(text: bytes) -> Iterable[msgspec.Raw]:
    """Spans in a JSON list of spans, a list of traces, or a single span."""
    if not text.startswith(b"["):
        return [_RAW.decode(text)]
    entries = _raws(text)
    if text[1:64].lstrip().startswith(b"["):
        return chain.from_iterable(map(_RAWS.decode, entries))
    return entries


class _JaegerHead(msgspec.Struct, rename={"trace_id": "traceId", "trace_id_upper": "traceID"}):
    trace_id: str | None = None
    trace_id_upper: str | None = None


def _jaeger_json(payload: bytes) -> list[RequestPart]:
    """Split a payload of Jaeger JSON (a span, a list of spans, or one span per line) into parts of one span
    each."""
    text = without_bom(payload).strip()
    if text.startswith(b"["):
        return [_jaeger_span(bytes(raw)) for raw in _raws(text)]
    documents = documents_of(text)
    if len(documents) == 1:
        _RAW.decode(text)
    return list(map(_jaeger_span, documents))


def _jaeger_span(span: bytes) -> RequestPart:
    """Part that contains one span. Ids are base64, as in protobuf's JSON, or hex."""
    try:
        head = _JAEGER_HEAD.decode(span)
    except JSON_ERRORS:
        return _unread(span)
    trace = head.trace_id or head.trace_id_upper or ""
    if len(trace) == _BASE64_ID:
        with suppress(binascii.Error):
            trace = base64.b64decode(trace, validate=True).hex()
    return RequestPart(trace.lower().encode(), 0, 1, span)


def _jaeger_proto(payload: bytes) -> list[RequestPart]:
    """Part that contains a payload of one Jaeger protobuf span, which begins with field 1, the 16 bytes of
    the trace id."""
    if payload[:2] != b"\x0a\x10":
        raise ValueError("not a Jaeger span: it does not begin with a trace id")
    return [RequestPart(payload[2:18].hex().encode(), 0, 1, payload)]


@dataclass(frozen=True, slots=True)
class _Cut:
    parts: Callable[[bytes], list[RequestPart]]
    join: Callable[[Sequence[bytes]], bytes] | None = None


_RECORD: Final = msgspec.json.Decoder(_Record)
_SPAN_HEAD: Final = msgspec.json.Decoder(_SpanHead)
_SNAKE_SPAN_HEAD: Final = msgspec.json.Decoder(_SnakeSpanHead)
_ZIPKIN_HEAD: Final = msgspec.json.Decoder(_ZipkinHead)
_JAEGER_HEAD: Final = msgspec.json.Decoder(_JaegerHead)
_RAW: Final = msgspec.json.Decoder(msgspec.Raw)
_RAWS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_RAWS_OR_NULL: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FORMATS: Final = {
    "native": _Cut(_native, b"\n".join),
    # Each part is {"resourceSpans":[…]}, or a document that was one part.
    "otlp-json": _Cut(
        _otlp_json,
        lambda parts: msgspec.json.encode(
            {
                "resourceSpans": list(
                    chain.from_iterable(_RAWS.decode(_OBJECT.decode(p)["resourceSpans"]) for p in parts)
                )
            }
        ),
    ),
    # Concatenated protobuf messages are one message with the fields of all.
    "otlp-proto": _Cut(_otlp_proto, b"".join),
    "zipkin": _Cut(
        _zipkin, lambda parts: msgspec.json.encode([span for part in parts for span in _RAWS.decode(part)])
    ),
    "jaeger-json": _Cut(_jaeger_json),
    "jaeger-proto": _Cut(_jaeger_proto),
}
