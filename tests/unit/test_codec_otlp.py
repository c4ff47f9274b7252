"""OTLP JSON and protobuf: what a span reads as, and what is refused."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from oracles.otlp_bytes import otlp_messages

from ingest.codecs.otlp.encode_otlp import otlp_json_lines
from ingest.files import decode_file
from ingest.formats import codec_for
from schemas.config import DecodeConfig, ParamRules
from schemas.events import EventKind, with_text_ids
from schemas.rejects import Reason

CONFIG = DecodeConfig()
T0 = 1_700_000_000_000_000_000
TRACE, SPAN, PARENT = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174", "eee19b7ec3c1b173"


def span(**fields: object) -> dict[str, object]:
    return {
        "traceId": TRACE,
        "spanId": SPAN,
        "name": "op",
        "startTimeUnixNano": str(T0),
        "endTimeUnixNano": str(T0 + 5),
    } | fields


def document(*spans: object, resource: list[object] | None = None) -> bytes:
    return json.dumps(
        {
            "resourceSpans": [
                {"resource": {"attributes": resource or []}, "scopeSpans": [{"spans": list(spans)}]}
            ]
        }
    ).encode()


def attribute(key: str, **value: object) -> dict[str, object]:
    return {"key": key, "value": value}


def decode(payload: bytes, config: DecodeConfig = CONFIG) -> list[dict[str, Any]]:
    decoded = codec_for("otlp-json").decode([payload], config)
    assert not decoded.rejects
    rows: list[dict[str, Any]] = with_text_ids(decoded.events).to_pylist()
    return rows


def params(row: dict[str, Any]) -> dict[str, object]:
    return {p["key"]: p["text"] if p["num"] is None else p["num"] for p in row["params"] or []}


@pytest.mark.parametrize(
    ("name", "spans", "traces"),
    [
        ("before", 22_969, 502),
        ("after-frontend-return", 25_122, 1_071),
        ("after-recommendation-delay", 23_282, 509),
    ],
)
def test_online_boutique_is_read_whole(shared_data: Path, name: str, spans: int, traces: int) -> None:
    lines = gzip.decompress((shared_data / f"online-boutique/{name}.otlp.jsonl.gz").read_bytes()).splitlines()
    decoded = codec_for("otlp-json").decode(lines, CONFIG)
    assert decoded.events.num_rows == spans
    assert len(decoded.events["request_id"].unique()) == traces
    assert not decoded.rejects
    assert not decoded.oddities
    assert decoded.events["host"].null_count == 0


def test_the_example_of_the_specification(shared_data: Path) -> None:
    (row,) = decode((shared_data / "otlp/trace.json").read_bytes())
    assert row == {
        "kind": EventKind.SPAN_SERVER,
        "request_id": TRACE,
        "breadcrumb": None,
        "id": SPAN,
        "parents": [PARENT],
        "follows": None,
        "links": None,
        "seq": None,
        "ts_ns": 1_544_712_660_000_000_000,
        "end_ns": 1_544_712_661_000_000_000,
        "component": "my.service",
        "point": "I'm a server span",
        "label": None,
        "host": None,
        "peer": None,
        "shared": False,
        "status": "ok",
        "sample_rate": None,
        "marks": None,
        "params": [{"key": "my.span.attr", "num": None, "text": "some value"}],
    }


def test_json_and_protobuf_of_real_spans_are_the_same_events(shared_data: Path) -> None:
    data = gzip.decompress((shared_data / "online-boutique/before.otlp.jsonl.gz").read_bytes())
    events = codec_for("otlp-json").decode(data.splitlines()[:40], CONFIG).events
    from_json = codec_for("otlp-json").decode(list(otlp_json_lines(events)), CONFIG).events
    from_proto = codec_for("otlp-proto").decode(list(otlp_messages(events)), CONFIG).events
    assert from_json.to_pylist() == from_proto.to_pylist()

    def by_id(table: pa.Table) -> list[dict[str, object]]:
        return sorted(table.to_pylist(), key=lambda r: (r["request_id"], r["id"]))

    assert by_id(from_json) == by_id(events)


def test_attributes_become_params_by_type() -> None:
    (row,) = decode(
        document(
            span(
                attributes=[
                    attribute("z", intValue="7"),
                    attribute("a", boolValue=True),
                    attribute("f", doubleValue=0.5),
                    attribute("l", arrayValue={"values": [{"stringValue": "x"}, {"intValue": "2"}]}),
                    attribute("m", kvlistValue={"values": [attribute("k", boolValue=False)]}),
                    attribute("b", bytesValue="AAE="),
                    attribute("none"),
                ]
            ),
            resource=[
                attribute("service.name", stringValue="shop"),
                attribute("service.version", stringValue="v2"),
            ],
        )
    )
    assert row["component"] == "shop"
    assert list(params(row)) == ["a", "b", "f", "l", "m", "service.version", "z"]
    assert params(row) == {
        "a": "true",
        "b": "AAE=",
        "f": 0.5,
        "l": '["x",2]',
        "m": '{"k":false}',
        "service.version": "v2",
        "z": 7.0,
    }


def test_host_is_the_first_of_the_configured_keys_and_the_others_stay_params() -> None:
    resource = [attribute("k8s.pod.name", stringValue="pod"), attribute("host.name", stringValue="h")]
    (row,) = decode(document(span(), resource=resource))
    assert row["host"] == "h"
    assert params(row) == {"k8s.pod.name": "pod"}


def test_labels_peer_status_and_sampling() -> None:
    config = DecodeConfig(label_keys=("cache", "tier"))
    (row,) = decode(
        document(
            span(
                kind=3,
                traceState="a=b,ot=rv:12;th:c",
                status={"code": 2, "message": "gone"},
                attributes=[
                    attribute("tier", stringValue="gold"),
                    attribute("cache", stringValue="MISS"),
                    attribute("error.type", stringValue="timeout"),
                    attribute("server.address", stringValue="db1"),
                ],
            )
        ),
        config,
    )
    assert row["label"] == "MISS;gold"
    assert row["status"] == "timeout"
    assert row["peer"] == "db1"
    assert row["sample_rate"] == 0.25
    assert params(row) == {"error.type": "timeout", "server.address": "db1", "status.message": "gone"}


def test_server_address_of_a_server_span_is_not_its_peer() -> None:
    (row,) = decode(document(span(kind=2, attributes=[attribute("server.address", stringValue="me")])))
    assert row["peer"] is None


def test_span_events_become_marks_where_listed_and_params_otherwise() -> None:
    events = [
        {"timeUnixNano": str(T0 + 4), "name": "flush"},
        {"timeUnixNano": str(T0 + 2), "name": "flush"},
        {"timeUnixNano": str(T0 + 3), "name": "retry 7", "attributes": [attribute("why", stringValue="x")]},
        {"timeUnixNano": str(T0 + 4), "name": "retry 8"},
    ]
    decoded = codec_for("otlp-json").decode(
        [document(span(events=events))], DecodeConfig(event_points=("flush",))
    )
    (row,) = with_text_ids(decoded.events).to_pylist()
    assert row["marks"] == [{"ts_ns": T0 + 2, "name": "flush"}, {"ts_ns": T0 + 4, "name": "flush"}]
    assert params(row) == {"event.retry {n}": 3.0, "event.retry {n}.why": "x"}
    assert decoded.oddities == {"duplicate-param": 1}


def test_names_lose_their_ids_and_keep_them_as_a_param() -> None:
    (row,) = decode(document(span(name="GET /users/17")))
    assert row["point"] == "GET /users/{n}"
    assert params(row) == {"span.name": "GET /users/17"}


def test_links_name_trace_and_span() -> None:
    (row,) = decode(document(span(links=[{"traceId": TRACE.upper(), "spanId": PARENT}])))
    assert row["links"] == [f"{TRACE}/{PARENT}"]


def test_a_span_without_times_is_kept_and_counted() -> None:
    decoded = codec_for("otlp-json").decode(
        [document(span(startTimeUnixNano="0", endTimeUnixNano="0"))], CONFIG
    )
    (row,) = with_text_ids(decoded.events).to_pylist()
    assert row["ts_ns"] is None
    assert row["end_ns"] is None
    assert decoded.oddities == {"untimed": 1}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (span(traceId=""), Reason.MISSING_FIELD),
        (span(traceId="0" * 32), Reason.MISSING_FIELD),
        (span(spanId=None), Reason.MISSING_FIELD),
        (span(traceId="xyz"), Reason.BAD_ID),
        (span(parentSpanId="no hex"), Reason.BAD_ID),
        (span(startTimeUnixNano="17"), Reason.BAD_TIME),
        (span(endTimeUnixNano=str(2**64 - 1)), Reason.BAD_TIME),
        (span(endTimeUnixNano=str(T0 - 1)), Reason.BAD_TIME),
        (span(startTimeUnixNano="soon"), Reason.BAD_TYPE),
        (span(name=7), Reason.BAD_TYPE),
        (span(attributes=[attribute("a", intValue="x")]), Reason.BAD_TYPE),
        (span(attributes=5), Reason.WRONG_SHAPE),
        (7, Reason.WRONG_SHAPE),
    ],
)
def test_a_wrong_span_is_refused_and_its_neighbours_are_not(wrong: object, reason: Reason) -> None:
    good = span(spanId=PARENT)
    decoded = codec_for("otlp-json").decode([document(good), document(good, wrong, good)], CONFIG)
    assert with_text_ids(decoded.events)["id"].to_pylist() == [PARENT] * 3
    (reject,) = decoded.rejects
    assert (reject.reason, reject.payload, reject.item) == (reason, 1, 1)
    assert json.loads(reject.raw) == wrong


def test_other_spellings_read_the_same() -> None:
    usual = document(span(kind=2, status={"code": 2}, attributes=[attribute("n", intValue="3")]))
    other = json.dumps(
        {
            "resource_spans": [
                {
                    "instrumentationLibrarySpans": [
                        {
                            "spans": [
                                {
                                    "trace_id": TRACE.upper(),
                                    "span_id": SPAN,
                                    "name": "op",
                                    "kind": "SPAN_KIND_SERVER",
                                    "start_time_unix_nano": T0,
                                    "end_time_unix_nano": T0 + 5,
                                    "status": {"code": "STATUS_CODE_ERROR"},
                                    "attributes": [attribute("n", int_value=3)],
                                }
                            ]
                        }
                    ]
                }
            ]
        },
        indent=2,
    ).encode()
    assert decode(other) == decode(usual)


def in_base64(digits: str, *, for_urls: bool = False) -> str:
    encode = base64.urlsafe_b64encode if for_urls else base64.b64encode
    return encode(bytes.fromhex(digits)).decode()


@pytest.mark.parametrize("kind", [2, "SPAN_KIND_SERVER"])  # by columns, item by item
@pytest.mark.parametrize("for_urls", [False, True])
def test_ids_in_base64_read_as_those_in_hex(kind: object, *, for_urls: bool) -> None:
    trace, parent = "fbff" * 8, "fbef" * 4
    links = [{"traceId": trace, "spanId": parent}]
    usual = span(traceId=trace, parentSpanId=parent, links=links, kind=2)
    other = span(kind=kind, links=[{n: in_base64(v, for_urls=for_urls) for n, v in links[0].items()}])
    for name, digits in (("traceId", trace), ("spanId", SPAN), ("parentSpanId", parent)):
        other[name] = in_base64(digits, for_urls=for_urls)
    (row,) = decode(document(usual))
    assert (row["request_id"], row["parents"], row["links"]) == (trace, [parent], [f"{trace}/{parent}"])
    assert decode(document(other)) == [row]
    assert decode(document(other, usual)) == [row, row]


@pytest.mark.parametrize(
    "wrong", ["=" * 12, "A" * 11 + "==", "A" * 23 + "=", "A" * 10 + "é=", "AAAAAAAAAAA=\n"]
)
@pytest.mark.parametrize("kind", [2, "SPAN_KIND_SERVER"])
def test_what_only_looks_like_base64_is_no_id(kind: object, wrong: str) -> None:
    decoded = codec_for("otlp-json").decode([document(span(spanId=wrong, kind=kind), span())], CONFIG)
    assert [(r.reason, r.item) for r in decoded.rejects] == [(Reason.BAD_ID, 0)]
    assert decoded.events.num_rows == 1


def test_an_id_of_zeros_is_none_in_base64_too() -> None:
    (row,) = decode(document(span(parentSpanId="AAAAAAAAAAA=")))
    assert not row["parents"]


def test_an_array_of_requests_is_read_one_by_one() -> None:
    one, two = document(span()), document(span(spanId=PARENT))
    decoded = codec_for("otlp-json").decode([b" [%b,\n 7, %b]" % (one, two), two], CONFIG)
    assert with_text_ids(decoded.events)["id"].to_pylist() == [SPAN, PARENT, PARENT]
    assert [(r.reason, r.payload, r.item) for r in decoded.rejects] == [(Reason.WRONG_SHAPE, 0, 1)]
    nothing = codec_for("otlp-json").decode([b"[]", b"[1, 2]", b"[" + one], CONFIG)
    assert [r.reason for r in nothing.rejects] == [Reason.WRONG_SHAPE] * 2 + [Reason.BAD_JSON]


def test_what_the_api_of_tempo_answers_is_read(tmp_path: Path) -> None:
    usual = document(span())
    batches = json.loads(usual)["resourceSpans"]
    answers = (
        {"batches": batches},
        {"trace": {"resourceSpans": batches}, "metrics": {}},
        {"trace": {"batches": batches}},
    )
    path = tmp_path / "answer.json"
    for answer in answers:
        for text in (json.dumps(answer), json.dumps([answer, answer], indent=1)):
            path.write_text(text)
            read = [batch.events for batch in decode_file(path, None, CONFIG)]
            assert pa.concat_tables(read).num_rows == (2 if text[0] == "[" else 1)
        assert decode(json.dumps(answer).encode()) == decode(usual)
    refused = codec_for("otlp-json").decode([b'{"trace": {}}', b'{"batches": null}'], CONFIG)
    assert len(refused.rejects) == 2


def test_what_the_api_of_jaeger_answers_is_read(tmp_path: Path) -> None:
    """A message of the stream that `GET /api/v3/traces` gives, by api_v3's published schema: TracesData."""
    usual = document(span())
    answer = b'{"result":%b}' % usual
    wide = json.dumps({"result": json.loads(usual)}, indent=2).encode()
    path = tmp_path / "answer.json"
    for text, n in ((answer, 1), (wide, 1), (answer + b"\n" + answer + b"\n", 2), (b"[%b]" % answer, 1)):
        path.write_bytes(text)
        batches = [*decode_file(path, None, CONFIG)]
        assert [batch.rejects.num_rows for batch in batches] == [0]
        assert pa.concat_tables([batch.events for batch in batches]).num_rows == n
    assert decode(answer) == decode(wide) == decode(usual)
    for odd in (
        b'{"result": {}}',
        b'{"result": null}',
        b'{"result": 3}',
        b'{"result": {"resourceSpans": 1}}',
    ):
        assert len(codec_for("otlp-json").decode([odd], CONFIG).rejects) == 1, odd


