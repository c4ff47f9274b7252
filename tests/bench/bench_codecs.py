"""Benchmark of the codecs: items a second, CPU of one core, beside `json.loads` and a loop over dicts.

Run: `python tests/bench/bench_codecs.py [ITEMS]`. Seeds are fixed; the best of several runs counts. Spans
carry five attributes and three of their resource; records three parameters.
"""

from __future__ import annotations

import base64
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]

import pyarrow as pa  # noqa: E402 (the path comes first: a script)
from bench.heap import keep_freed_memory  # noqa: E402
from google.protobuf import json_format  # noqa: E402
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: E402
from oracles.otlp_spans import read_slowly  # noqa: E402

from ingest.codecs.jaeger.jaeger_proto import JaegerSpan  # noqa: E402
from ingest.codecs.zipkin.zipkin_proto import ListOfSpans  # noqa: E402
from ingest.formats import codec_for  # noqa: E402
from schemas.config import DecodeConfig  # noqa: E402

CONFIG = DecodeConfig()
SPANS_PER_MESSAGE = 100
T0 = 1_700_000_000_000_000_000
RUNS = 5


def attribute(key: str, value: str | int | bool) -> dict[str, object]:
    name = "boolValue" if isinstance(value, bool) else "intValue" if isinstance(value, int) else "stringValue"
    return {"key": key, "value": {name: str(value) if name == "intValue" else value}}


def otlp_documents(n: int, rng: random.Random) -> Iterator[dict[str, object]]:
    for message in range(n // SPANS_PER_MESSAGE):
        spans = [
            {
                "traceId": f"{rng.getrandbits(128):032x}",
                "spanId": f"{rng.getrandbits(64):016x}",
                "parentSpanId": f"{rng.getrandbits(64):016x}",
                "name": f"op{rng.randrange(17)}",
                "kind": rng.randrange(1, 4),
                "startTimeUnixNano": str(T0 + message * 10**6 + i),
                "endTimeUnixNano": str(T0 + message * 10**6 + i + rng.randrange(10**6)),
                "attributes": [
                    attribute("http.method", "GET"),
                    attribute("http.status_code", 200),
                    attribute("http.url", f"/a/b/c{rng.randrange(5)}"),
                    attribute("net.peer.name", f"db{rng.randrange(3)}"),
                    attribute("cache", rng.random() < 0.5),
                ],
            }
            for i in range(SPANS_PER_MESSAGE)
        ]
        resource = [
            attribute("service.name", f"svc{rng.randrange(8)}"),
            attribute("host.name", f"h{rng.randrange(4)}"),
            attribute("service.version", "v1"),
        ]
        yield {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [{"spans": spans}]}]}


def as_message(document: dict[str, object]) -> bytes:
    copy = json.loads(json.dumps(document))
    for span in copy["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    data: bytes = json_format.ParseDict(copy, ExportTraceServiceRequest()).SerializeToString()
    return data


def native_lines(n: int, rng: random.Random) -> list[bytes]:
    return [
        json.dumps(
            {
                "breadcrumb": f"b{i // 5}",
                "request_id": f"req-{i // 20}",
                "ts": T0 + i * 1000,
                "component": f"c{rng.randrange(7)}",
                "point": f"p{rng.randrange(31)}",
                "host": f"h{rng.randrange(5)}",
                "params": {"size": rng.randrange(1000), "mode": f"m{rng.randrange(3)}", "hit": True},
            },
            separators=(",", ":"),
        ).encode()
        for i in range(n)
    ]


def zipkin_list(n: int, rng: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "traceId": f"{rng.getrandbits(64):016x}",
            "id": f"{rng.getrandbits(64):016x}",
            "parentId": f"{rng.getrandbits(64):016x}",
            "kind": "CLIENT",
            "name": f"op{rng.randrange(17)}",
            "timestamp": T0 // 1000 + i,
            "duration": rng.randrange(10**6),
            "localEndpoint": {"serviceName": f"svc{rng.randrange(8)}", "ipv4": "10.0.0.1"},
            "tags": {"http.method": "GET", "http.path": f"/a/b/c{rng.randrange(5)}", "cache": "true"},
        }
        for i in range(n)
    ]


def jaeger_list(n: int, rng: random.Random) -> list[dict[str, object]]:
    return [
        {
            "traceID": f"{rng.getrandbits(64):016x}",
            "spanID": f"{rng.getrandbits(64):016x}",
            "operationName": f"op{rng.randrange(17)}",
            "startTime": T0 // 1000 + i,
            "duration": rng.randrange(10**6),
            "tags": [
                {"key": "span.kind", "type": "string", "value": "server"},
                {"key": "http.status_code", "type": "int64", "value": 200},
                {"key": "http.path", "type": "string", "value": f"/a/b/c{rng.randrange(5)}"},
            ],
            "process": {"serviceName": f"svc{rng.randrange(8)}", "tags": []},
        }
        for i in range(n)
    ]


def zipkin_message(spans: list[dict[str, Any]]) -> bytes:
    message = ListOfSpans()
    for span in spans:
        made = message.spans.add(
            trace_id=bytes.fromhex(span["traceId"]),
            id=bytes.fromhex(span["id"]),
            parent_id=bytes.fromhex(span["parentId"]),
            kind=1,
            name=span["name"],
            timestamp=span["timestamp"],
            duration=span["duration"],
        )
        made.local_endpoint.service_name = span["localEndpoint"]["serviceName"]
        made.local_endpoint.ipv4 = b"\x0a\0\0\1"
        for key, value in span["tags"].items():
            made.tags.add(key=key, value=value)
    data: bytes = message.SerializeToString()
    return data


