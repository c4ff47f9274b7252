"""Convert OTLP spans from nested Arrow arrays (one row per request message) to the columns of a SpanBatch.

The protobuf reader (ptars) and the JSON reader (pyarrow.json) both return this nesting; they differ in the
spelling of field names and in the types of ids, times and nested values. No Python per span.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME, Owned, SpanBatch, SpanEvents
from ingest.codecs.values.attributes import AttributeTable, finite_or_text, no_attributes
from ingest.codecs.values.columns import mask, owners, ragged
from ingest.codecs.values.ids import bytes_of_binary, bytes_of_text, hex_of_base64, hex_of_binary, hex_of_text
from schemas.arrays import B1, I8
from schemas.events import SPAN_KIND_BASE

NestedText = Callable[[pa.Array, str], pa.Array]
"""Function (column, which) -> strings: compact JSON of nested values, or base64 of bytes; which: the field of
AnyValue, `array_value`, `kvlist_value` or `bytes_value`."""

STATUS_ERROR = 2
MAX_KIND = 5


class OtlpArrowReader:
    """Converter of nested OTLP columns.

    spell: function from a field name such as `trace_id` to its spelling in the columns: unchanged for
    protobuf, `traceId` for JSON.
    """

    def __init__(self, spell: Callable[[str], str], nested_text: NestedText) -> None:
        self._spell = spell
        self._nested_text = nested_text

    def spans(self, resource_spans: pa.Array) -> SpanBatch:
        """Convert a `list<ResourceSpans>` column with one row per payload to span columns. O(size)."""
        spell = self._spell
        per_payload, resources = ragged(resource_spans)
        per_resource, scopes = ragged(pc.struct_field(resources, spell("scope_spans")))
        per_scope, spans = ragged(pc.struct_field(scopes, spell("spans")))
        scope_resource = owners(per_resource)
        span_scope = owners(per_scope)
        resource = scope_resource[span_scope]
        payload = owners(per_payload)[resource]
        per_payload_spans = np.bincount(payload, minlength=len(per_payload))
        first = np.cumsum(per_payload_spans) - per_payload_spans
        n, fields = len(spans), _Fields(spans, spell)
        trace_id, bad_trace = _trace_ids(fields["trace_id"])
        span_id, bad_span = _span_ids(fields["span_id"])
        parent_id, bad_parent = _span_ids(fields["parent_span_id"])
        status = _Fields(fields["status"], spell)
        code = pc.fill_null(status["code"], 0).to_numpy()
        return SpanBatch(
            payload=payload,
            item=np.arange(n) - first[payload],
            trace_id=trace_id,
            span_id=span_id,
            parent_id=parent_id,
            bad_id=bad_trace | bad_span | bad_parent,
            name=fields["name"],
            kind=_kinds(fields["kind"]),
            start_ns=_times(fields["start_time_unix_nano"]),
            end_ns=_times(fields["end_time_unix_nano"]),
            error=code == STATUS_ERROR,
            resource=resource,
            component=pa.nulls(len(resources), pa.string()),
            host=pa.nulls(len(resources), pa.string()),
            attributes=self._attributes(fields["attributes"]),
            status_message=status["message"],
            resource_attributes=self._attributes(
                pc.struct_field(pc.struct_field(resources, "resource"), "attributes")
            ),
            trace_state=fields["trace_state"],
            events=self._events(fields["events"]),
            links=_links(fields["links"], spell),
        )

    def _attributes(self, column: pa.Array) -> AttributeTable:
        """Attributes in a `list<KeyValue>` column; the owner of each attribute is its row in the column."""
        lengths, pairs = ragged(column)
        if len(pairs) == 0:
            return no_attributes()
        keys = pc.fill_null(pc.struct_field(pairs, "key"), "").dictionary_encode()
        value = _Fields(pc.struct_field(pairs, "value"), self._spell)
        # OTLP/JSON writes 64-bit integers as text.
        num = pc.cast(pc.cast(value["int_value"], pa.int64()), pa.float64(), safe=False)
        if value["double_value"].null_count < len(pairs):
            num = pc.coalesce(num, value["double_value"])
        text = value["string_value"]
        others: list[tuple[str, NestedText]] = [
            ("bool_value", _bool_text),
            ("array_value", self._nested_text),
            ("kvlist_value", self._nested_text),
            ("bytes_value", self._nested_text),
        ]
        present = [
            convert(column, name)
            for name, convert in others
            if (column := value[name]).null_count < len(pairs)
        ]
        if present:
            text = pc.coalesce(text, *present)
        num, text = finite_or_text(num, text)
        # A oneof written twice on the wire comes out of ptars with both fields set: text is kept.
        if pc.any(pc.and_(pc.is_valid(num), pc.is_valid(text))).as_py():
            num = pc.if_else(pc.is_valid(text), None, num)
        table = AttributeTable(
            owners(lengths),
            np.asarray(keys.indices, np.int64),
            tuple(keys.dictionary.to_pylist()),
            num,
            text,
        )
        if num.null_count + text.null_count == len(pairs):
            return table
        return table.rows(mask(pc.or_(pc.is_valid(num), pc.is_valid(text))))

    def _events(self, column: pa.Array) -> SpanEvents:
        lengths, events = ragged(column)
        fields = _Fields(events, self._spell)
        return SpanEvents(
            owners(lengths),
            _times(fields["time_unix_nano"]),
            pc.fill_null(fields["name"], ""),
            self._attributes(fields["attributes"]),
        )


class _Fields:
    """Children of a struct column, by protobuf field name; a child is null in rows where the struct is
    null."""

    def __init__(self, column: pa.Array, spell: Callable[[str], str]) -> None:
        self._column = column
        self._spell = spell

    def __getitem__(self, name: str) -> pa.Array:
        return pc.struct_field(self._column, self._spell(name))


def _trace_ids(column: pa.Array) -> tuple[pa.Array, B1]:
    if pa.types.is_binary(column.type):
        return hex_of_binary(column, (8, 16))
    return hex_of_text(hex_of_base64(column))


def _span_ids(column: pa.Array) -> tuple[pa.Array, B1]:
    if pa.types.is_binary(column.type):
        return bytes_of_binary(column, 8)
    return bytes_of_text(hex_of_base64(column))


def _kinds(column: pa.Array) -> npt.NDArray[np.uint8]:
    """[spans] EventKind of each span kind number; numbers that OTLP does not define become unspecified."""
    kind = pc.fill_null(column, 0).to_numpy()
    legal = (kind >= 0) & (kind <= MAX_KIND)
    return (np.where(legal, kind, 0) + SPAN_KIND_BASE).astype(np.uint8)


def _times(column: pa.Array) -> I8:
    """[rows] times, ns; NO_TIME for 0 and null, which mean "not given" in OTLP."""
    if pa.types.is_string(column.type):
        column = pc.cast(pc.if_else(pc.equal(column, ""), None, column), pa.uint64())
    raw = pc.fill_null(column, 0).to_numpy()
    ts: I8 = raw.astype(np.int64)
    ts[raw == 0] = NO_TIME
    ts[raw > np.uint64(2**63 - 1)] = BAD_TIME
    return ts


def _links(column: pa.Array, spell: Callable[[str], str]) -> Owned:
    """Links with valid ids, each as text `traceid/spanid` owned by its row of the column."""
    lengths, links = ragged(column)
    fields = _Fields(links, spell)
    trace, _ = _trace_ids(fields["trace_id"])
    column = fields["span_id"]
    is_binary = pa.types.is_binary(column.type)
    span, _ = hex_of_binary(column, (8,)) if is_binary else hex_of_text(hex_of_base64(column))
    text = pc.binary_join_element_wise(trace, span, "/")
    return Owned(owners(lengths)[mask(pc.is_valid(text))], text.drop_null())


def _bool_text(column: pa.Array, _: str) -> pa.Array:
    return pc.if_else(column, "true", "false")