def test_lines_in_one_payload_are_documents() -> None:
    payload = document(span()) + b"\n\nnonsense\n" + document(span(spanId=PARENT))
    decoded = codec_for("otlp-json").decode([payload], CONFIG)
    assert with_text_ids(decoded.events)["id"].to_pylist() == [SPAN, PARENT]
    assert [(r.reason, r.item) for r in decoded.rejects] == [(Reason.BAD_JSON, 1)]


@pytest.mark.parametrize("payload", [b"", b"\x0a\xff", b"garbage", b"\x0a\x04\x12\x02\x12\x09"])
def test_a_broken_message_is_refused_and_its_neighbours_are_not(payload: bytes) -> None:
    events = codec_for("otlp-json").decode([document(span())], CONFIG).events
    (good,) = otlp_messages(events)
    decoded = codec_for("otlp-proto").decode([good, payload, good], CONFIG)
    assert decoded.events.num_rows == 2
    assert [(r.payload, r.reason) for r in decoded.rejects] == [
        (1, Reason.BAD_PROTOBUF if payload else Reason.EMPTY)
    ]


def test_bounds_cut_and_count() -> None:
    config = DecodeConfig(
        max_text_bytes=5, max_params_per_event=2, max_name_bytes=8, params=ParamRules(deny=("secret",))
    )
    attributes = [
        attribute(k, stringValue=v) for k, v in [("c", "1"), ("a", "éééé"), ("b", "x\0y"), ("secret", "1")]
    ]
    decoded = codec_for("otlp-json").decode([document(span(name="a" * 100, attributes=attributes))], config)
    (row,) = with_text_ids(decoded.events).to_pylist()
    assert row["point"] == "a" * 8
    assert params(row) == {"a": "éé", "b": "x\N{REPLACEMENT CHARACTER}y"}
    assert decoded.oddities["params-dropped"] == 2
    assert decoded.oddities["text-cut"] == 1
    assert decoded.oddities["nul-replaced"] == 1
    assert decoded.oddities["name-cut"] == 1


def test_names_made_to_hurt_are_data() -> None:
    names = ["../../x", "'; DROP TABLE flows", "<script>", "=cmd()", "\N{RIGHT-TO-LEFT OVERRIDE}gpj", "a\nb"]
    rows = decode(document(*(span(name=n) for n in names)))
    assert [r["point"] for r in rows] == names


def test_too_large_is_refused() -> None:
    decoded = codec_for("otlp-json").decode([document(span())], DecodeConfig(max_payload_bytes=10))
    assert [r.reason for r in decoded.rejects] == [Reason.TOO_LARGE]
