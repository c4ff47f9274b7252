"""Garbage for every codec: real payloads, payloads near them, hurt messages, huge ones."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from oracles.captured import messages
from oracles.hostile_messages import HostileMessages
from oracles.mutants import trimmed
from oracles.otlp_bytes import otlp_messages

from ingest.codecs.jaeger.jaeger_proto import JaegerSpan
from ingest.codecs.otlp.encode_otlp import otlp_json_lines
from ingest.codecs.parquet.parquet import TIME_UNIT
from ingest.codecs.zipkin.zipkin_proto import ListOfSpans
from ingest.formats import codec_for
from schemas.config import DecodeConfig

MESSAGES = {
    "otlp-proto": ExportTraceServiceRequest.DESCRIPTOR,
    "jaeger-proto": JaegerSpan.DESCRIPTOR,
    "zipkin-proto": ListOfSpans.DESCRIPTOR,
}
MORE_SEEDS = {"jaeger-json": ("jaeger-json",), "zipkin": ("zipkin-json",)}
"""Captured files whose messages are mutated too: the same format in another spelling."""

NASTY = [
    b"",
    b" \n\t ",
    b"null",
    b"{}",
    b"[]",
    b"[[]]",
    b"[null]",
    b"5",
    b'"x"',
    b"{} null {}",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"[" * 10_000,
    b"[" * 10_000 + b"]" * 10_000,
    b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    b'{"resourceSpans":[null]}',
    b'{"resourceSpans":[{"scopeSpans":[{"spans":[null,{},5,[]]}]}]}',
    b'{"data":[null,{"spans":[null]}]}',
    b'[{"id":"x","reports":[null,{},{"X-Trace":[5]}]}]',
    b'{"ts":NaN}',
    b'{"ts":1e400}',
    b'{"a":"\\ud800"}',
    b"\x0a" * 300,
]


def seed_payloads(shared_data: Path) -> dict[str, bytes]:
    """A real payload of each format, of a few records."""
    with gzip.open(shared_data / "online-boutique/before.otlp.jsonl.gz") as file:
        boutique = file.readline()
    otlp = codec_for("otlp-json").decode([boutique], DecodeConfig()).events
    zipkin = gzip.decompress((shared_data / "zipkin/messaging2.json.gz").read_bytes())
    xtrace = gzip.decompress((shared_data / "xtrace/gc.json.gz").read_bytes())
    return {
        "otlp-json": next(otlp_json_lines(otlp.slice(0, 8))),
        "otlp-proto": next(otlp_messages(otlp.slice(0, 8))),
        "zipkin": zipkin,
        "xtrace": xtrace,
        "jaeger-ui": (shared_data / "jaeger/multi.json").read_bytes(),
        "jaeger-json": (shared_data / "jaeger/trace_success.json").read_bytes(),
        "jaeger-proto": _jaeger_message(),
        "zipkin-proto": messages(shared_data / "kafka-captured", "zipkin-proto")[0],
        "native": _native_lines(),
        "parquet": _table_rows(),
    }


def small_payload(format_: str, payload: bytes) -> bytes:
    """A seed payload with few of its spans or reports: most of a fuzz run is near it, and costs a fifth."""
    if format_ == "zipkin-proto":
        message = ListOfSpans.FromString(payload)
        del message.spans[2:]
        return bytes(message.SerializeToString())
    if format_ == "otlp-proto":
        request = ExportTraceServiceRequest.FromString(payload)
        del request.resource_spans[1:]
        for scope in request.resource_spans[0].scope_spans:
            del scope.spans[2:]
        return request.SerializeToString()
    return payload if format_ in ("native", "jaeger-proto", "parquet") else trimmed(payload)


def more_seeds(shared_data: Path, format_: str) -> list[bytes]:
    """Real payloads of a format in its other spellings."""
    folder = shared_data / "kafka-captured"
    return [message for name in MORE_SEEDS.get(format_, ()) for message in messages(folder, name)]


def _jaeger_message() -> bytes:
    span = JaegerSpan(trace_id=bytes(range(16)), span_id=bytes(range(1, 9)), operation_name="get /a")
    span.start_time.seconds = 1_700_000_000
    span.duration.nanos = 5_000
    span.process.service_name = "front"
    span.tags.add(key="span.kind", v_str="server")
    span.tags.add(key="n", v_type=2, v_int64=7)
    span.references.add(trace_id=bytes(range(16)), span_id=bytes(range(2, 10)))
    log = span.logs.add()
    log.timestamp.seconds = 1_700_000_000
    log.fields.add(key="event", v_str="mark")
    data: bytes = span.SerializeToString()
    return data


def _table_rows() -> bytes:
    """Two rows of a table of spans, as `table_file` hands them to the codec."""
    columns = {
        "trace_id": pa.array(["ab" * 16, "ab" * 16]),
        "span_id": pa.array(["01" * 8, "02" * 8]),
        "parent_id": pa.array(["", "01" * 8]),
        "name": pa.array(["get /a", "query"]).dictionary_encode(),
        "start": pa.array([1_700_000_000_000_000_000, 1_700_000_000_000_000_100], pa.timestamp("ns")),
        "duration": pa.array([5_000, 700], pa.uint64()),
        "kind": pa.array(["Server", "Client"]),
        "service": pa.array(["front", "front"]),
        "status": pa.array(["Error", "Unset"]),
        "attributes": pa.array([[("size", "5")], []], pa.map_(pa.string(), pa.string())),
    }
    table = pa.table(columns).replace_schema_metadata({TIME_UNIT: b"ns"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    payload: bytes = sink.getvalue().to_pybytes()
    return payload


def _native_lines() -> bytes:
    return (
        b'{"breadcrumb":"b1","request_id":"req-0001","ts":1700000000000000000,"component":"c","point":"p","kind":"split",'
        b'"links":["b2"],"params":{"size":5,"mode":"x","deep":{"a":[1]}}}\n'
        b'{"breadcrumb":"b2","request_id":"req-0001","ts":1700000000000000100,"component":"c","point":"q","seq":4,'
        b'"host":"h","label":"HIT","sample_rate":0.5,"status":"late","params":{"hit":true}}'
    )


def hostile_messages(format_: str, seed: int, n: int) -> Iterator[bytes]:
    """Messages made of their schema and hurt field by field; none for formats that are not protobuf."""
    return HostileMessages(MESSAGES[format_], seed).make(n) if format_ in MESSAGES else iter(())
