"""What codecs share that read JSON span by span."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingest.codecs.payloads import json_bytes, refuse_dense, sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import log_bad_spans
from ingest.codecs.spans.span_rows import SpanRows
from ingest.codecs.spans.spans_to_events import events_of_spans
from ingest.codecs.values.json_fields import ItemsOf, read_items
from schemas.config import DecodeConfig

AddSpan = Callable[[SpanRows, int, int, object], None]
"""(rows, payload, item, value): adds one span, or raises ItemError before adding anything."""


def decode_json_spans(
    payloads: Sequence[bytes], config: DecodeConfig, items_of: ItemsOf, add_span: AddSpan
) -> Decoded:
    """Decode payloads of JSON documents (one, or one a line) whose items are spans (`read_items`)."""
    good, log = sized(payloads, config)
    good = refuse_dense(payloads, good, log)
    rows = SpanRows()
    values: dict[tuple[int, int], object] = {}

    def add(payload: int, item: int, value: object) -> None:
        add_span(rows, payload, item, value)
        values[payload, item] = value

    read_items(payloads, good, items_of, add, log)
    result = events_of_spans(rows.batch(), config)
    log_bad_spans(result.bad, lambda payload: lambda item: json_bytes(values[payload, item]), log)
    return Decoded(result.events, log.in_order(), result.oddities, log.counts)
