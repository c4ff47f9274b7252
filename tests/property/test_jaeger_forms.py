"""Jaeger messages and their JSON form: the same events, however many come together."""

from __future__ import annotations

import base64
import json
import math
import random
import re
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.mutants import mutants

from ingest.codecs.jaeger.jaeger_json import time_ns
from ingest.codecs.jaeger.jaeger_proto import JaegerSpan
from ingest.codecs.spans.span_batch import BAD_TIME
from ingest.codecs.values.protobuf import MAX_FIELDS
from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.rejects import Reason

CONFIG = DecodeConfig(event_points=("mark",), host_keys=("pod",))
SECONDS = 1_700_000_000
TRACES = [bytes(range(16)), bytes(8) + bytes(range(1, 9)), bytes(range(1, 9)), b""]
SPANS = [bytes(range(8)), bytes(range(1, 9)), bytes(8), b"\1"]

_keys = st.sampled_from(
    [
        "a",
        "span.kind",
        "error",
        "otel.status_code",
        "error.type",
        "peer.service",
        "hostname",
        "ip",
        "pod",
        "event",
    ]
)
_texts = st.sampled_from(["", "x", "client", "Server", "ERROR", "true", "False", "0", "é\0"])


@st.composite
def tags(draw: st.DrawFn) -> list[dict[str, Any]]:
    kinds = [
        st.builds(lambda k, v: {"key": k, "v_str": v}, _keys, _texts),
        st.builds(lambda k, v: {"key": k, "v_type": 1, "v_bool": v}, _keys, st.booleans()),
        st.builds(lambda k, v: {"key": k, "v_type": 2, "v_int64": v}, _keys, st.integers(-(2**40), 2**40)),
        st.builds(lambda k, v: {"key": k, "v_type": 3, "v_float64": v}, _keys, st.floats()),
        st.builds(lambda k, v: {"key": k, "v_type": 4, "v_binary": v}, _keys, st.binary(max_size=3)),
    ]
    return draw(st.lists(st.one_of(kinds), max_size=4, unique_by=lambda t: t["key"]))


