"""Read the tags under which the Collector writes OTLP's fields, in Jaeger's and in Zipkin's spans.

They are taken off, so that a span reads the same in whichever encoding it came. The names are those of
OpenTelemetry's "mapping to non-OTLP formats".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.values.attributes import AttributeTable
from ingest.codecs.values.columns import mask
from schemas.arrays import B1

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


def without_field_tags(tags: AttributeTable) -> AttributeTable:
    """The tags that are attributes."""
    codes = [code for code, key in enumerate(tags.keys) if key in FIELD_TAGS]
    return tags.rows(~np.isin(tags.code, codes)) if codes else tags


def text_of(tags: AttributeTable, key: str, n_spans: int) -> pa.Array | None:
    """[n_spans] the first value under a key; None where no span has it."""
    return tags.first_text(key, n_spans) if key in tags.keys else None


def failed_spans(tags: AttributeTable, n_spans: int) -> B1:
    """[n_spans] the status code says ERROR."""
    code = text_of(tags, STATUS_CODE, n_spans)
    if code is None:
        return np.zeros(n_spans, np.bool_)
    return mask(pc.is_in(pc.utf8_upper(code), pa.array(ERROR_CODES)))
