"""Messages cut by request, so that all of a request can go to one partition. Nothing is decoded but for ids.

A part is what a payload has of one request, in the payload's own format; parts of several requests of one
partition are put together again by `joined`, where the format allows it.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from schemas.errors import InputError

_BASE64_ID: Final = 24
"""Characters of 16 bytes."""


@dataclass(frozen=True, slots=True)
class RequestPart:
    """Spans or records of one request."""

    request: bytes
    """Its id, as the format writes it."""
    ts_ns: int
    """Earliest time in it, ns since the epoch; 0: none is told."""
    items: int
    """Spans or records in it."""
    body: bytes


class PartError(ValueError):
    """A payload that cannot be cut: it is not of its format."""


def partition_of(request: bytes, partitions: int) -> int:
    """The partition of a request: the same for everyone who writes to a topic, whatever the client."""
    return zlib.crc32(request) % partitions


def request_parts(format_: str, payload: bytes) -> list[RequestPart]:
    """What a payload has of each request. Raises PartError; InputError for a format that is not cut."""
    cut = _FORMATS.get(format_)
    if cut is None:
        raise InputError(
            f"Messages of format '{format_}' are not cut by request.",
            remedy=f"Use one of: {', '.join(_FORMATS)}.",
        )
    try:
        return cut.parts(payload)
    except (msgspec.MsgspecError, DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise PartError(str(error)) from None


def joined(format_: str, parts: Sequence[bytes]) -> bytes | None:
    """One message of several parts; None: the format has one item a message."""
    join = _FORMATS[format_].join
    return parts[0] if len(parts) == 1 else None if join is None else join(parts)


class _Record(msgspec.Struct):
    request_id: str | None = None
    breadcrumb: str | None = None
    ts: Any = None


def _native(payload: bytes) -> list[RequestPart]:
    """Lines. A record without a request id goes by its breadcrumb: its strands may part ways."""
    lines: dict[bytes, list[bytes]] = defaultdict(list)
    times: dict[bytes, int] = {}
    for line in payload.split(b"\n"):
        if not line or line.isspace():
            continue
        record = _RECORD.decode(line)
        request = (record.request_id or record.breadcrumb or "").encode()
        lines[request].append(line)
        if isinstance(record.ts, int):
            times[request] = min(record.ts, times.get(request, record.ts))
    return [
        RequestPart(request, times.get(request, 0), len(of), b"\n".join(of)) for request, of in lines.items()
    ]


class _Scope(msgspec.Struct, omit_defaults=True, rename="camel"):
    spans: list[msgspec.Raw] = []
    scope: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    schema_url: str | msgspec.UnsetType = msgspec.UNSET


class _Resource(msgspec.Struct, omit_defaults=True, rename="camel"):
    scope_spans: list[_Scope] = []
    resource: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    schema_url: str | msgspec.UnsetType = msgspec.UNSET


class _Request(msgspec.Struct, rename="camel"):
    resource_spans: list[_Resource] = []


class _SpanHead(msgspec.Struct, rename="camel"):
    trace_id: str
    start_time_unix_nano: str | int = 0


def _otlp_json(payload: bytes) -> list[RequestPart]:
    blocks: dict[bytes, list[_Resource]] = defaultdict(list)
    counts: dict[bytes, int] = defaultdict(int)
    times: dict[bytes, int] = {}
    for resource in _REQUEST.decode(payload).resource_spans:
        of: dict[bytes, _Resource] = {}
        for scope in resource.scope_spans:
            spans: dict[bytes, list[msgspec.Raw]] = defaultdict(list)
            for span in scope.spans:
                head = _SPAN_HEAD.decode(span)
                trace, start = head.trace_id.lower().encode(), int(head.start_time_unix_nano)
                spans[trace].append(span)
                counts[trace] += 1
                times[trace] = min(start, times.get(trace, start))
            for trace, those in spans.items():
                if trace not in of:
                    of[trace] = _Resource([], resource.resource, resource.schema_url)
                    blocks[trace].append(of[trace])
                of[trace].scope_spans.append(_Scope(those, scope.scope, scope.schema_url))
    return [
        RequestPart(trace, times[trace], counts[trace], msgspec.json.encode(_Request(those)))
        for trace, those in blocks.items()
    ]


def _join_otlp_json(parts: Sequence[bytes]) -> bytes:
    # Each is {"resourceSpans":[…]} as written above, or a document that was one part.
    return msgspec.json.encode(
        _Request([each for part in parts for each in _REQUEST.decode(part).resource_spans])
    )


def _otlp_proto(payload: bytes) -> list[RequestPart]:
    """TracesData has the wire form of a request; unknown fields stay."""
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
    trace_id: str
    timestamp: int = 0


def _zipkin(payload: bytes) -> list[RequestPart]:
    spans: dict[bytes, list[msgspec.Raw]] = defaultdict(list)
    times: dict[bytes, int] = {}
    text = payload.lstrip()
    for span in _RAWS.decode(text) if text.startswith(b"[") else [msgspec.Raw(text)]:
        head = _ZIPKIN_HEAD.decode(span)
        trace, start = head.trace_id.lower().encode(), 1_000 * head.timestamp
        spans[trace].append(span)
        times[trace] = min(start, times.get(trace, start))
    return [
        RequestPart(trace, times[trace], len(those), msgspec.json.encode(those))
        for trace, those in spans.items()
    ]


def _join_zipkin(parts: Sequence[bytes]) -> bytes:
    return msgspec.json.encode([span for part in parts for span in _RAWS.decode(part)])


class _JaegerHead(msgspec.Struct, rename={"trace_id": "traceId", "trace_id_upper": "traceID"}):
    trace_id: str = ""
    trace_id_upper: str = ""


def _jaeger_json(payload: bytes) -> list[RequestPart]:
    """One span a message; ids are base64 as protobuf's JSON has them, or hex."""
    head = _JAEGER_HEAD.decode(payload)
    trace = head.trace_id or head.trace_id_upper
    if len(trace) == _BASE64_ID:
        with suppress(binascii.Error):
            trace = base64.b64decode(trace, validate=True).hex()
    return [RequestPart(trace.lower().encode(), 0, 1, payload)]


