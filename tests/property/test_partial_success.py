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
    content = b'{"resourceSpans":[],"unknown":[' + b"[]," * 400_000 + b"[]]}"
    assert refused_spans(content, JSON, DecodeConfig()) is not None
    assert not is_sound(content, JSON)


@pytest.mark.parametrize("name", ["name", "unknown"])
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
