"""Zipkin spans as JSON, as protobuf and one by one: the same events."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.zipkin_spans import number_in, zipkin_batch

from ingest.codecs.spans.span_batch import FAULTS
from ingest.codecs.spans.spans_to_events import events_of_spans
from ingest.codecs.values.attributes import AttributeTable
from ingest.codecs.values.written_numbers import with_numbers
from ingest.codecs.zipkin.zipkin_proto import ListOfSpans
from ingest.formats import codec_for
from schemas.config import DecodeConfig

CONFIG = DecodeConfig(event_points=("mark",), host_keys=("host.name", "pod"))
T0_US = 1_700_000_000_000_000
LINK = "0af7651916cd43dd8448eb211c80319c|b7ad6b7169203331||{}|0"

_texts = st.sampled_from(
    [
        "",
        "x",
        "true",
        "false",
        "False",
        "200",
        "0.25",
        "1.0",
        "-7",
        "12345678901234567890",
        "5e-324",
        "1e5",
        "é",
    ]
)
_tags = st.dictionaries(
    st.sampled_from(["a", "n", "error", "error.type", "pod", "peer.service", "peer.ip", "w3c.tracestate"]),
    _texts,
    max_size=4,
)
_otlp_tags = st.fixed_dictionaries(
    {},
    optional={
        "host.name": st.sampled_from(["", "h1"]),
        "span.kind": st.sampled_from(["internal", "client"]),
        "otel.status_code": st.sampled_from(["STATUS_CODE_OK", "STATUS_CODE_ERROR", "ERROR", ""]),
        "otel.status_description": st.sampled_from(["", "no row"]),
        "otel.scope.name": st.just("s"),
        "otel.library.version": st.just("1"),
        "otlp.link.0": st.sampled_from([LINK, "none", LINK.replace("b7ad6b7169203331", "0" * 16)]),
        "otlp.link.10": st.just(LINK.upper()),
        "otlp.link.2": st.just(LINK.replace("0af", "1af")),
    },
)
_annotations = st.fixed_dictionaries(
    {},
    optional={
        "timestamp": st.sampled_from([0, T0_US + 5, 7]),
        "value": st.sampled_from(
            [
                "",
                "ws",
                "mark",
                'mark|{"n":3}|0',
                'gc 7|{"n":3,"t":"x|{}|1","b":true,"l":[1]}|12',
                "a|{}|0",
                "a|{broken}|0",
                "a|b|{}|0",
                "a|{}|x",
                "|{}|",
            ]
        ),
    },
)
_endpoints = st.fixed_dictionaries(
    {},
    optional={
        "serviceName": st.sampled_from(["", "front"]),
        "ipv4": st.just("10.0.0.1"),
        "ipv6": st.just("2001:db8::1"),
    },
)


@st.composite
def spans(draw: st.DrawFn) -> dict[str, Any]:
    ids = st.sampled_from(["00000000000000a1", "00000000000000b2", "0" * 16])
    traces = st.sampled_from(["00000000000000a1", "463ac35c9f6413ad48485a3953bb6124"])
    required = {
        "traceId": traces,
        "id": ids,
        "tags": st.builds(lambda a, b: a | b, _tags, _otlp_tags),
    }
    optional = {
        "parentId": ids,
        "name": st.sampled_from(["", "op", "GET /users/17"]),
        "kind": st.sampled_from(["CLIENT", "SERVER", "PRODUCER", "CONSUMER"]),
        "timestamp": st.sampled_from([0, 1, T0_US, 2**62]),
        "duration": st.sampled_from([0, 7, 2**62]),
        "localEndpoint": _endpoints,
        "remoteEndpoint": _endpoints,
        "annotations": st.lists(_annotations, max_size=3),
        "shared": st.booleans(),
    }
    return draw(st.fixed_dictionaries(required, optional=optional))


def as_message(batch: list[dict[str, Any]]) -> bytes:
    message = ListOfSpans()
    for span in batch:
        out = message.spans.add(
            trace_id=bytes.fromhex(span["traceId"]),
            id=bytes.fromhex(span["id"]),
            parent_id=bytes.fromhex(span.get("parentId", "")),
            name=span.get("name", ""),
            kind=[None, "CLIENT", "SERVER", "PRODUCER", "CONSUMER"].index(span.get("kind")),
            timestamp=span.get("timestamp", 0),
            duration=span.get("duration", 0),
            shared=span.get("shared", False),
        )
        for name in ("local", "remote"):
            if (endpoint := span.get(f"{name}Endpoint")) is not None:
                made = getattr(out, f"{name}_endpoint")
                made.SetInParent()
                made.service_name = endpoint.get("serviceName", "")
                for key in ("ipv4", "ipv6"):
                    if key in endpoint:
                        setattr(made, key, ipaddress.ip_address(endpoint[key]).packed)
        for annotation in span.get("annotations", ()):
            out.annotations.add(**annotation)
        for key, text in span["tags"].items():
            out.tags.add(key=key, value=text)
    data: bytes = message.SerializeToString()
    return data


@examples(40, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(spans(), min_size=1, max_size=3), min_size=1, max_size=3))
def test_all_at_once_and_one_by_one(lists: list[list[dict[str, Any]]]) -> None:
    slow = events_of_spans(zipkin_batch(lists, CONFIG), CONFIG)
    expected = slow.events.to_pylist()
    refused = [
        (payload, item, *FAULTS[fault - 1])
        for payload, item, fault in zip(
            slow.bad.payload.tolist(), slow.bad.item.tolist(), slow.bad.fault.tolist(), strict=True
        )
    ]
    forms = {
        "zipkin": [json.dumps(batch).encode() for batch in lists],
        # A list of traces is not what the typed reader knows: it goes item by item.
        "zipkin_json": [json.dumps([batch]).encode() for batch in lists],
        "zipkin-proto": [as_message(batch) for batch in lists],
    }
    for format_, payloads in forms.items():
        decoded = codec_for(format_).decode(payloads, CONFIG)
        assert decoded.events.to_pylist() == expected, format_
        assert [(r.payload, r.item, r.reason, r.detail) for r in decoded.rejects] == refused, format_


@examples(30)
@given(st.lists(spans(), min_size=1, max_size=3), st.binary(max_size=40))
def test_a_malformed_span_of_a_list_costs_itself_only(batch: list[dict[str, Any]], garbage: bytes) -> None:
    whole = codec_for("zipkin-proto").decode([as_message(batch)], CONFIG)
    bad = b"\x0a" + bytes([len(garbage) + 2]) + b"\x0a\x7f" + garbage
    decoded = codec_for("zipkin-proto").decode([bad + as_message(batch)], CONFIG)
    assert decoded.events.to_pylist() == whole.events.to_pylist()
    assert len(decoded.rejects) == len(whole.rejects) + 1
    assert (decoded.rejects[0].item, decoded.rejects[0].raw) == (0, bad[2:])


_numbers = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.floats(allow_nan=False).map(lambda v: np.format_float_positional(v, trim="-")),
    st.integers(-(2**70), 2**70).map(str),
    st.text("0123456789-+.e", max_size=26),
)


@given(st.lists(st.one_of(_numbers, st.text(max_size=3), st.none()), max_size=8))
def test_numbers_in_text(texts: list[str | None]) -> None:
    n = len(texts)
    table = AttributeTable(
        np.arange(n), np.zeros(n, np.int64), ("k",), pa.nulls(n, pa.float64()), pa.array(texts, pa.string())
    )
    read = with_numbers(table)
    for text, num, rest in zip(texts, read.num.to_pylist(), read.text.to_pylist(), strict=True):
        number = None if text is None else number_in(text)
        assert (num, rest) == (number, text if number is None else None)
