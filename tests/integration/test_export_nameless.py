"""Spans without a service name (component `?`) survive an export and its import."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from typer.testing import CliRunner

from flowdiff.__main__ import build_app

START_NS = 1_763_600_000_000_000_000


def run(*arguments: str) -> None:
    result = CliRunner().invoke(build_app(["import", "export"]), list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output


def request(names: list[str], kind: int, parent: int | None = None) -> bytes:
    """Spans of one trace without a resource: the first is the root of the others; `parent` is its own."""
    message = ExportTraceServiceRequest()
    scope = message.resource_spans.add().scope_spans.add()
    for number, name in enumerate(names):
        above = parent if number == 0 else 1
        scope.spans.add(
            trace_id=bytes(range(1, 17)),
            span_id=(number + 1).to_bytes(8, "big"),
            parent_span_id=b"" if above is None else above.to_bytes(8, "big"),
            name=name,
            kind=kind,
            start_time_unix_nano=START_NS + number * 1_000,
            end_time_unix_nano=START_NS + 1_000_000 - number * 1_000,
        )
    return message.SerializeToString()


def stored(lake: Path) -> list[tuple[str, int, int]]:
    """Category, number of nodes and response time of each flow."""
    rows = pq.read_table(next(lake.glob("flows/*/*.parquet"))).to_pylist()
    return [(row["category"], row["n_nodes"], row["response_ns"]) for row in rows]


@pytest.mark.parametrize(
    ("names", "kind", "parent"),
    [
        (["get"], 1, None),
        (["get", "put"], 1, None),
        (["root"], 0, None),
        (["root", "put"], 0, None),
        (["missing"], 0, None),
        (["get", "put"], 1, 99),
        (["root"], 0, 99),
    ],
)
def test_spans_without_a_service_come_back(
    tmp_path: Path, names: list[str], kind: int, parent: int | None
) -> None:
    (tmp_path / "in.pb").write_bytes(request(names, kind, parent))
    run("import", str(tmp_path / "in.pb"), "--lake", str(tmp_path / "lake"))
    out = tmp_path / "out.jsonl"
    run("export", "--lake", str(tmp_path / "lake"), "--format", "otlp", "--output", str(out))
    run("import", str(out), "--lake", str(tmp_path / "again"))
    assert stored(tmp_path / "again") == stored(tmp_path / "lake")
