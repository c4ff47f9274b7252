"""Convert a Jaeger span, in any encoding, to a row of SpanRows; parse the JSON that the UI and storage
plugins write."""

from __future__ import annotations

from typing import NamedTuple

from ingest.codecs.spans.otlp_tags import (
    ERROR_CODES,
    FIELD_TAGS,
    STATUS_CODE,
    STATUS_MESSAGE,
    TRACE_STATE,
)
from ingest.codecs.spans.span_batch import NO_TIME
from ingest.codecs.spans.span_rows import SpanRows, ns
from ingest.codecs.values.attributes import plain_value
from ingest.codecs.values.json_fields import ItemError, Object, array, as_object, child, integer, text
from schemas.events import SPAN_KINDS, EventKind
from schemas.rejects import Reason

Tag = tuple[str, object]
Reference = tuple[str, str, str]
"""Reference from one span to another: (type, trace id, span id)."""

_NS_PER_US = 1000
PLAIN_ERRORS = ("true", "false")
"""Values of the tag `error` that add nothing to the span's status."""
FALSE_WORDS = ("", "false", "0")
"""Values of the tag `error`, in lower case, that mean success."""
HOST_TAGS = ("hostname", "ip")
"""Names of process tags by which Jaeger clients name the machine, the preferred one first."""


class JaegerFields(NamedTuple):
    """Fields of a Jaeger span, from JSON or protobuf. Times are ns since the epoch; NO_TIME: missing,
    BAD_TIME: invalid."""

    trace: str | None
    span: str | None
    references: list[Reference]
    name: str
    start_ns: int
    end_ns: int
    tags: list[Tag]
    logs: list[tuple[int, list[Tag]]]
    """(time in ns, fields) of each log of the span."""
    service: str | None
    process_tags: list[Tag]
    parent: str | None = None
    """Span id of the parent, if given in an older field outside the references; None: not given."""


def add_span(rows: SpanRows, payload: int, item: int, fields: JaegerFields) -> None:
    """Add a Jaeger span as a row; its kind, status and tracestate are taken from its tags."""
    tags = fields.tags
    first = {key: _as_text(value) for key, value in reversed(tags)}
    kind = SPAN_KINDS.get(first.get("span.kind", "").upper(), EventKind.SPAN_UNSPECIFIED)
    failed = first.get("error", "").lower() not in FALSE_WORDS
    failed |= first.get(STATUS_CODE, "").upper() in ERROR_CODES
    # Kind, a bare "error" and OTLP fields are not attributes: they have their own columns.
    named = kind != EventKind.SPAN_UNSPECIFIED
    rest = [
        (key, value)
        for key, value in tags
        if not (key == "span.kind" and named)
        and not (key == "error" and _as_text(value) in PLAIN_ERRORS)
        and key not in FIELD_TAGS
    ]
    parent, follows, links = _sorted_references(fields.trace or "", fields.references, fields.parent)
    rows.add(
        payload,
        item,
        (fields.trace, fields.span, parent),
        fields.name,
        kind,
        (fields.start_ns, fields.end_ns),
        rows.add_resource(fields.service, *_split_host(fields.process_tags)),
        rest,
        error=failed,
        trace_state=first.get(TRACE_STATE),
        message=first.get(STATUS_MESSAGE),
    )
    for span in follows:
        rows.add_follows(span)
    for link in links:
        rows.add_link(*link)
    for ts, pairs in fields.logs:
        _add_log(rows, ts, pairs)


def add_jaeger_span(rows: SpanRows, payload: int, item: int, value: object) -> None:
    """Parse a span in the UI's JSON form, with its process inserted, and add it as a row. Raises
    ItemError."""
    span = as_object(value, "a span")
    start, duration = _time(span, "startTime"), span.get("duration")
    process = child(span, "process")
    fields = JaegerFields(
        trace=text(span, "traceID"),
        span=text(span, "spanID"),
        parent=text(span, "parentSpanID"),
        references=[_reference(reference) for reference in array(span, "references")],
        name=text(span, "operationName") or "",
        start_ns=start,
        end_ns=NO_TIME if duration is None or start == NO_TIME else ns(start + _us(duration, "duration")),
        tags=read_tags(array(span, "tags")),
        logs=[_log(entry) for entry in array(span, "logs")],
        service=text(process, "serviceName"),
        process_tags=read_tags(array(process, "tags")),
    )
    add_span(rows, payload, item, fields)


