"""Zipkin spans as typed structs: of documents that are spelt as the v2 model says, and of single spans.

msgspec checks names and types while it parses; what it refuses is read item by item instead (`zipkin`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, Literal

import msgspec
import numpy as np
import pyarrow as pa

from ingest.codecs.payloads import JSON_ERRORS
from ingest.codecs.values.attributes import AttributeTable
from ingest.codecs.values.ids import bytes_of_text, hex_of_text
from ingest.codecs.zipkin.zipkin_columns import ZipkinColumns, valid_us
from schemas.arrays import I8
from schemas.events import EventKind

KindName = Literal["CLIENT", "SERVER", "PRODUCER", "CONSUMER"]

KINDS: Final[dict[str | None, EventKind]] = {
    None: EventKind.SPAN_UNSPECIFIED,
    "CLIENT": EventKind.SPAN_CLIENT,
    "SERVER": EventKind.SPAN_SERVER,
    "PRODUCER": EventKind.SPAN_PRODUCER,
    "CONSUMER": EventKind.SPAN_CONSUMER,
}


class ZipkinEndpoint(msgspec.Struct, gc=False):
    """Of the local or the remote side."""

    serviceName: str | None = None  # noqa: N815  the names of the format
    ipv4: str | None = None
    ipv6: str | None = None


class ZipkinAnnotation(msgspec.Struct, gc=False):
    """Time in µs, and what happened."""

    timestamp: int | None = None
    value: str | None = None


class ZipkinSpan(msgspec.Struct, gc=False):
    """A span of the v2 model."""

    traceId: str | None = None  # noqa: N815
    id: str | None = None
    parentId: str | None = None  # noqa: N815
    name: str | None = None
    kind: KindName | None = None
    timestamp: int | None = None
    duration: int | None = None
    localEndpoint: ZipkinEndpoint | None = None  # noqa: N815
    remoteEndpoint: ZipkinEndpoint | None = None  # noqa: N815
    annotations: list[ZipkinAnnotation] | None = None
    tags: dict[str, str] | None = None
    shared: bool | None = None


_NOWHERE: Final = ZipkinEndpoint()
_DECODER = msgspec.json.Decoder(list[ZipkinSpan])
_RAW_DECODER = msgspec.json.Decoder(list[msgspec.Raw])


def parse_typed(document: bytes) -> list[ZipkinSpan] | None:
    """The spans of a list; None if it is not as the model says."""
    try:
        return _DECODER.decode(document)
    except JSON_ERRORS:
        return None


def raw_items(document: bytes) -> Callable[[int], bytes]:
    """The text of a span by item, for dead letters; `document` is one that `parse_typed` took."""
    raws = _RAW_DECODER.decode(document)
    return lambda item: bytes(raws[item])


def columns_of_structs(spans: Sequence[ZipkinSpan], payload: I8, item: I8) -> ZipkinColumns:
    """Columns of the spans. O(spans)."""
    trace, bad_trace = hex_of_text(pa.array([s.traceId for s in spans], pa.string()))
    span, bad_span = bytes_of_text(pa.array([s.id for s in spans], pa.string()))
    parent, bad_parent = bytes_of_text(pa.array([s.parentId for s in spans], pa.string()))
    local = [s.localEndpoint or _NOWHERE for s in spans]
    remote = [s.remoteEndpoint or _NOWHERE for s in spans]
    owned = [(at, a) for at, s in enumerate(spans) if s.annotations for a in s.annotations]
    return ZipkinColumns(
        payload=payload,
        item=item,
        trace_id=trace,
        span_id=span,
        parent_id=parent,
        bad_id=bad_trace | bad_span | bad_parent,
        name=pa.array([s.name or "" for s in spans], pa.string()),
        kind=np.array([KINDS[s.kind] for s in spans], np.uint8),
        start_us=np.array([valid_us(s.timestamp) for s in spans], np.int64),
        duration_us=np.array([valid_us(s.duration) for s in spans], np.int64),
        service=pa.array([e.serviceName for e in local], pa.string()),
        ip=pa.array([e.ipv4 or e.ipv6 for e in local], pa.string()),
        remote_service=pa.array([e.serviceName for e in remote], pa.string()),
        remote_ip=pa.array([e.ipv4 or e.ipv6 for e in remote], pa.string()),
        tags=_tags([s.tags or {} for s in spans]),
        shared=np.array([s.shared is True for s in spans], np.bool_),
        annotation_owner=np.array([at for at, _ in owned], np.int64),
        annotation_us=np.array([valid_us(a.timestamp) for _, a in owned], np.int64),
        annotation=pa.array([a.value for _, a in owned], pa.string()),
    )


def _tags(tags: list[dict[str, str]]) -> AttributeTable:
    keys = pa.array(list(chain.from_iterable(tags)), pa.string()).dictionary_encode()
    texts = pa.array([text for t in tags for text in t.values()], pa.string())
    return AttributeTable(
        np.repeat(np.arange(len(tags)), [len(t) for t in tags]),
        np.asarray(keys.indices, np.int64),
        tuple(keys.dictionary.to_pylist()),
        pa.nulls(len(texts), pa.float64()),
        texts,
    )
