"""Read OTLP JSON item by item, for payloads that the columnar reader refuses.

Accepts what the JSON mapping of protobuf allows in addition to what exporters write (numbers as text or not,
enum names, snake_case field names, ids in base64, nested attribute values, the older
`instrumentationLibrarySpans`), and the responses of Tempo's API (`batches`, `{"trace": …}`). Reports each
invalid item.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import suppress

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.spans.span_batch import NO_TIME
from ingest.codecs.spans.span_rows import SpanRows, ns
from ingest.codecs.values.attributes import plain_value
from ingest.codecs.values.ids import hex_of_base64_id
from ingest.codecs.values.json_fields import ItemError, Object, array, as_object, integer, refuse, text
from schemas.events import SPAN_KIND_BASE
from schemas.rejects import Reason

_KINDS = {
    "SPAN_KIND_UNSPECIFIED": 0,
    "SPAN_KIND_INTERNAL": 1,
    "SPAN_KIND_SERVER": 2,
    "SPAN_KIND_CLIENT": 3,
    "SPAN_KIND_PRODUCER": 4,
    "SPAN_KIND_CONSUMER": 5,
}
_STATUS = {"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}
_OLD_NAMES = {"instrumentationLibrarySpans": "scopeSpans", "instrumentation_library_spans": "scopeSpans"}
_SNAKE = re.compile(r"_([a-z])")


def add_document(rows: SpanRows, payload: int, document: object, log: RejectLog) -> None:
    """Add every valid span of a decoded JSON document as a row; add invalid spans and containers to `log`."""
    item = 0
    try:
        resources = _resources(document)
    except ItemError as error:
        refuse(log, error, document, payload, 0)
        return
    for resource in resources:
        try:
            entry = _object(resource, "an element of resourceSpans")
            attributes = _pairs(_child(entry, "resource"))
            scopes = array(entry, "scopeSpans")
        except (ItemError, RecursionError) as error:
            refuse(log, error, resource, payload, item)
            continue
        number = rows.add_resource(None, None, attributes)
        for scope in scopes:
            try:
                spans = array(_object(scope, "an element of scopeSpans"), "spans")
            except ItemError as error:
                refuse(log, error, scope, payload, item)
                continue
            for span in spans:
                try:
                    _add_span(rows, payload, item, _object(span, "a span"), number)
                except (ItemError, RecursionError) as error:
                    refuse(log, error, span, payload, item)
                item += 1


def _resources(document: object) -> list[object]:
    """Elements of the array `resourceSpans` (or `batches`) of a document. Raises ItemError."""
    fields = _object(document, "the payload")
    if "resourceSpans" not in fields and isinstance(fields.get("trace"), dict):
        fields = _object(fields["trace"], "trace")
    if "resourceSpans" not in fields and "batches" in fields:
        return array(fields, "batches", required=True)
    return array(fields, "resourceSpans", required=True)


def span_values(document: object) -> list[object]:
    """Spans of a decoded document, indexed by the item numbers that `add_document` assigns."""
    out: list[object] = []
    for resource in _resources(document):
        try:
            entry = _object(resource, "")
            _pairs(_child(entry, "resource"))
            scopes = array(entry, "scopeSpans")
        except (ItemError, RecursionError):
            continue
        for scope in scopes:
            try:
                out += array(_object(scope, ""), "spans")
            except ItemError:
                continue
    return out


def count_spans(document: object) -> int:
    """Number of spans in a decoded document, including those that `add_document` refuses together with their
    container."""
    try:
        resources = _resources(document)
    except ItemError:
        return 0
    scopes = (scope for resource in resources for scope in _elements(resource, "scopeSpans"))
    return sum(len(_elements(scope, "spans")) for scope in scopes)


def _elements(parent: object, name: str) -> list[object]:
    """Array in the field `name` of `parent`; empty if absent."""
    value = _object(parent, name).get(name) if isinstance(parent, dict) else None
    return value if isinstance(value, list) else []


def _add_span(rows: SpanRows, payload: int, item: int, span: Object, resource: int) -> None:
    # All fields are read before any is added, so that a refused span adds nothing.
    ids = (_id(span, "traceId"), _id(span, "spanId"), _id(span, "parentSpanId"))
    name = text(span, "name") or ""
    kind = _number(span, "kind", _KINDS)
    times = (_time(span, "startTimeUnixNano"), _time(span, "endTimeUnixNano"))
    attributes = _pairs(span)
    status = _child(span, "status")
    code, message = _number(status, "code", _STATUS), text(status, "message")
    state = text(span, "traceState")
    events = [(text(e, "name") or "", _time(e, "timeUnixNano"), _pairs(e)) for e in _objects(span, "events")]
    links = [(_id(k, "traceId") or "", _id(k, "spanId") or "") for k in _objects(span, "links")]
    rows.add(
        payload,
        item,
        ids,
        name,
        SPAN_KIND_BASE + (kind if 0 <= kind <= 5 else 0),
        times,
        resource,
        attributes,
        error=code == _STATUS["STATUS_CODE_ERROR"],
        trace_state=state,
        message=message,
    )
    for event in events:
        rows.add_event(*event)
    for link in links:
        rows.add_link(*link)


def _object(value: object, what: str) -> Object:
    """Fields of the object `value` under their current names. If a field occurs under its current and an
    older name, the value under the current name is used. Raises ItemError."""
    fields = as_object(value, what)
    if any("_" in key or key in _OLD_NAMES for key in fields):
        return {camel(key): v for key, v in fields.items()} | fields
    return fields


def camel(name: str) -> str:
    """Current name, in camelCase, of a field in OTLP JSON that is given in snake_case or by an older name."""
    if name in _OLD_NAMES:
        return _OLD_NAMES[name]
    return _SNAKE.sub(lambda m: m[1].upper(), name) if "_" in name else name


def _child(parent: Object, name: str) -> Object:
    value = parent.get(name)
    return {} if value is None else _object(value, name)


def _objects(parent: Object, name: str) -> Iterator[Object]:
    return (_object(value, f"an element of {name}") for value in array(parent, name))


def _id(parent: Object, name: str) -> str | None:
    return hex_of_base64_id(text(parent, name))


def _number(parent: Object, name: str, words: dict[str, int]) -> int:
    value = parent.get(name)
    if value is None:
        return 0
    if isinstance(value, str) and value in words:
        return words[value]
    return integer(value, name)


def _time(parent: Object, name: str) -> int:
    value = parent.get(name)
    if value is None or value == "":
        return NO_TIME
    number = integer(value, name)
    return ns(number) if number else NO_TIME


def _pairs(parent: Object) -> list[tuple[str, object]]:
    """Attributes of an object as (key, plain value). Raises ItemError."""
    return [
        (text(pair, "key") or "", plain_value(any_value(pair.get("value"))))
        for pair in _objects(parent, "attributes")
    ]


def any_value(value: object) -> object:
    """Plain Python value of an AnyValue object; None if it has no value. Raises ItemError."""
    if value is None:
        return None
    fields = {k: v for k, v in _object(value, "an attribute value").items() if v is not None}
    for name, read in _READERS.items():
        if name in fields:
            return read(fields[name])
    return None


def _string(value: object) -> object:
    if not isinstance(value, str):
        raise ItemError(Reason.BAD_TYPE, "stringValue is not a string")
    return value


def _boolean(value: object) -> object:
    if not isinstance(value, bool):
        raise ItemError(Reason.BAD_TYPE, "boolValue is not true or false")
    return value


def _double(value: object) -> object:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            return float(value)
    raise ItemError(Reason.BAD_TYPE, "doubleValue is not a number")


def _object_of_values(value: object) -> object:
    pairs = _objects(_object(value, "kvlistValue"), "values")
    return {text(pair, "key") or "": any_value(pair.get("value")) for pair in pairs}


def base64_text(value: object) -> str:
    """Re-encode base64 text in protobuf's canonical form (standard alphabet, padded). Raises ItemError."""
    if isinstance(value, str):
        with suppress(ValueError):
            data = base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
            return base64.b64encode(data).decode()
    raise ItemError(Reason.BAD_TYPE, "bytesValue is not base64")


_READERS = {
    "stringValue": _string,
    "boolValue": _boolean,
    "arrayValue": lambda value: [any_value(v) for v in array(_object(value, "arrayValue"), "values")],
    "kvlistValue": _object_of_values,
    "bytesValue": base64_text,
    "intValue": lambda value: integer(value, "intValue"),
    "doubleValue": _double,
}
"""Field of an AnyValue -> function that reads its value. If several fields are present, the first in this
order is used, as in `OtlpArrowReader`."""
