"""Messages cut by request: the parts read as the message does, whatever is wrong with some of it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ingest.formats import codec_for
from ingest.kafka.produce import Gatherer
from ingest.kafka.request_parts import PartError, RequestPart, request_parts
from schemas.config import DecodeConfig
from schemas.errors import InputError

T0 = 1_800_000_000_000_000_000


def record(i: int, **fields: object) -> dict[str, object]:
    known = {"breadcrumb": f"b{i}", "request_id": f"r{i}", "ts": T0 + i, "component": "c", "point": "p"}
    return known | fields


def otlp(i: int, **fields: object) -> dict[str, object]:
    ids = {"traceId": f"{i:032x}", "spanId": f"{i:016x}"}
    return {**ids, "name": "n", "startTimeUnixNano": str(T0), "endTimeUnixNano": str(T0 + 1), **fields}


def zipkin(i: int, **fields: object) -> dict[str, object]:
    ids = {"traceId": f"{i:016x}", "id": f"{i:016x}"}
    return {**ids, "timestamp": T0 // 1_000, "duration": 2, "name": "x", **fields}


def request(*spans: object) -> dict[str, object]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def lines(*values: object) -> bytes:
    return b"\n".join(value if isinstance(value, bytes) else text(value) for value in values)


def text(value: object) -> bytes:
    return json.dumps(value).encode()


def read(format_: str, payloads: list[bytes]) -> tuple[list[Any], int]:
    """Events, in an order of their own, and how many items are refused."""
    decoded = codec_for(format_).decode(payloads, DecodeConfig())
    rows = decoded.events.select(["request_id", "id", "ts_ns", "point"]).to_pylist()
    return sorted(map(repr, rows)), sum(decoded.refused.values())


OLD_NAMES = {"resource_spans": [{"instrumentationLibrarySpans": [{"spans": [otlp(1)]}]}]}
BASE64_SPAN = otlp(1) | {
    "traceId": base64.b64encode(bytes(15) + b"\1").decode(),
    "spanId": base64.b64encode(bytes(7) + b"\2").decode(),
}
SNAKE_SPAN = {"trace_id": "ab" * 16, "span_id": "1" * 16, "start_time_unix_nano": str(T0)}


@pytest.mark.parametrize(
    ("format_", "payload", "refused"),
    [
        ("native", lines(record(1), b'{"breadcrumb": "x", "ts": }', record(2)), 1),
        ("native", lines(record(1), b"[", b"\xff\x00", b"{" * 5_000, b"", record(2)), 3),
        ("native", lines(record(1), record(2, request_id=5), record(3, request_id=0)), 0),
        ("native", lines(record(1), record(2, breadcrumb=None), record(3, request_id=True), b"7"), 3),
        ("native", text([record(1), record(2), 3, record(4, ts="x")]), 2),
        ("native", json.dumps([record(1), record(2)], indent=2).encode(), 0),
        ("native", b"\xef\xbb\xbf" + json.dumps(record(1), indent=2).encode(), 0),
        ("native", b"\xef\xbb\xbf" + lines(record(1), record(2)), 0),
        ("otlp-json", text(request(otlp(1), otlp(2, traceId=None), otlp(3))), 1),
        ("otlp-json", text(request(otlp(1), otlp(2, startTimeUnixNano="x"), otlp(3))), 1),
        ("otlp-json", text(request(otlp(1), otlp(2, startTimeUnixNano=1.5), 3, otlp(4, traceId=4))), 3),
        ("otlp-json", text(request(otlp(1, startTimeUnixNano=None), otlp(2, startTimeUnixNano=""))), 0),
        ("otlp-json", lines(request(otlp(1)), b'{"resourceSpans":', request(otlp(2))), 1),
        ("otlp-json", text({"resourceSpans": [*request(otlp(1))["resourceSpans"], 5, None]}), 2),  # type: ignore[misc]
        ("otlp-json", text({"resourceSpans": [{"scopeSpans": [3, {"spans": [otlp(1)]}]}]}), 1),
        ("otlp-json", text({"resourceSpans": [{"scopeSpans": None}, {"x": 1, "scopeSpans": []}]}), 0),
        ("otlp-json", text(OLD_NAMES), 0),
        ("otlp-json", text(request(SNAKE_SPAN, otlp(1))), 0),
        ("otlp-json", text([request(otlp(1)), request(otlp(1, spanId="f" * 16), otlp(2))]), 0),
        ("otlp-json", text({"batches": request(otlp(1), otlp(2))["resourceSpans"]}), 0),
        ("otlp-json", text({"trace": request(otlp(1), otlp(2, traceId=None))}), 1),
        ("otlp-json", text(request(BASE64_SPAN, otlp(1, spanId="f" * 16))), 0),
        ("zipkin", text([zipkin(1), zipkin(2, traceId=5), 3, zipkin(4, timestamp=None)]), 2),
        ("zipkin", text([zipkin(1, timestamp=str(T0 // 1_000)), zipkin(2)]), 0),
        ("zipkin", text([[zipkin(1), zipkin(2)], [zipkin(3)]]), 0),
        ("zipkin", text(zipkin(1)), 0),
        ("jaeger-json", text([{"traceID": "1" * 16, "spanID": "2" * 16, "startTime": T0 // 1_000}, 5]), 1),
        ("jaeger-json", lines({"traceID": "1" * 16, "spanID": "2" * 16, "startTime": T0 // 1_000}, b"{"), 1),
    ],
)
def test_what_is_damaged_costs_its_neighbours_nothing(format_: str, payload: bytes, refused: int) -> None:
    events, rejects = read(format_, [payload])
    assert rejects == refused
    parts = request_parts(format_, payload)
    assert read(format_, [part.body for part in parts]) == (events, rejects)
    # Of a request in one part; what is of none is of no other's part.
    named = [part.request for part in parts if part.request]
    if not format_.startswith("jaeger"):
        assert len(named) == len(set(named))
    for part in parts:
        if not part.request:
            assert not read(format_, [part.body])[0]


def test_a_trace_in_hex_and_in_base64_is_one_request() -> None:
    parts = request_parts("otlp-json", text(request(BASE64_SPAN, otlp(1))))
    assert [(part.request, part.items) for part in parts] == [(f"{1:032x}".encode(), 2)]


@pytest.mark.parametrize(
    ("format_", "payload"),
    [
        ("native", b"nothing of it"),
        ("native", b"[1, 2]"),
        ("otlp-json", b'{"resourceSpans":'),
        ("otlp-json", b"{}"),
        ("otlp-json", b'{"resourceSpans": 5}'),
        ("otlp-proto", b"\xff\xff"),
        ("zipkin", b'[{"traceId":'),
        ("zipkin", b"<"),
        ("jaeger-json", b'{"traceID":'),
        ("jaeger-json", b"[5,"),
        ("jaeger-proto", b"\x0a\x01"),
    ],
)
def test_a_payload_of_another_format_is_refused(format_: str, payload: bytes) -> None:
    with pytest.raises(PartError):
        request_parts(format_, payload)


def test_a_dense_array_is_not_taken_apart() -> None:
    with pytest.raises(PartError, match="hundreds of thousands of values"):
        request_parts("native", b"[" + b"{}," * 10**6 + b"{}]")


def test_formats_that_are_not_cut_are_named() -> None:
    with pytest.raises(InputError, match="Messages of format 'xtrace' are not cut by request"):
        request_parts("xtrace", b"")


@pytest.mark.parametrize(
    ("format_", "payload"),
    [
        ("native", text(record(1))[:-1] + b',"request_id":"other"}'),
        ("native", text(record(1, request_id=None))[:-1] + b',"breadcrumb":"other"}'),
        ("zipkin", text([zipkin(1)])[:-2] + b',"traceId":"2"}]'),
        ("jaeger-json", b'{"traceId":"AAAAAAAAAAAAAAAAAAAAAQ==","traceID":"2","spanId":"AAAAAAAAAAE="}'),
        ("otlp-json", text(request(otlp(1))).replace(b'"name"', b'"traceId": "00ab", "name"')),
        ("otlp-json", text(request(otlp(1, trace_id="2")))),
        ("otlp-json", text(request(otlp(1)) | {"resource_spans": []})),
    ],
)
def test_of_an_id_that_is_there_twice_the_same_counts_as_where_it_is_ingested(
    format_: str, payload: bytes
) -> None:
    (part,) = request_parts(format_, payload)
    (event,) = codec_for(format_).decode([payload], DecodeConfig()).events.to_pylist()
    ingested = event["request_id"] or event["breadcrumb"]
    assert part.request.decode().zfill(32) == ingested.zfill(32)


def test_times_are_the_earliest_of_a_request() -> None:
    (part,) = request_parts("native", lines(record(1, ts=T0 + 5), record(1, ts=T0 + 3), record(1, ts="x")))
    assert (part.ts_ns, part.items) == (T0 + 3, 3)


def test_what_cannot_be_read_is_in_a_message_of_its_own() -> None:
    gatherer = Gatherer("native", partitions=1, message_bytes=1_000)
    given = [RequestPart(b"r1", 0, 1, b"{1}"), RequestPart(b"", 0, 1, b"["), RequestPart(b"r2", 0, 1, b"{2}")]
    sent = [message for part in given for message in gatherer.add(part)] + list(gatherer.rest())
    assert sent == [(0, b"[", b"", 1), (0, b"{1}\n{2}", None, 2)]
