"""Malformed messages among many: they cost themselves, not their neighbours, and not much."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from oracles.codec_contract import CONFIG, assert_same
from oracles.fuzz_rounds import Rounds

from ingest.codecs.otlp import otlp_proto
from ingest.codecs.otlp.otlp_proto import OtlpProtoCodec
from ingest.codecs.otlp.wire.library import Found
from ingest.codecs.privacy import privacy_of
from ingest.codecs.values.protobuf import GROUP_BYTES, batches_of
from schemas.config import ParamRules
from schemas.rejects import Reason

MANY = 400
REFUSED = b"\xfa\x80\x80\x80\x7f\x00"
"""A field with a number that there cannot be: protobuf refuses it, other parsers skip it."""
MERGED = b"\x0a\x02\x1a\x00"
"""A resource with an empty schema, as no exporter writes it: protobuf reads it."""


@pytest.fixture(params=[True, False], ids=["installed reader", "portable reader"])
def codec(request: pytest.FixtureRequest) -> OtlpProtoCodec:
    return OtlpProtoCodec() if request.param else OtlpProtoCodec(Found(None))


def test_malformed_messages_cost_themselves(
    shared_data: Path, codec: OtlpProtoCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds("otlp-proto", shared_data)
    sound = [one.payload for one in rounds.sound[1:]]
    payloads = [sound[i % len(sound)] for i in range(MANY)]
    broken = random.Random(3).sample(range(MANY), MANY // 10)
    for index in broken:
        payloads[index] = payloads[index][:-1]
    calls: list[int] = []

    def counted(handler: object, messages: list[bytes], *more: int) -> Iterator[object]:
        calls.append(len(messages))
        yield from batches_of(handler, messages, *more)

    monkeypatch.setattr(otlp_proto, "batches_of", counted)
    decoded = codec.decode(payloads, CONFIG)
    assert {reject.payload for reject in decoded.rejects} == set(broken)
    assert len(calls) <= 1 + sum(map(len, payloads)) // GROUP_BYTES
    rest = [payload for index, payload in enumerate(payloads) if index not in broken]
    assert_same(decoded.events, [codec.decode(rest, CONFIG).events])


def test_protobuf_decides_what_is_accepted(shared_data: Path, codec: OtlpProtoCodec) -> None:
    rounds = Rounds("otlp-proto", shared_data)
    first, odd, last = (one.payload for one in rounds.sound[1:4])
    decoded = codec.decode([first, odd + REFUSED, odd + MERGED, first[:-1], last], CONFIG)
    assert_same(decoded.events, [one.events for one in rounds.sound[1:4]])
    assert [reject.payload for reject in decoded.rejects] == [1, 3]


def test_bytes_in_a_nested_value_are_protobufs_too(codec: OtlpProtoCodec) -> None:
    request = ExportTraceServiceRequest()
    span = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(trace_id=bytes(range(16)), span_id=bytes(range(8)), name="a")
    )
    span.attributes.add(key="k").value.array_value.values.add(string_value="xyz")
    sound = request.SerializeToString()
    decoded = codec.decode([sound, sound.replace(b"xyz", b"x\xffz"), sound], CONFIG)
    assert [reject.payload for reject in decoded.rejects] == [1]
    assert decoded.events["params"].to_pylist() == 2 * [[{"key": "k", "num": None, "text": '["xyz"]'}]]


def test_of_a_value_that_was_written_twice_the_last_counts(codec: OtlpProtoCodec) -> None:
    request = ExportTraceServiceRequest()
    span = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(trace_id=bytes(range(16)), span_id=bytes(range(8)), name="a")
    )
    span.attributes.add(key="k").value.string_value = "text"
    message = request.SerializeToString()
    twice = message.replace(b"\x0a\x04text", b"\x0a\x02te\x18\x07")
    assert len(twice) == len(message)
    (params,) = codec.decode([twice], CONFIG).events["params"].to_pylist()
    assert params == [{"key": "k", "num": 7.0, "text": None}]


def test_a_refused_span_counts_as_nothing_else(codec: OtlpProtoCodec) -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=bytes(range(16)), span_id=b"abc", name="a\0b").events.add(name="e")
    spans.add(trace_id=bytes(range(16)), span_id=bytes(range(8)), name="c", start_time_unix_nano=10**18)
    both = request.SerializeToString()
    decoded = codec.decode([both], CONFIG)
    assert (decoded.events.num_rows, len(decoded.rejects)) == (1, 1)
    assert decoded.oddities == {}
    del spans[1]
    assert codec.decode([both, request.SerializeToString()], CONFIG).oddities == {}


FOREIGN = {
    "of another number": b"\x12\x02\x0a\x00",
    "a number": b"\x18\x01",
    "eight megabytes of numbers": b"\x10\x01" * 2**22,
}


@pytest.mark.parametrize("format_", ["otlp-proto", "zipkin-proto"])
def test_a_message_of_foreign_fields_is_told(format_: str, shared_data: Path) -> None:
    rounds = Rounds(format_, shared_data)
    sound = rounds.sound[1].payload
    # Of the fields that are known only the first holds spans; it need not come first.
    late = b"\x12\x00" + sound
    # An empty message in the field is no foreign one: a resource without spans, or a span without ids.
    payloads = [sound, *FOREIGN.values(), late, b"\x0a\x00"]
    decoded = rounds.codec.decode(payloads, CONFIG)
    told = {
        (reject.payload, reject.reason) for reject in decoded.rejects if reject.payload != len(payloads) - 1
    }
    assert told == {(place, Reason.WRONG_SHAPE) for place in range(1, 1 + len(FOREIGN))}
    assert_same(decoded.events, [rounds.sound[1].events] * 2)


@pytest.mark.parametrize(
    ("raw", "is_kept"),
    [
        (b"\xffset-cookie", False),
        (b"\xffSET_Cookie:", False),
        (b"\xffProxy_Authorization", False),
        (b"\xff\\U0070assword", False),
        (b"\xffuser.secret_KEY", False),
        (b"\xffsecretkey", True),
        (b"\xffpass-word", True),
        (b"\xff", True),
    ],
)
def test_names_are_found_in_bytes_in_any_spelling(raw: bytes, is_kept: bool) -> None:
    privacy = privacy_of(ParamRules(redact=("*.Secret-key",)))
    assert privacy.clean_raw(raw) == (raw if is_kept else None)
