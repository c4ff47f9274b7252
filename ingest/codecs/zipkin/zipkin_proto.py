"""Decode Zipkin protobuf, span by span: each payload is one `zipkin.proto3.ListOfSpans` message."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from ingest.codecs.payloads import sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_messages import decode_messages
from ingest.codecs.spans.span_rows import SpanRows
from ingest.codecs.values.ids import hex_of_id
from ingest.codecs.values.protobuf import message_classes, refuse_foreign
from ingest.codecs.zipkin.zipkin_json import zipkin_oddities
from ingest.codecs.zipkin.zipkin_spans import KINDS, ZipkinFields, add_zipkin_span, batch_of
from schemas.config import DecodeConfig

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
"""Protobuf message classes of zipkin.proto; `Tag` is an entry of the map of tags."""
ZipkinMessage = _CLASSES["Span"]
"""Message class `zipkin.proto3.Span`."""
ListOfSpans = _CLASSES["ListOfSpans"]
"""Message class `zipkin.proto3.ListOfSpans`."""
SpanBodies = message_classes("flowdiff.zipkin", {"Bodies": "1 spans *bytes"})["Bodies"]
"""Protobuf message class of a list of spans, in which each span is left as bytes."""

_KINDS: Final = dict(enumerate(KINDS.values()))


class ZipkinProtoCodec:
    """`zipkin-proto`: each payload is one list of spans. Counts the same oddities as `zipkin`."""

    name = "zipkin-proto"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """Decode payloads (`Codec.decode`). `item` of a reject is the index of the span in its list.
        O(bytes)."""
        good, log = sized(payloads, config)
        good = refuse_foreign(payloads, good, "no spans in the message", log)

        def add(rows: SpanRows, payload: int, item: int, span: Any) -> None:
            add_zipkin_span(rows, payload, item, _fields_of(span), config)

        found = decode_messages(payloads, good, config, log, ZipkinMessage, add, _bodies, batch_of)
        return replace(found, oddities=Counter(found.oddities) + zipkin_oddities(found.events))


def _bodies(payload: bytes) -> list[bytes]:
    """Bytes of each span in a list. Raises DecodeError."""
    return list(SpanBodies.FromString(payload).spans)


def _fields_of(span: Any) -> ZipkinFields:
    """Fields of a Span message. If a tag occurs several times, the first value is used, as in all formats."""
    return ZipkinFields(
        ids=(hex_of_id(span.trace_id, (8, 16)), hex_of_id(span.id, (8,)), hex_of_id(span.parent_id, (8,))),
        name=span.name,
        kind=_KINDS.get(span.kind, KINDS[None]),
        timestamp=span.timestamp,
        duration=span.duration,
        local=_endpoint(span.local_endpoint),
        remote=_endpoint(span.remote_endpoint),
        annotations=[(a.timestamp, a.value) for a in span.annotations],
        tags={tag.key: tag.value for tag in reversed(span.tags)},
        shared=span.shared,
    )


def _endpoint(endpoint: Any) -> tuple[str | None, str | None]:
    return endpoint.service_name, _ip(endpoint.ipv4 or endpoint.ipv6)


def _ip(raw: bytes) -> str | None:
    """IP address as text; None for invalid bytes."""
    if not raw:
        return None
    try:
        return str(ipaddress.ip_address(raw))
    except ValueError:
        return None
