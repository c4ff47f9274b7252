"""Decode Jaeger JSON: exports of the UI (`jaeger-ui`), and bare spans (`jaeger-json`) of either form.

Spans in the UI's JSON form are read by `jaeger_spans`; spans in protobuf's JSON form, which the Collector
writes, are read here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from ingest.codecs.jaeger.jaeger_spans import JaegerFields, Reference, Tag, add_jaeger_span, add_span
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME
from ingest.codecs.spans.span_rows import SpanRows, decode_json_spans, ns
from ingest.codecs.values.ids import hex_of_id
from ingest.codecs.values.json_fields import ItemError, Object, array, as_object, child, integer, text
from schemas.config import DecodeConfig
from schemas.rejects import Reason


class JaegerJsonCodec:
    """`jaeger-json`: a span, a list of spans, or one span per line.

    A span is written as storage plugins and the UI do, or in protobuf's JSON form as the Collector does.
    """

    name = "jaeger-json"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """Decode payloads (`Codec.decode`). `item` of a reject is the index of the span in its payload."""
        return decode_json_spans(
            payloads,
            config,
            lambda document: document if isinstance(document, list) else [document],
            _add_either,
        )


class JaegerUiCodec:
    """`jaeger-ui`: `{"data": [trace, …]}` as returned by the UI and the HTTP API, or one trace."""

    name = "jaeger-ui"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """Decode payloads (`Codec.decode`). `item` of a reject is the index of the span in its payload."""
        return decode_json_spans(payloads, config, _spans_of_traces, add_jaeger_span)


def _spans_of_traces(document: object) -> Iterator[object]:
    """Yield the spans of the traces in an export, each with its process inserted.

    Items that are no trace are yielded unchanged, so that they are refused as spans.
    """
    export = as_object(document, "the payload")
    traces: Iterable[object] = [export] if "spans" in export else array(export, "data", required=True)
    for trace in traces:
        fields: Object = trace if isinstance(trace, dict) else {}
        spans, processes = fields.get("spans"), fields.get("processes")
        if not isinstance(spans, list):
            yield trace
            continue
        for span in spans:
            if isinstance(span, dict) and span.get("process") is None and isinstance(processes, dict):
                yield {**span, "process": processes.get(str(span.get("processID")))}
            else:
                yield span


def _add_either(rows: SpanRows, payload: int, item: int, value: object) -> None:
    if is_proto_json(value):
        add_proto_json_span(rows, payload, item, value)
    else:
        add_jaeger_span(rows, payload, item, value)


_TAG_TYPES: Final = ("STRING", "BOOL", "INT64", "FLOAT64", "BINARY")
_REFERENCE_TYPES: Final = ("CHILD_OF", "FOLLOWS_FROM")
"""Names of reference types, indexed by enum value."""
_DURATION: Final = re.compile(r"(-?)([0-9]{1,9})(?:\.([0-9]{1,9}))?s")
"""Pattern of a duration of at most 31 years, which fits int64 nanoseconds."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STANDARD: Final = str.maketrans("-_", "+/")
_TIME: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2})?)(?:\.(\d+))?(Z|[+-]\d{2}:?\d{2})", re.ASCII
)
_NS_DIGITS: Final = 9
_UNDERSCORE: Final = re.compile(r"_([a-z0-9])")
_YEAR_ONE: Final = "0001-01-01T00:00:00Z"
"""Text that stands for a time which was never set."""
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_SIGN: Final = frozenset({"traceId", "trace_id", "spanId", "span_id"})


def is_proto_json(value: object) -> bool:
    """True if a span is in protobuf's JSON form, which has `traceId` or `trace_id`; False for the UI's form,
    which has `traceID`."""
    return isinstance(value, dict) and not _SIGN.isdisjoint(value)


def add_proto_json_span(rows: SpanRows, payload: int, item: int, value: object) -> None:
    """Add one span, given in protobuf's JSON form, as a row. Raises ItemError."""
    span = _camel(as_object(value, "a span"))
    start = _time(span, "startTime")
    process = _camel(child(span, "process"))
    fields = JaegerFields(
        trace=_id(span, "traceId", (8, 16)),
        span=_id(span, "spanId", (8,)),
        references=[_reference(r) for r in array(span, "references")],
        name=text(span, "operationName") or "",
        start_ns=start,
        end_ns=ns(start + _duration(span)) if start > BAD_TIME else start,
        tags=_pairs(array(span, "tags")),
        logs=[_log(entry) for entry in array(span, "logs")],
        service=text(process, "serviceName") or None,
        process_tags=_pairs(array(process, "tags")),
    )
    add_span(rows, payload, item, fields)


