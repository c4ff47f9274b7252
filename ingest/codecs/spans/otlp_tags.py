"""Tags under which the Collector writes OTLP's fields in Jaeger and Zipkin spans.

They are removed from the attributes, so that a span reads the same in any encoding. The names are those of
OpenTelemetry's "mapping to non-OTLP formats".
"""

from __future__ import annotations

from typing import Final

STATUS_CODE: Final = "otel.status_code"
STATUS_MESSAGE: Final = "otel.status_description"
TRACE_STATE: Final = "w3c.tracestate"
SCOPE_TAGS: Final = frozenset(
    {"otel.scope.name", "otel.scope.version", "otel.library.name", "otel.library.version"}
)
"""Tags of the instrumentation scope, which is dropped as in OTLP. `library` is its older name."""
FIELD_TAGS: Final = SCOPE_TAGS | {STATUS_CODE, STATUS_MESSAGE, TRACE_STATE}
ERROR_CODES: Final = ("ERROR", "STATUS_CODE_ERROR")
"""Failing status codes as written for Jaeger and for Zipkin."""
