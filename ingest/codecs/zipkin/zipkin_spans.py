"""Turn Zipkin spans, of JSON or protobuf, into the span columns that all formats share.

The one place that says how a Zipkin span reads. What the Collector writes as tags because Zipkin has no
field for it (host, links, status, kind, attributes of events) is had back from them. Numbers
are had back where the text of a tag is how a number is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, Literal

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
from ingest.codecs.values.columns import mask
from ingest.codecs.values.ids import bytes_of_text, hex_of_text
from ingest.codecs.values.written_numbers import with_numbers
from schemas.arrays import B1, I8, U1
from schemas.config import DecodeConfig
from schemas.events import EventKind

_NO_US: Final = -1
_BAD_US: Final = -2
_NS_PER_US = 1000
_MAX_US: Final = (2**63 - 1) // _NS_PER_US // 2
"""Half of int64 nanoseconds: a start and a duration below it add up without overflow."""
_LINK_KEY = re.compile(r"otlp\.link\.([0-9]{1,6})")
_LINK: Final = r"^(?P<trace>[0-9a-fA-F]{32})\|(?P<span>[0-9a-fA-F]{16})\|"
"""trace|span|tracestate|{attributes}|number of those dropped."""
_ATTRIBUTED: Final = r"(?s)\|\{.*\}\|[0-9]+$"
"""An annotation that is an event: name|{attributes}|number of those dropped."""
_PEER_IP: Final = "peer.ip"
_PEER_SERVICE: Final = "peer.service"

KindName = Literal["CLIENT", "SERVER", "PRODUCER", "CONSUMER"]

KINDS: Final[dict[str | None, EventKind]] = {
    None: EventKind.SPAN_UNSPECIFIED,
    "CLIENT": EventKind.SPAN_CLIENT,
    "SERVER": EventKind.SPAN_SERVER,
    "PRODUCER": EventKind.SPAN_PRODUCER,
    "CONSUMER": EventKind.SPAN_CONSUMER,
}


class ZipkinEndpoint(msgspec.Struct, gc=False):
    """Of the local or the remote side."""

    serviceName: str | None = None  # noqa: N815  the names of the format
    ipv4: str | None = None
    ipv6: str | None = None


class ZipkinAnnotation(msgspec.Struct, gc=False):
    """Time in µs, and what happened."""

    timestamp: int | None = None
    value: str | None = None


class ZipkinSpan(msgspec.Struct, gc=False):
    """A span of the v2 model."""

    traceId: str | None = None  # noqa: N815
    id: str | None = None
    parentId: str | None = None  # noqa: N815
    name: str | None = None
    kind: KindName | None = None
    timestamp: int | None = None
    duration: int | None = None
    localEndpoint: ZipkinEndpoint | None = None  # noqa: N815
    remoteEndpoint: ZipkinEndpoint | None = None  # noqa: N815
    annotations: list[ZipkinAnnotation] | None = None
    tags: dict[str, str] | None = None
    shared: bool | None = None


_NOWHERE: Final = ZipkinEndpoint()


def span_batch(spans: Sequence[ZipkinSpan], payload: I8, item: I8, config: DecodeConfig) -> SpanBatch:
    """Columns of n spans; `payload` and `item` are [n]. O(size)."""
    n = len(spans)
    trace, bad_trace = hex_of_text(pa.array([s.traceId for s in spans], pa.string()))
    span, bad_span = bytes_of_text(pa.array([s.id for s in spans], pa.string()))
    parent, bad_parent = bytes_of_text(pa.array([s.parentId for s in spans], pa.string()))
    local = [s.localEndpoint or _NOWHERE for s in spans]
    remote = [s.remoteEndpoint or _NOWHERE for s in spans]
    peer = _words([e.serviceName for e in remote])
    links, tags = _links(_tags([s.tags or {} for s in spans]))
    host, rest = take_first_text(tags, config.host_keys, n)
    kind, rest = _kinds(np.array([KINDS[s.kind] for s in spans], np.uint8), rest, n)
    start = _ns([s.timestamp for s in spans])
    return SpanBatch(
        payload=payload,
        item=item,
        trace_id=trace,
        span_id=span,
        parent_id=parent,
        bad_id=bad_trace | bad_span | bad_parent,
        name=pa.array([s.name or "" for s in spans], pa.string()),
        kind=kind,
        start_ns=start,
        end_ns=_ends(start, _us([s.duration for s in spans]), _is_of_sdk(tags, n)),
        error=_errors(tags, n),
        # Every span has an endpoint of its own, and whatever the tags say of the machine.
        resource=np.arange(n),
        component=_words([e.serviceName for e in local]),
        host=pc.coalesce(host, _words([e.ipv4 or e.ipv6 for e in local])),
        attributes=with_numbers(_flat(without_field_tags(_without_bare_errors(rest)))),
        resource_attributes=_remote_endpoint(
            {_PEER_IP: _words([e.ipv4 or e.ipv6 for e in remote]), _PEER_SERVICE: peer}, tags
        ),
        peer=peer,
        shared=np.array([s.shared is True for s in spans], np.bool_),
        trace_state=text_of(tags, TRACE_STATE, n),
        status_message=text_of(tags, STATUS_MESSAGE, n),
        events=_events([(at, a) for at, s in enumerate(spans) if s.annotations for a in s.annotations]),
        links=links,
    )


def _words(texts: list[str | None]) -> pa.Array:
    """Texts, null where there is none."""
    return pa.array([text or None for text in texts], pa.string())


def _tags(tags: list[dict[str, str]]) -> AttributeTable:
    keys = pa.array(list(chain.from_iterable(tags)), pa.string()).dictionary_encode()
    texts = pa.array([text for t in tags for text in t.values()], pa.string())
    return AttributeTable(
        np.repeat(np.arange(len(tags)), [len(t) for t in tags]),
        np.asarray(keys.indices, np.int64),
        tuple(keys.dictionary.to_pylist()),
        pa.nulls(len(texts), pa.float64()),
        texts,
    )


def _us(values: list[int | None]) -> I8:
    """µs, _NO_US (0 and absent are the same to Zipkin) or _BAD_US."""
    return np.array([_NO_US if not v else v if 0 < v < _MAX_US else _BAD_US for v in values], np.int64)


def _ns(values: list[int | None]) -> I8:
    us = _us(values)
    ns: I8 = us * _NS_PER_US
    ns[us == _NO_US] = NO_TIME
    ns[us == _BAD_US] = BAD_TIME
    return ns


def _ends(start_ns: I8, duration_us: I8, is_of_sdk: B1) -> I8:
    """Start plus duration; NO_TIME without either, BAD_TIME if the duration is negative or too long.

    A span of the SDK's that has no duration took none: only ended spans leave it, and Zipkin's JSON and
    protobuf leave out a zero.
    """
    end: I8 = start_ns + np.maximum(duration_us, 0) * _NS_PER_US
    end[((duration_us == _NO_US) & ~is_of_sdk) | (start_ns == NO_TIME)] = NO_TIME
    end[(duration_us == _BAD_US) & (start_ns != NO_TIME)] = BAD_TIME
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
    internal = mask(pc.equal(said, "internal")) & (kind == EventKind.SPAN_UNSPECIFIED)
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
    return failed | mask(said)


def _without_bare_errors(tags: AttributeTable) -> AttributeTable:
    """Without the errors that say no more than the status does."""
    if "error" not in tags.keys:
        return tags
    at = np.flatnonzero(tags.code == tags.keys.index("error"))
    text = tags.text.take(pa.array(at if tags.row is None else tags.row[at]))
    keep = np.ones(len(tags), np.bool_)
    keep[at[mask(pc.is_in(text, pa.array(["true", "false"])))]] = False
    return tags.rows(keep)


def _flat(table: AttributeTable) -> AttributeTable:
    """The same with its values in the order of its rows."""
    if table.row is None:
        return table
    row = pa.array(table.row)
    return AttributeTable(table.owner, table.code, table.keys, table.num.take(row), table.text.take(row))


def _remote_endpoint(fields: dict[str, pa.Array], tags: AttributeTable) -> AttributeTable:
    """Add what is said of the remote endpoint under the keys that it goes by, unless a tag says it."""
    owner, code, text = [], [], []
    for number, (key, words) in enumerate(fields.items()):
        there = mask(words.is_valid()).copy()
        if key in tags.keys:
            there[tags.owner[tags.code == tags.keys.index(key)]] = False
        at = np.flatnonzero(there)
        owner.append(at)
        code.append(np.full(len(at), number, dtype=np.int64))
        text.append(words.take(pa.array(at)))
    order = np.argsort(np.concatenate(owner), kind="stable")
    none = pa.nulls(len(order), pa.float64())
    words = pa.concat_arrays(text).take(pa.array(order))
    return AttributeTable(
        np.concatenate(owner)[order], np.concatenate(code)[order], tuple(fields), none, words
    )


def _links(tags: AttributeTable) -> tuple[Owned, AttributeTable]:
    """Links that the Collector wrote as tags, in their order, and the other tags."""
    number = {code: int(m[1]) for code, key in enumerate(tags.keys) if (m := _LINK_KEY.fullmatch(key))}
    if not number:
        return Owned(np.empty(0, np.int64), pa.array([], pa.string())), tags
    at = np.flatnonzero(np.isin(tags.code, list(number)))
    order = np.array([number[code] for code in tags.code[at].tolist()], np.int64)
    at = at[np.lexsort((order, tags.owner[at]))]
    parts = pc.extract_regex(tags.text.take(pa.array(at)), _LINK)
    found = mask(parts.is_valid())
    rest = np.ones(len(tags), np.bool_)
    rest[at[found]] = False
    trace, _ = hex_of_text(pc.struct_field(parts, "trace"))
    span, _ = hex_of_text(pc.struct_field(parts, "span"))
    link = pc.binary_join_element_wise(trace, span, "/")
    # An id of zeros names nothing.
    return Owned(tags.owner[at[mask(link.is_valid())]], link.drop_null()), tags.rows(rest)


def _events(annotations: list[tuple[int, ZipkinAnnotation]]) -> SpanEvents:
    """Annotations; the Collector's that hold attributes come apart. Python per distinct one of these."""
    owner = np.array([at for at, _ in annotations], np.int64)
    names = pa.array([a.value or "" for _, a in annotations], pa.string())
    times = _ns([a.timestamp for _, a in annotations])
    at = np.flatnonzero(mask(pc.match_substring_regex(names, _ATTRIBUTED)))
    if len(at) == 0:
        return SpanEvents(owner, times, names)
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
        owner,
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
