"""Encode events as OTLP, in JSON lines. For export, not for hot paths.

Decoding the result gives equal events, except for data that OTLP has no field for: 64-bit trace ids come back
with 128 bits, `shared` as an attribute, FOLLOWS_FROM parents as links, and a `peer` or error class that was
not an attribute as an additional parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from schemas.errors import InputError
from schemas.events import SPAN_KIND_BASE, with_text_ids

SPANS_PER_MESSAGE = 100
"""Number of spans per message, about that of the Collector's batch processor."""
_STATUS_ERROR = 2
_THRESHOLD_SPACE = 1 << 56

Row = dict[str, Any]
Attribute = tuple[str, str | float | bool]


def otlp_json_lines(events: pa.Table, spans_per_message: int = SPANS_PER_MESSAGE) -> Iterator[bytes]:
    """Yield `ExportTraceServiceRequest` objects as JSON, one per line (without line end). Raises InputError
    on activity records.
    """
    for resources in _requests(events, spans_per_message):
        yield msgspec.json.encode(
            {
                "resourceSpans": [
                    {
                        "resource": {"attributes": [_json_pair(a) for a in resource]},
                        "scopeSpans": [{"spans": [_json_span(row) for row in rows]}],
                    }
                    for resource, rows in resources
                ]
            }
        )


def _requests(events: pa.Table, size: int) -> Iterator[list[tuple[list[Attribute], list[Row]]]]:
    """Yield slices of `size` spans; each slice is a list of (attributes of a resource, spans of that
    resource)."""
    if events.num_rows and pc.min(events["kind"]).as_py() < SPAN_KIND_BASE:
        raise InputError("Activity records are no spans.", remedy="Write them in the native format.")
    for start in range(0, events.num_rows, size):
        rows = with_text_ids(events.slice(start, size)).to_pylist()
        rows.sort(key=lambda r: (r["component"], r["host"] or ""))
        groups = groupby(rows, key=lambda r: (r["component"], r["host"]))
        yield [(_resource(component, host), list(group)) for (component, host), group in groups]


def _resource(component: str, host: str | None) -> list[Attribute]:
    attributes: list[Attribute] = [] if component == "?" else [("service.name", component)]
    return attributes if host is None else [*attributes, ("host.name", host)]


def _attributes(row: Row) -> list[Attribute]:
    """Attributes of an event's span in OTLP: the event's parameters, and the columns that are attributes in
    OTLP."""
    params = row["params"] or []
    out: list[Attribute] = [(p["key"], p["text"] if p["num"] is None else p["num"]) for p in params]
    known = {key for key, _ in out}
    extra: dict[str, Any] = {
        "flowdiff.label": row["label"],
        "error.type": None if row["status"] in ("ok", "error") else row["status"],
        "peer.service": None if known & {"server.address", "net.peer.name"} else row["peer"],
        "zipkin.shared": True if row["shared"] else None,
    }
    return out + [(key, value) for key, value in extra.items() if value is not None and key not in known]


def _trace_state(row: Row) -> str:
    """Trace state `ot=th:T` that encodes the event's sampling probability; empty if it is unknown."""
    rate = row["sample_rate"]
    return f"ot=th:{threshold(rate)}" if isinstance(rate, float) else ""


def threshold(rate: float) -> str:
    """Value T of `th` in OpenTelemetry's tracestate for the sampling probability `rate`.

    T is the hex digits of the threshold in rate = 1 - T/2^56, without trailing zeros.
    """
    return f"{_THRESHOLD_SPACE - round(rate * _THRESHOLD_SPACE):014x}".rstrip("0") or "0"


def _links(row: Row) -> list[tuple[str, str]]:
    """(trace id, span id) of all links of an event and of its FOLLOWS_FROM parents, which OTLP has as
    links."""
    links = [tuple(link.split("/", 1)) for link in row["links"] or []]
    return links + [(str(row["request_id"]), span) for span in row["follows"] or []]


def _trace(text: object) -> str:
    return str(text).rjust(32, "0")


def _parent(row: Row) -> str:
    parents = row["parents"]
    return str(parents[0]) if isinstance(parents, list) and parents else ""


def _json_span(row: Row) -> dict[str, object]:
    span: dict[str, object] = {
        "traceId": _trace(row["request_id"]),
        "spanId": row["id"],
        "parentSpanId": _parent(row),
        "traceState": _trace_state(row),
        "name": row["point"],
        "kind": row["kind"] - SPAN_KIND_BASE,
        "startTimeUnixNano": str(row["ts_ns"] or 0),
        "endTimeUnixNano": str(row["end_ns"] or 0),
        "attributes": [_json_pair(a) for a in _attributes(row)],
        "events": [{"timeUnixNano": str(m["ts_ns"]), "name": m["name"]} for m in row["marks"] or []],
        "links": [{"traceId": _trace(t), "spanId": s} for t, s in _links(row)],
        "status": {} if row["status"] == "ok" else {"code": _STATUS_ERROR},
    }
    return {name: value for name, value in span.items() if value not in ("", [], {})}


def _json_pair(attribute: Attribute) -> dict[str, object]:
    key, value = attribute
    if isinstance(value, bool):
        return {"key": key, "value": {"boolValue": value}}
    if isinstance(value, str):
        return {"key": key, "value": {"stringValue": value}}
    return {"key": key, "value": {"doubleValue": value}}
