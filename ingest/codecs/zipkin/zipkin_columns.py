"""Zipkin spans in columns, from JSON or protobuf, to the span columns that all formats share.

The one place that says how a Zipkin span reads. What the Collector writes as tags because Zipkin has no
field for it (host, links, status, kind, attributes of events) is had back from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.payloads import JSON_ERRORS
from ingest.codecs.spans.otlp_tags import (
    SCOPE_TAGS,
    STATUS_MESSAGE,
    TRACE_STATE,
    failed_spans,
    text_of,
    without_field_tags,
)
from ingest.codecs.spans.span_batch import BAD_TIME, NO_TIME, Owned, SpanBatch, SpanEvents
from ingest.codecs.values.attributes import AttributeTable, attribute_table, plain_value, take_first_text
from ingest.codecs.values.ids import hex_of_text
from ingest.codecs.values.numbers_in_text import with_numbers
from schemas.arrays import B1, I8, U1
from schemas.config import DecodeConfig
from schemas.events import EventKind

NO_US: Final = -1
BAD_US: Final = -2
_NS_PER_US = 1000
MAX_US: Final = (2**63 - 1) // _NS_PER_US // 2
"""Half of int64 nanoseconds: a start and a duration below it add up without overflow."""
_LINK_KEY = re.compile(r"otlp\.link\.([0-9]{1,6})")
_LINK: Final = r"^(?P<trace>[0-9a-fA-F]{32})\|(?P<span>[0-9a-fA-F]{16})\|"
"""trace|span|tracestate|{attributes}|number of those dropped."""
_ATTRIBUTED: Final = r"(?s)\|\{.*\}\|[0-9]+$"
"""An annotation that is an event: name|{attributes}|number of those dropped."""
_PEER_IP: Final = "peer.ip"
_PEER_SERVICE: Final = "peer.service"


@dataclass(frozen=True, slots=True)
class ZipkinColumns:
    """n spans; Arrow columns are strings with nulls (or empty text) for what is absent."""

    payload: I8
    item: I8
    trace_id: pa.Array
    span_id: pa.Array
    parent_id: pa.Array
    bad_id: B1
    """These four: as in SpanBatch."""
    name: pa.Array
    kind: U1
    """[n] EventKind."""
    start_us: I8
    duration_us: I8
    """[n] µs, NO_US or BAD_US."""
    service: pa.Array
    ip: pa.Array
    """Local endpoint."""
    remote_service: pa.Array
    remote_ip: pa.Array
    tags: AttributeTable
    """Of text."""
    shared: B1
    annotation_owner: I8
    annotation_us: I8
    annotation: pa.Array


def valid_us(value: int | None) -> int:
    """µs as the columns hold them: 0 and absent are the same to Zipkin."""
    if not value:
        return NO_US
    return value if 0 < value < MAX_US else BAD_US


def span_batch(of: ZipkinColumns, config: DecodeConfig) -> SpanBatch:
    """Span columns. O(size)."""
    n = len(of.payload)
    links, tags = _links(of.tags)
    error = _errors(tags, n)
    host, rest = take_first_text(tags, config.host_keys, n)
    kind, rest = _kinds(of.kind, rest, n)
    start = _ns(of.start_us)
    return SpanBatch(
        payload=of.payload,
        item=of.item,
        trace_id=of.trace_id,
        span_id=of.span_id,
        parent_id=of.parent_id,
        bad_id=of.bad_id,
        name=of.name,
        kind=kind,
        start_ns=start,
        end_ns=_ends(start, of.duration_us, _is_of_sdk(tags, n)),
        error=error,
        # Every span has an endpoint of its own, and whatever the tags say of the machine.
        resource=np.arange(n),
        component=_full(of.service),
        host=pc.coalesce(host, _full(of.ip)),
        attributes=with_numbers(_flat(without_field_tags(_without_bare_errors(rest)))),
        resource_attributes=_remote_endpoint(
            {_PEER_IP: of.remote_ip, _PEER_SERVICE: of.remote_service}, tags
        ),
        peer=_full(of.remote_service),
        shared=of.shared,
        trace_state=text_of(tags, TRACE_STATE, n),
        status_message=text_of(tags, STATUS_MESSAGE, n),
        events=_events(of),
        links=links,
    )


def _full(column: pa.Array) -> pa.Array:
    """Null where it is empty."""
    return pc.if_else(pc.equal(column, ""), None, column)


def _ns(us: I8) -> I8:
    ns: I8 = us * _NS_PER_US
    ns[us == NO_US] = NO_TIME
    ns[us == BAD_US] = BAD_TIME
    return ns


def _ends(start_ns: I8, duration_us: I8, is_of_sdk: B1) -> I8:
    """Start plus duration; NO_TIME without either, BAD_TIME if the duration is negative or too long.

    A span of the SDK's that has no duration took none: only ended spans leave it, and Zipkin's JSON and
    protobuf leave out a zero.
    """
    end: I8 = start_ns + np.maximum(duration_us, 0) * _NS_PER_US
    end[((duration_us == NO_US) & ~is_of_sdk) | (start_ns == NO_TIME)] = NO_TIME
    end[(duration_us == BAD_US) & (start_ns != NO_TIME)] = BAD_TIME
    end[start_ns == BAD_TIME] = NO_TIME
    return end


def _is_of_sdk(tags: AttributeTable, n: int) -> B1:
    """[n] the tags name an OpenTelemetry scope."""
    codes = [code for code, key in enumerate(tags.keys) if key in SCOPE_TAGS]
    found = np.zeros(n, np.bool_)
    if codes:
        found[tags.owner[np.isin(tags.code, codes)]] = True
    return found


def _kinds(kind: U1, tags: AttributeTable, n: int) -> tuple[U1, AttributeTable]:
    """Zipkin has no word for an internal span: the tag `span.kind` says it."""
    said = text_of(tags, "span.kind", n)
    if said is None:
        return kind, tags
    internal = np.asarray(pc.fill_null(pc.equal(said, "internal"), False)) & (
        kind == EventKind.SPAN_UNSPECIFIED
    )
    named = tags.code == tags.keys.index("span.kind")
    kinds: U1 = np.where(internal, np.uint8(EventKind.SPAN_INTERNAL), kind)
    return kinds, tags.rows(~(named & internal[tags.owner]))


def _errors(tags: AttributeTable, n: int) -> B1:
    """[n] the tag `error` is there and not false (its text is a message, not a class); or the status."""
    error = text_of(tags, "error", n)
    failed = failed_spans(tags, n)
    if error is None:
        return failed
    said = pc.not_equal(pc.utf8_lower(error), "false")
    return failed | np.asarray(pc.fill_null(said, False).to_numpy(zero_copy_only=False), np.bool_)


def _without_bare_errors(tags: AttributeTable) -> AttributeTable:
    """Without the errors that say no more than the status does."""
    if "error" not in tags.keys:
        return tags
    at = np.flatnonzero(tags.code == tags.keys.index("error"))
    text = tags.text.take(pa.array(at if tags.row is None else tags.row[at]))
    keep = np.ones(len(tags), np.bool_)
    keep[at[np.asarray(pc.is_in(text, pa.array(["true", "false"])))]] = False
    return tags.rows(keep)


def _flat(table: AttributeTable) -> AttributeTable:
    """The same with its values in the order of its rows."""
    if table.row is None:
        return table
    row = pa.array(table.row)
    return AttributeTable(table.owner, table.code, table.keys, table.num.take(row), table.text.take(row))


def _remote_endpoint(told: dict[str, pa.Array], tags: AttributeTable) -> AttributeTable:
    """What is said of the remote endpoint under the keys that it goes by, unless a tag says it."""
    owner, code, text = [], [], []
    for number, (key, words) in enumerate(told.items()):
        there = np.asarray(pc.fill_null(pc.not_equal(words, ""), False).to_numpy(zero_copy_only=False)).copy()
        if key in tags.keys:
            there[tags.owner[tags.code == tags.keys.index(key)]] = False
        at = np.flatnonzero(there)
        owner.append(at)
        code.append(np.full(len(at), number, dtype=np.int64))
        text.append(words.take(pa.array(at)))
    order = np.argsort(np.concatenate(owner), kind="stable")
    none = pa.nulls(len(order), pa.float64())
    words = pa.concat_arrays(text).take(pa.array(order))
    return AttributeTable(np.concatenate(owner)[order], np.concatenate(code)[order], tuple(told), none, words)


def _links(tags: AttributeTable) -> tuple[Owned, AttributeTable]:
    """Links that the Collector wrote as tags, in their order, and the other tags."""
    number = {code: int(m[1]) for code, key in enumerate(tags.keys) if (m := _LINK_KEY.fullmatch(key))}
    if not number:
        return Owned(np.empty(0, np.int64), pa.array([], pa.string())), tags
    at = np.flatnonzero(np.isin(tags.code, list(number)))
    order = np.array([number[code] for code in tags.code[at].tolist()], np.int64)
    at = at[np.lexsort((order, tags.owner[at]))]
    parts = pc.extract_regex(tags.text.take(pa.array(at)), _LINK)
    found = np.asarray(parts.is_valid().to_numpy(zero_copy_only=False))
    rest = np.ones(len(tags), np.bool_)
    rest[at[found]] = False
    trace, _ = hex_of_text(pc.struct_field(parts, "trace"))
    span, _ = hex_of_text(pc.struct_field(parts, "span"))
    link = pc.binary_join_element_wise(trace, span, "/")
    # An id of zeros names nothing.
    there = np.asarray(link.is_valid().to_numpy(zero_copy_only=False))
    return Owned(tags.owner[at[there]], link.drop_null()), tags.rows(rest)


def _events(of: ZipkinColumns) -> SpanEvents:
    """Annotations; those of the Collector that hold attributes come apart. Python per distinct one."""
    names = pc.fill_null(of.annotation, "")
    times = _ns(of.annotation_us)
    at = np.flatnonzero(np.asarray(pc.match_substring_regex(names, _ATTRIBUTED)))
    if len(at) == 0:
        return SpanEvents(of.annotation_owner, times, names)
    values = names.take(pa.array(at)).dictionary_encode()
    apart = [_name_and_attributes(text) for text in values.dictionary.to_pylist()]
    codes = np.asarray(values.indices)
    replaced = np.zeros(len(names), np.bool_)
    replaced[at] = True
    short = pa.array([name for name, _ in apart], pa.string()).take(values.indices)
    pairs = [
        (row, key, value)
        for row, code in zip(at.tolist(), codes.tolist(), strict=True)
        for key, value in apart[code][1].items()
    ]
    return SpanEvents(
        of.annotation_owner,
        times,
        pc.replace_with_mask(names, pa.array(replaced), short),
        attribute_table([row for row, _, _ in pairs], [k for _, k, _ in pairs], [v for _, _, v in pairs]),
    )


_ATTRIBUTES = msgspec.json.Decoder(dict[str, object])


def _name_and_attributes(text: str) -> tuple[str, Mapping[str, object]]:
    """`name|{…}|0` in its parts; all of it is the name where the middle is no object."""
    begin, end = text.index("|{"), text.rindex("}|") + 1
    try:
        fields = _ATTRIBUTES.decode(text[begin + 1 : end])
        return text[:begin], {key: plain_value(value) for key, value in fields.items()}
    except JSON_ERRORS:
        return text, {}
