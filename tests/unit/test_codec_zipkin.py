"""Zipkin v2 lists: the oddities that Zipkin allows come through, counted."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.events import EventKind, with_text_ids
from schemas.rejects import Reason

CONFIG = DecodeConfig()
T0_US = 1_700_000_000_000_000


def span(**fields: object) -> dict[str, object]:
    return {"traceId": "a1", "id": "b2", "name": "get", "timestamp": T0_US, "duration": 7} | fields


def decode(*spans: object, config: DecodeConfig = CONFIG) -> list[dict[str, Any]]:
    decoded = codec_for("zipkin").decode([json.dumps(spans).encode()], config)
    assert not decoded.rejects
    rows: list[dict[str, Any]] = with_text_ids(decoded.events).to_pylist()
    return rows


@pytest.mark.parametrize(
    ("name", "spans", "oddities"),
    [
        (
            "smartthings-mobile-web-install",
            1_041,
            {"shared": 294, "duplicate-id": 378, "untimed": 84, "no-duration": 91},
        ),
        ("smartthings-oauth-authorization", 175, {"shared": 45, "duplicate-id": 45, "no-duration": 19}),
        ("messaging-kafka", 28, {}),
        ("messaging2", 11, {"shared": 1}),
        ("skew", 4, {"shared": 1, "duplicate-id": 1}),
        ("yelp", 16, {"shared": 4, "duplicate-id": 3}),
    ],
)
def test_real_traces_lose_nothing(shared_data: Path, name: str, spans: int, oddities: dict[str, int]) -> None:
    payload = gzip.decompress((shared_data / f"zipkin/{name}.json.gz").read_bytes())
    decoded = codec_for("zipkin").decode([payload], CONFIG)
    assert not decoded.rejects
    assert decoded.oddities == oddities
    rows = with_text_ids(decoded.events).to_pylist()
    raw = json.loads(payload)
    assert len(rows) == len(raw) == spans
    for row, source in zip(rows, raw, strict=True):
        assert row["id"] == source["id"]
        assert row["parents"] == ([source["parentId"]] if "parentId" in source else None)
        assert row["ts_ns"] == (source["timestamp"] * 1000 if "timestamp" in source else None)
        assert row["shared"] == source.get("shared", False)
        assert row["component"] == source.get("localEndpoint", {}).get("serviceName", "?")
        keys = {p["key"] for p in row["params"] or []}
        assert set(source.get("tags", {})) <= keys


def test_a_span() -> None:
    (row,) = decode(
        span(
            parentId="c3",
            kind="CLIENT",
            localEndpoint={"serviceName": "front", "ipv4": "10.0.0.1", "port": 80},
            remoteEndpoint={"serviceName": "db", "ipv4": "10.0.0.2"},
            tags={"error": "no such host", "http.path": "/a"},
            annotations=[{"timestamp": T0_US + 3, "value": "ws"}],
            shared=True,
        )
    )
    assert row["request_id"] == "00000000000000a1"
    assert row["id"] == "00000000000000b2"
    assert row["parents"] == ["00000000000000c3"]
    assert row["kind"] == EventKind.SPAN_CLIENT
    assert (row["ts_ns"], row["end_ns"]) == (T0_US * 1000, T0_US * 1000 + 7_000)
    assert (row["component"], row["host"], row["peer"]) == ("front", "10.0.0.1", "db")
    assert row["status"] == "error"
    assert row["shared"]
    assert {p["key"]: p["text"] if p["num"] is None else p["num"] for p in row["params"]} == {
        "error": "no such host",
        "event.ws": 3_000.0,
        "http.path": "/a",
        "peer.ip": "10.0.0.2",
        "peer.service": "db",
    }


def test_a_tag_says_more_of_the_remote_endpoint_than_the_endpoint() -> None:
    told = span(
        kind="CLIENT",
        remoteEndpoint={"serviceName": "db", "ipv4": "10.0.0.2"},
        tags={"peer.service": "orders-db", "a": "b"},
    )
    rows = decode(told, span(id="b3", remoteEndpoint={"serviceName": "cache"}), span(id="b4"))
    params = [{p["key"]: p["text"] for p in row["params"] or []} for row in rows]
    assert params == [
        {"a": "b", "peer.ip": "10.0.0.2", "peer.service": "orders-db"},
        {"peer.service": "cache"},
        {},
    ]
    assert [row["peer"] for row in rows] == ["db", "cache", None]


def test_listed_annotations_are_marks() -> None:
    annotated = span(annotations=[{"timestamp": T0_US + 3, "value": "ws"}])
    (row,) = decode(annotated, config=DecodeConfig(event_points=("ws",)))
    assert row["marks"] == [{"ts_ns": T0_US * 1000 + 3_000, "name": "ws"}]
    assert row["params"] is None


@pytest.mark.parametrize("text", ["|{" * 2**17, "|{" * 2**16 + "}|1" * 2**16 + "x"])
def test_an_annotation_that_is_nearly_an_event_takes_no_time(text: str) -> None:
    """A regular expression that tried every end of it took over a minute."""
    began = time.process_time()
    assert len(decode(span(annotations=[{"timestamp": T0_US + 3, "value": text}]))) == 1
    assert time.process_time() - began < 2


def test_128_bit_trace_ids_keep_all_their_bits() -> None:
    trace = "f" * 31 + "1"
    assert decode(span(traceId=trace))[0]["request_id"] == trace
    assert decode(span(traceId="1" * 17))[0]["request_id"] == "0" * 15 + "1" * 17


def test_lists_of_traces_and_single_spans_are_read() -> None:
    payloads = [json.dumps(v).encode() for v in ([[span()], [span()]], span(), [])]
    decoded = codec_for("zipkin").decode(payloads, CONFIG)
    assert decoded.events.num_rows == 3
    assert not decoded.rejects


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (span(id="zz"), Reason.BAD_ID),
        (span(id=None), Reason.MISSING_FIELD),
        (span(id=5), Reason.BAD_TYPE),
        (span(timestamp=1), Reason.BAD_TIME),
        (span(timestamp="x"), Reason.BAD_TYPE),
        (span(duration=-5), Reason.BAD_TIME),
        (span(kind="SIDEWAYS"), Reason.BAD_VALUE),
        (span(tags=[]), Reason.WRONG_SHAPE),
        (None, Reason.WRONG_SHAPE),
    ],
)
def test_a_wrong_span_is_refused_and_its_neighbours_are_not(wrong: object, reason: Reason) -> None:
    decoded = codec_for("zipkin").decode([json.dumps([span(), wrong, span()]).encode()], CONFIG)
    assert decoded.events.num_rows == 2
    (reject,) = decoded.rejects
    assert (reject.reason, reject.item) == (reason, 1)
    assert json.loads(reject.raw) == wrong


@pytest.mark.parametrize("name", ["smartthings-mobile-web-install", "messaging-kafka", "yelp"])
def test_reading_whole_and_item_by_item_agree(shared_data: Path, name: str) -> None:
    payload = gzip.decompress((shared_data / f"zipkin/{name}.json.gz").read_bytes())
    fast = codec_for("zipkin").decode([payload], CONFIG)
    # A list of traces is not what the typed reader knows, so it goes item by item.
    slow = codec_for("zipkin").decode([b"[" + payload + b"]"], CONFIG)
    assert fast.events.to_pylist() == slow.events.to_pylist()
    assert fast.oddities == slow.oddities
