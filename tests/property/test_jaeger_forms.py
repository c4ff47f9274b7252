"""Jaeger messages, all at once and one by one: the same events."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.codecs.jaeger.jaeger_proto import JaegerSpan, add_message
from ingest.codecs.spans.span_batch import FAULTS
from ingest.codecs.spans.span_rows import SpanRows
from ingest.codecs.spans.spans_to_events import events_of_spans
from ingest.formats import codec_for
from schemas.config import DecodeConfig

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
    rows = SpanRows()
    add_message(rows, 0, span)
    assert events_of_spans(rows.batch(), CONFIG).events.to_pylist() == decoded
    assert (decoded[0]["parents"], decoded[0]["links"]) == ([bytes(range(8))], None)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(messages().filter(bool), min_size=1, max_size=4))
def test_all_at_once_and_one_by_one(payloads: list[bytes]) -> None:
    fast = codec_for("jaeger-proto").decode(payloads, CONFIG)
    rows = SpanRows()
    for i, payload in enumerate(payloads):
        add_message(rows, i, JaegerSpan.FromString(payload))
    slow = events_of_spans(rows.batch(), CONFIG)
    assert fast.events.to_pylist() == slow.events.to_pylist()
    assert [(r.payload, r.reason, r.detail) for r in fast.rejects] == [
        (payload, *FAULTS[fault - 1])
        for payload, fault in zip(slow.bad.payload.tolist(), slow.bad.fault.tolist(), strict=True)
    ]
    assert fast.oddities == slow.oddities
