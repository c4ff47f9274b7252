"""Spans that a receiver reports as refused are those that the decoder makes dead letters of."""

from __future__ import annotations

import base64
import json
import random

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span
from oracles.bombs import field

from ingest.codecs.otlp.wire.fuzz import Messages
from ingest.codecs.otlp.wire.library import native_library
from ingest.codecs.values.protobuf import parses
from ingest.formats import codec_for
from ingest.receiver.bodies import BodyError, check_readable
from ingest.receiver.partial_success import is_sound, refused_spans
from ingest.receiver.receiver_settings import JSON, PROTOBUF
from schemas.config import DecodeConfig

T0 = 1_700_000_000_000_000_000
FAULTS = {
    "short span id": lambda span: setattr(span, "span_id", span.span_id[:5]),
    "no span id": lambda span: span.ClearField("span_id"),
    "span id of zeros": lambda span: setattr(span, "span_id", bytes(8)),
    "long trace id": lambda span: setattr(span, "trace_id", span.trace_id + b"a"),
    "no trace id": lambda span: span.ClearField("trace_id"),
    "trace id of zeros": lambda span: setattr(span, "trace_id", bytes(16)),
    "short parent": lambda span: setattr(span, "parent_span_id", b"abc"),
    "start in milliseconds": lambda span: setattr(span, "start_time_unix_nano", T0 // 10**6),
    "end out of int64": lambda span: setattr(span, "end_time_unix_nano", 2**64 - 1),
    "end before start": lambda span: setattr(span, "end_time_unix_nano", span.start_time_unix_nano - 1),
}
SHORT = ("short span id", "short parent")
"""Faults of protobuf alone: digits of JSON are filled up."""
HARMLESS = {
    "no parent": lambda span: span.ClearField("parent_span_id"),
    "no times": lambda span: (
        span.ClearField("start_time_unix_nano"),
        span.ClearField("end_time_unix_nano"),
    ),
    "end at start": lambda span: setattr(span, "end_time_unix_nano", span.start_time_unix_nano),
    "trace id of 8 bytes": lambda span: setattr(span, "trace_id", b"8 bytes!"),
    "nothing": lambda span: None,
}


def json_of(request: ExportTraceServiceRequest) -> bytes:
    """OTLP's JSON of a request: ids in hex."""
    document = MessageToDict(request, use_integers_for_enums=True)
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64decode(span[name]).hex()
    return json.dumps(document).encode()


@pytest.mark.parametrize("format_", [PROTOBUF, JSON])
@given(kinds=st.lists(st.sampled_from([*FAULTS, *HARMLESS]), min_size=1, max_size=12))
def test_every_span_with_a_fault_is_counted(format_: str, kinds: list[str]) -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number, kind in enumerate(kinds):
        span = spans.add(name="a", trace_id=b"16 bytes of text", span_id=b"%08d" % number)
        span.parent_span_id, span.start_time_unix_nano, span.end_time_unix_nano = b"8 bytes!", T0, T0 + 5
        (FAULTS | HARMLESS)[kind](span)
    content = request.SerializeToString() if format_ == PROTOBUF else json_of(request)
    n_wrong = sum(kind in FAULTS and (format_ == PROTOBUF or kind not in SHORT) for kind in kinds)
    refused = refused_spans(content, format_, DecodeConfig())
    assert (0 if refused is None else refused.n_spans) == n_wrong
    if n_wrong:
        assert not is_sound(content, format_)
    elif set(kinds) <= {"no parent", "end at start", "nothing"} and (
        format_ == JSON or native_library().library is not None
    ):
        assert is_sound(content, format_)


@pytest.mark.parametrize("written", ["1_7{}", " 17{} ", "+17{}", "\N{ARABIC-INDIC DIGIT ONE}7{}", "-17{}"])
@pytest.mark.parametrize("name", ["startTimeUnixNano", "endTimeUnixNano"])
def test_times_that_python_reads_and_the_decoder_does_not_are_counted(written: str, name: str) -> None:
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "a"}
    span |= {"startTimeUnixNano": str(T0), "endTimeUnixNano": str(T0), name: written.format("0" * 17)}
    content = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    assert refused_spans(content, JSON, DecodeConfig()) is not None
    assert not is_sound(content, JSON)


