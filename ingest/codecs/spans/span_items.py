"""What codecs that read span by span share: documents, items, and rejects of either."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ingest.codecs.payloads import documents_of, json_bytes, parse_json, sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import span_rejects
from ingest.codecs.spans.span_rows import SpanRows
from ingest.codecs.spans.spans_to_events import SpanResult, events_of_spans
from ingest.codecs.values.json_fields import ItemError, too_deep
from schemas.config import DecodeConfig
from schemas.rejects import Reject

ItemsOf = Callable[[object], Iterable[object]]
"""Document → its items. Raises ItemError if the document is not of the format."""
AddItem = Callable[[SpanRows, int, int, object], None]
"""(rows, payload, item, value): adds one span, or raises ItemError before adding anything."""


def decode_json_items(
    payloads: Sequence[bytes], config: DecodeConfig, items_of: ItemsOf, add_item: AddItem
) -> Decoded:
    """Decode payloads of JSON documents (one, or one a line) whose items are spans."""
    good, rejects = sized(payloads, config)
    result = read_json_items(payloads, good, config, items_of, add_item, rejects)
    rejects.sort(key=lambda r: (r.payload, r.item))
    return Decoded(result.events, rejects, result.oddities)


def read_json_items(
    payloads: Sequence[bytes],
    indexes: Sequence[int],
    config: DecodeConfig,
    items_of: ItemsOf,
    add_item: AddItem,
    rejects: list[Reject],
) -> SpanResult:
    """The payloads `indexes` span by span; what is refused is appended to `rejects`.

    Items are numbered through a payload, over all its documents; a document that is wrong counts as one.
    """
    rows = SpanRows()
    values: dict[tuple[int, int], object] = {}
    for payload in indexes:
        item = 0
        for document in documents_of(payloads[payload]):
            value = parse_json(document, payload, item)
            if isinstance(value, Reject):
                rejects.append(value)
                item += 1
                continue
            try:
                items = list(items_of(value))
            except ItemError as error:
                rejects.append(error.reject(value, payload, item))
                item += 1
                continue
            for entry in items:
                try:
                    add_item(rows, payload, item, entry)
                    values[payload, item] = entry
                except ItemError as error:
                    rejects.append(error.reject(entry, payload, item))
                except RecursionError:
                    rejects.append(too_deep(entry, payload, item))
                item += 1
    result = events_of_spans(rows.batch(), config)
    rejects += span_rejects(result.bad, lambda payload: lambda item: json_bytes(values[payload, item]))
    return result
