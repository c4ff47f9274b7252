"""Peak memory of `flowdiff ingest` on a real broker."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench.trace_stream import messages
from fixtures.ingest_process import NS_PER_SECOND
from fixtures.kafka_bench import KafkaBench
from fixtures.timed_command import timed
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from oracles.bucket_server import BucketServer

from schemas.errors import ConfigError
from schemas.quality import Quality
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_store
from stitch.lake.store import LocalStore, Store

pytestmark = pytest.mark.slow
INCOMPLETE = [*Quality].index(Quality.INCOMPLETE)
TOPICS: dict[tuple[bool, int, str], str] = {}


def topic_of(kafka: KafkaBench, *, heavy: bool, spans: int, as_format: str) -> str:
    """Filled once, and read by every budget."""
    name = TOPICS.get((heavy, spans, as_format))
    if name is None:
        name = TOPICS[heavy, spans, as_format] = kafka.topic()
        begin_ns = time.time_ns() - 3600 * NS_PER_SECOND
        made = messages(spans, heavy=heavy, begin_ns=begin_ns)
        kafka.fill(name, made if as_format == "otlp-proto" else map(as_native, made), compression_type="zstd")
    return name


def as_native(message: bytes) -> bytes:
    """A record a span: its parent before it, its attributes and those of its service as parameters."""
    rows = []
    for service in ExportTraceServiceRequest.FromString(message).resource_spans:
        shared = {each.key: each.value.string_value for each in service.resource.attributes}
        for span in service.scope_spans[0].spans:
            own = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
            trace = span.trace_id.hex()
            record = {
                "request_id": trace,
                "breadcrumb": trace + span.span_id.hex(),
                "id": span.span_id.hex(),
                "parents": [span.parent_span_id.hex()] if span.parent_span_id else [],
                "ts": span.start_time_unix_nano,
                "component": shared["service.name"],
                "point": span.name,
                "params": shared | own,
            }
            rows.append(json.dumps(record))
    return "\n".join(rows).encode()


def words_of(
    kafka: KafkaBench, lake: Path | str, topic: str, limit_mb: int, as_format: str = "otlp-proto"
) -> tuple[str, ...]:
    return (
        *(
            "ingest",
            "--default-format",
            as_format,
            "--until-end",
            "--serve-address",
            "",
            "--bootstrap",
            ",".join(kafka.broker.bootstrap),
        ),
        *(
            "--topics",
            topic,
            "--lake",
            str(lake),
            "--group",
            f"{topic}-{limit_mb}",
            "--memory",
            f"{limit_mb}MB",
        ),
    )


def judge(kafka: KafkaBench, lake: Path, limit_mb: int, *, heavy: bool, spans: int) -> None:
    """Ingest whole traces within a limit, sent in the order in which their spans end: none is late."""
    topic = topic_of(kafka, heavy=heavy, spans=spans, as_format="otlp-proto")
    took = timed(*words_of(kafka, lake, topic, limit_mb))
    print(f"\n{'heavy' if heavy else 'light'}, live.memory {limit_mb} MB: {took}, ", end="")
    print(f"{spans / took.cpu_s:,.0f} spans a CPU second")
    assert counts_of(LocalStore.at(lake)) == (spans // 25 + 1, 0)
    assert took.peak_gb * 1024 < limit_mb


def counts_of(store: Store) -> tuple[int, int]:
    """(Requests in a lake, number of these that are INCOMPLETE), after `fsck`."""
    assert check(store) == []
    manifest = open_manifest(store)
    assert manifest.files("late") == []
    counts = manifest.flow_counts(entry.window for entry in manifest.windows())
    return (
        sum(entry.flows for entry in manifest.windows()),
        sum(sum(each["flags"][INCOMPLETE : INCOMPLETE + 1]) for each in counts["counts"].to_pylist()),
    )


def least_mb(kafka: KafkaBench, lake: Path) -> int:
    """What a refusal names as the least."""
    command = [sys.executable, "-m", "flowdiff", *words_of(kafka, lake, "refused", 128)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == ConfigError.exit_code
    said = refused.stderr.splitlines()[-1]
    assert "(--memory) cannot be '128MB'" in said
    assert not lake.exists()
    found = re.search(r"(\d+)MB is the least that is enough", said)
    assert found is not None, said
    return int(found[1])


def test_too_little_memory_is_refused_and_the_least_that_is_named_is_enough(
    kafka: KafkaBench, tmp_path: Path
) -> None:
    limit_mb = least_mb(kafka, tmp_path / "lake")
    judge(kafka, tmp_path / "lake", limit_mb, heavy=True, spans=250_000)


@pytest.mark.bench
def test_memory_bounds_the_process(kafka: KafkaBench, tmp_path: Path) -> None:
    judge(kafka, tmp_path / "lake", 448, heavy=True, spans=250_000)


@pytest.mark.bench
@pytest.mark.parametrize("heavy", [True, False])
@pytest.mark.parametrize("limit_mb", [0, 512, 768, 1024])
def test_memory_bounds_the_process_at_a_million(
    kafka: KafkaBench, tmp_path: Path, limit_mb: int, *, heavy: bool
) -> None:
    """0: the least."""
    lake = tmp_path / "lake"
    judge(kafka, lake, limit_mb or least_mb(kafka, lake), heavy=heavy, spans=1_000_000)


@pytest.mark.bench
@pytest.mark.parametrize(
    ("as_format", "limit_mb"), [("otlp-proto", 352), ("otlp-proto", 512), ("native", 416), ("native", 512)]
)
def test_memory_bounds_the_process_beside_a_bucket(
    kafka: KafkaBench,
    bucket_server: BucketServer,
    bucket_environ: dict[str, str],
    as_format: str,
    limit_mb: int,
) -> None:
    """And where DuckDB decodes."""
    spans, lake = 250_000, bucket_server.new_lake()
    topic = topic_of(kafka, heavy=True, spans=spans, as_format=as_format)
    took = timed(*words_of(kafka, lake, topic, limit_mb, as_format))
    print(f"\n{as_format}, bucket, live.memory {limit_mb} MB: {took}")
    assert counts_of(open_store(lake))[0] == spans // 25 + 1
    assert took.peak_gb * 1024 < limit_mb
