"""Garbage for every codec: real payloads, payloads near them, hurt messages; and what must hold anyway."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from oracles.captured import messages
from oracles.hostile_messages import HostileMessages
from oracles.otlp_bytes import otlp_messages

from ingest.codecs.jaeger.jaeger_proto import JaegerSpan
from ingest.codecs.otlp.encode_otlp import otlp_json_lines
from ingest.codecs.port import Codec
from ingest.codecs.zipkin.zipkin_messages import ListOfSpans
from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.events import EVENT_SCHEMA, concat_events, with_text_ids
from schemas.rejects import Reason

CONFIG = DecodeConfig(event_points=("mark",))
BATCH = 30
"""Payloads given to a codec at once; one of each batch is sound."""
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
_SPLICES = [
    *(b"null", b"{}", b"[]", b'""', b"-1", b"1e400", b"99999999999999999999", b"NaN", b"true"),
    *(b"\\ud800", b"\\u0000", b"\x00", b"\xff", b'"', b"\\", b",", b":", b"{", b"}", b"[", b"]", b"\n"),
    *(b"\xe2\x80\xae", b"\x0a", b"\x12\x08"),
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
    }


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


def _native_lines() -> bytes:
    return (
        b'{"breadcrumb":"b1","request_id":"r","ts":1700000000000000000,"component":"c","point":"p","kind":"split",'
        b'"links":["b2"],"params":{"size":5,"mode":"x","deep":{"a":[1]}}}\n'
        b'{"breadcrumb":"b2","request_id":"r","ts":1700000000000000100,"component":"c","point":"q","seq":4,'
        b'"host":"h","label":"HIT","sample_rate":0.5,"status":"late","params":{"hit":true}}'
    )


def mutants(seed: bytes, rng: random.Random, n: int) -> Iterator[bytes]:
    """`n` payloads near `seed`: cut, spliced, bytes changed, doubled."""
    for _ in range(n):
        data = bytearray(seed)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(data) + 1)
            what = rng.randrange(6)
            if what == 0:
                del data[at:]
            elif what == 1:
                del data[at : at + rng.randrange(1, 30)]
            elif what == 2:
                data[at : at + rng.choice((0, 1, 4))] = rng.choice(_SPLICES)
            elif what == 3 and data:
                data[at % len(data)] = rng.randrange(256)
            elif what == 4:
                data[at:at] = data[at : at + rng.randrange(1, 200)]
            else:
                other = rng.randrange(len(data) + 1)
                data[at:at] = data[min(at, other) : max(at, other)][:300]
        yield bytes(data)


def hostile_messages(format_: str, seed: int, n: int) -> Iterator[bytes]:
    """Messages hurt field by field; none for formats that are not protobuf."""
    return HostileMessages(MESSAGES[format_], seed).make(n) if format_ in MESSAGES else iter(())


def check_contract(events: pa.Table) -> None:
    """Schema, and what the kernel relies on."""
    assert events.schema.equals(EVENT_SCHEMA)
    events.validate(full=True)
    for field in EVENT_SCHEMA:
        if not field.nullable:
            assert events[field.name].null_count == 0, field.name
    for name in ("component", "point", "label", "host", "peer", "status"):
        for chunk in events[name].chunks:
            assert len(chunk.dictionary) == len(chunk.dictionary.unique()), name
    rate = events["sample_rate"].drop_null()
    assert pc.all(pc.and_(pc.greater(rate, 0), pc.less_equal(rate, 1))).as_py() is not False
    params = pc.list_flatten(events["params"])
    if len(params):
        num, text = pc.struct_field(params, "num"), pc.struct_field(params, "text")
        assert pc.all(pc.xor(pc.is_valid(num), pc.is_valid(text))).as_py()
        assert pc.all(pc.is_finite(num.drop_null())).as_py() is not False
    for keys in events["params"].to_pylist():
        names = [p["key"] for p in keys or []]
        assert names == sorted(set(names))
    shown = with_text_ids(events)
    for column in ("request_id", "id"):
        assert not pc.any(pc.match_substring(shown[column], "\0")).as_py()


def check_batch(codec: Codec, sound: bytes, batch: list[bytes]) -> int:
    """A sound payload in the middle of others reads as it does alone, and each side reads as it does without
    it. Returns the number of rejects."""
    alone = codec.decode([sound], CONFIG)
    middle = len(batch) // 2
    decoded = codec.decode([*batch[:middle], sound, *batch[middle:]], CONFIG)
    check_contract(decoded.events)
    before = codec.decode(batch[:middle], CONFIG)
    after = codec.decode(batch[middle:], CONFIG)
    expected = concat_events([before.events, alone.events, after.events])
    assert concat_events([decoded.events]).to_pylist() == expected.to_pylist()
    assert len(decoded.rejects) == len(before.rejects) + len(after.rejects) == sum(decoded.refused.values())
    assert all(r.payload != middle and r.reason in Reason for r in decoded.rejects)
    return len(decoded.rejects)
