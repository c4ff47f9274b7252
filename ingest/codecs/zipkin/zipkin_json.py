"""Decode Zipkin v2 JSON, span by span: a payload, or each of its lines, is a list of spans or of traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_rows import SpanRows, decode_json_spans
from ingest.codecs.values.attributes import split_value
from ingest.codecs.values.json_fields import ItemError, Object, array, as_object, child, integer, text
from ingest.codecs.zipkin.zipkin_spans import KINDS, ZipkinFields, add_zipkin_span, batch_of
from schemas.config import DecodeConfig
from schemas.rejects import Reason


class ZipkinCodec:
    """`zipkin`: JSON of spans of the v2 model. Counts the oddities `shared`, `untimed`, `no-duration`,
    `duplicate-id`."""

    name = "zipkin"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """Decode payloads (`Codec.decode`). `item` of a reject is the index of the span in its payload."""

        def add(rows: SpanRows, payload: int, item: int, value: object) -> None:
            add_zipkin_span(rows, payload, item, _fields_of(value), config)

        found = decode_json_spans(payloads, config, _spans, add, batch_of)
        return replace(found, oddities=Counter(found.oddities) + zipkin_oddities(found.events))


def zipkin_oddities(events: pa.Table) -> Counter[str]:
    """Count the oddities of Zipkin spans, features that do not fit a tree of timed spans: oddity -> number of
    events with it."""
    if events.num_rows == 0:
        return Counter()
    ids = pc.binary_join_element_wise(pc.cast(events["request_id"], pa.binary()), events["id"], b"/")
    timed = pc.is_valid(events["ts_ns"])
    return Counter(
        {
            "shared": int(pc.sum(events["shared"]).as_py()),
            "duplicate-id": len(ids) - len(ids.unique()),
            "no-duration": int(pc.sum(pc.and_(timed, pc.is_null(events["end_ns"]))).as_py()),
        }
    )


def _spans(document: object) -> Iterator[object]:
    """Spans of a document: a list of spans, a list of traces (lists), or a single span."""
    for entry in document if isinstance(document, list) else [document]:
        if isinstance(entry, list):
            yield from entry
        else:
            yield entry


def _fields_of(value: object) -> ZipkinFields:
    """Fields of a span; accepts variants such as numbers as text and tags that are no text. Raises
    ItemError."""
    span = as_object(value, "a span")
    kind = text(span, "kind")
    if kind not in KINDS:
        raise ItemError(Reason.BAD_VALUE, f"kind is none of {', '.join(k for k in KINDS if k)}")
    return ZipkinFields(
        ids=(text(span, "traceId"), text(span, "id"), text(span, "parentId")),
        name=text(span, "name") or "",
        kind=KINDS[kind],
        timestamp=_us(span, "timestamp"),
        duration=_us(span, "duration"),
        local=_endpoint(span, "localEndpoint"),
        remote=_endpoint(span, "remoteEndpoint"),
        annotations=[_annotation(a) for a in array(span, "annotations")],
        tags={key: _tag_text(v) for key, v in child(span, "tags").items() if v is not None},
        shared=span.get("shared") is True,
    )


def _endpoint(span: Object, name: str) -> tuple[str | None, str | None]:
    endpoint = child(span, name)
    ipv4, ipv6 = text(endpoint, "ipv4"), text(endpoint, "ipv6")
    return text(endpoint, "serviceName"), ipv4 or ipv6


def _annotation(value: object) -> tuple[int | None, str]:
    annotation = as_object(value, "an annotation")
    return _us(annotation, "timestamp"), text(annotation, "value") or ""


def _us(parent: Object, name: str) -> int | None:
    value = parent.get(name)
    return None if value is None else integer(value, name)


def _tag_text(value: object) -> str:
    """Value of a tag as text; a number by its digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not value.is_integer():
        return repr(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(int(value))
    return split_value(value)[1] or ""
