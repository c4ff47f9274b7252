"""A table of spans that somebody has: the lake of the same spans in OTLP."""

from __future__ import annotations

import json
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from oracles.mixed_input import tree
from oracles.traffic import otlp_messages, write_otlp

from flowdiff.__main__ import main
from ingest import table_file
from ingest.codecs.parquet.pages import pages
from ingest.files import decode_file
from schemas.config import DecodeConfig


def exit_code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["import", *words])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same spans in OTLP, and in a table with names of its own."""
    folder = tmp_path_factory.mktemp("given")
    otlp, table = folder / "a.pb", folder / "a.parquet"
    write_otlp(otlp, 60)
    rows = [
        {
            "trace": span.trace_id,
            "span": span.span_id,
            "parent": span.parent_span_id,
            "operation": span.name,
            "begin": span.start_time_unix_nano,
            "finish": span.end_time_unix_nano,
            "tags": [
                (tag.key, tag.value.string_value or str(tag.value.int_value)) for tag in span.attributes
            ],
            "process": [(tag.key, tag.value.string_value) for tag in resource.resource.attributes],
            "kind": span.kind,
        }
        for message in otlp_messages(60)
        for resource in ExportTraceServiceRequest.FromString(message).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    of_text = pa.map_(pa.string(), pa.string())
    schema = {
        name: pa.array([row[name] for row in rows]).type
        for name in rows[0]
        if name not in ("tags", "process")
    }
    pq.write_table(
        pa.table(
            {name: pa.array([row[name] for row in rows], schema.get(name, of_text)) for name in rows[0]}
        ),
        table,
    )
    return otlp, table


COLUMNS = {
    **{"trace_id": "trace", "span_id": "span", "parent_id": "parent", "name": "operation", "kind": "kind"},
    **{"start": "begin", "end": "finish", "attributes": "tags", "resource_attributes": "process"},
}


def test_a_table_makes_the_lake_of_its_spans(files: tuple[Path, Path], tmp_path: Path) -> None:
    options = [word for field, name in COLUMNS.items() for word in ("--column", f"{field}={name}")]
    lakes = tmp_path / "otlp", tmp_path / "table"
    assert exit_code_of(str(files[0]), "--lake", str(lakes[0])) == 0
    assert exit_code_of(str(files[1]), "--lake", str(lakes[1]), *options) == 0
    mine, theirs = (tree(lake) for lake in lakes)
    assert mine.pop("flowdiff.json")
    assert theirs.pop("flowdiff.json")
    assert mine == theirs
    assert any(name.startswith("flows/") for name in mine)


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (None, "no column 'TraceId' (trace_id), 'SpanId' (span_id)"),
        ("trace=x", "A table has no 'trace' (--column). Fields are trace_id, span_id"),
        ("trace_id", "--column trace_id: write NAME=VALUE"),
        ("time_unit=min", "--column time_unit cannot be 'min'. Take s, ms, us or ns"),
    ],
)
def test_columns_that_are_none_are_refused(
    files: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    column: str | None,
    told: str,
) -> None:
    options = () if column is None else ("--column", column)
    assert exit_code_of(str(files[1]), "--lake", str(tmp_path / "lake"), *options) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "lake" / "flowdiff.json").exists()


def test_a_table_of_which_nothing_came_may_be_read_by_other_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = {
        "TraceId": pa.array([f"{row + 1:032x}" for row in range(3)]),
        "SpanId": pa.array([f"{row + 1:016x}" for row in range(3)]),
        "ParentSpanId": pa.nulls(3),
        "SpanName": pa.array(["a"] * 3),
        "Timestamp": pa.array([1_760_000_000_000_000_000] * 3),
    }
    files = [str(tmp_path / name) for name in ("good.parquet", "other.parquet")]
    pq.write_table(pa.table(columns), files[0])
    columns["tid"] = pa.array([f"{row + 100:032x}" for row in range(3)])
    del columns["TraceId"]
    pq.write_table(pa.table(columns), files[1])
    to_lake = ("--lake", str(tmp_path / "lake"))
    assert exit_code_of(*files, *to_lake) == 0
    for options, is_new in (((), False), (("--column", "trace_id=tid"), True)):
        for is_first in (True, False):
            capsys.readouterr()
            assert exit_code_of(files[1], *to_lake, *options) == 0
            told = capsys.readouterr().out
            assert ("nothing new" in told) == (not (is_new and is_first)), told
    read = pa.concat_tables(
        [pq.read_table(path, partitioning=None) for path in tmp_path.glob("lake/flows/*/*.parquet")]
    )
    assert read.num_rows == 6


MEMORY_MB = 256
IDLE_MB = 180
"""Of an import with its libraries (docs/internals/performance.md)."""


MEASURED = """
import re, sys
from flowdiff.__main__ import main
try:
    main(sys.argv[1:])
finally:
    status = open("/proc/self/status").read()
    print(int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) // 1024, file=sys.stderr)
