"""Convert span columns to an event batch: the only place that defines, for all formats, what a span means.

Python code runs only per distinct name, key or host. Invalid spans (without id, or with an invalid time) are
returned as `BadSpans`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.dead_letters import RejectLog
from ingest.codecs.port import Decoded
from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME, BadSpans, Owned, SpanBatch, SpanEvents
from ingest.codecs.values.attributes import AttributeTable, no_attributes
from ingest.codecs.values.columns import event_table, list_column, mask
from ingest.codecs.values.names import (
    NUL_MARK,
    clean_words,
    constant_words,
    cut_utf8,
    normalise_name,
    point_name,
    words,
)
from ingest.codecs.values.params import params_column
from schemas.arrays import B1, I8, U1
from schemas.config import DecodeConfig
from schemas.events import (
    MARK_TYPE,
    SMALLEST_RATE,
    EventKind,
    concat_events,
    empty_events,
)

EARLIEST_NS = 631_152_000 * 10**9
"""Earliest valid time, 1990-01-01 UTC, ns since the epoch: an earlier time comes from a clock that was never
set."""
LATEST_NS = 7_258_118_400 * 10**9
"""Time, ns since the epoch, from which times are invalid, 2200-01-01 UTC: they have a wrong unit or are
garbage (int64 ends in 2262)."""

_HEX_DIGITS = 14
_SPACE = 1 << 56
"""Number of distinct sampling thresholds, which have 56 bits."""

# On a server span these name the server itself, so they count for callers only.
_PEER_OF_CALLER = ("server.address", "net.peer.name")
_CALLERS = (EventKind.SPAN_CLIENT, EventKind.SPAN_PRODUCER)


@dataclass(frozen=True, slots=True)
class SpanResult:
    """Events made from a batch of spans, and the spans that were refused."""

    events: pa.Table
    """Table with EVENT_SCHEMA, rows in the order of the spans."""
    payload: I8
    """[rows] index of the payload from which each event was read."""
    bad: BadSpans
    oddities: Counter[str]


def events_of_spans(spans: SpanBatch, config: DecodeConfig) -> SpanResult:
    """Convert spans to events; invalid spans (`span_batch.FAULTS`) are refused. O(n log n).

    A span without times is kept, with null times.
    """
    oddities: Counter[str] = Counter()
    fault = _faults(spans)
    good = fault == 0
    problems = BadSpans(spans.payload[~good], spans.item[~good], fault[~good])
    if not good.any():
        return SpanResult(empty_events(), spans.payload[:0], problems, oddities)
    if len(problems):  # refused spans must not affect accepted ones
        spans = spans.rows(good)
    oddities["untimed"] += int((spans.start_ns == NO_TIME).sum())
    table = event_table(_columns(spans, config, oddities), len(spans))
    return SpanResult(table, spans.payload, problems, +oddities)


def in_payload_order(results: list[SpanResult]) -> pa.Table:
    """Concatenate the events of several batches of the same payloads, sorted by payload."""
    results = [r for r in results if len(r.payload)]
    if not results:
        return empty_events()
    payload = np.concatenate([r.payload for r in results])
    events = results[0].events if len(results) == 1 else concat_events([r.events for r in results])
    if (payload[1:] >= payload[:-1]).all():
        return events
    return events.take(pa.array(np.argsort(payload, kind="stable")))


def decoded_spans(results: list[SpanResult], log: RejectLog) -> Decoded:
    """Combine batches to the result of a codec's `decode`: events in the order of the payloads, rejects,
    oddities."""
    oddities = sum((result.oddities for result in results), Counter[str]())
    return Decoded(in_payload_order(results), log.in_order(), oddities, log.counts)


def bad_times(ts_ns: I8) -> B1:
    """[times] True for times that are given but lie outside 1990 to 2200."""
    bad: B1 = ((ts_ns < EARLIEST_NS) | (ts_ns >= LATEST_NS)) & (ts_ns != NO_TIME)
    return bad


def _faults(spans: SpanBatch) -> U1:
    """[n] why each span is refused: 1 + index into `span_batch.FAULTS`; 0 if it is valid."""
    start, end = spans.start_ns, spans.end_ns
    timed = (start != NO_TIME) & (end != NO_TIME)
    fault = np.zeros(len(spans), np.uint8)
    fault[bad_times(start) | bad_times(end)] = 1
    fault[timed & (end < start) & (end != BAD_TIME) & (fault == 0)] = 2
    fault[_nulls(spans.span_id)] = 3
    fault[_nulls(spans.trace_id)] = 4
    fault[spans.bad_id] = 5
    return fault


def _columns(spans: SpanBatch, config: DecodeConfig, oddities: Counter[str]) -> dict[str, pa.Array]:
    n = len(spans)
    names = words(pc.fill_null(spans.name, ""))
    point = clean_words(names, config.max_name_bytes, oddities, point_name)
    component, host, resource_attributes = _resources(spans, config, oddities)
    attributes, label = _take_label(spans.attributes, n, config, oddities)
    params = [
        attributes,
        _status_messages(spans.status_message),
        _changed_names(names, point),
        resource_attributes.spread(spans.resource),
        *event_params(spans.events, spans.start_ns, config),
    ]
    return {
        "kind": pa.array(spans.kind),
        "request_id": spans.trace_id,
        "id": spans.span_id,
        "parents": _lists(_singles(spans.parent_id), n),
        "follows": _lists(spans.follows, n),
        "links": _lists(spans.links, n),
        "ts_ns": time_column(spans.start_ns),
        "end_ns": time_column(spans.end_ns),
        "component": component,
        "point": point,
        "label": label,
        "host": host,
        "peer": _peer(spans, config, oddities),
        "shared": pa.array(np.zeros(n, np.bool_) if spans.shared is None else spans.shared),
        "status": _status(spans, config, oddities),
        "sample_rate": sample_rates(spans.trace_state, spans.attributes, n),
        "marks": marks_column(spans.events, n, config),
        "params": params_column(n, params, config, oddities),
    }


def time_column(ts_ns: I8) -> pa.Array:
    """Convert times to an Arrow int64 column; NO_TIME and BAD_TIME become null."""
    missing = ts_ns <= BAD_TIME
    return pa.array(ts_ns, mask=missing) if missing.any() else pa.array(ts_ns)


def _nulls(column: pa.Array) -> B1:
    if column.null_count == 0:
        return np.zeros(len(column), np.bool_)
    return mask(pc.is_null(column))


def _singles(column: pa.Array) -> Owned:
    """Values of a column, each owned by its row; nulls are omitted."""
    at = np.flatnonzero(~_nulls(column))
    return Owned(at, column.drop_null())


def _lists(owned: Owned, n: int) -> pa.Array:
    """List column of `n` rows with the values that each row owns; null for a row that owns none."""
    return list_column(np.bincount(owned.owner, minlength=n), owned.value)


def _resources(
    spans: SpanBatch, config: DecodeConfig, oddities: Counter[str]
) -> tuple[pa.DictionaryArray, pa.DictionaryArray, AttributeTable]:
    """Evaluate resources: ([spans] component, [spans] host, remaining attributes of the resources)."""
    table = spans.resource_attributes
    n = len(spans.component)
    component = pc.coalesce(spans.component, table.first_text("service.name", n))
    component = pc.fill_null(pc.if_else(pc.equal(component, ""), None, component), "?")
    host = spans.host
    used = np.full(n, -1, np.int64)
    for key in config.host_keys:
        found = table.first_text(key, n)
        new = _nulls(host) & ~_nulls(found)
        if new.any():
            used[new] = table.keys.index(key)
            host = pc.coalesce(host, found)
    rest = np.ones(len(table), np.bool_)
    if "service.name" in table.keys:
        rest &= table.code != table.keys.index("service.name")
    rest &= table.code != used[table.owner]
    of_span = pa.array(spans.resource)
    return (
        clean_words(words(component.take(of_span)), config.max_name_bytes, oddities),
        clean_words(words(host.take(of_span)), config.max_name_bytes, oddities),
        table.rows(rest),
    )


def _take_label(
    table: AttributeTable, n: int, config: DecodeConfig, oddities: Counter[str]
) -> tuple[AttributeTable, pa.DictionaryArray]:
    """Extract labels from attributes: (the other attributes, [n] label: values under the keys `label_keys`,
    in this order, joined by `;`)."""
    present = [k for k in config.label_keys if k in table.keys]
    if not present:
        return table, constant_words(None, n)
    values = [table.first_text(k, n) for k in present]
    joined = values[0]
    for value in values[1:]:
        joined = pc.coalesce(pc.binary_join_element_wise(joined, value, ";"), joined, value)
    joined = pc.if_else(pc.equal(joined, ""), None, joined)
    codes = [table.keys.index(k) for k in present]
    return (
        table.rows(~np.isin(table.code, codes)),
        clean_words(words(joined), config.max_name_bytes, oddities),
    )


def _changed_names(names: pa.DictionaryArray, point: pa.DictionaryArray) -> AttributeTable:
    """Attribute `span.name` with the name as received, for spans whose point name differs from it (ids were
    replaced)."""
    before = names.dictionary_decode()
    changed = pc.and_(pc.not_equal(before, point.dictionary_decode()), pc.not_equal(before, ""))
    at = np.flatnonzero(mask(changed))
    return AttributeTable(
        at,
        np.zeros(len(at), np.int64),
        ("span.name",),
        pa.nulls(len(at), pa.float64()),
        names.take(pa.array(at)).dictionary_decode(),
    )


def _status_messages(message: pa.Array | None) -> AttributeTable:
    """Attribute `status.message` for each span that has a status message."""
    if message is None:
        return no_attributes()
    at = np.flatnonzero(mask(pc.greater(pc.binary_length(message), 0)))
    none = pa.nulls(len(message), pa.float64())
    return AttributeTable(at, np.zeros(len(at), np.int64), ("status.message",), none, message, at)


def _peer(spans: SpanBatch, config: DecodeConfig, oddities: Counter[str]) -> pa.DictionaryArray:
    """[spans] peer: from the format's field for it, else the attribute `peer.service`, else (only for
    callers) the server's address."""
    n, table = len(spans), spans.attributes
    keys = [k for k in ("peer.service", *_PEER_OF_CALLER) if k in table.keys]
    peer = spans.peer
    if not keys:
        return (
            constant_words(None, n)
            if peer is None
            else clean_words(words(peer), config.max_name_bytes, oddities)
        )
    caller = pa.array(np.isin(spans.kind, _CALLERS))
    for key in keys:
        found = table.first_text(key, n)
        if key in _PEER_OF_CALLER:
            found = pc.if_else(caller, found, None)
        peer = found if peer is None else pc.coalesce(peer, found)
    return clean_words(words(peer), config.max_name_bytes, oddities)