def _as_text(value: object) -> str:
    """Value of a tag as text; whole numbers without a decimal point."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53:
        return str(int(value))
    return "" if value is None else str(value)


def _sorted_references(
    trace: str, references: list[Reference], parent: str | None
) -> tuple[str | None, list[str], list[tuple[str, str]]]:
    """Sort references by meaning: (parent's span id, span ids that the span follows, (trace id, span id) of
    its links).

    The first CHILD_OF to a span of the same trace is the parent; FOLLOWS_FROM to spans of the same trace are
    asynchronous parents; all other references are links. A span id of zeros is ignored; a trace id of zeros
    stands for the span's own trace. parent: `JaegerFields.parent`.
    """
    own = trace.lstrip("0").lower()
    named = [
        (kind, other, span, other.lstrip("0").lower() in ("", own))
        for kind, other, span in references
        if span.strip("0")
    ]
    if not parent:
        parent = next((span for kind, _, span, same in named if same and kind == "CHILD_OF"), parent)
    follows = [span for kind, _, span, same in named if same and kind == "FOLLOWS_FROM"]
    links = [
        (other if other.strip("0") else trace, span)
        for kind, other, span, same in named
        if not (same and (kind == "FOLLOWS_FROM" or span == parent))
    ]
    return parent, follows, links


def _add_log(rows: SpanRows, ts: int, pairs: list[Tag]) -> None:
    """Add a log as a span event at time `ts`, ns: the field `event` (or `message`) is its name, the other
    fields are its attributes."""
    fields = dict(reversed(pairs))
    key = next((k for k in ("event", "message") if isinstance(fields.get(k), str)), None)
    name = str(fields[key]) if key is not None else "log"
    rows.add_event(name, ts, [(k, v) for k, v in pairs if k != key])


def read_tags(tags: list[object]) -> list[Tag]:
    """Typed values of tags given as `{key, type, value}`. Raises ItemError."""
    out: list[Tag] = []
    for entry in tags:
        tag = as_object(entry, "a tag")
        key = text(tag, "key")
        if key is None:
            raise ItemError(Reason.MISSING_FIELD, "a tag has no key")
        out.append((key, _typed(tag.get("value"), tag.get("type"))))
    return out


def _typed(value: object, kind: object) -> object:
    """Value of a tag, converted to the type `kind` that the tag states: storage plugins write every value as
    text."""
    if isinstance(value, str):
        if kind == "bool" and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if kind in ("int64", "float64"):
            try:
                return int(value) if kind == "int64" else float(value)
            except ValueError:
                return value
    return plain_value(value)


def _reference(value: object) -> Reference:
    reference = as_object(value, "a reference")
    kind = text(reference, "refType") or "CHILD_OF"
    return kind, text(reference, "traceID") or "", text(reference, "spanID") or ""


def _us(value: object, name: str) -> int:
    return integer(value, name) * _NS_PER_US


def _time(parent: Object, name: str) -> int:
    value = parent.get(name)
    if value is None or value == 0:
        return NO_TIME
    return ns(_us(value, name))


def _log(value: object) -> tuple[int, list[Tag]]:
    log = as_object(value, "a log")
    return _time(log, "timestamp"), read_tags(array(log, "fields"))


def _split_host(tags: list[Tag]) -> tuple[str | None, list[Tag]]:
    """Extract the host from process tags: (host, or None if no tag names it; the other tags)."""
    for key in HOST_TAGS:
        for name, value in tags:
            if name == key and isinstance(value, str) and value:
                return value, [(k, v) for k, v in tags if k != key]
    return None, tags
