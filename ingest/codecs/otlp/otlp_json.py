"""Decode OTLP JSON: a payload is one `ExportTraceServiceRequest` object, one such object per line, or an
array of them.

pyarrow.json reads all documents at once into nested Arrow arrays if their field names are those that
exporters write. If it refuses a list of documents, the list is halved until few documents remain. These
documents, and documents with a refused span, are read again item by item, which is slower, more lenient about
types, and reports the invalid part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.otlp.otlp_arrow import OtlpArrowReader
from ingest.codecs.otlp.otlp_json_items import add_document, any_value, base64_text, camel, span_values
from ingest.codecs.payloads import (
    JSON_ERRORS,
    documents_of,
    json_bytes,
    parse_json,
    refuse_dense,
    runs_of,
    sized,
)
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import SpanBatch, log_bad_spans
from ingest.codecs.spans.span_rows import SpanRows
from ingest.codecs.spans.spans_to_events import SpanResult, decoded_spans, events_of_spans
from ingest.codecs.values.json_fields import ItemError
from schemas.config import DecodeConfig
from schemas.rejects import Reject

_ANSWER: Final = re.compile(rb'\s*\{\s*"result"\s*:')
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class OtlpJsonCodec:
    """`otlp-json`: one request object per payload or per line, or an array of request objects."""

    name = "otlp-json"

    def decode(self, payloads: Sequence[bytes], config: DecodeConfig) -> Decoded:
        """Decode payloads (`Codec.decode`). In a payload of several documents, `item` of a reject is the
        document's index.

        O(bytes).
        """
        good, log = sized(payloads, config)
        good = refuse_dense(payloads, good, log)
        documents: list[_Document] = []
        for index in good:
            texts = texts_of(payloads[index])
            documents += [
                _Document(text, index, line if len(texts) > 1 else None) for line, text in enumerate(texts)
            ]
        results: list[SpanResult] = []
        texts = [d.text for d in documents]
        left: list[int] = [i for i, text in enumerate(texts) if not is_plain_object(text)]
        plain = sorted(set(range(len(documents))).difference(left))
        for run in runs_of(plain, [len(texts[i]) + 1 for i in plain], _RUN_BYTES):
            left += _read_run(texts, run, config, results)
        _read_items(documents, sorted(left), config, results, log)
        payload = np.array([d.payload for d in documents], np.int64)
        results = [replace(result, payload=payload[result.payload]) for result in results]
        return decoded_spans(results, log)


@dataclass(frozen=True, slots=True)
class _Document:
    text: bytes
    payload: int
    line: int | None
    """Index of the document among the payload's lines or array elements; None: the payload is one
    document."""


def texts_of(payload: bytes) -> list[bytes]:
    """Split a payload into documents: the elements of an array, if any is an object; else the whole payload,
    without the wrapping of Jaeger's API."""
    texts: list[bytes] = []
    for text in documents_of(payload):
        elements: list[msgspec.Raw] = []
        if text.lstrip()[:1] == b"[":
            with suppress(*JSON_ERRORS):  # the reader reports the error
                elements = _ELEMENTS.decode(text)
        parts = [bytes(element) for element in elements]
        texts += parts if any(part.startswith(b"{") for part in parts) else [text]
    return [_unwrapped(text) for text in texts]


def _unwrapped(text: bytes) -> bytes:
    """Request inside a response of Jaeger's API (`{"result": …}`, one line of a stream); any other text is
    returned unchanged."""
    if _ANSWER.match(text):
        with suppress(*JSON_ERRORS):  # the reader reports the error
            members = _MEMBERS.decode(text)
            if members.keys() == {"result"}:
                return bytes(members["result"])
    return text


