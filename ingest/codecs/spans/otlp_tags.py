"""Tags under which the Collector writes OTLP's fields in Jaeger and Zipkin spans.

They are removed from the attributes, so that a span gives the same event in any encoding. The names are those
of OpenTelemetry's "mapping to non-OTLP formats".
"""

from __future__ import annotations

from typing import Final

STATUS_CODE: Final = "otel.status_code"
STATUS_MESSAGE: Final = "otel.status_description"
TRACE_STATE: Final = "w3c.tracestate"
SCOPE_TAGS: Final = frozenset(
    {"otel.scope.name", "otel.scope.version", "otel.library.name", "otel.library.version"}
)
"""Tags that describe the instrumentation scope, which is dropped here as in OTLP. `otel.library.*` are their
older names."""
FIELD_TAGS: Final = SCOPE_TAGS | {STATUS_CODE, STATUS_MESSAGE, TRACE_STATE}
ERROR_CODES: Final = ("ERROR", "STATUS_CODE_ERROR")
"""Status codes that mean failure, as the Collector writes them for Jaeger and for Zipkin."""
