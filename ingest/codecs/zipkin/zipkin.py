"""Zipkin v2 JSON: a list of spans (or of traces) a payload, or a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.payloads import refuse_dense, sized, without_bom
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import NO_TIME, log_bad_spans
from ingest.codecs.spans.span_items import read_json_spans
from ingest.codecs.spans.span_rows import SpanRows, ns
from ingest.codecs.spans.spans_to_events import SpanResult, events_of_spans, in_payload_order
from ingest.codecs.values.attributes import plain_value
from ingest.codecs.values.json_fields import ItemError, Object, array, as_object, child, integer, text
from ingest.codecs.zipkin.zipkin_columns import KINDS, NS_PER_US, parse_typed, raw_items, span_columns
from schemas.config import DecodeConfig
from schemas.rejects import Reason


class ZipkinCodec:
    """`zipkin`: spans of the v2 model. Oddities: `shared`, `untimed`, `no-duration`, `duplicate-id`."""

    name = "zipkin"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """See `Codec.decode`; `item` is the span in its payload."""
        good, log = sized(payloads, config)
        good = refuse_dense(payloads, good, log)
        typed = {i: spans for i in good if (spans := parse_typed(without_bom(payloads[i]))) is not None}
        results: list[SpanResult] = []
        if any(typed.values()):
            results.append(events_of_spans(span_columns(list(typed), list(typed.values())), config))
            log_bad_spans(results[0].bad, lambda payload: raw_items(without_bom(payloads[payload])), log)
        rest = [i for i in good if i not in typed]
        if rest:
            results.append(read_json_spans(payloads, rest, config, _spans, _add_span, log))
        events = in_payload_order(results)
        oddities = sum((r.oddities for r in results), Counter[str]())
        return Decoded(events, log.in_order(), oddities + _oddities(events), log.counts)


def _oddities(events: pa.Table) -> Counter[str]:
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


def _spans(document: object) -> Iterator[object]:
    """Spans of a list, of a list of traces, or the one span."""
    for entry in document if isinstance(document, list) else [document]:
        if isinstance(entry, list):
            yield from entry
        else:
            yield entry


def _add_span(rows: SpanRows, payload: int, item: int, value: object) -> None:
    span = as_object(value, "a span")
    ids = (text(span, "traceId"), text(span, "id"), text(span, "parentId"))
    kind = text(span, "kind")
    if kind not in KINDS:
        raise ItemError(Reason.BAD_VALUE, f"kind is none of {', '.join(k for k in KINDS if k)}")
    start = _time(span.get("timestamp"), "timestamp")
    duration = span.get("duration")
    # Zipkin: 0 and absent mean the same for both.
    end = ns(start + _us(duration, "duration")) if duration and start != NO_TIME else NO_TIME
    tags = [(key, plain_value(v)) for key, v in child(span, "tags").items()]
    local, remote = child(span, "localEndpoint"), child(span, "remoteEndpoint")
    peer = text(remote, "serviceName") or None
    annotations = [_annotation(a) for a in array(span, "annotations")]
    name = text(span, "name") or ""
    error = dict(tags).get("error")
    where = rows.add_resource(text(local, "serviceName"), text(local, "ipv4") or text(local, "ipv6"), ())
    if remote.get("ipv4") or remote.get("ipv6"):
        tags.append(("peer.ip", text(remote, "ipv4") or text(remote, "ipv6")))
    rows.add(
        payload,
        item,
        ids,
        name,
        KINDS[kind],
        (start, end),
        where,
        tags,
        # The presence of the tag says it; its text is a message, not a class.
        error=error is not None and str(error).lower() != "false",
        peer=peer,
        shared=span.get("shared") is True,
    )
    for ts, label in annotations:
        rows.add_event(label, ts, ())


def _annotation(value: object) -> tuple[int, str]:
    annotation: Object = as_object(value, "an annotation")
    return _time(annotation.get("timestamp"), "annotation timestamp"), text(annotation, "value") or ""


def _time(value: object, name: str) -> int:
    return NO_TIME if value is None or value == 0 else ns(_us(value, name))


def _us(value: object, name: str) -> int:
    return integer(value, name) * NS_PER_US