def _columns(texts: list[bytes], run: list[int]) -> SpanBatch | None:
    """Read the documents `texts[i]`, i in `run`, as one batch of span columns; None if any document needs the
    item-by-item reader (unusual names, null elements, deep nesting).

    `payload` in the batch is the index of the span's document in `texts`.
    """
    try:
        table = pj.read_json(
            pa.BufferReader(b"\n".join([*(texts[i] for i in run), b""])),
            read_options=pj.ReadOptions(use_threads=False, block_size=_RUN_BYTES * 16),
            parse_options=_PARSE,
        )
        column = table.column(0).combine_chunks()
        if len(column) != len(run) or not _is_complete(column) or _has_null_elements(column):
            return None
        spans = _READER.spans(column)
    except (pa.ArrowInvalid, _TooNestedError, ItemError):
        return None
    return replace(spans, payload=np.array(run, np.int64)[spans.payload])


def _is_complete(resource_spans: pa.Array) -> bool:
    """True if every level of nesting has the field with its current name (if it is absent, the field may be
    there under an older name)."""
    resources = resource_spans.flatten()
    scopes = pc.struct_field(resources, "scopeSpans")
    spans = pc.struct_field(scopes.flatten(), "spans")
    return bool(resource_spans.null_count + scopes.null_count + spans.null_count == 0)


def _has_null_elements(column: pa.Array) -> bool:
    """True if any list, on any level, contains null: in an array value null is a value that must be kept."""
    if pa.types.is_list(column.type):
        elements = column.flatten()
        return elements.null_count > 0 or _has_null_elements(elements)
    return pa.types.is_struct(column.type) and any(map(_has_null_elements, column.flatten()))


def _read_items(
    documents: list[_Document],
    indexes: list[int],
    config: DecodeConfig,
    results: list[SpanResult],
    log: RejectLog,
) -> None:
    """Read the documents at `indexes` item by item: append their events to `results`, and add invalid items
    to `log`."""
    rows = SpanRows()
    of_documents = RejectLog(config)
    values: dict[int, object] = {}
    for index in indexes:
        value = parse_json(documents[index].text, index)
        if isinstance(value, Reject):
            of_documents.add(value)
        else:
            values[index] = value
            add_document(rows, index, value, of_documents)
    if len(rows):
        result = events_of_spans(rows.batch(), config)
        results.append(result)
        log_bad_spans(result.bad, lambda index: _raw_spans(values[index]), of_documents)
    log.absorb(of_documents, lambda reject: _placed(documents, reject))


def _placed(documents: list[_Document], reject: Reject) -> Reject:
    """Copy of a reject with the payload's index as `payload` instead of the document's."""
    document = documents[reject.payload]
    item = reject.item if document.line is None else document.line
    return replace(reject, payload=document.payload, item=item)


def _raw_spans(value: object) -> Callable[[int], bytes]:
    """Function from an item number to the JSON text of that span, in a decoded document."""
    spans = span_values(value)
    return lambda item: json_bytes(spans[item])


_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])


class _TooNestedError(Exception):
    """An attribute value has more levels of nesting than the Arrow schema."""


_TEXT = pa.string()
_SCALARS = [
    ("stringValue", _TEXT),
    ("boolValue", pa.bool_()),
    ("intValue", _TEXT),
    ("doubleValue", pa.float64()),
    ("bytesValue", _TEXT),
]
_NO_FIELDS = pa.struct([])
"""Struct type without fields: any JSON object can be read as this type, and is then not null."""
_ELEMENT = pa.struct([*_SCALARS, ("arrayValue", _NO_FIELDS), ("kvlistValue", _NO_FIELDS)])
_PAIR = pa.struct([("key", _TEXT), ("value", _ELEMENT)])
_VALUE = pa.struct(
    [
        *_SCALARS,
        ("arrayValue", pa.struct([("values", pa.list_(_ELEMENT))])),
        ("kvlistValue", pa.struct([("values", pa.list_(_PAIR))])),
    ]
)
_ATTRIBUTES = pa.list_(pa.struct([("key", _TEXT), ("value", _VALUE)]))
_EVENT = pa.struct([("timeUnixNano", _TEXT), ("name", _TEXT), ("attributes", _ATTRIBUTES)])
_LINK = pa.struct([("traceId", _TEXT), ("spanId", _TEXT)])
_SPAN = pa.struct(
    [
        ("traceId", _TEXT),
        ("spanId", _TEXT),
        ("parentSpanId", _TEXT),
        ("traceState", _TEXT),
        ("name", _TEXT),
        ("kind", pa.int32()),
        ("startTimeUnixNano", _TEXT),
        ("endTimeUnixNano", _TEXT),
        ("attributes", _ATTRIBUTES),
        ("events", pa.list_(_EVENT)),
        ("links", pa.list_(_LINK)),
        ("status", pa.struct([("code", pa.int32()), ("message", _TEXT)])),
    ]
)
_RESOURCE = pa.struct([("attributes", _ATTRIBUTES)])
_SCOPE = pa.struct([("spans", pa.list_(_SPAN))])
_RESOURCE_SPANS = pa.struct([("resource", _RESOURCE), ("scopeSpans", pa.list_(_SCOPE))])
_PARSE = pj.ParseOptions(
    explicit_schema=pa.schema([("resourceSpans", pa.list_(_RESOURCE_SPANS))]),
    unexpected_field_behavior="ignore",
)


