"""Decode formats in which each span is a protobuf message, span by span."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import SpanBatch, log_bad_spans
from ingest.codecs.spans.span_rows import SpanRows
from ingest.codecs.spans.spans_to_events import SpanResult, decoded_spans, events_of_spans
from ingest.codecs.values.protobuf import MAX_FIELDS, PART_BYTES, has_many_fields
from schemas.config import DecodeConfig
from schemas.rejects import Reason, Reject

_MOST_SPANS: Final = 5_000
"""Maximum number of spans converted to events in one call: a call takes at least 2 ms, and columns of many
spans take much memory."""
_CROWDED: Final = f"the span has more than {MAX_FIELDS:,} fields"


def decode_messages(
    payloads: Sequence[bytes],
    good: Sequence[int],
    config: DecodeConfig,
    log: RejectLog,
    message: Any,
    add: Callable[[SpanRows, int, int, Any], None],
    bodies_of: Callable[[bytes], list[bytes]] = lambda payload: [payload],
    batch_of: Callable[[SpanRows], SpanBatch] = SpanRows.batch,
) -> Decoded:
    """Decode the payloads with indexes `good`, in which each span is a protobuf message, span by span.
    O(bytes).

    message: message class of a span. add: adds one parsed span as a row (rows, payload, item, span).
    bodies_of: returns the bytes of each span in a payload, may raise DecodeError. batch_of: converts the rows
    to columns.
    """
    results: list[SpanResult] = []
    parse = message.FromString
    rows, n_bytes = SpanRows(), 0

    def refuse(reason: Reason, detail: str, payload: int, item: int, raw: bytes) -> None:
        log.add(Reject(reason, detail, raw, payload, item))

    def take() -> None:
        result = events_of_spans(batch_of(rows), config)
        log_bad_spans(result.bad, lambda payload: bodies_of(payloads[payload]).__getitem__, log)
        if len(result.payload):  # a result without events would only keep memory
            results.append(result)

    for payload in good:
        try:
            bodies = bodies_of(payloads[payload])
        except DecodeError:
            refuse(Reason.BAD_PROTOBUF, "no list of spans", payload, 0, payloads[payload])
            continue
        for item, body in enumerate(bodies):
            if len(body) > PART_BYTES and has_many_fields(body, message.DESCRIPTOR):
                refuse(Reason.TOO_LARGE, _CROWDED, payload, item, body)
                continue
            try:
                add(rows, payload, item, parse(body))
            except DecodeError:
                detail = f"no {message.DESCRIPTOR.full_name} message"
                refuse(Reason.BAD_PROTOBUF, detail, payload, item, body)
            n_bytes += len(body)
            if len(rows) >= _MOST_SPANS or n_bytes > PART_BYTES:
                if len(rows) >= _MOST_SPANS or rows.size > MAX_FIELDS:  # a span may have many attributes
                    take()
                    rows = SpanRows()
                n_bytes = 0
    take()
    return decoded_spans(results, log)