def _camel(value: Object) -> Object:
    """Copy of an object with field names in camelCase instead of snake_case, which protobuf also accepts; if
    a field has both names, the value under the camelCase name is used."""
    if not any("_" in key for key in value):
        return value
    return {_UNDERSCORE.sub(lambda m: m[1].upper(), key): field for key, field in value.items()} | value


def _id(parent: Object, name: str, widths: tuple[int, ...]) -> str:
    return hex_of_id(_bytes(parent, name), widths)


def _bytes(parent: Object, name: str) -> bytes:
    digits = text(parent, name)
    if not digits:
        return b""
    try:
        return base64.b64decode(digits.translate(_STANDARD), validate=True)
    except ValueError:
        raise ItemError(Reason.BAD_VALUE, f"{name} is not base64") from None


def _reference(value: object) -> Reference:
    reference = _camel(as_object(value, "a reference"))
    kind = _enum(reference.get("refType"), _REFERENCE_TYPES, "refType")
    return kind, _id(reference, "traceId", (8, 16)), _id(reference, "spanId", (8,))


def _enum(value: object, names: tuple[str, ...], field: str) -> str:
    """Name of an enum value that is given by name or number; "" if the value is unknown. names: indexed by
    number. field: name of the field, for messages."""
    if value is None:
        return names[0]
    if isinstance(value, str):
        return value if value in names else ""
    number = integer(value, field)
    return names[number] if 0 <= number < len(names) else ""


def _time(parent: Object, name: str) -> int:
    written = text(parent, name)
    if written is None or written == _YEAR_ONE:
        return NO_TIME
    ts = time_ns(written)
    if ts is None:
        raise ItemError(Reason.BAD_TYPE, f"{name} is no RFC 3339 time")
    return ts or NO_TIME


def time_ns(text: str) -> int | None:
    """Time of an RFC 3339 text, ns since the epoch; BAD_TIME for an impossible moment, None for other
    text.
    """
    found = _TIME.fullmatch(text.upper())
    if found is None:
        return None
    moment, digits, zone = found.groups(default="")
    try:
        since = datetime.fromisoformat(f"{moment}{zone}") - _EPOCH
    except (ValueError, OverflowError):
        return BAD_TIME
    if len(digits) > _NS_DIGITS:
        return BAD_TIME
    return ns((since.days * 86_400 + since.seconds) * 10**9 + int(digits.ljust(_NS_DIGITS, "0")))


def _duration(span: Object) -> int:
    """Duration of a span, ns, from its text `[-]seconds[.digits]s`; 0 if absent."""
    written = text(span, "duration")
    if written is None:
        return 0
    found = _DURATION.fullmatch(written)
    if found is None:
        raise ItemError(Reason.BAD_TYPE, "duration is not seconds, followed by s")
    length = int(found[2]) * 10**9 + int((found[3] or "").ljust(9, "0"))
    return -length if found[1] else length


def _log(value: object) -> tuple[int, list[Tag]]:
    log = as_object(value, "a log")
    return _time(log, "timestamp"), _pairs(array(log, "fields"))


def _pairs(tags: list[object]) -> list[Tag]:
    out: list[Tag] = []
    for entry in tags:
        tag = _camel(as_object(entry, "a tag"))
        kind = _enum(tag.get("vType"), _TAG_TYPES, "vType")
        out.append((text(tag, "key") or "", _value(tag, kind)))
    return out


def _value(tag: Object, kind: str) -> object:
    if kind == "STRING":
        return text(tag, "vStr") or ""
    if kind == "BOOL":
        truth = tag.get("vBool")
        if truth is None or isinstance(truth, bool):
            return bool(truth)
        raise ItemError(Reason.BAD_TYPE, "vBool is no boolean")
    if kind == "INT64":
        return integer(tag.get("vInt64", 0), "vInt64")
    if kind == "FLOAT64":
        return _float(tag.get("vFloat64", 0.0))
    # As in the protobuf message: every other type is bytes.
    return base64.b64encode(_bytes(tag, "vBinary")).decode()


def _float(value: object) -> float:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, str) and (value in _NOT_FINITE or value[:1] in "-0123456789"):
            return float(value)
    except (OverflowError, ValueError):
        pass
    raise ItemError(Reason.BAD_TYPE, "vFloat64 is no number")
