"""Decode Zipkin v2 JSON: a list of spans (or of traces) a payload, or a line.

msgspec checks names and types while it parses; what it refuses is read item by item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.payloads import JSON_ERRORS, json_bytes, refuse_dense, sized, without_bom
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import log_bad_spans
from ingest.codecs.spans.spans_to_events import events_of_spans
from ingest.codecs.values.attributes import split_value
from ingest.codecs.values.json_fields import (
    ItemError,
    Object,
    array,
    as_object,
    child,
    integer,
    read_items,
    text,
)
from ingest.codecs.zipkin.zipkin_spans import (
    KINDS,
    KindName,
    ZipkinAnnotation,
    ZipkinEndpoint,
    ZipkinSpan,
    span_batch,
)
from schemas.config import DecodeConfig
from schemas.rejects import Reason

_DECODER = msgspec.json.Decoder(list[ZipkinSpan])
_RAW_DECODER = msgspec.json.Decoder(list[msgspec.Raw])


class ZipkinCodec:
    """`zipkin`: spans of the v2 model. Oddities: `shared`, `untimed`, `no-duration`, `duplicate-id`."""

    name = "zipkin"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """See `Codec.decode`; `item` is the span in its payload."""
        good, log = sized(payloads, config)
        good = refuse_dense(payloads, good, log)
        spans: list[ZipkinSpan] = []
        payload_of: list[int] = []
        item_of: list[int] = []
        loose: dict[int, dict[int, object]] = {}
        """What was read item by item, by payload and item."""

        def add(payload: int, item: int, value: object) -> None:
            spans.append(_span_of(value))
            payload_of.append(payload)
            item_of.append(item)
            loose.setdefault(payload, {})[item] = value

        for payload in good:
            typed = _parse_typed(without_bom(payloads[payload]))
            if typed is None:
                read_items(payloads, [payload], _spans, add, log)
            else:
                spans += typed
                payload_of += [payload] * len(typed)
                item_of += range(len(typed))

        def raw_items(payload: int) -> Callable[[int], bytes]:
            if payload in loose:
                return lambda item: json_bytes(loose[payload][item])
            raws = _RAW_DECODER.decode(without_bom(payloads[payload]))
            return lambda item: bytes(raws[item])

        batch = span_batch(spans, np.array(payload_of, np.int64), np.array(item_of, np.int64), config)
        result = events_of_spans(batch, config)
        log_bad_spans(result.bad, raw_items, log)
        oddities = result.oddities + zipkin_oddities(result.events)
        return Decoded(result.events, log.in_order(), oddities, log.counts)


def zipkin_oddities(events: pa.Table) -> Counter[str]:
    """Counts of what Zipkin allows and a tree of timed spans does not know."""
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


def _parse_typed(document: bytes) -> list[ZipkinSpan] | None:
    """The spans of a list; None if it is not as the model says."""
    try:
        return _DECODER.decode(document)
    except JSON_ERRORS:
        return None


def _spans(document: object) -> Iterator[object]:
    """Spans of a list, of a list of traces, or the one span."""
    for entry in document if isinstance(document, list) else [document]:
        if isinstance(entry, list):
            yield from entry
        else:
            yield entry


def _span_of(value: object) -> ZipkinSpan:
    """A span whose fields may be written otherwise (numbers as text, tags that are no text)."""
    span = as_object(value, "a span")
    kind = text(span, "kind")
    if kind not in KINDS:
        raise ItemError(Reason.BAD_VALUE, f"kind is none of {', '.join(k for k in KINDS if k)}")
    return ZipkinSpan(
        traceId=text(span, "traceId"),
        id=text(span, "id"),
        parentId=text(span, "parentId"),
        name=text(span, "name"),
        kind=cast("KindName | None", kind),
        timestamp=_us(span, "timestamp"),
        duration=_us(span, "duration"),
        localEndpoint=_endpoint(child(span, "localEndpoint")),
        remoteEndpoint=_endpoint(child(span, "remoteEndpoint")),
        annotations=[_annotation(a) for a in array(span, "annotations")],
        tags={key: _tag_text(v) for key, v in child(span, "tags").items() if v is not None},
        shared=span.get("shared") is True,
    )


def _endpoint(value: Object) -> ZipkinEndpoint:
    return ZipkinEndpoint(text(value, "serviceName"), text(value, "ipv4"), text(value, "ipv6"))


def _annotation(value: object) -> ZipkinAnnotation:
    annotation = as_object(value, "an annotation")
    return ZipkinAnnotation(_us(annotation, "timestamp"), text(annotation, "value"))


def _us(parent: Object, name: str) -> int | None:
    value = parent.get(name)
    return None if value is None else integer(value, name)


def _tag_text(value: object) -> str:
    """A tag as the model has it: text, which for a number is its digits."""
    if isinstance(value, float) and not value.is_integer():
        return repr(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(int(value))
    return split_value(value)[1] or ""