def _jaeger_proto(payload: bytes) -> list[RequestPart]:
    """One span a message; it begins with field 1, the 16 bytes of the trace id."""
    if payload[:2] != b"\x0a\x10":
        raise ValueError("not a Jaeger span: it does not begin with a trace id")
    return [RequestPart(payload[2:18].hex().encode(), 0, 1, payload)]


@dataclass(frozen=True, slots=True)
class _Cut:
    parts: Callable[[bytes], list[RequestPart]]
    join: Callable[[Sequence[bytes]], bytes] | None = None


_RECORD: Final = msgspec.json.Decoder(_Record)
_REQUEST: Final = msgspec.json.Decoder(_Request)
_SPAN_HEAD: Final = msgspec.json.Decoder(_SpanHead)
_ZIPKIN_HEAD: Final = msgspec.json.Decoder(_ZipkinHead)
_JAEGER_HEAD: Final = msgspec.json.Decoder(_JaegerHead)
_RAWS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_FORMATS: Final = {
    "native": _Cut(_native, b"\n".join),
    "otlp-json": _Cut(_otlp_json, _join_otlp_json),
    # Messages put one after the other are one message with the fields of all.
    "otlp-proto": _Cut(_otlp_proto, b"".join),
    "zipkin": _Cut(_zipkin, _join_zipkin),
    "jaeger-json": _Cut(_jaeger_json),
    "jaeger-proto": _Cut(_jaeger_proto),
}


class Gatherer:
    """Puts parts of one partition together to messages of some size. Bounded by a message a partition."""

    def __init__(self, format_: str, partitions: int, message_bytes: int) -> None:
        self._format = format_
        self._partitions = partitions
        self._message_bytes = message_bytes
        self._held: dict[int, list[RequestPart]] = defaultdict(list)
        self._sizes: dict[int, int] = defaultdict(int)

    def add(self, part: RequestPart) -> Iterator[tuple[int, bytes, bytes | None, int]]:
        """Messages that are full now: partition, value, key (of one request), items."""
        partition = partition_of(part.request, self._partitions)
        if self._sizes[partition] + len(part.body) > self._message_bytes:
            yield from self._emit(partition)
        self._held[partition].append(part)
        self._sizes[partition] += len(part.body)

    def rest(self) -> Iterator[tuple[int, bytes, bytes | None, int]]:
        """What is held yet."""
        for partition in sorted(self._held):
            yield from self._emit(partition)

    def _emit(self, partition: int) -> Iterator[tuple[int, bytes, bytes | None, int]]:
        parts, self._held[partition], self._sizes[partition] = self._held[partition], [], 0
        if not parts:
            return
        value = joined(self._format, [part.body for part in parts])
        if value is not None:
            requests = {part.request for part in parts}
            key = parts[0].request if len(requests) == 1 else None
            yield partition, value, key, sum(part.items for part in parts)
            return
        for part in parts:
            yield partition, part.body, part.request, part.items
