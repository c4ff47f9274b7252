"""Spans of one batch in columns, before they become events; every span format ends here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.codecs.values.attributes import AttributeTable, no_attributes
from schemas.rejects import Reason, Reject

I8 = npt.NDArray[np.int64]
U1 = npt.NDArray[np.uint8]
B1 = npt.NDArray[np.bool_]

NO_TIME = np.iinfo(np.int64).min
"""A time that the source does not give."""
BAD_TIME = np.iinfo(np.int64).min + 1
"""A time that the source gives, but which is none (out of int64)."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A long table beside the spans: `owner[i]` is the span of `text[i]`. `owner` does not decrease."""

    owner: I8
    text: pa.Array


def nothing_owned() -> Owned:
    """No rows."""
    return Owned(np.empty(0, np.int64), pa.array([], pa.string()))


@dataclass(frozen=True, slots=True)
class SpanEvents:
    """Span events (OTLP), logs (Jaeger), annotations (Zipkin); one row each, owners not decreasing."""

    owner: I8
    ts_ns: I8
    """ns since the epoch, NO_TIME or BAD_TIME."""
    name: pa.Array
    """[n] string."""
    attributes: AttributeTable = field(default_factory=no_attributes)
    """Owned by the row of the event."""


def no_span_events() -> SpanEvents:
    """No rows."""
    none = np.empty(0, np.int64)
    return SpanEvents(none, none, pa.array([], pa.string()))


@dataclass(frozen=True, slots=True)
class SpanBatch:
    """n spans in the order of the payloads. Arrow columns are plain strings with nulls for "absent"."""

    payload: I8
    """[n] index of the payload."""
    item: I8
    """[n] index of the span in its payload."""
    trace_id: pa.Array
    span_id: pa.Array
    parent_id: pa.Array
    """[n] hex (`ids`); null: none given."""
    bad_id: B1
    """[n] one of the three is there but no id."""
    name: pa.Array
    kind: U1
    """[n] EventKind."""
    start_ns: I8
    end_ns: I8
    """[n] ns since the epoch, NO_TIME or BAD_TIME."""
    error: B1
    """[n] the span failed; its class comes from `error.type`."""
    resource: I8
    """[n] row of the resource."""
    component: pa.Array
    host: pa.Array
    """[resources] name and machine where the format says them beside the attributes; else null."""
    attributes: AttributeTable
    resource_attributes: AttributeTable
    peer: pa.Array | None = None
    """[n] name of the called service beside the attributes."""
    shared: B1 | None = None
    trace_state: pa.Array | None = None
    status_message: pa.Array | None = None
    """[n] becomes the parameter `status.message` where it says something."""
    events: SpanEvents = field(default_factory=no_span_events)
    links: Owned = field(default_factory=nothing_owned)
    """`trace/span` of linked spans."""
    follows: Owned = field(default_factory=nothing_owned)
    """Span ids of FOLLOWS_FROM parents."""
    oddities: Mapping[str, int] = field(default_factory=dict)
    """Counted by the reader."""

    def __len__(self) -> int:
        return len(self.payload)


@dataclass(frozen=True, slots=True)
class BadSpan:
    """A span of a batch that became no event; who has the payload makes a Reject of it."""

    payload: int
    item: int
    reason: Reason
    detail: str


def span_rejects(bad: list[BadSpan], open_payload: Callable[[int], Callable[[int], bytes]]) -> list[Reject]:
    """Rejects for refused spans; `open_payload(payload)`, called once a payload, gives bytes by item."""
    rejects = []
    for payload, group in groupby(sorted(bad, key=lambda b: (b.payload, b.item)), key=lambda b: b.payload):
        raw_of = open_payload(payload)
        rejects += [Reject(b.reason, b.detail, raw_of(b.item), payload, b.item) for b in group]
    return rejects