def _status(spans: SpanBatch, config: DecodeConfig, oddities: Counter[str]) -> pa.DictionaryArray:
    """[spans] status: `ok`, or for a failed span its `error.type`, else `error`."""
    n = len(spans)
    if not spans.error.any():
        return constant_words("ok", n)
    error = pa.array(spans.error)
    class_ = spans.attributes.first_text("error.type", n)
    class_ = pc.if_else(pc.is_in(class_, pa.array(["", "ok"])), None, class_)
    status = pc.if_else(error, pc.fill_null(class_, "error"), "ok")
    return clean_words(words(status), config.max_name_bytes, oddities)


def probability_of_tracestate(state: str) -> float | None:
    """Sampling probability p = 1 − T/2^56 from the threshold T in a tracestate `ot=…;th:T;…` (OpenTelemetry).

    None if T is missing or invalid. T has 1 to 14 hex digits, without trailing zeros: `th:8` is one half,
    `th:0` is one.
    """
    for member in state.split(","):
        key, _, value = member.strip().partition("=")
        if key != "ot":
            continue
        for part in value.split(";"):
            name, _, threshold = part.partition(":")
            if name == "th" and 1 <= len(threshold) <= _HEX_DIGITS and threshold.isascii():
                try:
                    rejected = int(threshold.ljust(_HEX_DIGITS, "0"), 16)
                except ValueError:
                    return None
                return (_SPACE - rejected) / _SPACE if rejected < _SPACE else None
    return None


