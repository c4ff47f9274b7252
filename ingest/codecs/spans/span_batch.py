"""Columns of a batch of spans before conversion to events; every span format produces them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.values.attributes import AttributeTable, no_attributes
from schemas.arrays import B1, I8, U1
from schemas.rejects import Reason, Reject

NO_TIME = np.iinfo(np.int64).min
"""int64 value that stands for a missing time."""
BAD_TIME = np.iinfo(np.int64).min + 1
"""int64 value that stands for an invalid time (one outside int64)."""


@dataclass(frozen=True, slots=True)
class Owned:
    """Values that belong to spans, one row per value: `value[i]` belongs to span `owner[i]`. `owner` never
    decreases."""

    owner: I8
    value: pa.Array
    """[rows] ids or texts."""


def nothing_owned(type_: pa.DataType) -> Owned:
    """`Owned` without rows, for values of the Arrow type `type_`."""
    return Owned(np.empty(0, np.int64), pa.array([], type_))


@dataclass(frozen=True, slots=True)
class SpanEvents:
    """Span events (OTLP), logs (Jaeger) or annotations (Zipkin), one row per event; `owner`, the index of its
    span, never decreases."""

    owner: I8
    ts_ns: I8
    """[events] time of the event, ns since the epoch; NO_TIME if missing, BAD_TIME if invalid."""
    name: pa.Array
    """[events] name, a string."""
    attributes: AttributeTable = field(default_factory=no_attributes)
    """Attributes of the span events; their `owner` is a row of this table."""


def no_span_events() -> SpanEvents:
    """`SpanEvents` without rows."""
    none = np.empty(0, np.int64)
    return SpanEvents(none, none, pa.array([], pa.string()))


@dataclass(frozen=True, slots=True)
class SpanBatch:
    """Columns of n spans in the order of the payloads. Arrow columns are plain strings (no dictionaries),
    null for "absent"."""

    payload: I8
    """[n] index of the span's payload."""
    item: I8
    """[n] index of the span in its payload."""
    trace_id: pa.Array
    """[n] trace id as hex text (see `values.ids`); null if absent."""
    span_id: pa.Array
    """[n] span id as bytes; null if absent."""
    parent_id: pa.Array
    """[n] span id of the parent as bytes; null if absent."""
    bad_id: B1
    """[n] True if the trace, span or parent id is given but invalid."""
    name: pa.Array
    kind: U1
    """[n] EventKind of the span."""
    start_ns: I8
    """[n] start, ns since the epoch; NO_TIME if missing, BAD_TIME if invalid."""
    end_ns: I8
    """[n] end, ns since the epoch; NO_TIME if missing, BAD_TIME if invalid."""
    error: B1
    """[n] True if the span failed; the error class is in the attribute `error.type`."""
    resource: I8
    """[n] index of the span's resource, a row of `component` and `host`."""
    component: pa.Array
    """[resources] name of the component, if the format has a field for it; null if an attribute names it."""
    host: pa.Array
    """[resources] name of the host, if the format has a field for it; null if an attribute names it."""
    attributes: AttributeTable
    resource_attributes: AttributeTable
    peer: pa.Array | None = None
    """[n] name of the called service; None if the format has no field for it."""
    shared: B1 | None = None
    trace_state: pa.Array | None = None
    status_message: pa.Array | None = None
    """[n] status message, which becomes the parameter `status.message` if not empty."""
    events: SpanEvents = field(default_factory=no_span_events)
    links: Owned = field(default_factory=lambda: nothing_owned(pa.string()))
    """Ids of linked spans as text `traceid/spanid`, owned by the span that has the link."""
    follows: Owned = field(default_factory=lambda: nothing_owned(pa.binary()))
    """Span ids of FOLLOWS_FROM parents as bytes, owned by the span that follows them."""

    def __len__(self) -> int:
        return len(self.payload)

    def rows(self, chosen: B1) -> SpanBatch:
        """Copy with only the spans where `chosen` [n] is True, and their links, events and attributes; all
        resources are kept."""
        kept = pa.array(chosen)

        def of_spans(column: pa.Array | None) -> pa.Array | None:
            return None if column is None else column.filter(kept)

        return replace(
            self,
            payload=self.payload[chosen],
            item=self.item[chosen],
            trace_id=self.trace_id.filter(kept),
            span_id=self.span_id.filter(kept),
            parent_id=self.parent_id.filter(kept),
            bad_id=self.bad_id[chosen],
            name=self.name.filter(kept),
            kind=self.kind[chosen],
            start_ns=self.start_ns[chosen],
            end_ns=self.end_ns[chosen],
            error=self.error[chosen],
            resource=self.resource[chosen],
            attributes=_attributes_of(self.attributes, chosen),
            peer=of_spans(self.peer),
            shared=None if self.shared is None else self.shared[chosen],
            trace_state=of_spans(self.trace_state),
            status_message=of_spans(self.status_message),
            events=_events_of(self.events, chosen),
            links=_owned_by(self.links, chosen),
            follows=_owned_by(self.follows, chosen),
        )


def _attributes_of(table: AttributeTable, chosen: B1) -> AttributeTable:
    """Attributes of the owners where `chosen` [owners] is True; `owner` is renumbered."""
    kept = table.rows(chosen[table.owner])
    return replace(kept, owner=(np.cumsum(chosen) - 1)[kept.owner])


def _events_of(events: SpanEvents, chosen: B1) -> SpanEvents:
    own = chosen[events.owner]
    return SpanEvents(
        (np.cumsum(chosen) - 1)[events.owner[own]],
        events.ts_ns[own],
        events.name.filter(pa.array(own)),
        _attributes_of(events.attributes, own),
    )


def _owned_by(owned: Owned, chosen: B1) -> Owned:
    own = chosen[owned.owner]
    return Owned((np.cumsum(chosen) - 1)[owned.owner[own]], owned.value.filter(pa.array(own)))


FAULTS: tuple[tuple[Reason, str], ...] = (
    (Reason.BAD_TIME, "start or end lies outside 1990 to 2200"),
    (Reason.BAD_TIME, "the span ends before it starts"),
    (Reason.MISSING_FIELD, "no span id"),
    (Reason.MISSING_FIELD, "no trace id"),
    (Reason.BAD_ID, "trace, span or parent id is not 1 to 32 hex digits (8 or 16 bytes)"),
)
"""(reason, explanation) for which a span is refused; if several apply, the last is reported."""


@dataclass(frozen=True, slots=True)
class BadSpans:
    """Spans of a batch that were refused, in the batch's order; the codec converts them to rejects."""

    payload: I8
    item: I8
    fault: U1
    """[refused spans] 1 + index into FAULTS of the reason."""

    def __len__(self) -> int:
        return len(self.payload)


def log_bad_spans(
    bad: BadSpans, open_payload: Callable[[int], Callable[[int], bytes]], log: RejectLog
) -> None:
    """Add refused spans to `log` as rejects.

    open_payload: function called once per payload with its index; it returns a function from an item number
    to the bytes of that span.
    """
    order = np.lexsort((bad.item, bad.payload))
    opened, raw_of = -1, None
    for done, at in enumerate(order.tolist()):
        if log.is_full:
            for fault, count in enumerate(np.bincount(bad.fault[order[done:]]).tolist()):
                if count:
                    log.count(FAULTS[fault - 1][0], count)
            return
        payload, item = int(bad.payload[at]), int(bad.item[at])
        if raw_of is None or payload != opened:
            opened, raw_of = payload, open_payload(payload)
        reason, detail = FAULTS[bad.fault[at] - 1]
        log.add(Reject(reason, detail, raw_of(item), payload, item))