"""


def imported(table: Path, lake: Path) -> tuple[int, dict[str, Any], int]:
    """Exit code, counters and peak in MB of an import in a process of its own."""
    words = ["import", str(table), "--lake", str(lake), "--memory", f"{MEMORY_MB}MB", "--json"]
    done = subprocess.run([sys.executable, "-c", MEASURED, *words], capture_output=True, text=True)
    counters = json.loads(done.stdout)["counters"] if done.stdout else {}
    return done.returncode, counters, int(done.stderr)


def spans(n: int, **columns: pa.Array) -> pa.Table:
    """A table of `n` spans in a request each."""
    ids = np.arange(1, n + 1)
    table = {
        "TraceId": pa.array([f"{i:032x}" for i in ids]),
        "SpanId": pa.array([f"{i:016x}" for i in ids]),
        "ParentSpanId": pa.array([""] * n),
        "SpanName": pa.array(["GET /"] * n),
        "Timestamp": pa.array(1_763_600_400 * 10**9 + ids * 1000),
        "Duration": pa.array(ids),
        "ServiceName": pa.array(["web"] * n),
    }
    return pa.table({**table, **columns})


def repeated(text: str, n: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([text]))


def of_others(table: pa.Table) -> pa.Table:
    """The spans under other ids."""
    for name in ("TraceId", "SpanId"):
        column = pa.array([f"f{text[1:]}" for text in table[name].to_pylist()])
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


def test_one_long_word_in_many_rows_is_refused_and_counted(tmp_path: Path) -> None:
    """A small file that would be a hundred gigabytes in memory, beside sound rows."""
    n, file = 100_000, tmp_path / "bomb.parquet"
    sound, bomb = spans(1_000), of_others(spans(n, SpanName=repeated("x" * 1_000_000, n)))
    schema = sound.schema
    with pq.ParquetWriter(file, bomb.schema, compression="zstd", store_schema=False) as writer:
        names = sound["SpanName"].combine_chunks().dictionary_encode()
        writer.write_table(sound.set_column(schema.get_field_index("SpanName"), "SpanName", names))
        writer.write_table(bomb, row_group_size=n)
    code, counters, peak_mb = imported(file, tmp_path / "lake")
    assert code == 0
    assert (counters["flows"], counters["rejects"]) == (1_000, {"too-large": n})
    assert peak_mb < MEMORY_MB + IDLE_MB


def test_a_page_that_unpacks_to_more_than_the_budget_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "bomb.parquet"
    names = pa.array(["a", "x" * 200_000_000, "b"])
    with pq.ParquetWriter(file, spans(3).schema, compression="zstd", use_dictionary=False) as writer:
        writer.write_table(spans(1_000))
        writer.write_table(of_others(spans(3, SpanName=names)))
    assert file.stat().st_size < 200_000
    code, counters, peak_mb = imported(file, tmp_path / "lake")
    assert code == 0
    assert (counters["flows"], counters["rejects"]) == (1_000, {"too-large": 1})
    assert peak_mb < MEMORY_MB + IDLE_MB


@pytest.mark.parametrize("compression", ["snappy", "zstd", "none"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_are_those_that_the_writer_made(tmp_path: Path, compression: str, version: str) -> None:
    """What their headers say adds up to what the footer says of the column."""
    file = tmp_path / "a.parquet"
    tags = pa.array([[("k", f"v{i}"), ("l", None)] for i in range(20_000)], pa.map_(pa.string(), pa.string()))
    pq.write_table(
        spans(20_000, SpanAttributes=tags),
        file,
        compression=compression,
        data_page_version=version,
        data_page_size=10_000,
        row_group_size=8_000,
        write_statistics=True,
        write_page_checksum=True,
    )
    metadata = pq.read_metadata(file)
    with file.open("rb") as raw:
        for group in range(metadata.num_row_groups):
            for index in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(index)
                begin = min(filter(None, (chunk.data_page_offset, chunk.dictionary_page_offset)))
                found = [*pages(raw, begin, chunk.total_compressed_size)]
                assert sum(page.values for page in found) == chunk.num_values
                headers = chunk.total_uncompressed_size - sum(page.unpacked_bytes for page in found)
                assert 10 * len(found) < headers < 200 * len(found)
                assert sum(page.is_dictionary for page in found) == chunk.has_dictionary_page


def test_a_page_of_two_encodings_may_be_of_words() -> None:
    """Arrow reads the one of the page's kind: here of version 1, indices into a dictionary."""
    version_1, version_2 = b"\x2c\x15\x06\x15\x10\x00", b"\x3c\x15\x06\x35\x12\x00"
    header = b"\x15\x00\x15\x14\x15\x00" + version_1 + version_2 + b"\x00"
    (page,) = pages(BytesIO(header), 0, len(header))
    assert page.encodings == {8, 9}
    assert page.has_words


@pytest.mark.parametrize("held", [2**30, 0])
def test_words_read_as_words_or_as_text_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    """Where words would take more than there is room for, rows are read in small parts."""
    file = tmp_path / "a.parquet"
    rows = range(3_000)
    names = pa.array([None if i % 7 == 0 else f"n{i % 5}" * 40 for i in rows])
    tags = pa.array([[("k" * 30, f"v{i % 3}")] * (i % 4) for i in rows], pa.map_(pa.string(), pa.string()))
    pq.write_table(spans(3_000, SpanName=names, SpanAttributes=tags), file, row_group_size=1_000)
    read_as_words = table_file._read_as_words
    monkeypatch.setattr(
        table_file, "_read_as_words", lambda *asked: read_as_words(*asked[:-2], held, asked[-1])
    )
    batches = [*decode_file(file, None, DecodeConfig(), chunk_bytes=2**16)]
    monkeypatch.undo()
    whole = [*decode_file(file, None, DecodeConfig())]
    assert pa.concat_tables([b.events for b in batches]).equals(pa.concat_tables([b.events for b in whole]))
    assert sum(b.events.num_rows for b in whole) == 3_000