def sample_rates(trace_state: pa.Array | None, attributes: AttributeTable, n_spans: int) -> pa.Array:
    """[n_spans] sampling rate, float64 from SMALLEST_RATE to 1: from the tracestate, else from the tags of
    Jaeger's sampler; null if unknown."""
    rates = pa.nulls(n_spans, pa.float64())
    if trace_state is not None and len(trace_state) != trace_state.null_count:
        states = trace_state.dictionary_encode()
        known = pa.array([probability_of_tracestate(s) for s in states.dictionary.to_pylist()], pa.float64())
        rates = known.take(states.indices)
    if "sampler.param" in attributes.keys and "sampler.type" in attributes.keys:
        kind = attributes.first_text("sampler.type", n_spans)
        parameter = pc.if_else(
            pc.equal(kind, "probabilistic"), attributes.first_text("sampler.param", n_spans), None
        )
        distinct = parameter.dictionary_encode()
        known = pa.array([_rate(t) for t in distinct.dictionary.to_pylist()], pa.float64())
        rates = pc.coalesce(rates, known.take(distinct.indices))
    return rates


def _rate(text: str) -> float | None:
    try:
        rate = float(text)
    except ValueError:
        return None
    return rate if SMALLEST_RATE <= rate <= 1 else None


def marks_column(events: SpanEvents, n_spans: int, config: DecodeConfig) -> pa.Array:
    """[spans] list of each span's marks (span events whose names the settings allow), `list<MARK_TYPE>`,
    sorted by time, then name; null without any."""
    at = np.flatnonzero(_is_mark(events, config))
    if len(at) == 0:
        return pa.nulls(n_spans, pa.list_(MARK_TYPE))
    names = events.name.take(pa.array(at)).dictionary_encode()
    by_name = np.argsort(np.argsort(np.asarray(names.dictionary.to_pylist(), dtype=object)))
    order = np.lexsort((by_name[np.asarray(names.indices)], events.ts_ns[at], events.owner[at]))
    lengths = np.bincount(events.owner[at], minlength=n_spans)
    values = pa.StructArray.from_arrays(
        [pa.array(events.ts_ns[at][order]), names.take(pa.array(order)).dictionary_decode()],
        fields=list(MARK_TYPE),
    )
    return list_column(lengths, values)


