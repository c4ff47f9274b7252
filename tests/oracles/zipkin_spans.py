"""Zipkin spans one by one, the obvious way: what the columns must say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from ingest.codecs.spans.otlp_tags import FIELD_TAGS, SCOPE_TAGS
from ingest.codecs.spans.span_batch import NO_TIME, SpanBatch
from ingest.codecs.spans.span_rows import SpanRows, ns
from schemas.config import DecodeConfig
from schemas.events import EventKind

_KINDS = {None: EventKind.SPAN_UNSPECIFIED} | {
    name: EventKind[f"SPAN_{name}"] for name in ("CLIENT", "SERVER", "PRODUCER", "CONSUMER")
}


def zipkin_batch(lists: list[list[dict[str, Any]]], config: DecodeConfig) -> SpanBatch:
    """Lists of spans of the v2 model (as in JSON), a payload each."""
    rows = SpanRows()
    for payload, batch in enumerate(lists):
        for item, span in enumerate(batch):
            _add_span(rows, payload, item, span, config)
    every = [span for batch in lists for span in batch]
    return replace(
        rows.batch(),
        peer=pa.array(
            [(s.get("remoteEndpoint") or {}).get("serviceName") or None for s in every], pa.string()
        ),
        shared=np.array([bool(s.get("shared")) for s in every], np.bool_),
    )


def _add_span(rows: SpanRows, payload: int, item: int, span: dict[str, Any], config: DecodeConfig) -> None:
    """One span of the v2 model (as in JSON) as a row."""
    tags: dict[str, str] = dict(span.get("tags") or {})
    start = _time(span.get("timestamp"))
    duration = span.get("duration") or 0
    end = ns(start + duration * 1000) if start != NO_TIME and duration else NO_TIME
    if not duration and SCOPE_TAGS & tags.keys():
        end = start
    links = []
    for key in sorted((k for k in tags if re.fullmatch(r"otlp\.link\.[0-9]{1,6}", k)), key=_number_of):
        found = re.match(r"([0-9a-fA-F]{32})\|([0-9a-fA-F]{16})\|", tags[key])
        if found:
            links.append((found[1], found[2]))
            del tags[key]
    failed = tags.get("error", "false").lower() != "false"
    failed |= tags.get("otel.status_code", "").upper() in ("ERROR", "STATUS_CODE_ERROR")
    local, remote = span.get("localEndpoint") or {}, span.get("remoteEndpoint") or {}
    host = local.get("ipv4") or local.get("ipv6")
    for key in config.host_keys:
        if tags.get(key):
            host = tags.pop(key)
            break
    kind = _KINDS[span.get("kind")]
    if kind == EventKind.SPAN_UNSPECIFIED and tags.get("span.kind") == "internal":
        kind = EventKind.SPAN_INTERNAL
        del tags["span.kind"]
    message, state = tags.get("otel.status_description"), tags.get("w3c.tracestate")
    attributes: list[tuple[str, object]] = [
        (key, text if (number := number_in(text)) is None else number)
        for key, text in tags.items()
        if key not in FIELD_TAGS and (key, text) not in (("error", "true"), ("error", "false"))
    ]
    endpoint = {
        "peer.ip": remote.get("ipv4") or remote.get("ipv6"),
        "peer.service": remote.get("serviceName"),
    }
    attributes += [(key, said) for key, said in endpoint.items() if said and key not in tags]
    rows.add(
        payload,
        item,
        (span.get("traceId"), span.get("id"), span.get("parentId")),
        span.get("name") or "",
        kind,
        (start, end),
        rows.add_resource(local.get("serviceName"), host, ()),
        attributes,
        error=failed,
        trace_state=state,
        message=message,
    )
    for link in links:
        rows.add_link(*link)
    for annotation in span.get("annotations") or []:
        name, fields = _event(annotation.get("value") or "")
        rows.add_event(name, _time(annotation.get("timestamp")), fields.items())


def number_in(text: str) -> float | None:
    """The number that is printed as `text`, if there is one."""
    if not re.fullmatch(r"-?[0-9][-+.e0-9]{0,24}", text):
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    if not np.isfinite(value):
        return None
    shortest = repr(value)
    printed = {shortest, re.sub(r"e([-+])0+", r"e\1", shortest)} if "e" in shortest else set()
    if value.is_integer():
        printed.add(str(int(value)))
    else:
        printed.add(np.format_float_positional(value, unique=True, trim="-"))
    return value if text in printed - {"-0"} else None


def _number_of(key: str) -> int:
    return int(key.rpartition(".")[2])


def _time(us: int | None) -> int:
    return ns(us * 1000) if us else NO_TIME


def _event(text: str) -> tuple[str, dict[str, object]]:
    """`name|{…}|0`, or a plain name."""
    begin, end = text.find("|{"), text.rfind("}|") + 1
    if begin >= 0 and end > begin and re.fullmatch("[0-9]+", text[end + 1 :]):
        try:
            return text[:begin], msgspec.json.decode(text[begin + 1 : end], type=dict[str, object])
        except msgspec.DecodeError:
            pass
    return text, {}