def test_json_that_is_too_dense_to_decode_is_counted() -> None:
    spans = b'[{"scopeSpans":[{"spans":[{},{},{}]},{"spans":[{}]}]}]'
    content = b'{"resourceSpans":' + spans + b',"unknown":[' + b"[]," * 400_000 + b"[]]}"
    refused = refused_spans(content, JSON, DecodeConfig())
    assert refused is not None
    assert refused.n_spans == 4
    assert not is_sound(content, JSON)


SPAN = {"traceId": "ab" * 16, "spanId": "cd" * 8, "startTimeUnixNano": str(T0), "endTimeUnixNano": str(T0)}
WRONG_TYPES: tuple[tuple[str, object], ...] = (
    ("name", 5),
    ("kind", "SPAN_KIND_UNHEARD_OF"),
    ("traceState", ["a"]),
    ("attributes", {"a": 1}),
    ("attributes", [{"key": 1}]),
    ("attributes", [{"key": "a", "value": "text"}]),
    ("attributes", [{"key": "a", "value": {"intValue": "1x"}}]),
    ("attributes", [{"key": "a", "value": {"intValue": "1\n"}}]),
    ("attributes", [{"key": "a", "value": {"bytesValue": "="}}]),
    ("attributes", [{"key": "a", "value": {"arrayValue": {"values": [{"boolValue": 1}]}}}]),
    ("attributes", [{"key": "a", "value": {"kvlistValue": {"values": [{"key": []}]}}}]),
    ("status", "error"),
    ("status", {"code": "STATUS_CODE_UNHEARD_OF"}),
    ("status", {"message": 1}),
    ("events", [{"name": 1}]),
    ("events", [{"timeUnixNano": "soon"}]),
    ("links", [{"traceId": 1}]),
)


@pytest.mark.parametrize(("name", "value"), WRONG_TYPES)
def test_a_span_whose_only_fault_is_a_type_is_counted(name: str, value: object) -> None:
    spans = [SPAN, SPAN | {name: value}, SPAN]
    content = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
    refused = refused_spans(content, JSON, DecodeConfig())
    assert refused is not None
    assert refused.n_spans == 1
    assert not is_sound(content, JSON)


def test_a_span_with_all_that_exporters_write_passes() -> None:
    values = [{"stringValue": "a"}, {"boolValue": True}, {"intValue": "-5"}, {"doubleValue": 1}, {}]
    values += [{"arrayValue": {"values": values[:4]}}]
    values += [{"kvlistValue": {"values": [{"key": "a", "value": value} for value in values]}}]
    attributes = [{"key": "a", "value": value} for value in values]
    more = {"attributes": attributes, "droppedAttributesCount": 1}
    events = [{"timeUnixNano": str(T0), "name": "a", **more}]
    links = [{"traceId": "ab" * 16, "spanId": "cd" * 8, "traceState": "", "flags": 256, **more}]
    status = {"code": 2, "message": "a"}
    counts = {"droppedEventsCount": 1, "droppedLinksCount": 1, "flags": 256}
    span = SPAN | {"name": "a", "kind": 2, "traceState": "a=b", "status": status, **more, **counts}
    scope = {
        "scope": {"name": "a", "version": "1", **more},
        "spans": [span | {"events": events, "links": links}],
    }
    resource = {"resource": more, "scopeSpans": [scope | {"schemaUrl": "a"}], "schemaUrl": "a"}
    content = json.dumps({"resourceSpans": [resource]}).encode()
    assert is_sound(content, JSON)
    assert refused_spans(content, JSON, DecodeConfig()) is None


