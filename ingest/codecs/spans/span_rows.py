"""Collect spans one by one and convert them to columns, for formats and invalid payloads that are read span
by span."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.payloads import json_bytes, refuse_dense, sized
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import BAD_TIME, Owned, SpanBatch, SpanEvents, log_bad_spans
from ingest.codecs.spans.spans_to_events import events_of_spans
from ingest.codecs.values.attributes import AttributeTable, attribute_table
from ingest.codecs.values.columns import mask
from ingest.codecs.values.ids import bytes_of_text, hex_of_text
from ingest.codecs.values.json_fields import ItemsOf, read_items
from schemas.config import DecodeConfig

INT64_MAX = 2**63 - 1

Pairs = Iterable[tuple[str, object]]


def ns(value: int) -> int:
    """Return `value`, a time in ns, if it fits an int64 column; BAD_TIME if it is negative or out of
    range."""
    return value if 0 <= value <= INT64_MAX else BAD_TIME


class SpanRows:
    """Collector of spans, which `batch` converts to columns. Add a span, then its events, links and
    FOLLOWS_FROM parents."""

    def __init__(self) -> None:
        self._spans: dict[str, list[Any]] = {name: [] for name in _SPAN_COLUMNS}
        """Column name -> values of the added spans; with one tuple per span, half a million spans would take
        100 MB more."""
        self._attributes = _PairRows()
        self._resources: list[tuple[str | None, str | None]] = []
        self._resource_attributes = _PairRows()
        self._events: list[tuple[int, int, str]] = []
        """(index of the owning span, time in ns, name) of each span event."""
        self._event_attributes = _PairRows()
        self._links: list[tuple[int, str, str]] = []
        """(index of the owning span, trace id, span id) of each link."""
        self._follows: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._spans["payload"])

    @property
    def size(self) -> int:
        """Number of rows in all tables together, a measure of the memory used."""
        tables = (self._attributes, self._resource_attributes, self._event_attributes)
        lists: tuple[list[Any], ...] = (self._spans["payload"], self._events, self._links, self._follows)
        return sum(map(len, tables)) + sum(map(len, lists))

    def add_resource(self, component: str | None, host: str | None, attributes: Pairs) -> int:
        """Add a resource; return its number, which `add` needs."""
        self._resource_attributes.extend(len(self._resources), attributes)
        self._resources.append((component, host))
        return len(self._resources) - 1

    def add(
        self,
        payload: int,
        item: int,
        ids: tuple[str | None, str | None, str | None],
        name: str,
        kind: int,
        times: tuple[int, int],
        resource: int,
        attributes: Pairs,
        *,
        error: bool = False,
        trace_state: str | None = None,
        message: str | None = None,
        peer: str | None = None,
        shared: bool = False,
    ) -> None:
        """Add one span. ids: (trace id, span id, parent's span id) as hex text, None if absent. times:
        (start, end), ns. resource: result of `add_resource`. payload, item: where the span was read."""
        self._attributes.extend(len(self), attributes)
        span = (payload, item, *ids, name, kind, *times, error, resource, trace_state, message, peer, shared)
        for column, value in zip(self._spans.values(), span, strict=True):
            column.append(value)

    def add_event(self, name: str, ts_ns: int, attributes: Pairs) -> None:
        """Add an event at time `ts_ns` to the span added last."""
        self._event_attributes.extend(len(self._events), attributes)
        self._events.append((len(self) - 1, ts_ns, name))

    def add_link(self, trace: str, span: str) -> None:
        """Add a link to the span added last; a link with invalid ids is dropped."""
        self._links.append((len(self) - 1, trace, span))

    def add_follows(self, span: str) -> None:
        """Add the span id of a FOLLOWS_FROM parent to the span added last."""
        self._follows.append((len(self) - 1, span))

    def batch(self) -> SpanBatch:
        """Convert all added spans to columns."""
        columns: dict[str, Any] = {
            name: np.array(values, type_) if isinstance(type_, type) else pa.array(values, type_)
            for (name, values), type_ in zip(self._spans.items(), _SPAN_COLUMNS.values(), strict=True)
        }
        trace, bad_trace = hex_of_text(columns.pop("trace_id"))
        span, bad_span = bytes_of_text(columns.pop("span_id"))
        parent, bad_parent = bytes_of_text(columns.pop("parent_id"))
        component, host = _turned(self._resources, 2)
        owner, ts, name = _turned(self._events, 3)
        return SpanBatch(
            **columns,
            trace_id=trace,
            span_id=span,
            parent_id=parent,
            bad_id=bad_trace | bad_span | bad_parent,
            component=pa.array(component, pa.string()),
            host=pa.array(host, pa.string()),
            attributes=self._attributes.table(),
            resource_attributes=self._resource_attributes.table(),
            events=SpanEvents(
                np.array(owner, np.int64),
                np.array(ts, np.int64),
                pa.array(name, pa.string()),
                self._event_attributes.table(),
            ),
            links=_linked(*_turned(self._links, 3)),
            follows=_owned_ids(*_turned(self._follows, 2)),
        )


_SPAN_COLUMNS: Final[dict[str, Any]] = {
    "payload": np.int64,
    "item": np.int64,
    "trace_id": pa.string(),
    "span_id": pa.string(),
    "parent_id": pa.string(),
    "name": pa.string(),
    "kind": np.uint8,
    "start_ns": np.int64,
    "end_ns": np.int64,
    "error": np.bool_,
    "resource": np.int64,
    "trace_state": pa.string(),
    "status_message": pa.string(),
    "peer": pa.string(),
    "shared": np.bool_,
}
"""Name -> type of the columns that hold the fields of a span in `SpanRows`, in the order of these fields."""


def _turned(rows: list[tuple[Any, ...]], n_columns: int) -> list[tuple[Any, ...]]:
    """Transpose rows, each a tuple of `n_columns` values, to columns; an empty column each if there are no
    rows."""
    return list(zip(*rows, strict=True)) if rows else [()] * n_columns


class _PairRows:
    """Collector of attributes: keys and values, each with the index of the row (span, resource or span event)
    that owns it."""

    def __init__(self) -> None:
        self._owner: list[int] = []
        self._keys: list[str] = []
        self._values: list[object] = []

    def __len__(self) -> int:
        return len(self._owner)

    def extend(self, owner: int, pairs: Pairs) -> None:
        for key, value in pairs:
            self._owner.append(owner)
            self._keys.append(key)
            self._values.append(value)

    def table(self) -> AttributeTable:
        return attribute_table(self._owner, self._keys, self._values)


def _owned_ids(owner: tuple[int, ...], ids: tuple[str, ...]) -> Owned:
    column, _ = bytes_of_text(pa.array(ids, pa.string()))
    return Owned(np.array(owner, np.int64)[mask(column.is_valid())], column.drop_null())


def _linked(owner: tuple[int, ...], traces: tuple[str, ...], spans: tuple[str, ...]) -> Owned:
    trace, _ = hex_of_text(pa.array(traces, pa.string()))
    span, _ = hex_of_text(pa.array(spans, pa.string()))
    links = pc.binary_join_element_wise(trace, span, "/")
    return Owned(np.array(owner, np.int64)[mask(links.is_valid())], links.drop_null())


AddSpan = Callable[[SpanRows, int, int, object], None]
"""Function (rows, payload, item, value) that adds one span to `rows`, or raises ItemError before it adds
anything."""


def decode_json_spans(
    payloads: Sequence[bytes],
    config: DecodeConfig,
    items_of: ItemsOf,
    add_span: AddSpan,
    batch_of: Callable[[SpanRows], SpanBatch] = SpanRows.batch,
) -> Decoded:
    """Decode JSON documents (one per payload, or one per line) whose items are spans; see `read_items`.

    batch_of: function that converts the rows to columns; a format passes its own if a column is better
    computed for all spans together.
    """
    good, log = sized(payloads, config)
    good = refuse_dense(payloads, good, log)
    rows = SpanRows()
    values: dict[tuple[int, int], object] = {}

    def add(payload: int, item: int, value: object) -> None:
        add_span(rows, payload, item, value)
        values[payload, item] = value

    read_items(payloads, good, items_of, add, log)
    result = events_of_spans(batch_of(rows), config)
    log_bad_spans(result.bad, lambda payload: lambda item: json_bytes(values[payload, item]), log)
    return Decoded(result.events, log.in_order(), result.oddities, log.counts)
