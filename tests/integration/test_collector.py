"""The OpenTelemetry SDK, a real Collector with the configuration of deploy/, a real Kafka, a lake.

`make collector` builds the Collector (tests/collector) and runs this; it is not part of `make test`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from fixtures.ingest_process import ingesting
from fixtures.kafka_bench import KafkaBench
from oracles.incidents import event, incident
from oracles.live_process import flow_rows
from oracles.sent_spans import post
from oracles.waiting import wait_until

from flowdiff.notify.notifier import Notifier
from flowdiff.notify.settings import NotifySettings
from stitch.lake.encoding import decode
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

pytestmark = pytest.mark.collector
REQUESTS = 300
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def collector() -> Path:
    program = os.environ.get("FLOWDIFF_TEST_COLLECTOR")
    assert program, "these tests need a Collector: run `make collector`, which builds one"
    return Path(program)


@pytest.fixture
def configuration(repository: Path) -> list[str]:
    """As deploy/ has it, with the queue on the disk."""
    deploy = repository / "deploy"
    return [
        word
        for name in ("collector.yaml", "collector-durable.yaml")
        for word in ("--config", str(deploy / name))
    ]


def test_a_collector_takes_the_configuration(
    collector: Path, configuration: list[str], repository: Path, tmp_path: Path
) -> None:
    alone = ["--config", str(repository / "deploy" / "collector.yaml")]
    for words in (alone, configuration):
        done = subprocess.run([collector, "validate", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("exporters: {kafka: {partition_trace_by_id: true}}\n")
    words = [*alone, "--config", str(wrong)]
    done = subprocess.run([collector, "validate", *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "partition_trace_by_id" in done.stderr


def test_sdk_to_collector_to_topic_to_lake(
    collector: Path, configuration: list[str], kafka: KafkaBench, tmp_path: Path
) -> None:
    """What lies in the lake is what the Collector wrote to a file beside it; it restarted on the way."""
    topic = kafka.topic(partitions=3)
    spans = tmp_path / "spans.jsonl"
    port = free_port()
    here = tmp_path / "here.yaml"
    here.write_text(
        yaml.safe_dump(
            {
                "receivers": {
                    "otlp": {
                        "protocols": {
                            "grpc": {"endpoint": f"127.0.0.1:{free_port()}"},
                            "http": {"endpoint": f"127.0.0.1:{port}"},
                        }
                    }
                },
                "exporters": {
                    "kafka": {"traces": {"topic": topic}},
                    "file": {"path": str(spans), "append": True},
                },
                "extensions": {"file_storage": {"directory": str(tmp_path / "queue")}},
                "service": {
                    "pipelines": {"traces": {"exporters": ["kafka", "file"]}},
                    "telemetry": {"metrics": {"level": "none"}},
                },
            }
        )
    )
    words = [*configuration, "--config", str(here)]
    environment = {**os.environ, "KAFKA_BROKERS": ",".join(kafka.broker.bootstrap)}
    sent = 0
    for part in range(2):
        with running([str(collector), *words], environment, port, tmp_path / f"collector-{part}.log"):
            sent += send(f"http://127.0.0.1:{port}/v1/traces", random.Random(part))
            wait_until(lambda: count_spans(spans) >= sent)  # noqa: B023 (called at once)
    assert count_spans(spans) == sent

    flowdiff("import", str(spans), "--lake", str(tmp_path / "from-file"))
    flowdiff(
        "ingest",
        *("--bootstrap", ",".join(kafka.broker.bootstrap), "--topics", topic),
        *("--lake", str(tmp_path / "live"), "--until-end", "--serve-address="),
    )
    live, of_file = rows(tmp_path / "live"), rows(tmp_path / "from-file")
    assert len(of_file) == 2 * REQUESTS
    assert live == of_file


EXPORTERS = {
    "otlphttp": {"compression": "gzip"},
    "otlphttp/json": {"encoding": "json", "compression": "zstd"},
    "otlphttp/plain": {"compression": "none"},
    "otlp": {"compression": "gzip"},
    "otlp/plain": {"compression": "none"},
}
"""Settings of the Collector's exporters of OTLP."""


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_collector_sends_to_the_receiver_which_is_killed_on_the_way(
    collector: Path, exporter: str, tmp_path: Path
) -> None:
    spans, port, to = tmp_path / "spans.jsonl", free_port(), free_port()
    is_http = exporter.startswith("otlphttp")
    made = {
        **EXPORTERS[exporter],
        "endpoint": f"http://127.0.0.1:{to}" if is_http else f"127.0.0.1:{to}",
        "retry_on_failure": {"initial_interval": "100ms", "max_interval": "500ms"},
        **({} if is_http else {"tls": {"insecure": True}}),
    }
    config = tmp_path / "collector.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
                "exporters": {"file": {"path": str(spans)}, exporter: made},
                "service": {
                    "pipelines": {"traces": {"receivers": ["otlp"], "exporters": [exporter, "file"]}},
                    "telemetry": {"metrics": {"level": "none"}},
                },
            }
        )
    )
    lake = tmp_path / "live"
    options = ("--lake", lake, "--otlp" if is_http else "--otlp-grpc", f"127.0.0.1:{to}")
    sent = 0
    words = [str(collector), "--config", str(config)]
    with running(words, dict(os.environ), port, tmp_path / "collector.log"):
        for part in range(3):
            with ingesting(tmp_path, *options) as receiver:
                receiver.wait_for("started")
                sent += send(f"http://127.0.0.1:{port}/v1/traces", random.Random(part))
                if part < 2:
                    receiver.signal(signal.SIGKILL)
                    continue
                wait_until(lambda: count_spans(spans) >= sent)  # noqa: B023 (called at once)
                time.sleep(3)  # what was refused meanwhile is sent again
    # The Collector has ended, and sent what it held, or said that it could not.
    assert "data loss" not in (tmp_path / "collector.log").read_text().lower()
    flowdiff("import", str(spans), "--lake", str(tmp_path / "from-file"))
    flowdiff("ingest", *map(str, options), "--until-end", "--serve-address=")
    live, of_file = rows(lake), rows(tmp_path / "from-file")
    assert len(of_file) == 3 * REQUESTS
    assert live == of_file


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_a_collector_logs_the_spans_that_the_receiver_will_not_keep(
    collector: Path, exporter: str, tmp_path: Path
) -> None:
    port, to = free_port(), free_port()
    is_http = exporter.startswith("otlphttp")
    made = {**EXPORTERS[exporter], "endpoint": f"http://127.0.0.1:{to}" if is_http else f"127.0.0.1:{to}"}
    config = tmp_path / "collector.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
                "exporters": {exporter: made if is_http else {**made, "tls": {"insecure": True}}},
                "service": {
                    "pipelines": {"traces": {"receivers": ["otlp"], "exporters": [exporter]}},
                    "telemetry": {"metrics": {"level": "none"}},
                },
            }
        )
    )
    sound = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "a"}
    spans = [sound, {**sound, "spanId": "3" * 16, "startTimeUnixNano": "1700000000000"}]
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
    options = ("--lake", tmp_path / "lake", "--otlp" if is_http else "--otlp-grpc", f"127.0.0.1:{to}")
    log = tmp_path / "collector.log"
    words = [str(collector), "--config", str(config)]
    with running(words, dict(os.environ), port, log), ingesting(tmp_path, *options) as receiver:
        receiver.wait_for("started")
        assert post(f"127.0.0.1:{port}", body, {"Content-Type": "application/json"})[0] == 200
        wait_until(lambda: "Partial success" in log.read_text())
    assert "start or end lies outside 1990 to 2200" in log.read_text()
    assert '"dropped_spans": 1' in log.read_text()