@pytest.mark.parametrize("format_", [PROTOBUF, JSON])
def test_spans_of_a_message_that_is_refused_whole_are_counted(format_: str) -> None:
    request = ExportTraceServiceRequest()
    for number in range(3):
        spans = request.resource_spans.add().scope_spans.add().spans
        for _ in range(2):
            span = spans.add(name="a", trace_id=b"16 bytes of text", span_id=b"%08d" % number)
            span.start_time_unix_nano = span.end_time_unix_nano = T0
    content = request.SerializeToString() if format_ == PROTOBUF else json_of(request)
    refused = refused_spans(content, format_, DecodeConfig(max_payload_bytes=100))
    assert refused is not None
    assert refused.n_spans == 6


@pytest.mark.parametrize("n_parts", [1, 20])
def test_spans_of_a_resource_with_too_many_attributes_are_counted(n_parts: int) -> None:
    """Also if the resource is written in parts, which protobuf merges."""
    span = {"trace_id": b"16 bytes of text", "start_time_unix_nano": T0, "end_time_unix_nano": T0}
    spans = [Span(**span, span_id=b"%08d" % number) for number in range(3)]
    block = ResourceSpans(scope_spans=[ScopeSpans(spans=spans)]).SerializeToString()
    for part in range(n_parts):
        keys = range(part, 60_000, n_parts)
        attributes = [KeyValue(key=f"{key:05}", value=AnyValue(string_value="v" * 30)) for key in keys]
        block += ResourceSpans(resource=Resource(attributes=attributes)).SerializeToString()
    content = field(1, block)
    refused = refused_spans(content, PROTOBUF, DecodeConfig())
    assert refused is not None
    assert refused.n_spans == 3
    assert "span and its resource" in refused.why
    assert not is_sound(content, PROTOBUF)


def test_spans_of_a_resource_or_a_scope_that_is_refused_are_counted() -> None:
    sound = {"scopeSpans": [{"spans": [SPAN]}]}
    bad = {"resource": {"attributes": 1}, "scope_spans": [{"spans": [SPAN, SPAN]}, {"spans": [SPAN]}]}
    content = json.dumps({"resourceSpans": [sound, bad, {"scopeSpans": ["a"]}]}).encode()
    refused = refused_spans(content, JSON, DecodeConfig())
    assert refused is not None
    assert refused.n_spans == 3
    assert not is_sound(content, JSON)


@pytest.mark.parametrize("name", ["name", "flags"])
def test_json_with_bytes_that_are_not_utf_8_is_not_readable(name: str) -> None:
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, name: "@"}
    span |= {"startTimeUnixNano": str(T0), "endTimeUnixNano": str(T0)}
    content = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    assert is_sound(content, JSON)
    damaged = content.replace(b"@", b"\xff\xfe")
    assert not is_sound(damaged, JSON)
    with pytest.raises(BodyError, match="no JSON object"):
        check_readable(damaged, JSON)


@pytest.mark.skipif(native_library().library is None, reason="needs the native library")
@given(seed=st.integers(0, 2**32))
def test_a_message_that_passes_the_check_is_readable_and_has_no_dead_letter(seed: int) -> None:
    messages, config, passed = Messages(seed), DecodeConfig(), 0
    for _ in range(10):
        for content in messages.poll():
            if content and is_sound(content, PROTOBUF):
                passed += 1
                assert parses(ExportTraceServiceRequest, content), content.hex()
                assert not codec_for(PROTOBUF).decode([content], config).refused, content.hex()
    assert passed


@given(seed=st.integers(0, 2**32))
def test_bytes_at_random_end_the_check_in_order(seed: int) -> None:
    rng = random.Random(seed)
    content = rng.randbytes(rng.randrange(1, 200))
    assert is_sound(content, PROTOBUF) in (True, False)
    assert not is_sound(content, JSON)
