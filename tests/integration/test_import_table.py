"""A table of spans that somebody has: the lake of the same spans in OTLP."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from oracles.mixed_input import tree
from oracles.traffic import otlp_messages, write_otlp

from flowdiff.__main__ import main


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
