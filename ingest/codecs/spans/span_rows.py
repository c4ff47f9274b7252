"""Build span columns item by item: of formats and broken payloads that are read span by span."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

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
    """A time as a column holds it: BAD_TIME for what int64 cannot."""
    return value if 0 <= value <= INT64_MAX else BAD_TIME


class SpanRows:
    """Collects spans; `batch` makes the columns. Add a span, then its events, links and follows."""

    def __init__(self) -> None:
        self.oddities: Counter[str] = Counter()
        self._payload: list[int] = []
        self._item: list[int] = []
        self._ids: tuple[list[str | None], list[str | None], list[str | None]] = ([], [], [])
        self._name: list[str] = []
        self._kind: list[int] = []
        self._start: list[int] = []
        self._end: list[int] = []
        self._error: list[bool] = []
        self._resource: list[int] = []
        self._state: list[str | None] = []
        self._message: list[str | None] = []
        self._attributes = _PairRows()
        self._component: list[str | None] = []
        self._host: list[str | None] = []
        self._resource_attributes = _PairRows()
        self._event_owner: list[int] = []
        self._event_ts: list[int] = []
        self._event_name: list[str] = []
        self._event_attributes = _PairRows()
        self._links: tuple[list[int], list[str], list[str]] = ([], [], [])
        self._follows: tuple[list[int], list[str]] = ([], [])

    def __len__(self) -> int:
        return len(self._payload)

    @property
    def size(self) -> int:
        """Rows of all its tables: what bounds its memory."""
        tables = (self._attributes, self._resource_attributes, self._event_attributes)
        lists = (self._payload, self._event_owner, self._links[0], self._follows[0])
        return sum(map(len, tables)) + sum(map(len, lists))

    def add_resource(self, component: str | None, host: str | None, attributes: Pairs) -> int:
        """A new resource; its number for `add`."""
        self._resource_attributes.extend(len(self._component), attributes)
        self._component.append(component)
        self._host.append(host)
        return len(self._component) - 1

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
    ) -> None:
        """Add one span; `ids` are trace, span and parent as hex text, `times` start and end in ns."""
        self._attributes.extend(len(self._payload), attributes)
        self._payload.append(payload)
        self._item.append(item)
        for column, value in zip(self._ids, ids, strict=True):
            column.append(value)
        self._name.append(name)
        self._kind.append(kind)
        self._start.append(times[0])
        self._end.append(times[1])
        self._error.append(error)
        self._resource.append(resource)
        self._state.append(trace_state)
        self._message.append(message)

    def add_event(self, name: str, ts_ns: int, attributes: Pairs) -> None:
        """An event of the span added last."""
        self._event_attributes.extend(len(self._event_owner), attributes)
        self._event_owner.append(len(self._payload) - 1)
        self._event_ts.append(ts_ns)
        self._event_name.append(name)

    def add_link(self, trace: str, span: str) -> None:
        """A link of the span added last. Ids that are none are left out."""
        self._links[0].append(len(self._payload) - 1)
        self._links[1].append(trace)
        self._links[2].append(span)

    def add_follows(self, span: str) -> None:
        """A FOLLOWS_FROM parent of the span added last."""
        self._follows[0].append(len(self._payload) - 1)
        self._follows[1].append(span)

    def batch(self) -> SpanBatch:
        """Everything added, in columns."""
        trace, bad_trace = hex_of_text(pa.array(self._ids[0], pa.string()))
        span, bad_span = bytes_of_text(pa.array(self._ids[1], pa.string()))
        parent, bad_parent = bytes_of_text(pa.array(self._ids[2], pa.string()))
        return SpanBatch(
            payload=np.array(self._payload, np.int64),
            item=np.array(self._item, np.int64),
            trace_id=trace,
            span_id=span,
            parent_id=parent,
            bad_id=bad_trace | bad_span | bad_parent,
            name=pa.array(self._name, pa.string()),
            kind=np.array(self._kind, np.uint8),
            start_ns=np.array(self._start, np.int64),
            end_ns=np.array(self._end, np.int64),
            error=np.array(self._error, np.bool_),
            resource=np.array(self._resource, np.int64),
            component=pa.array(self._component, pa.string()),
            host=pa.array(self._host, pa.string()),
            attributes=self._attributes.table(),
            resource_attributes=self._resource_attributes.table(),
            trace_state=pa.array(self._state, pa.string()) if any(self._state) else None,
            status_message=pa.array(self._message, pa.string()) if any(self._message) else None,
            events=SpanEvents(
                np.array(self._event_owner, np.int64),
                np.array(self._event_ts, np.int64),
                pa.array(self._event_name, pa.string()),
                self._event_attributes.table(),
            ),
            links=_linked(*self._links),
            follows=_owned_ids(*self._follows),
            oddities=self.oddities,
        )


class _PairRows:
    """Key and value rows with their owners."""

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


def _owned_ids(owner: list[int], ids: list[str]) -> Owned:
    column, _ = bytes_of_text(pa.array(ids, pa.string()))
    return Owned(np.array(owner, np.int64)[mask(column.is_valid())], column.drop_null())


def _linked(owner: list[int], traces: list[str], spans: list[str]) -> Owned:
    trace, _ = hex_of_text(pa.array(traces, pa.string()))
    span, _ = hex_of_text(pa.array(spans, pa.string()))
    links = pc.binary_join_element_wise(trace, span, "/")
    return Owned(np.array(owner, np.int64)[mask(links.is_valid())], links.drop_null())


AddSpan = Callable[[SpanRows, int, int, object], None]
"""(rows, payload, item, value): adds one span, or raises ItemError before adding anything."""


def decode_json_spans(
    payloads: Sequence[bytes], config: DecodeConfig, items_of: ItemsOf, add_span: AddSpan
) -> Decoded:
    """Decode payloads of JSON documents (one, or one a line) whose items are spans (`read_items`)."""
    good, log = sized(payloads, config)
    good = refuse_dense(payloads, good, log)
    rows = SpanRows()
    values: dict[tuple[int, int], object] = {}

    def add(payload: int, item: int, value: object) -> None:
        add_span(rows, payload, item, value)
        values[payload, item] = value

    read_items(payloads, good, items_of, add, log)
    result = events_of_spans(rows.batch(), config)
    log_bad_spans(result.bad, lambda payload: lambda item: json_bytes(values[payload, item]), log)
    return Decoded(result.events, log.in_order(), result.oddities, log.counts)
