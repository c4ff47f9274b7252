"""Files: formats by content, archives, framings, cuts; what is read is the same however it lies on disk."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from oracles.otlp_bytes import length_prefixed, otlp_messages

from ingest.codecs.otlp.encode_otlp import otlp_json_lines
from ingest.files import FileSource, decode_file
from ingest.formats import codec_for, format_names
from ingest.source import Payloads
from schemas.config import DecodeConfig
from schemas.errors import InputError, UnknownFormatError
from schemas.events import concat_events
from schemas.rejects import REJECT_SCHEMA, Reason

CONFIG = DecodeConfig()
T0 = 1_700_000_000_000_000_000


def record(i: int) -> bytes:
    fields = {"breadcrumb": f"b{i}", "ts": T0 + i, "component": "c", "point": "p", "params": {"i": i}}
    return json.dumps(fields).encode()


def varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def read(path: Path | str, format_: str | None = None, **options: int) -> tuple[pa.Table, pa.Table]:
    batches = list(decode_file(path, format_, CONFIG, **options))
    return concat_events([b.events for b in batches]), pa.concat_tables([b.rejects for b in batches])


def polls(path: Path, format_: str | None, config: DecodeConfig, **options: int) -> list[Payloads]:
    return list(FileSource(path, format_, config, **options).polls())


@pytest.fixture(scope="module")
def spans(shared_data: Path) -> pa.Table:
    data = gzip.decompress((shared_data / "online-boutique/before.otlp.jsonl.gz").read_bytes())
    return codec_for("otlp-json").decode(data.splitlines()[:10], CONFIG).events


@pytest.mark.parametrize(
    ("name", "format_", "events"),
    [
        ("online-boutique/before.otlp.jsonl.gz", "otlp-json", 22_969),
        ("otlp/trace.json", "otlp-json", 1),
        ("jaeger/multi.json", "jaeger-ui", 4),
        ("jaeger/trace_success.json", "jaeger-json", 2),
        ("xtrace/large.json.gz", "xtrace", 1_187),
        ("xtrace/gc.json.gz", "xtrace", 31),
        ("zipkin/smartthings-mobile-web-install.json.gz", "zipkin", 1_041),
        ("zipkin/skew.json.gz", "zipkin", 4),
    ],
)
def test_the_format_of_real_files_is_recognised(
    shared_data: Path, name: str, format_: str, events: int
) -> None:
    path = shared_data / name
    assert {c.format for c in polls(path, None, CONFIG)} == {format_}
    table, rejects = read(path)
    assert (table.num_rows, rejects.num_rows) == (events, 0)


@pytest.mark.parametrize("pack", [lambda b: b, gzip.compress, lambda b: pa.compress(b, "zstd", asbytes=True)])
def test_compression_is_known_by_content(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "records"
    path.write_bytes(pack(b"\n".join(record(i) for i in range(100))))
    table, rejects = read(path)
    assert table["breadcrumb"].to_pylist() == [f"b{i}" for i in range(100)]
    assert rejects.num_rows == 0


@pytest.mark.parametrize("first", [0x50, 0x5F])
def test_zstd_may_begin_with_a_frame_to_skip(tmp_path: Path, first: int) -> None:
    path = tmp_path / "records"
    skippable = bytes((first, 0x2A, 0x4D, 0x18)) + (4).to_bytes(4, "little") + b"size"
    path.write_bytes((skippable + pa.compress(record(0) + b"\n", "zstd", asbytes=True)) * 2)
    table, rejects = read(path)
    assert table["breadcrumb"].to_pylist() == ["b0", "b0"]
    assert rejects.num_rows == 0


def test_gzip_of_several_members_is_one_stream(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(gzip.compress(record(0) + b"\n") + gzip.compress(record(1)))
    assert read(path)[0].num_rows == 2


@pytest.mark.parametrize("pack", [gzip.compress, lambda b: pa.compress(b, "zstd", asbytes=True)])
def test_a_truncated_archive_gives_what_it_holds_and_a_reject(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    rng = random.Random(1)
    lines = [record(rng.randrange(10**9)) for _ in range(50_000)]
    packed = pack(b"\n".join(lines))
    path = tmp_path / "cut"
    path.write_bytes(packed[: len(packed) // 2])
    table, rejects = read(path, "native")
    whole = codec_for("native").decode([b"\n".join(lines)], CONFIG).events
    assert 1_000 < table.num_rows < 50_000
    assert table["breadcrumb"].to_pylist() == whole["breadcrumb"].to_pylist()[: table.num_rows]
    assert Reason.BAD_COMPRESSION in rejects["reason"].to_pylist()


@pytest.mark.parametrize("chunk_bytes", [64, 200, 1_000, 1 << 20])
def test_chunks_do_not_matter_for_lines(tmp_path: Path, chunk_bytes: int) -> None:
    lines = [record(i) for i in range(60)]
    lines[7] = b"{broken"
    lines[20] = b""
    path = tmp_path / "records"
    path.write_bytes(b"\n".join(lines))
    table, rejects = read(path, "native", chunk_bytes=chunk_bytes, batch_events=10)
    assert table["breadcrumb"].to_pylist() == [f"b{i}" for i in range(60) if i not in (7, 20)]
    (reject,) = rejects.to_pylist()
    assert reject["position"] + reject["item"] == 7
    assert reject["raw"] == b"{broken"
    assert rejects.schema.equals(REJECT_SCHEMA)


@pytest.mark.parametrize("chunk_bytes", [300, 5_000, 1 << 20])
def test_chunks_do_not_matter_for_messages(tmp_path: Path, spans: pa.Table, chunk_bytes: int) -> None:
    path = tmp_path / "spans"
    path.write_bytes(b"".join(length_prefixed(otlp_messages(spans, 7))))
    expected = codec_for("otlp-proto").decode(list(otlp_messages(spans, 7)), CONFIG).events
    table, rejects = read(path, "otlp-proto", chunk_bytes=chunk_bytes)
    assert table.to_pylist() == expected.to_pylist()
    assert rejects.num_rows == 0


def test_framings_of_protobuf_are_told_apart(tmp_path: Path, spans: pa.Table) -> None:
    messages = list(otlp_messages(spans, 50))
    expected = codec_for("otlp-proto").decode(messages, CONFIG).events.to_pylist()
    files = {
        "length32": b"".join(length_prefixed(iter(messages))),
        "varint": b"".join(varint(len(m)) + m for m in messages),
        # Repeated fields of concatenated messages merge: one bare message.
        "bare": b"".join(messages),
    }
    for name, data in files.items():
        path = tmp_path / name
        path.write_bytes(data)
        assert read(path)[0].to_pylist() == expected, name


def test_jaeger_messages_are_told_from_otlp(tmp_path: Path) -> None:
    from ingest.codecs.jaeger.jaeger_proto import JaegerSpan

    message = JaegerSpan(trace_id=bytes(range(16)), span_id=bytes(range(8)), operation_name="op")
    message.start_time.seconds = T0 // 10**9
    data = message.SerializeToString()
    files = {
        "varint": (varint(len(data)) + data) * 3,
        "length32": (len(data).to_bytes(4, "big") + data) * 3,
        "bare": data,
    }
    for name, content in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert {c.format for c in polls(path, None, CONFIG)} == {"jaeger-proto"}
        assert read(path)[0].num_rows == (1 if name == "bare" else 3)


def test_a_file_cut_inside_a_message_gives_the_messages_before(tmp_path: Path, spans: pa.Table) -> None:
    path = tmp_path / "cut"
    path.write_bytes(b"".join(length_prefixed(otlp_messages(spans, 100)))[:-9])
    table, rejects = read(path)
    assert table.num_rows == spans.num_rows - 100
    assert [(r["reason"], r["position"]) for r in rejects.to_pylist()] == [(Reason.BAD_PROTOBUF, 9)]


def test_a_damaged_first_line_does_not_hide_the_format(tmp_path: Path, spans: pa.Table) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"\n".join([b'{"resourceSp', *otlp_json_lines(spans, 10)]))
    table, rejects = read(path, chunk_bytes=2_000)
    assert table.num_rows == spans.num_rows
    assert [(r["reason"], r["position"]) for r in rejects.to_pylist()] == [(Reason.BAD_JSON, 0)]


def test_a_line_that_is_too_long_is_refused_and_its_neighbours_are_not(tmp_path: Path) -> None:
    config = DecodeConfig(max_payload_bytes=1_000)
    path = tmp_path / "records"
    path.write_bytes(b"\n".join([record(0), b'{"x":"' + b"x" * 5_000 + b'"}', record(1), record(2)]))
    chunks = polls(path, "native", config, chunk_bytes=300)
    lines = [line for c in chunks for p in c.payloads for line in p.split(b"\n") if line]
    assert lines == [record(0), record(1), record(2)]
    assert [(r.reason, r.payload) for c in chunks for r in c.rejects] == [(Reason.TOO_LARGE, 1)]
    assert [n for c in chunks for n in c.positions][-1] >= 2


@pytest.mark.parametrize("format_", [None, *format_names()])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"[]",
        b"{}\n",
        b" [\n ]",
        gzip.compress(b"", mtime=0),
        gzip.compress(b"[]", mtime=0),
    ],
)
def test_a_file_that_holds_nothing_is_a_reject(tmp_path: Path, content: bytes, format_: str | None) -> None:
    path = tmp_path / "rotated"
    path.write_bytes(content)
    table, rejects = read(path, format_)
    assert table.num_rows == 0
    assert [(r["reason"], r["position"]) for r in rejects.to_pylist()] == [(Reason.EMPTY, 0)]


@pytest.mark.parametrize(
    "content", [b"hello world\n", bytes(range(256)), b'{"some":"json"}', b"\x0aabc", b"[[]]"]
)
def test_what_cannot_be_told_is_a_reject(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "what"
    path.write_bytes(content)
    table, rejects = read(path)
    assert table.num_rows == 0
    assert [(r["reason"], r["raw"]) for r in rejects.to_pylist()] == [(Reason.UNKNOWN_FORMAT, content)]


def test_an_archive_cut_near_its_start_gives_what_it_holds(tmp_path: Path) -> None:
    rng = random.Random(1)
    lines = [record(rng.randrange(10**9)) for _ in range(1_000)]
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines))[:3_000])
    table, rejects = read(path)
    whole = codec_for("native").decode([b"\n".join(lines)], CONFIG).events
    assert table.num_rows > 50
    assert table["breadcrumb"].to_pylist() == whole["breadcrumb"].to_pylist()[: table.num_rows]
    assert Reason.BAD_COMPRESSION in rejects["reason"].to_pylist()


def test_an_archive_without_anything_readable_says_only_that(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(record(0))[:11])
    table, rejects = read(path)
    assert (table.num_rows, rejects["reason"].to_pylist()) == (0, [Reason.BAD_COMPRESSION])


def test_wrong_names_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError):
        polls(tmp_path / "x", "csv", CONFIG)
    with pytest.raises(InputError):
        polls(tmp_path / "missing", None, CONFIG)


def test_batches_are_as_large_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"\n".join(record(i) for i in range(1_000)))
    sizes = [b.events.num_rows for b in decode_file(path, None, CONFIG, chunk_bytes=4_096, batch_events=300)]
    assert sum(sizes) == 1_000
    assert all(size >= 300 for size in sizes[:-1])
    assert len(sizes) > 2


def framed(*messages: bytes) -> bytes:
    return b"".join(length_prefixed(iter(messages)))


@pytest.mark.parametrize("odd", [b"", b"garbage", b"\x0a\xff", b"\x0a\x0b\x12" + b"\xff" * 9 + b"\x01"])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("format_", [None, "otlp-proto"])
def test_an_odd_frame_costs_itself_only(
    tmp_path: Path, spans: pa.Table, odd: bytes, place: int, format_: str | None
) -> None:
    good = list(otlp_messages(spans.slice(0, 40), 20))
    expected = codec_for("otlp-proto").decode(good, CONFIG).events.to_pylist()
    messages = [*good[:place], odd, *good[place:]]
    for content in (framed(*messages), b"".join(varint(len(m)) + m for m in messages)):
        path = tmp_path / "spans"
        path.write_bytes(content)
        table, rejects = read(path, format_)
        assert table.to_pylist() == expected
        reason = Reason.BAD_PROTOBUF if odd else Reason.EMPTY
        assert [(r["reason"], r["position"]) for r in rejects.to_pylist()] == [(reason, place)]


def test_a_message_over_the_limit_is_passed_over(tmp_path: Path, spans: pa.Table) -> None:
    good = list(otlp_messages(spans.slice(0, 40), 20))
    limit = max(len(m) for m in good)
    path = tmp_path / "spans"
    path.write_bytes(framed(good[0], b"\x0a" * (3 * limit), good[1]))
    config = DecodeConfig(max_payload_bytes=limit)
    for chunk_bytes in (200, 2 * limit, 1 << 24):
        (batch,) = decode_file(path, "otlp-proto", config, chunk_bytes=chunk_bytes)
        assert batch.events.num_rows == 40
        assert [(r["reason"], r["position"], r["size"]) for r in batch.rejects.to_pylist()] == [
            (Reason.TOO_LARGE, 1, 3 * limit)
        ]


def test_an_overlong_length_is_a_reject_and_says_nothing_on_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"\x0a\x0b\x12" + b"\xff" * 9 + b"\x01")
    table, rejects = read(path)
    assert (table.num_rows, rejects["reason"].to_pylist()) == (0, [Reason.BAD_PROTOBUF])
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("tail", [b"garbage", b"\0" * 100, b"\x28\xb5\x2f\xfdgarbage"])
def test_garbage_behind_zstd_costs_nothing_of_it(tmp_path: Path, tail: bytes) -> None:
    lines = [record(i) for i in range(3_000)]
    path = tmp_path / "records.zst"
    packed = pa.compress(b"\n".join(lines), "zstd", asbytes=True)
    skippable = b"\x5a\x2a\x4d\x18" + (7).to_bytes(4, "little") + b"ignored"
    path.write_bytes(packed + skippable + pa.compress(b"\n" + record(3_000), "zstd", asbytes=True) + tail)
    table, rejects = read(path)
    assert table["breadcrumb"].to_pylist() == [f"b{i}" for i in range(3_001)]
    assert rejects["reason"].to_pylist() == [Reason.BAD_COMPRESSION]


@pytest.mark.parametrize("chunk_bytes", [64, 300, 5_000])
def test_lines_over_the_limit_do_not_depend_on_chunks(tmp_path: Path, chunk_bytes: int) -> None:
    config = DecodeConfig(max_payload_bytes=200)
    long = record(0).replace(b'"c"', b'"' + b"c" * 200 + b'"')
    path = tmp_path / "records"
    path.write_bytes(b"\n".join([record(0), long, record(1), record(2), long]))
    batches = list(decode_file(path, "native", config, chunk_bytes=chunk_bytes))
    assert sum(b.events.num_rows for b in batches) == 3
    rejects = pa.concat_tables([b.rejects for b in batches]).to_pylist()
    assert [(r["position"] + r["item"], r["reason"], r["size"]) for r in rejects] == [
        (1, Reason.TOO_LARGE, len(long)),
        (4, Reason.TOO_LARGE, len(long)),
    ]


def test_polls_cover_every_position_once(tmp_path: Path, spans: pa.Table) -> None:
    files = {
        "lines": b"\n".join([*(record(i) for i in range(20)), b"x" * 2_000, b"", record(21)]),
        "messages": framed(*otlp_messages(spans, 100), b"", b"\x0a" * 5_000),
    }
    for name, content in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        config = DecodeConfig(max_payload_bytes=100_000 if name == "messages" else 1_000)
        read = polls(path, None, config, chunk_bytes=500 if name == "lines" else 1 << 24)
        at = 0
        for payloads in read:
            places = payloads.positions + [r.payload for r in payloads.rejects]
            assert all(at <= place < payloads.until for place in places)
            assert payloads.positions == sorted(payloads.positions)
            at = payloads.until
        assert at == (23 if name == "lines" else len(list(otlp_messages(spans, 100))) + 2)
