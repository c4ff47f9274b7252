"""Decode Zipkin protobuf: `zipkin.proto3.ListOfSpans` messages, one a payload, read span by span."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from ingest.codecs.payloads import sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import log_bad_spans
from ingest.codecs.spans.spans_to_events import SpanResult, decoded_spans, events_of_spans
from ingest.codecs.values.ids import hex_of_id
from ingest.codecs.values.protobuf import (
    MAX_FIELDS,
    PART_BYTES,
    has_many_fields,
    message_classes,
    refuse_foreign,
)
from ingest.codecs.zipkin.zipkin_json import zipkin_oddities
from ingest.codecs.zipkin.zipkin_spans import (
    KindName,
    ZipkinAnnotation,
    ZipkinEndpoint,
    ZipkinSpan,
    span_batch,
)
from schemas.config import DecodeConfig
from schemas.rejects import Reason, Reject

_CLASSES = message_classes(
    "zipkin.proto3",
    {
        "Endpoint": "1 service_name string; 2 ipv4 bytes; 3 ipv6 bytes; 4 port enum",
        "Annotation": "1 timestamp fixed64; 2 value string",
        "Tag": "1 key string; 2 value string",
        "Span": "1 trace_id bytes; 2 parent_id bytes; 3 id bytes; 4 kind enum; 5 name string;"
        "6 timestamp fixed64; 7 duration uint64; 8 local_endpoint Endpoint; 9 remote_endpoint Endpoint;"
        "10 annotations *Annotation; 11 tags *Tag; 12 debug bool; 13 shared bool",
        "ListOfSpans": "1 spans *Span",
    },
)
"""Of zipkin.proto; `Tag` is an entry of its map."""
ZipkinMessage = _CLASSES["Span"]
"""Message class `zipkin.proto3.Span`."""
ListOfSpans = _CLASSES["ListOfSpans"]
"""Message class `zipkin.proto3.ListOfSpans`."""
SpanBodies = message_classes("flowdiff.zipkin", {"Bodies": "1 spans *bytes"})["Bodies"]
"""The same with its spans left as bytes."""

_KIND_NAMES: Final[tuple[KindName, ...]] = ("CLIENT", "SERVER", "PRODUCER", "CONSUMER")
"""From 1 on."""
_MOST_SPANS: Final = 5_000
"""Become events together: a call costs 2 ms whatever it reads, and their columns are large."""
_DETAILS: Final = {
    Reason.BAD_PROTOBUF: "no zipkin.proto3.ListOfSpans message",
    Reason.TOO_LARGE: f"the span has more than {MAX_FIELDS:,} tags and annotations",
}


class ZipkinProtoCodec:
    """`zipkin-proto`: one list of spans a payload. Oddities: those of `zipkin`."""

    name = "zipkin-proto"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """See `Codec.decode`; `item` is the span in its list. O(bytes)."""
        good, log = sized(payloads, config)
        good = refuse_foreign(payloads, good, "no spans in the message", log)
        results: list[SpanResult] = []
        read: dict[tuple[int, int], ZipkinSpan] = {}

        def take() -> None:
            places = np.array(list(read), np.int64).reshape(-1, 2)
            batch = span_batch(list(read.values()), places[:, 0], places[:, 1], config)
            results.append(events_of_spans(batch, config))
            log_bad_spans(results[-1].bad, lambda payload: _bodies(payloads[payload]).__getitem__, log)
            read.clear()

        for payload in good:
            try:
                bodies = _bodies(payloads[payload])
            except DecodeError:
                log.add(_reject(Reason.BAD_PROTOBUF, payload, 0, payloads[payload]))
                continue
            for item, body in enumerate(bodies):
                if len(body) > PART_BYTES and has_many_fields(body, ZipkinMessage.DESCRIPTOR):
                    log.add(_reject(Reason.TOO_LARGE, payload, item, body))
                    continue
                try:
                    read[payload, item] = _span_of(ZipkinMessage.FromString(body))
                except DecodeError:
                    log.add(_reject(Reason.BAD_PROTOBUF, payload, item, body))
                if len(read) >= _MOST_SPANS:
                    take()
        if read:
            take()
        found = decoded_spans(results, log)
        return replace(found, oddities=Counter(found.oddities) + zipkin_oddities(found.events))


def _bodies(payload: bytes) -> list[bytes]:
    """The spans of a list. Raises DecodeError."""
    return list(SpanBodies.FromString(payload).spans)


def _reject(reason: Reason, payload: int, item: int, raw: bytes) -> Reject:
    return Reject(reason, _DETAILS[reason], raw, payload, item)


def _span_of(span: Any) -> ZipkinSpan:
    """Read one message. Of a tag that comes twice the first counts, as everywhere."""
    return ZipkinSpan(
        traceId=hex_of_id(span.trace_id, (8, 16)),
        id=hex_of_id(span.id, (8,)),
        parentId=hex_of_id(span.parent_id, (8,)),
        name=span.name,
        kind=_KIND_NAMES[span.kind - 1] if 0 < span.kind <= len(_KIND_NAMES) else None,
        timestamp=span.timestamp,
        duration=span.duration,
        localEndpoint=_endpoint(span.local_endpoint) if span.HasField("local_endpoint") else None,
        remoteEndpoint=_endpoint(span.remote_endpoint) if span.HasField("remote_endpoint") else None,
        annotations=[ZipkinAnnotation(a.timestamp, a.value) for a in span.annotations],
        tags=dict(_pairs(span)),
        shared=span.shared,
    )


def _pairs(span: Any) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for tag in span.tags:
        if tag.key not in seen:
            seen.add(tag.key)
            yield tag.key, tag.value


def _endpoint(endpoint: Any) -> ZipkinEndpoint:
    return ZipkinEndpoint(endpoint.service_name or None, _ip(endpoint.ipv4 or endpoint.ipv6))


def _ip(raw: bytes) -> str | None:
    """The address; None for bytes that are none."""
    if not raw:
        return None
    try:
        return str(ipaddress.ip_address(raw))
    except ValueError:
        return None
