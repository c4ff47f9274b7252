"""Name the tags under which the Collector writes OTLP's fields, in Jaeger's and in Zipkin's spans.

They are taken off, so that a span reads the same in whichever encoding it came. The names are those of
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
"""Of OTLP the scope is not kept either. `library` is its older name."""
FIELD_TAGS: Final = SCOPE_TAGS | {STATUS_CODE, STATUS_MESSAGE, TRACE_STATE}
ERROR_CODES: Final = ("ERROR", "STATUS_CODE_ERROR")
"""Of Jaeger, and of Zipkin."""