def test_a_collector_takes_incidents_as_log_events(collector: Path, tmp_path: Path) -> None:
    port, logs = free_port(), tmp_path / "logs.jsonl"
    config = tmp_path / "collector.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
                "exporters": {"file": {"path": str(logs)}},
                "service": {
                    "pipelines": {"logs": {"receivers": ["otlp"], "exporters": ["file"]}},
                    "telemetry": {"metrics": {"level": "none"}},
                },
            }
        )
    )
    opened = event("opened", incident())
    settings = NotifySettings.model_validate({"otlp": {"url": f"http://127.0.0.1:{port}"}})
    words = [str(collector), "--config", str(config)]
    with running(words, dict(os.environ), port, tmp_path / "collector.log"):
        notifier = Notifier(settings, "shop", LocalStore.at(tmp_path), list, print)
        with notifier.running():
            notifier([opened])
            wait_until(lambda: notifier.counts[0].sent == 1)
    (resource,) = json.loads(logs.read_text())["resourceLogs"]
    (record,) = resource["scopeLogs"][0]["logRecords"]
    assert record["body"] == {"stringValue": opened.incident.headline}
    assert record["eventName"] == "flowdiff.incident.opened"
    attributes = {each["key"]: each["value"]["stringValue"] for each in record["attributes"]}
    assert attributes["incident.component"] == "recommendation"