def jaeger_message(span: dict[str, Any]) -> bytes:
    made = JaegerSpan(
        trace_id=bytes.fromhex(span["traceId"]),
        span_id=bytes.fromhex(span["id"]),
        operation_name=span["name"],
    )
    made.start_time.seconds, made.start_time.nanos = divmod(span["timestamp"] * 1000, 10**9)
    made.duration.nanos = span["duration"] * 1000 % 10**9
    made.references.add(trace_id=made.trace_id, span_id=bytes.fromhex(span["parentId"]))
    made.process.service_name = span["localEndpoint"]["serviceName"]
    for key, value in span["tags"].items():
        made.tags.add(key=key, v_str=value)
    data: bytes = made.SerializeToString()
    return data


def jaeger_proto_json(span: dict[str, Any]) -> bytes:
    trace, own, parent = (
        base64.b64encode(bytes.fromhex(span[name])).decode() for name in ("traceId", "id", "parentId")
    )
    start = datetime.fromtimestamp(span["timestamp"] // 10**6, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    value = {
        "traceId": trace,
        "spanId": own,
        "operationName": span["name"],
        "references": [{"traceId": trace, "spanId": parent}],
        "startTime": f"{start}.{span['timestamp'] % 10**6:06}000Z",
        "duration": f"0.{span['duration'] % 10**6:06}s",
        "tags": [{"key": key, "vStr": text} for key, text in span["tags"].items()],
        "process": {"serviceName": span["localEndpoint"]["serviceName"]},
    }
    return json.dumps(value, separators=(",", ":")).encode()


def seconds(work: Callable[[], object]) -> float:
    """CPU of the best of several runs."""
    best = float("inf")
    for _ in range(RUNS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def loads_and_loop(lines: list[bytes]) -> pa.Table:
    """The plain way for records: a dict a record, a list of dicts to Arrow (params left as they are)."""
    rows = []
    for line in lines:
        record = json.loads(line)
        params = [{"key": k, "value": str(v)} for k, v in sorted(record.pop("params", {}).items())]
        rows.append({**record, "params": params})
    return pa.Table.from_pylist(rows)


def loads_and_loop_otlp(lines: list[bytes]) -> pa.Table:
    """The plain way for OTLP JSON."""
    rows = []
    for line in lines:
        for resource in json.loads(line)["resourceSpans"]:
            shared = {a["key"]: next(iter(a["value"].values())) for a in resource["resource"]["attributes"]}
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    own = {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}
                    params = [{"key": k, "value": str(v)} for k, v in sorted({**shared, **own}.items())]
                    rows.append({k: v for k, v in span.items() if k != "attributes"} | {"params": params})
    return pa.Table.from_pylist(rows)


def report(name: str, items: int, took: float, against: tuple[str, float] | None = None) -> None:
    ratio = "" if against is None else f"   {against[1] / took:6.1f} x {against[0]}"
    print(f"{name:<44}{items / took / 1e3:10.0f} k/s{ratio}")


def loads_each(texts: list[bytes]) -> list[Any]:
    return [json.loads(text) for text in texts]


def main(items: int) -> None:
    keep_freed_memory()
    rng = random.Random(1)
    documents = list(otlp_documents(items, rng))
    lines = [json.dumps(d, separators=(",", ":")).encode() for d in documents]
    messages = [as_message(d) for d in documents]
    plain = seconds(lambda: loads_and_loop_otlp(lines))
    report("otlp-json: json.loads and a loop", items, plain)
    report(
        "otlp-json", items, seconds(lambda: codec_for("otlp-json").decode(lines, CONFIG)), ("plain", plain)
    )
    upb = seconds(lambda: read_slowly(messages, CONFIG))
    report("otlp-proto: protobuf (upb) and a loop", items, upb)
    report(
        "otlp-proto", items, seconds(lambda: codec_for("otlp-proto").decode(messages, CONFIG)), ("upb", upb)
    )
    records = native_lines(items, rng)
    plain = seconds(lambda: loads_and_loop(records))
    report("native: json.loads and a loop", items, plain)
    block = b"\n".join(records)
    report(
        "native, lines", items, seconds(lambda: codec_for("native").decode([block], CONFIG)), ("plain", plain)
    )
    one_each = seconds(lambda: codec_for("native").decode(records, CONFIG))
    report("native, a record a payload", items, one_each, ("plain", plain))
    for n in (1_000, 10_000):
        took = seconds(partial(codec_for("native").decode, records[:n], CONFIG))
        report(f"native, a record a payload, {n:,} of them", n, took)
    spans = zipkin_list(items, rng)
    lists = [zipkin_message(spans[i : i + 100]) for i in range(0, items, 100)]
    report("zipkin-proto", items, seconds(lambda: codec_for("zipkin-proto").decode(lists, CONFIG)))
    jaeger = [jaeger_message(span) for span in spans]
    report("jaeger-proto", items, seconds(lambda: codec_for("jaeger-proto").decode(jaeger, CONFIG)))
    texts = [jaeger_proto_json(span) for span in spans]
    report(
        "jaeger-json, as the Collector's",
        items,
        seconds(lambda: codec_for("jaeger-json").decode(texts, CONFIG)),
    )
    for name, spans in (("zipkin", zipkin_list(items, rng)), ("jaeger-json", jaeger_list(items, rng))):
        lists = [json.dumps(spans[i : i + 100]).encode() for i in range(0, items, 100)]
        plain = seconds(partial(loads_each, lists))
        took = seconds(partial(codec_for(name).decode, lists, CONFIG))
        report(name, items, took, ("json.loads alone", plain))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
