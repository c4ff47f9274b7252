"""The same spans as JSON or protobuf, shuffled, duplicated, in other messages and files: the same lake to the
byte, and so the same report."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from oracles.mixed_input import tree
from oracles.otlp_bytes import length_prefixed, otlp_messages
from typer.testing import CliRunner

from flowdiff.__main__ import build_app
from ingest.codecs.otlp.otlp_json import OtlpJsonCodec
from schemas.config import DecodeConfig

FILES = ("before", "after-recommendation-delay")

Placed = tuple[str, dict[str, Any]]
"""A span, and before it its resource as JSON."""


def flowdiff(*arguments: str) -> str:
    result = CliRunner().invoke(build_app(["import", "compare"]), list(arguments), catch_exceptions=False)
    assert result.exit_code in (0, 1), result.output
    return result.stdout


def imported(folder: Path, *files: Path) -> dict[str, bytes]:
    """The files of windows that one import of all files makes, by name."""
    lake = folder / "lake"
    flowdiff("import", *map(str, files), "--lake", str(lake), "--window", "1m")
    return {name: data for name, data in tree(lake).items() if "/window=" in name}


def analysis(folder: Path) -> str:
    """The comparison of the two periods as JSON; where its lake lies is left out."""
    told = flowdiff(
        *("compare", "--lake", str(folder / "lake"), "--method", "robust", "--method", "paper"),
        *("--reference", "2022-08-23T16:59Z/2m", "--problem", "2022-08-23T15:12Z/2m"),
        *("--json", "-", "--no-save", "--fail-on", "never"),
    )
    return told.replace(str(folder), "")


class Plain(NamedTuple):
    """What the lines make as they are."""

    files: dict[str, bytes]
    report: str


def check_same(found: dict[str, bytes], plain: Plain) -> None:
    """Equal to the byte."""
    assert [name for name, data in found.items() if plain.files.get(name) != data] == []
    assert found.keys() == plain.files.keys() != set()


def placed_spans(lines: Sequence[bytes]) -> list[Placed]:
    """Every span of the lines; the traces at hand have neither scopes nor schema URLs."""
    return [
        (json.dumps(resource["resource"]), span)
        for line in lines
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def regrouped(spans: Sequence[Placed], sizes: Sequence[int]) -> Iterator[bytes]:
    """Other `ExportTraceServiceRequest` lines of the same spans, of `sizes` spans each, round and round."""
    rest, size = iter(spans), cycle(sizes)
    while taken := list(islice(rest, next(size))):
        resources: dict[str, list[dict[str, Any]]] = {}
        for resource, span in taken:
            resources.setdefault(resource, []).append(span)
        entries = [
            {"resource": json.loads(resource), "scopeSpans": [{"spans": members}]}
            for resource, members in resources.items()
        ]
        yield json.dumps({"resourceSpans": entries}).encode()


def as_protobuf(spans: Sequence[Placed], spans_per_message: int) -> bytes:
    events = OtlpJsonCodec().decode(list(regrouped(spans, [1000])), DecodeConfig()).events
    return b"".join(length_prefixed(otlp_messages(events, spans_per_message)))


def as_zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(content)
    compressed: bytes = sink.getvalue().to_pybytes()
    return compressed


@pytest.fixture(scope="module")
def lines(shared_data: Path) -> list[bytes]:
    """Half of the traces."""
    folder = shared_data / "online-boutique"
    whole = [
        line
        for n in FILES
        for line in gzip.decompress((folder / f"{n}.otlp.jsonl.gz").read_bytes()).splitlines()
    ]
    spans = [(resource, span) for resource, span in placed_spans(whole) if int(span["traceId"], 16) % 2]
    return [*regrouped(spans, [500])]


@pytest.fixture(scope="module")
def plain(lines: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Plain:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "spans.jsonl").write_bytes(b"\n".join(lines))
    files = imported(folder, folder / "spans.jsonl")
    report = analysis(folder)
    (mutations,) = [part for part in json.loads(report)["sections"] if part["section"] == "mutations"]
    assert mutations["response_time_total"] >= 4
    return Plain(files, report)


def test_shuffled_and_duplicated_json(lines: list[bytes], plain: Plain, tmp_path: Path) -> None:
    mixed = lines + lines[::3]
    random.Random(1).shuffle(mixed)
    (tmp_path / "mixed.jsonl.gz").write_bytes(gzip.compress(b"\n".join(mixed), 1))
    check_same(imported(tmp_path, tmp_path / "mixed.jsonl.gz"), plain)


@pytest.mark.parametrize("spans_per_message", [37, 5000])
def test_protobuf_in_other_batches(
    lines: list[bytes], plain: Plain, tmp_path: Path, spans_per_message: int
) -> None:
    events = OtlpJsonCodec().decode(lines, DecodeConfig()).events
    order = list(range(events.num_rows))
    random.Random(2).shuffle(order)
    messages = otlp_messages(events.take(order), spans_per_message)
    (tmp_path / "spans.otlp").write_bytes(b"".join(length_prefixed(messages)))
    check_same(imported(tmp_path, tmp_path / "spans.otlp"), plain)


@pytest.mark.parametrize(("sizes", "n_files"), [([1], 2), ([3, 400, 11], 7), ([20_000], 2)])
def test_json_in_other_lines_and_files(
    lines: list[bytes], plain: Plain, tmp_path: Path, sizes: list[int], n_files: int
) -> None:
    """Spans dealt to files one by one, so that every request lies in all of them; every other one gzipped."""
    spans = placed_spans(lines)
    random.Random(3).shuffle(spans)
    files = []
    for number in range(n_files):
        content = b"\n".join(regrouped(spans[number::n_files], sizes))
        path = tmp_path / f"{number}.jsonl{'.gz' if number % 2 else ''}"
        path.write_bytes(gzip.compress(content, 1, mtime=0) if number % 2 else content)
        files.append(path)
    check_same(imported(tmp_path, *files), plain)


def test_formats_and_compressions_mixed_in_one_import(
    lines: list[bytes], plain: Plain, tmp_path: Path
) -> None:
    """JSON lines, one JSON document over many lines, protobuf; plain, gzip, zstd; a tenth comes twice."""
    spans = placed_spans(lines)
    random.Random(4).shuffle(spans)
    (document,) = regrouped(spans[1::4], [len(spans)])
    contents = {
        "lines.jsonl.zst": as_zstd(b"\n".join(regrouped(spans[0::4], [250, 2]))),
        "document.json": json.dumps(json.loads(document), indent=1).encode(),
        "messages.otlp.gz": gzip.compress(as_protobuf(spans[2::4], 64), 1),
        "messages.otlp": as_protobuf(spans[3::4], 9),
        "again.jsonl.gz": gzip.compress(b"\n".join(regrouped(spans[::10], [33])), 1),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    files = [tmp_path / name for name in contents]
    check_same(imported(tmp_path, *files), plain)
    assert analysis(tmp_path) == plain.report
    check_same(imported(tmp_path / "turned", *reversed(files)), plain)