def flowdiff(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flowdiff", *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def rows(lake: Path) -> set[tuple[object, ...]]:
    store = LocalStore.at(lake)
    assert check(store) == []
    manifest = open_manifest(store)
    assert not manifest.files("late")
    assert not manifest.files("dead_letters")
    return {
        row for file in manifest.files("flows") for row in flow_rows(decode("flows", store.read(file.name)))
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def running(words: list[str], environment: dict[str, str], port: int, log: Path) -> Iterator[None]:
    """A Collector, from when it listens; at the end it is asked to stop, and sends what it holds."""
    with (
        log.open("wb") as file,
        subprocess.Popen(words, env=environment, stdout=file, stderr=file) as process,
    ):
        end = time.monotonic() + PATIENCE_S
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        try:
            yield
        finally:
            process.terminate()
        assert process.wait(PATIENCE_S) == 0, log.read_text()


def count_spans(path: Path) -> int:
    """Of whole lines: the last one may just be written."""
    if not path.exists():
        return 0
    return sum(
        len(scope["spans"])
        for line in path.read_text().splitlines(keepends=True)
        if line.endswith("\n")
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
    )


def send(endpoint: str, draw: random.Random) -> int:
    """Requests over three services: nested, parallel, failing, with links and every type of attribute."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Link, SpanKind, StatusCode, set_span_in_context

    providers = {
        name: TracerProvider(resource=Resource.create({"service.name": name}))
        for name in ("web", "cart", "db")
    }
    tracers = {}
    for name, provider in providers.items():
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint), max_queue_size=50_000))
        tracers[name] = provider.get_tracer("test")
    sent = 0
    for number in range(REQUESTS):
        root = tracers["web"].start_span("GET /cart", kind=SpanKind.SERVER, attributes={"user": number % 7})
        inside = set_span_in_context(root)
        for call in range(draw.randint(1, 3)):
            client = tracers["web"].start_span("cart.get", inside, kind=SpanKind.CLIENT)
            server = tracers["cart"].start_span(
                "cart.get",
                set_span_in_context(client),
                kind=SpanKind.SERVER,
                links=[Link(root.get_span_context())] if call else [],
            )
            query = tracers["db"].start_span(
                "query",
                set_span_in_context(server),
                attributes={"rows": call, "hit": bool(call), "share": 0.25, "names": ["a", "b"]},
            )
            if draw.random() < 0.1:
                query.record_exception(ValueError("no such row"))
                query.set_status(StatusCode.ERROR, "no such row")
            for span in (query, server, client):
                span.end()
            sent += 3
        root.end()
        sent += 1
    for provider in providers.values():
        provider.shutdown()
    return sent
