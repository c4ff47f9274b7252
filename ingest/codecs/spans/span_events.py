"""Span events: allow-listed names become marks (inner nodes), the others parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME, SpanEvents
from ingest.codecs.values.attributes import AttributeTable
from ingest.codecs.values.names import NUL_MARK, cut_utf8, normalise_name
from schemas.arrays import B1, I8
from schemas.config import DecodeConfig
from schemas.events import MARK_TYPE


def marks_column(events: SpanEvents, n_spans: int, config: DecodeConfig) -> pa.Array:
    """`list<MARK_TYPE>`, one a span, in time order (ties by name); null where a span has none."""
    at = np.flatnonzero(_is_mark(events, config))
    if len(at) == 0:
        return pa.nulls(n_spans, pa.list_(MARK_TYPE))
    names = events.name.take(pa.array(at)).dictionary_encode()
    by_name = np.argsort(np.argsort(np.asarray(names.dictionary.to_pylist(), dtype=object)))
    order = np.lexsort((by_name[np.asarray(names.indices)], events.ts_ns[at], events.owner[at]))
    lengths = np.bincount(events.owner[at], minlength=n_spans)
    offsets = np.zeros(n_spans + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    values = pa.StructArray.from_arrays(
        [pa.array(events.ts_ns[at][order]), names.take(pa.array(order)).dictionary_decode()],
        fields=list(MARK_TYPE),
    )
    return pa.ListArray.from_arrays(
        pa.array(offsets), values, type=pa.list_(MARK_TYPE), mask=pa.array(lengths == 0)
    )


def event_params(events: SpanEvents, start_ns: I8, config: DecodeConfig) -> list[AttributeTable]:
    """Parameters `event.<name>` (ns after the span's start) and `event.<name>.<key>`.

    Of an event without usable time, or of an untimed span, `event.<name>` is the text of its time in ns
    since the epoch, empty where it has none. Names are normalised as span names are. Marks give none.
    """
    if len(events.owner) == 0:
        return []
    names = events.name.dictionary_encode()
    plain = ~_is_mark(events, config)
    prefixes = [_key(name, config) for name in names.dictionary.to_pylist()]
    code = np.asarray(names.indices, np.int64)
    tables = [_times(events, start_ns, plain, code, tuple(prefixes))]
    inner = events.attributes
    if len(inner):
        pair, inverse = np.unique(code[inner.owner] * len(inner.keys) + inner.code, return_inverse=True)
        keys = tuple(
            f"{prefixes[p // len(inner.keys)]}.{inner.keys[p % len(inner.keys)]}" for p in pair.tolist()
        )
        # Also the attributes of marks: a mark is a name and a time only.
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
    marks: B1 = np.asarray(listed.to_numpy(zero_copy_only=False)) & timed
    return marks


def _key(name: str, config: DecodeConfig) -> str:
    short = cut_utf8(name, 4 * config.max_name_bytes).replace("\0", NUL_MARK)
    return "event." + cut_utf8(normalise_name(short), config.max_name_bytes)