def _nested_text(column: pa.Array, which: str) -> pa.Array:
    """[rows] nested attribute values of one field (`which`) as text: compact JSON of arrays and key-value
    lists, checked base64 of bytes. Python runs per value, as such values are rare.

    Raises _TooNestedError for a level that the schema lacks, ItemError for an invalid value.
    """
    out: list[str | None] = []
    for value in column.to_pylist():
        if value is None:
            out.append(None)
        elif which == "bytes_value":
            out.append(base64_text(value))
        else:
            elements = value["values"] or ()
            if which == "array_value":
                plain: object = [_scalar(e) for e in elements]
            else:
                plain = {e["key"] or "": _scalar(e["value"]) for e in elements}
            out.append(msgspec.json.encode(plain).decode())
    return pa.array(out, _TEXT)


def _scalar(element: dict[str, object] | None) -> object:
    """Plain Python value of an array element, equal to the result of the item-by-item reader
    (`any_value`)."""
    if element is None:
        return None
    if element["arrayValue"] is not None or element["kvlistValue"] is not None:
        raise _TooNestedError
    return any_value(element)


_READER = OtlpArrowReader(camel, _nested_text)


_FEW, _FEW_BYTES = 4, 64 * 2**10
"""Maximum number of documents, and maximum bytes, of a refused list that is read item by item; a larger list
is halved, and each half is tried again. A call of pyarrow costs 2 ms, so halving 400,000 refused lines of 15
bytes took 94 s."""
_RUN_BYTES = 64 * 2**20
"""Approximate bytes of documents passed to pyarrow in one call, whose offsets are 32 bit."""


class _Nothing(msgspec.Struct):
    """Type as which any JSON object can be decoded: msgspec checks the grammar and skips the contents, at
    about 1.6 GB/s."""


_ANY_OBJECT = msgspec.json.Decoder(_Nothing)


def is_plain_object(text: bytes) -> bool:
    """True for exactly one well-formed JSON object in UTF-8, not too deep.

    Pass only such text to pyarrow.json: it reads several consecutive values as several documents, does not
    check UTF-8, and crashes the process if the input is only `null`.
    """
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return False
    try:
        _ANY_OBJECT.decode(text)
    except JSON_ERRORS:
        return False
    return True


def _read_run(
    texts: list[bytes], run: list[int], config: DecodeConfig, results: list[SpanResult]
) -> list[int]:
    """Read documents with the columnar reader and append their events to `results`; return the indices of the
    documents that it cannot read, or in which a span would be refused.

    run: indices into `texts` of the documents to read, each a plain object.
    """
    spans = _columns(texts, run)
    if spans is None:
        if len(run) <= _FEW or sum(len(texts[i]) for i in run) <= _FEW_BYTES:
            return run
        middle = len(run) // 2
        left = _read_run(texts, run[:middle], config, results)
        return left + _read_run(texts, run[middle:], config, results)
    result = events_of_spans(spans, config)
    if not len(result.bad):
        results.append(result)
        return []
    bad = set(result.bad.payload.tolist())
    again = [i for i in run if i not in bad]
    return sorted(bad) + _read_run(texts, again, config, results)