def event_params(events: SpanEvents, start_ns: I8, config: DecodeConfig) -> list[AttributeTable]:
    """Parameters from span events: `event.<name>`, the event's time in ns after the span's start, and
    `event.<name>.<key>` for each attribute.

    If the event's time is invalid or missing, or the span has no times, `event.<name>` is instead a text: the
    event's time in ns since the epoch, or empty. Names are normalised as span names are. Marks have no
    `event.<name>`.
    """
    if len(events.owner) == 0:
        return []
    names = events.name.dictionary_encode()
    plain = ~_is_mark(events, config)
    prefixes = [event_key(name, config) for name in names.dictionary.to_pylist()]
    code = np.asarray(names.indices, np.int64)
    tables = [_times(events, start_ns, plain, code, tuple(prefixes))]
    inner = events.attributes
    if len(inner):
        pair, inverse = np.unique(code[inner.owner] * len(inner.keys) + inner.code, return_inverse=True)
        keys = tuple(
            f"{prefixes[p // len(inner.keys)]}.{inner.keys[p % len(inner.keys)]}" for p in pair.tolist()
        )
        # Include the attributes of marks: a mark has only a name and a time.
        tables.append(replace(inner, owner=events.owner[inner.owner], code=inverse, keys=keys))
    return tables


def _times(
    events: SpanEvents, start_ns: I8, plain: B1, code: I8, prefixes: tuple[str, ...]
) -> AttributeTable:
    at = np.flatnonzero(plain)
    ts, start = events.ts_ns[at], start_ns[events.owner[at]]
    relative = (ts > BAD_TIME) & (start > BAD_TIME)
    with_time = pa.array(ts, mask=ts <= BAD_TIME)
    num = pa.array(
        np.where(relative, ts - np.where(relative, start, 0), 0).astype(np.float64), mask=~relative
    )
    text = pc.if_else(pa.array(relative), None, pc.fill_null(pc.cast(with_time, pa.string()), ""))
    return AttributeTable(events.owner[at], code[at], prefixes, num, text)


def _is_mark(events: SpanEvents, config: DecodeConfig) -> B1:
    if not config.event_points or len(events.owner) == 0:
        return np.zeros(len(events.owner), np.bool_)
    listed = pc.is_in(events.name, pa.array(config.event_points, pa.string()))
    timed = (events.ts_ns != NO_TIME) & (events.ts_ns != BAD_TIME)
    marks: B1 = mask(listed) & timed
    return marks


def event_key(name: str, config: DecodeConfig) -> str:
    """Parameter name `event.<name>` for the time of a span event; the event's name is normalised and cut."""
    short = cut_utf8(name, 4 * config.max_name_bytes).replace("\0", NUL_MARK)
    return "event." + cut_utf8(normalise_name(short), config.max_name_bytes)
