"""Zipkin spans in columns: for documents that are spelt as the v2 model says, without Python per field check.

msgspec checks names and types while it parses; what it refuses is read item by item instead (`zipkin`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.codecs.payloads import JSON_ERRORS
from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME, SpanBatch, SpanEvents
from ingest.codecs.values.attributes import AttributeTable, no_attributes
from ingest.codecs.values.ids import bytes_of_text, hex_of_text
from schemas.events import EventKind

I8 = npt.NDArray[np.int64]

NS_PER_US = 1000
_MAX_US = (2**63 - 1) // NS_PER_US // 2
"""Half of int64 nanoseconds: a start and a duration below it add up without overflow."""

KINDS = {
    None: EventKind.SPAN_UNSPECIFIED,
    "CLIENT": EventKind.SPAN_CLIENT,
    "SERVER": EventKind.SPAN_SERVER,
    "PRODUCER": EventKind.SPAN_PRODUCER,
    "CONSUMER": EventKind.SPAN_CONSUMER,
}


class _Endpoint(msgspec.Struct, gc=False):
    serviceName: str | None = None  # noqa: N815  the names of the format
    ipv4: str | None = None
    ipv6: str | None = None


class _Annotation(msgspec.Struct, gc=False):
    timestamp: int | None = None
    value: str | None = None


class _Span(msgspec.Struct, gc=False):
    traceId: str | None = None  # noqa: N815
    id: str | None = None
    parentId: str | None = None  # noqa: N815
    name: str | None = None
    kind: Literal["CLIENT", "SERVER", "PRODUCER", "CONSUMER"] | None = None
    timestamp: int | None = None
    duration: int | None = None
    localEndpoint: _Endpoint | None = None  # noqa: N815
    remoteEndpoint: _Endpoint | None = None  # noqa: N815
    annotations: list[_Annotation] | None = None
    tags: dict[str, str] | None = None
    shared: bool | None = None


_NOWHERE = _Endpoint()
_DECODER = msgspec.json.Decoder(list[_Span])


_RAW_DECODER = msgspec.json.Decoder(list[msgspec.Raw])


def parse_typed(document: bytes) -> list[_Span] | None:
    """The spans of a list; None if it is not as the model says."""
    try:
        return _DECODER.decode(document)
    except JSON_ERRORS:
        return None


def raw_items(document: bytes) -> Callable[[int], bytes]:
    """The text of a span by item, for dead letters; `document` is one that `parse_typed` took."""
    raws = _RAW_DECODER.decode(document)
    return lambda item: bytes(raws[item])


def span_columns(payloads: list[int], documents: list[list[_Span]]) -> SpanBatch:
    """Columns of the spans of all documents; `payloads[d]` is the payload of document d. O(spans)."""
    spans = [s for document in documents for s in document]
    sizes = [len(d) for d in documents]
    resource, component, host = _resources(spans)
    trace, bad_trace = hex_of_text(pa.array([s.traceId for s in spans], pa.string()))
    span, bad_span = bytes_of_text(pa.array([s.id for s in spans], pa.string()))
    parent, bad_parent = bytes_of_text(pa.array([s.parentId for s in spans], pa.string()))
    start = _ns(np.array([_us(s.timestamp) for s in spans], np.int64))
    duration = np.array([_us(s.duration) for s in spans], np.int64)
    tags = [s.tags or {} for s in spans]
    remote = [s.remoteEndpoint or _NOWHERE for s in spans]
    return SpanBatch(
        payload=np.repeat(np.array(payloads, np.int64), sizes),
        item=np.concatenate([np.arange(n) for n in sizes]),
        trace_id=trace,
        span_id=span,
        parent_id=parent,
        bad_id=bad_trace | bad_span | bad_parent,
        name=pa.array([s.name or "" for s in spans], pa.string()),
        kind=np.array([KINDS[s.kind] for s in spans], np.uint8),
        start_ns=start,
        end_ns=_end(start, duration),
        error=np.array(["error" in t and t["error"].lower() != "false" for t in tags], np.bool_),
        resource=resource,
        component=component,
        host=host,
        attributes=_attributes(tags, [e.ipv4 or e.ipv6 for e in remote]),
        resource_attributes=no_attributes(),
        peer=pa.array([e.serviceName or None for e in remote], pa.string()),
        shared=np.array([s.shared is True for s in spans], np.bool_),
        events=_annotations(spans),
    )


def _us(value: int | None) -> int:
    """µs as int64 holds it: -1 for 0 and absent (the same to Zipkin), -2 for what is out of range."""
    if not value:
        return -1
    return value if 0 < value < _MAX_US else -2


def _ns(us: I8) -> I8:
    ns: I8 = us * NS_PER_US
    ns[us == -1] = NO_TIME
    ns[us == -2] = BAD_TIME
    return ns


def _end(start_ns: I8, duration_us: I8) -> I8:
    """Start plus duration; NO_TIME without either, BAD_TIME if the duration is negative or too long."""
    end: I8 = start_ns + np.maximum(duration_us, 0) * NS_PER_US
    end[(duration_us == -1) | (start_ns == NO_TIME)] = NO_TIME
    end[(duration_us == -2) & (start_ns != NO_TIME)] = BAD_TIME
    end[start_ns == BAD_TIME] = NO_TIME
    return end


def _resources(spans: list[_Span]) -> tuple[I8, pa.Array, pa.Array]:
    """Row of each span's endpoint, and component and host of each distinct one."""
    number: dict[tuple[str | None, str | None], int] = {}
    rows = []
    for span in spans:
        where = span.localEndpoint or _NOWHERE
        rows.append(number.setdefault((where.serviceName, where.ipv4 or where.ipv6), len(number)))
    return (
        np.array(rows, np.int64),
        pa.array([name for name, _ in number], pa.string()),
        pa.array([host for _, host in number], pa.string()),
    )


def _attributes(tags: list[dict[str, str]], ips: list[str | None]) -> AttributeTable:
    """Tags, and the address of the remote endpoint as `peer.ip` unless a tag says it."""
    for at, ip in enumerate(ips):
        if ip is not None:
            # A new one: the span itself must stay as it came.
            tags[at] = {"peer.ip": ip, **tags[at]}
    keys = pa.array(list(chain.from_iterable(tags)), pa.string()).dictionary_encode()
    texts = pa.array([text for t in tags for text in t.values()], pa.string())
    return AttributeTable(
        np.repeat(np.arange(len(tags)), [len(t) for t in tags]),
        np.asarray(keys.indices, np.int64),
        tuple(keys.dictionary.to_pylist()),
        pa.nulls(len(texts), pa.float64()),
        texts,
    )


def _annotations(spans: list[_Span]) -> SpanEvents:
    owned = [(at, a) for at, span in enumerate(spans) if span.annotations for a in span.annotations]
    return SpanEvents(
        np.array([at for at, _ in owned], np.int64),
        _ns(np.array([_us(a.timestamp) for _, a in owned], np.int64)),
        pa.array([a.value or "" for _, a in owned], pa.string()),
    )
