"""How many items a payload has at least, counted without the codecs: so many events and dead letters.

Where a container may be refused as one item it counts as one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pyarrow as pa
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest.codecs.zipkin.zipkin_proto import SpanBodies

_LARGE: Final = 2**20
"""Of what is larger, or dense, whole parts may be refused."""
_BOM: Final = b"\xef\xbb\xbf"
_JSON_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def least_items(format_: str, payload: bytes) -> int:
    """The least number of events and dead letters that a payload makes."""
    if not payload or payload.isspace() or len(payload) > _LARGE:
        return 1
    if format_ in _OF_MESSAGES:
        try:
            return _OF_MESSAGES[format_](payload)
        except DecodeError:
            return 1
    text = payload.removeprefix(_BOM)
    try:
        document = msgspec.json.decode(text)
    except _JSON_ERRORS:
        return _of_lines(format_, text)
    return _OF_DOCUMENTS[format_](document)


def _of_lines(format_: str, text: bytes) -> int:
    """What is no JSON document may be one on each line, of formats that have no such files too."""
    if format_ == "native" and not text.lstrip(b" \t\r\n").startswith(b"["):
        return sum(1 for line in text.split(b"\n") if line.strip())
    return 0 if format_ == "otlp-json" and b"\n" in text else 1


def _spans_of_otlp(payload: bytes) -> int:
    request = ExportTraceServiceRequest.FromString(payload)
    if not request.resource_spans:
        return 1
    return sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)


def _list(value: object) -> int:
    return len(value) if isinstance(value, list) else 1


def _of_zipkin(document: Any) -> int:
    """A span, a list of spans, or of lists of them."""
    entries = document if isinstance(document, list) else [document]
    return sum(_list(entry) for entry in entries)


def _of_otlp(document: Any) -> int:
    """One for each resource with a span: its attributes may be wrong, and it is refused as a whole."""
    resources = document.get("resourceSpans") if isinstance(document, dict) else None
    return sum(_has_spans(resource) for resource in resources) if isinstance(resources, list) else 0


def _has_spans(resource: Any) -> bool:
    scopes = resource.get("scopeSpans") if isinstance(resource, dict) else None
    if not isinstance(scopes, list):
        return False
    return any(bool(scope.get("spans")) for scope in scopes if isinstance(scope, dict))


def _of_jaeger_ui(document: Any) -> int:
    traces = [document] if isinstance(document, dict) and "spans" in document else None
    if traces is None:
        traces = document.get("data") if isinstance(document, dict) else None
    return sum(_of_container(trace, "spans") for trace in traces) if isinstance(traces, list) else 1


def _of_xtrace(document: Any) -> int:
    return sum(
        _of_container(task, "reports") for task in (document if isinstance(document, list) else [document])
    )


def _of_container(value: Any, field: str) -> int:
    return _list(value.get(field)) if isinstance(value, dict) else 1


def _of_table(payload: bytes) -> int:
    try:
        return max(pa.ipc.open_stream(payload).read_all().num_rows, 1)
    except (pa.ArrowException, OSError):
        return 1


_OF_MESSAGES: Final[dict[str, Callable[[bytes], int]]] = {
    "parquet": _of_table,
    "otlp-proto": _spans_of_otlp,
    "zipkin-proto": lambda payload: len(SpanBodies.FromString(payload).spans) or 1,
    "jaeger-proto": lambda _: 1,
}
_OF_DOCUMENTS: Final[dict[str, Callable[[Any], int]]] = {
    "native": _list,
    "otlp-json": _of_otlp,
    "zipkin": _of_zipkin,
    "jaeger-json": _list,
    "jaeger-ui": _of_jaeger_ui,
    "xtrace": _of_xtrace,
}
