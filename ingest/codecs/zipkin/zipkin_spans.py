"""Convert a Zipkin span, from JSON or protobuf, to a row of SpanRows.

Only this module defines what a Zipkin span means. Data that the Collector writes as tags because Zipkin has
no field for it (host, links, status, kind, attributes of events) is restored from the tags. Tags whose text
is a canonical number become numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from ingest.codecs.payloads import JSON_ERRORS
from ingest.codecs.spans.otlp_tags import (
    ERROR_CODES,
    FIELD_TAGS,
    SCOPE_TAGS,
    STATUS_CODE,
    STATUS_MESSAGE,
    TRACE_STATE,
)
from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME, SpanBatch
from ingest.codecs.spans.span_rows import SpanRows, ns
from ingest.codecs.values.attributes import plain_value
from ingest.codecs.values.written_numbers import with_numbers
from schemas.config import DecodeConfig
from schemas.events import SPAN_KINDS, EventKind

_NS_PER_US = 1000
_LINK_KEY = re.compile(r"otlp\.link\.([0-9]{1,6})")
_LINK: Final = re.compile(r"([0-9a-fA-F]{32})\|([0-9a-fA-F]{16})\|")
"""Pattern of the beginning of a link written as a tag's text: traceid|spanid|tracestate|{attributes}|number
of dropped attributes."""
_DROPPED: Final = re.compile(r"[0-9]+")
"""Pattern of the number of dropped attributes at the end of an annotation that is a span event:
name|{attributes}|number."""
_ATTRIBUTES = msgspec.json.Decoder(dict[str, object])

KINDS: Final[dict[str | None, EventKind]] = {
    None: EventKind.SPAN_UNSPECIFIED,
    **{name: SPAN_KINDS[name] for name in ("CLIENT", "SERVER", "PRODUCER", "CONSUMER")},
}
"""Name of a span kind in JSON -> EventKind, in the order of protobuf's numbers."""


class ZipkinFields(NamedTuple):
    """Fields of a Zipkin span, from JSON or protobuf. Times are µs since the epoch, durations µs; 0 and None
    both mean "not given"."""

    ids: tuple[str | None, str | None, str | None]
    """(Trace id, span id, span id of the parent)."""
    name: str
    kind: EventKind
    timestamp: int | None
    duration: int | None
    local: tuple[str | None, str | None]
    """(Service name, IP address) of the local endpoint."""
    remote: tuple[str | None, str | None]
    """(Service name, IP address) of the remote endpoint."""
    annotations: list[tuple[int | None, str]]
    tags: dict[str, str]
    shared: bool


def add_zipkin_span(
    rows: SpanRows, payload: int, item: int, fields: ZipkinFields, config: DecodeConfig
) -> None:
    """Add one span as a row; `batch_of` later converts tags that are numbers."""
    tags = dict(fields.tags)
    links = _take_links(tags)
    service, address = fields.local
    host_key = next((key for key in config.host_keys if tags.get(key)), None)
    host = address if host_key is None else tags.pop(host_key)
    kind = fields.kind
    if kind == EventKind.SPAN_UNSPECIFIED and tags.get("span.kind") == "internal":
        kind = EventKind.SPAN_INTERNAL  # Zipkin has no word for it
        del tags["span.kind"]
    peer, peer_address = (part or None for part in fields.remote)
    # Tags about the remote endpoint take precedence over the endpoint.
    endpoint = {"peer.ip": peer_address, "peer.service": peer}
    rows.add(
        payload,
        item,
        fields.ids,
        fields.name,
        kind,
        _times(fields.timestamp, fields.duration, is_of_sdk=not SCOPE_TAGS.isdisjoint(tags)),
        rows.add_resource(
            service or None, host or None, ((k, v) for k, v in endpoint.items() if v and k not in fields.tags)
        ),
        # Other OTLP fields, and an error that only repeats the status, are not attributes.
        (
            (key, text)
            for key, text in tags.items()
            if key not in FIELD_TAGS and not (key == "error" and text in ("true", "false"))
        ),
        # The text of the tag is a message, not a class.
        error=tags.get("error", "false").lower() != "false"
        or tags.get(STATUS_CODE, "").upper() in ERROR_CODES,
        trace_state=tags.get(TRACE_STATE),
        message=tags.get(STATUS_MESSAGE),
        peer=peer,
        shared=fields.shared,
    )
    for link in links:
        rows.add_link(*link)
    for timestamp, value in fields.annotations:
        name, attributes = _event(value)
        rows.add_event(name, _ns(timestamp), attributes.items())


def batch_of(rows: SpanRows) -> SpanBatch:
    """Convert all added spans to columns; tags that are canonical numbers become numbers."""
    batch = rows.batch()
    return replace(batch, attributes=with_numbers(batch.attributes))


def _take_links(tags: dict[str, str]) -> list[tuple[str, str]]:
    """Extract the links that the Collector wrote as tags: (trace id, span id) of each, in order; their tags
    are removed from `tags`.

    An id of zeros is no link.
    """
    named = [key for key in tags if key.startswith("otlp.link.")]
    numbered = sorted((int(found[1]), key) for key in named if (found := _LINK_KEY.fullmatch(key)))
    links = {key: found for _, key in numbered if (found := _LINK.match(tags[key]))}
    for key in links:
        del tags[key]
    return [(found[1], found[2]) for found in links.values()]


def _ns(us: int | None) -> int:
    return ns(us * _NS_PER_US) if us else NO_TIME


def _times(timestamp: int | None, duration: int | None, *, is_of_sdk: bool) -> tuple[int, int]:
    """(start, end) of a span, ns; NO_TIME if unknown, BAD_TIME if invalid.

    is_of_sdk: True for a span exported by an SDK, for which a missing duration means 0: only ended spans are
    exported, and Zipkin's JSON and protobuf omit zeros.
    """
    start = _ns(timestamp)
    if start in (NO_TIME, BAD_TIME) or not (duration or is_of_sdk):
        return start, NO_TIME
    length = duration or 0
    return start, ns(start + length * _NS_PER_US) if length >= 0 else BAD_TIME


def _event(text: str) -> tuple[str, Mapping[str, object]]:
    """Parse an annotation `name|{…}|0` that is a span event: (name, attributes); if the middle is no object,
    the whole text is the name."""
    begin, end = text.find("|{"), text.rfind("}|")
    if 0 <= begin < end and _DROPPED.fullmatch(text, end + 2):
        try:
            fields = _ATTRIBUTES.decode(text[begin + 1 : end + 1])
            return text[:begin], {key: plain_value(value) for key, value in fields.items()}
        except JSON_ERRORS:
            pass
    return text, {}
