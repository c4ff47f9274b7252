"""Zipkin spans of protobuf messages: nested Arrow (a row a list of spans) to columns, and one by one."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.values.attributes import AttributeTable
from ingest.codecs.values.ids import bytes_of_binary, hex_of_binary, hex_of_id
from ingest.codecs.values.nested import owners, ragged
from ingest.codecs.values.proto_messages import message_classes
from ingest.codecs.zipkin.zipkin_columns import BAD_US, MAX_US, NO_US, ZipkinColumns
from ingest.codecs.zipkin.zipkin_structs import KINDS, KindName, ZipkinAnnotation, ZipkinEndpoint, ZipkinSpan
from schemas.arrays import I8

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
_KIND_OF_NUMBER = np.array([KINDS[name] for name in (None, *_KIND_NAMES)], np.uint8)


def columns_of_messages(lists: pa.Array) -> ZipkinColumns:
    """Columns of the spans; `lists` is the column `spans` of list messages. O(size)."""
    counts, spans = ragged(lists)
    payload = owners(counts)
    trace, bad_trace = hex_of_binary(_field(spans, "trace_id", b""), (8, 16))
    span, bad_span = bytes_of_binary(_field(spans, "id", b""), 8)
    parent, bad_parent = bytes_of_binary(_field(spans, "parent_id", b""), 8)
    local, remote = pc.struct_field(spans, "local_endpoint"), pc.struct_field(spans, "remote_endpoint")
    n_tags, tags = ragged(pc.struct_field(spans, "tags"))
    n_annotations, annotations = ragged(pc.struct_field(spans, "annotations"))
    kind = _field(spans, "kind", 0).to_numpy()
    return ZipkinColumns(
        payload=payload,
        item=np.arange(len(payload)) - np.repeat(np.cumsum(counts) - counts, counts),
        trace_id=trace,
        span_id=span,
        parent_id=parent,
        bad_id=bad_trace | bad_span | bad_parent,
        name=_field(spans, "name", ""),
        kind=_KIND_OF_NUMBER[np.where((kind < 0) | (kind > len(_KIND_NAMES)), 0, kind)],
        start_us=_us(_field(spans, "timestamp", 0)),
        duration_us=_us(_field(spans, "duration", 0)),
        service=pc.struct_field(local, "service_name"),
        ip=_ips(local),
        remote_service=pc.struct_field(remote, "service_name"),
        remote_ip=_ips(remote),
        tags=_tags(n_tags, tags),
        shared=np.asarray(_field(spans, "shared", False).to_numpy(zero_copy_only=False)),
        annotation_owner=owners(n_annotations),
        annotation_us=_us(_field(annotations, "timestamp", 0)),
        annotation=_field(annotations, "value", ""),
    )


def _field(parent: pa.Array, name: str, default: bytes | str | int) -> pa.Array:
    return pc.fill_null(pc.struct_field(parent, name), default)


def _us(column: pa.Array) -> I8:
    """Unsigned µs as the columns hold them (`zipkin_columns.valid_us`)."""
    values = column.to_numpy()
    us: I8 = np.where(values < MAX_US, values, 0).astype(np.int64)
    us[values == 0] = NO_US
    us[values >= MAX_US] = BAD_US
    return us


def _ips(endpoint: pa.Array) -> pa.Array:
    """Addresses as text, IPv4 first; Python per distinct one."""
    four, six = (pc.struct_field(endpoint, name) for name in ("ipv4", "ipv6"))
    raw = pc.if_else(pc.fill_null(pc.greater(pc.binary_length(four), 0), False), four, six)
    distinct = raw.dictionary_encode()
    texts = [_ip(value) for value in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


def _ip(raw: bytes) -> str | None:
    """The address; None for bytes that are none."""
    try:
        return str(ipaddress.ip_address(raw))
    except ValueError:
        return None


def _tags(lengths: I8, tags: pa.Array) -> AttributeTable:
    keys = _field(tags, "key", "").dictionary_encode()
    return AttributeTable(
        owners(lengths),
        np.asarray(keys.indices, np.int64),
        tuple(keys.dictionary.to_pylist()),
        pa.nulls(len(tags), pa.float64()),
        _field(tags, "value", ""),
    )


def struct_of_message(span: Any) -> ZipkinSpan:
    """One message: for what ptars refuses, and the differential oracle of `columns_of_messages`.

    Of a tag that comes twice the first counts, as everywhere.
    """
    return ZipkinSpan(
        traceId=hex_of_id(span.trace_id, (8, 16)),
        id=hex_of_id(span.id, (8,)),
        parentId=hex_of_id(span.parent_id, (8,)),
        name=span.name,
        kind=_KIND_NAMES[span.kind - 1] if 0 < span.kind <= len(_KIND_NAMES) else None,
        timestamp=span.timestamp,
        duration=span.duration,
        localEndpoint=_endpoint(span.local_endpoint),
        remoteEndpoint=_endpoint(span.remote_endpoint),
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
    ip = _ip(endpoint.ipv4) if endpoint.ipv4 else _ip(endpoint.ipv6)
    return ZipkinEndpoint(endpoint.service_name or None, ip)
