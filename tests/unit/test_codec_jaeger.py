"""Jaeger: exports of the UI, bare JSON spans, and api_v2 messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.codecs.jaeger.jaeger_proto import JaegerSpan
from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.events import EventKind, with_text_ids
from schemas.rejects import Reason

CONFIG = DecodeConfig()
T0_US = 1_700_000_000_000_000
TRACE, SPAN, OTHER = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174", "eee19b7ec3c1b173"


def tag(key: str, kind: str, value: object) -> dict[str, object]:
    return {"key": key, "type": kind, "value": value}


PROCESS_TAGS = [tag("hostname", "string", "h1"), tag("v", "string", "2")]


def span(**fields: object) -> dict[str, object]:
    return {
        "traceID": TRACE,
        "spanID": SPAN,
        "operationName": "op",
        "startTime": T0_US,
        "duration": 9,
        "process": {
            "serviceName": "front",
            "tags": [tag("hostname", "string", "h1"), tag("v", "string", "2")],
        },
    } | fields


def decode(value: object) -> list[dict[str, Any]]:
    decoded = codec_for("jaeger-json").decode([json.dumps(value).encode()], CONFIG)
    assert not decoded.rejects
    rows: list[dict[str, Any]] = with_text_ids(decoded.events).to_pylist()
    return rows


def params(row: dict[str, Any]) -> dict[str, object]:
    return {p["key"]: p["text"] if p["num"] is None else p["num"] for p in row["params"] or []}


def test_the_example_of_spans(shared_data: Path) -> None:
    payload = (shared_data / "jaeger/trace_success.json").read_bytes()
    decoded = codec_for("jaeger-json").decode([payload], CONFIG)
    assert not decoded.rejects
    server, client = with_text_ids(decoded.events).to_pylist()
    assert (server["kind"], client["kind"]) == (EventKind.SPAN_SERVER, EventKind.SPAN_CLIENT)
    assert (server["parents"], client["parents"]) == (["492770a15935810f"], [server["id"]])
    assert (server["status"], client["status"]) == ("ok", "error")
    assert server["ts_ns"] == 1_605_223_981_761_425_000
    assert server["end_ns"] - server["ts_ns"] == 267_037_000


def test_the_example_of_the_ui(shared_data: Path) -> None:
    payload = (shared_data / "jaeger/multi.json").read_bytes()
    decoded = codec_for("jaeger-ui").decode([payload], CONFIG)
    assert not decoded.rejects
    rows = with_text_ids(decoded.events).to_pylist()
    source = json.loads(payload)["data"][0]
    assert [r["id"] for r in rows] == [s["spanID"] for s in source["spans"]]
    assert {r["component"] for r in rows} == {p["serviceName"] for p in source["processes"].values()}
    assert all("telemetry.sdk.name" in params(r) for r in rows)


def test_tags_have_their_types() -> None:
    tags = [
        tag("i", "int64", 5),
        tag("j", "int64", "6"),
        tag("f", "float64", "0.5"),
        tag("b", "bool", "true"),
        tag("s", "string", "7"),
        tag("span.kind", "string", "producer"),
        tag("sampler.type", "string", "probabilistic"),
        tag("sampler.param", "float64", 0.125),
        tag("error", "bool", True),
        tag("error.type", "string", "timeout"),
    ]
    (row,) = decode(span(tags=tags))
    assert row["kind"] == EventKind.SPAN_PRODUCER
    assert row["sample_rate"] == 0.125
    assert row["status"] == "timeout"
    assert row["host"] == "h1"
    expected = {"i": 5.0, "j": 6.0, "f": 0.5, "b": "true", "s": "7", "v": "2", "error.type": "timeout"}
    assert params(row) == expected | {"sampler.type": "probabilistic", "sampler.param": 0.125}


@pytest.mark.parametrize(
    ("told", "rate"), [("5e-17", 5e-17), (2.0**-56, 2.0**-56), ("1e-17", None), ("1e-310", None)]
)
def test_a_rate_that_nobody_samples_at_is_unknown(told: object, rate: float | None) -> None:
    tags = [tag("sampler.type", "string", "probabilistic"), tag("sampler.param", "float64", told)]
    (row,) = decode(span(tags=tags))
    assert row["sample_rate"] == rate


def test_references_become_parent_follows_and_links() -> None:
    references = [
        {"refType": "FOLLOWS_FROM", "traceID": TRACE, "spanID": "1"},
        {"refType": "CHILD_OF", "traceID": TRACE, "spanID": OTHER},
        {"refType": "CHILD_OF", "traceID": TRACE, "spanID": "2"},
        {"refType": "CHILD_OF", "traceID": "ab", "spanID": "3"},
    ]
    (row,) = decode([span(references=references)])
    assert row["parents"] == [OTHER]
    assert row["follows"] == ["0000000000000001"]
    assert row["links"] == [f"{TRACE}/0000000000000002", "00000000000000ab/0000000000000003"]


def test_logs_become_params() -> None:
    fields = [tag("event", "string", "retry"), tag("n", "int64", 3)]
    (row,) = decode(span(logs=[{"timestamp": T0_US + 2, "fields": fields}]))
    assert params(row) == {"v": "2", "event.retry": 2_000.0, "event.retry.n": 3.0}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (span(spanID=""), Reason.MISSING_FIELD),
        (span(traceID="x"), Reason.BAD_ID),
        (span(startTime="x"), Reason.BAD_TYPE),
        (span(duration=-1), Reason.BAD_TIME),
        (span(tags={}), Reason.WRONG_SHAPE),
        ([], Reason.WRONG_SHAPE),
    ],
)
def test_a_wrong_span_is_refused_and_its_neighbours_are_not(wrong: object, reason: Reason) -> None:
    decoded = codec_for("jaeger-json").decode([json.dumps([span(), wrong, span()]).encode()], CONFIG)
    assert decoded.events.num_rows == 2
    assert [(r.reason, r.item) for r in decoded.rejects] == [(reason, 1)]


def test_a_trace_that_is_none_does_not_cost_the_others() -> None:
    trace = {"spans": [span(process=None, processID="p1")], "processes": {"p1": {"serviceName": "s"}}}
    decoded = codec_for("jaeger-ui").decode([json.dumps({"data": [7, trace]}).encode()], CONFIG)
    assert decoded.events["component"].to_pylist() == ["s"]
    assert [r.reason for r in decoded.rejects] == [Reason.WRONG_SHAPE]


def _message() -> Any:
    message = JaegerSpan(trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(SPAN), operation_name="op")
    message.start_time.seconds = T0_US // 10**6
    message.duration.nanos = 9_000
    message.process.service_name = "front"
    message.process.tags.add(key="hostname", v_str="h1")
    message.process.tags.add(key="v", v_str="2")
    return message


def test_protobuf_and_json_of_a_span_are_the_same_event() -> None:
    message = _message()
    message.tags.add(key="span.kind", v_str="server")
    message.tags.add(key="i", v_type=2, v_int64=-5)
    message.tags.add(key="f", v_type=3, v_float64=0.5)
    message.tags.add(key="b", v_type=1, v_bool=True)
    message.references.add(trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(OTHER))
    message.references.add(trace_id=bytes.fromhex(TRACE), span_id=bytes(range(1, 9)), ref_type=1)
    log = message.logs.add()
    log.timestamp.seconds = T0_US // 10**6
    log.fields.add(key="event", v_str="e")
    tags = [tag("span.kind", "string", "server"), tag("i", "int64", -5), tag("f", "float64", 0.5)]
    as_json = span(
        tags=[*tags, tag("b", "bool", True)],
        references=[
            {"refType": "CHILD_OF", "traceID": TRACE, "spanID": OTHER},
            {"refType": "FOLLOWS_FROM", "traceID": TRACE, "spanID": "0102030405060708"},
        ],
        logs=[{"timestamp": T0_US, "fields": [tag("event", "string", "e")]}],
    )
    decoded = codec_for("jaeger-proto").decode([message.SerializeToString()], CONFIG)
    assert with_text_ids(decoded.events).to_pylist() == decode(as_json)
    assert with_text_ids(decoded.events)["id"].to_pylist() == [SPAN]


def test_wrong_messages_are_refused_and_their_neighbours_are_not() -> None:
    good = _message().SerializeToString()
    short, late = _message(), _message()
    short.span_id = b"\1"
    late.start_time.seconds = 2**40
    payloads = [good, b"\xff", short.SerializeToString(), late.SerializeToString(), b"", good]
    decoded = codec_for("jaeger-proto").decode(payloads, CONFIG)
    assert decoded.events.num_rows == 2
    reasons = [Reason.BAD_PROTOBUF, Reason.BAD_ID, Reason.BAD_TIME, Reason.EMPTY]
    assert [(r.payload, r.reason) for r in decoded.rejects] == list(enumerate(reasons, 1))