def proto_json(span: Any) -> dict[str, Any]:
    """The message in protobuf's JSON form, as the Collector writes it: defaults left out."""

    def time(value: Any) -> str:
        whole = datetime.fromtimestamp(value.seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{whole}.{value.nanos:09}Z" if value.nanos else f"{whole}Z"

    def base64_of(value: bytes) -> str:
        return base64.b64encode(value).decode()

    def fields(pairs: Any) -> list[dict[str, Any]]:
        out = []
        for pair in pairs:
            kind = ["STRING", "BOOL", "INT64", "FLOAT64", "BINARY"][pair.v_type]
            number = pair.v_float64 if math.isfinite(pair.v_float64) else _INFINITE[str(pair.v_float64)]
            value = {
                "STRING": {"vStr": pair.v_str},
                "BOOL": {"vBool": pair.v_bool},
                "INT64": {"vInt64": str(pair.v_int64)},
                "FLOAT64": {"vFloat64": number},
                "BINARY": {"vBinary": base64_of(pair.v_binary)},
            }[kind]
            out.append({"key": pair.key} | ({"vType": kind} if pair.v_type else {}) | value)
        return out

    return {
        "traceId": base64_of(span.trace_id),
        "spanId": base64_of(span.span_id),
        "operationName": span.operation_name,
        "references": [
            {"traceId": base64_of(r.trace_id), "spanId": base64_of(r.span_id)}
            | ({"refType": "FOLLOWS_FROM"} if r.ref_type == 1 else {})
            for r in span.references
        ],
        "startTime": time(span.start_time),
        "duration": f"{span.duration.seconds}.{span.duration.nanos:09}s",
        "tags": fields(span.tags),
        "logs": [{"timestamp": time(log.timestamp), "fields": fields(log.fields)} for log in span.logs],
        "process": {"serviceName": span.process.service_name, "tags": fields(span.process.tags)},
    }


_INFINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def otherwise(value: Any) -> Any:
    """The same in another spelling that protobuf takes: the names of the message, numbers for enums."""
    if isinstance(value, list):
        return [otherwise(v) for v in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, field in value.items():
        if key == "vType":
            field = ["STRING", "BOOL", "INT64", "FLOAT64", "BINARY"].index(field)
        elif key == "refType":
            field = 1
        elif key == "vInt64":
            field = int(field)
        out[re.sub("([A-Z0-9]+)", r"_\1", key).lower()] = otherwise(field)
    return out


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    span = JaegerSpan(
        trace_id=draw(st.sampled_from(TRACES)),
        span_id=draw(st.sampled_from(SPANS)),
        operation_name=draw(st.sampled_from(["", "op", "GET /users/17"])),
    )
    for _ in range(draw(st.integers(0, 3))):
        span.references.add(
            trace_id=draw(st.sampled_from(TRACES)),
            span_id=draw(st.sampled_from(SPANS)),
            ref_type=draw(st.integers(0, 2)),
        )
    if draw(st.booleans()):
        span.start_time.seconds = draw(st.sampled_from([SECONDS, 0, -5, 2**50]))
        span.start_time.nanos = draw(st.sampled_from([0, 5, -1]))
    if draw(st.booleans()):
        span.duration.seconds = draw(st.sampled_from([0, 3, -3, 2**62]))
        span.duration.nanos = draw(st.sampled_from([0, 7]))
    for tag in draw(tags()):
        span.tags.add(**tag)
    for _ in range(draw(st.integers(0, 2))):
        log = span.logs.add()
        log.timestamp.seconds = draw(st.sampled_from([SECONDS, 0]))
        for tag in draw(tags()):
            log.fields.add(**tag)
        if draw(st.booleans()):
            log.fields.add(key="message", v_str=draw(st.sampled_from(["mark", "gc 7"])))
    span.process.service_name = draw(st.sampled_from(["", "front"]))
    for tag in draw(tags()):
        span.process.tags.add(**tag)
    data: bytes = span.SerializeToString()
    return data


def test_a_reference_to_the_parent_is_no_link_wherever_it_stands() -> None:
    ids = {"trace_id": bytes(range(16)), "span_id": bytes(range(8))}
    span = JaegerSpan(trace_id=ids["trace_id"], span_id=bytes(range(1, 9)))
    span.start_time.seconds = SECONDS
    span.references.add(**ids, ref_type=2)
    span.references.add(**ids)
    decoded = codec_for("jaeger-proto").decode([span.SerializeToString()], CONFIG).events.to_pylist()
    assert (decoded[0]["parents"], decoded[0]["links"]) == ([bytes(range(8))], None)


def test_messages_of_many_tags_are_read_as_each_alone() -> None:
    made = []
    for number in range(6):
        span = JaegerSpan(trace_id=TRACES[0], span_id=bytes([1, 2, 3, 4, 5, 6, 7, number]))
        span.start_time.seconds = SECONDS - 2**40 * (number == 1)
        for tag in range(MAX_FIELDS // 5):
            span.tags.add(key=f"k{tag % 100}", v_type=2, v_int64=number)
        made.append(span.SerializeToString())
    together = codec_for("jaeger-proto").decode(made, CONFIG)
    alone = [codec_for("jaeger-proto").decode([one], CONFIG) for one in made]
    assert together.events.to_pylist() == [row for one in alone for row in one.events.to_pylist()]
    assert [(r.payload, r.reason) for r in together.rejects] == [(1, Reason.BAD_TIME)]
    # Of a span that is refused oddities may be counted or not.
    assert together.oddities["duplicate-param"] >= 5 * (MAX_FIELDS // 5 - 100)


def has_json(span: Any) -> bool:
    """Times and durations that RFC 3339 and the Collector can write; enums that have a name."""
    times = [span.start_time, *(log.timestamp for log in span.logs)]
    return (
        all(0 <= t.seconds < 2**33 and t.nanos >= 0 for t in times)
        and 0 <= span.duration.seconds < 10**9
        and all(r.ref_type in (0, 1) for r in span.references)
    )


@examples(30, suppress_health_check=list(HealthCheck))
@given(st.lists(messages().filter(lambda m: has_json(JaegerSpan.FromString(m))), min_size=1, max_size=4))
def test_protobuf_and_its_json_form(payloads: list[bytes]) -> None:
    expected = codec_for("jaeger-proto").decode([p or b"\x28\x00" for p in payloads], CONFIG)
    documents = [proto_json(JaegerSpan.FromString(p)) for p in payloads]
    compact = [json.dumps(d, separators=(",", ":")).encode() for d in documents]
    spelt_otherwise = [json.dumps(otherwise(d)).encode() for d in documents]
    for texts in (compact, spelt_otherwise, [json.dumps(d, indent=1).encode() for d in documents]):
        read = codec_for("jaeger-json").decode(texts, CONFIG)
        assert read.events.to_pylist() == expected.events.to_pylist()
        assert [(r.payload, r.reason, r.detail) for r in read.rejects] == [
            (r.payload, r.reason, r.detail) for r in expected.rejects
        ]
        # Those of a span that is refused may be counted or not.
        assert expected.rejects or read.oddities == expected.oddities


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("spanId", "LRoJsdMr2bQ", Reason.BAD_VALUE),
        ("spanId", "LRoJsdMr2Q==", Reason.BAD_ID),
        ("traceId", 5, Reason.BAD_TYPE),
        ("startTime", "yesterday", Reason.BAD_TYPE),
        ("startTime", "9999-12-31T23:59:59Z", Reason.BAD_TIME),
        ("startTime", 17, Reason.BAD_TYPE),
        ("duration", "5m", Reason.BAD_TYPE),
        ("duration", "-1s", Reason.BAD_TIME),
        ("tags", {}, Reason.WRONG_SHAPE),
        ("tags", [None], Reason.WRONG_SHAPE),
        ("tags", [{"key": "k", "vType": "INT64", "vInt64": "x"}], Reason.BAD_TYPE),
        ("tags", [{"key": "k", "vType": "BOOL", "vBool": 1}], Reason.BAD_TYPE),
        ("tags", [{"key": "k", "vType": "FLOAT64", "vFloat64": "x"}], Reason.BAD_TYPE),
        ("tags", [{"key": "k", "vType": "BINARY", "vBinary": "!"}], Reason.BAD_VALUE),
        ("process", [], Reason.WRONG_SHAPE),
        ("logs", [{"timestamp": "x"}], Reason.BAD_TYPE),
    ],
)
def test_a_wrong_span_of_the_json_form_is_refused_and_its_neighbours_are_not(
    field: str, value: object, reason: Reason
) -> None:
    sound = {
        "traceId": "G+cIfDidk/NGwNMsTyb1YQ==",
        "spanId": "LRoJsdMr2bQ=",
        "startTime": "2026-11-21T21:20:21.5Z",
        "duration": "0.000600s",
    }
    texts = [json.dumps(d, separators=(",", ":")).encode() for d in (sound, sound | {field: value}, sound)]
    for payloads in (texts * 3, [b"[" + b",".join(texts) + b"]"]):
        decoded = codec_for("jaeger-json").decode(payloads, CONFIG)
        assert decoded.events.num_rows == 2 * len(decoded.rejects)
        assert {r.reason for r in decoded.rejects} == {reason}
        assert len(decoded.rejects) == max(1, len(payloads) // 3)


def of_column(text: str) -> int | None:
    """What pyarrow reads; None: nothing."""
    try:
        times = pa.array([text]).cast(pa.timestamp("ns", tz="UTC"))
    except pa.ArrowInvalid:
        return None
    return int(times.cast(pa.int64())[0].as_py())


def test_a_time_reads_as_arrow_reads_it_or_not_at_all() -> None:
    texts = ["2023-11-14T22:13:20Z", "2000-02-29T23:00:00.5+01:00", "2099-12-31T23:59:59.123456789Z"]
    odd = ["1969-12-31T23:59:59.5Z", "2000-02-29T24:00:01Z", "2099-12-31T23:59:60Z"]
    assert [time_ns(text) for text in texts] == [of_column(text) for text in texts]
    assert [time_ns(text) for text in odd] == [BAD_TIME] * len(odd)
    rng = random.Random(1)
    near = (m.decode(errors="ignore") for text in texts + odd for m in mutants(text.encode(), rng, 300))
    for text in near:
        read, expected = time_ns(text), of_column(text)
        assert read in (None, BAD_TIME) or read == expected, text
