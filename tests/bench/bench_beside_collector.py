"""Live ingestion beside the OpenTelemetry Collector's groupbytrace: the same topic, one after the other.

Run: `make bench-collector [SPANS=1000000] [BASE=DIR]`, which builds the Collector of tests/collector. BASE is
a checkout of another version, whose live ingestion of the same topics is run in turns with this one's. One
partition, messages of 500 spans in the order of their ends, zstd; light spans, then heavy ones
(`trace_stream.py`). Both processes are started to read all there is and ended when they have: CPU and memory
are of their whole life. The Collector groups the spans of a trace for a minute and writes JSON; flowdiff
writes sealed windows.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

from bench.trace_stream import messages
from fixtures.kafka_bench import KafkaBench
from fixtures.kafka_broker import started

import flowdiff

HERE = Path(__file__).resolve().parents[2]
ROUNDS = 2
BEGIN_NS = 1_790_000_000_000_000_000
WAIT_S = 60
"""After the first span of a trace, by the wall: time to read the five seconds that a trace lives, and reserve
for a busy machine, where spans are lost else."""
PATIENCE_S = 120.0
"""Without a span sent, the Collector has lost those that are missing."""


def usage(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Wait for its end: CPU seconds, peak memory in GB."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def ingested(
    bootstrap: str, topic: str, folder: Path, traces: int, checkout: Path = HERE
) -> tuple[float, float]:
    """The topic as sealed windows of a lake, by the version of a checkout."""
    lake = folder / f"{topic}-{checkout.name}-{time.monotonic_ns()}"
    words = ("ingest", "--bootstrap", bootstrap, "--topics", topic, "--default-format", "otlp-proto")
    command = [sys.executable, "-m", "flowdiff", *words, "--lake", str(lake), "--until-end"]
    command += ["--group", lake.name, "--serve-address="]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled once
    spent = usage(subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=checkout, env=environment))
    assert sum(flowdiff.open(str(lake)).windows()["requests"]) == traces
    return spent


def grouped(collector: str, bootstrap: str, topic: str, folder: Path, spans: int) -> tuple[float, float, int]:
    """The topic as whole traces in a file, and how many spans are in it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    read = {"topics": [topic], "encoding": "otlp_proto"}
    pull = {"exporter": {"prometheus": {"host": "127.0.0.1", "port": port}}}
    pipeline = {"receivers": ["kafka"], "processors": ["groupbytrace"], "exporters": ["file"]}
    kafka = {
        "brokers": [bootstrap],
        "group_id": f"group-{topic}",
        "initial_offset": "earliest",
        "session_timeout": f"{PATIENCE_S:.0f}s",
        "traces": read,
    }
    made = {
        "receivers": {"kafka": kafka},
        "processors": {"groupbytrace": {"wait_duration": f"{WAIT_S}s", "num_traces": 1_000_000}},
        "exporters": {"file": {"path": str(folder / f"{topic}.json")}},
        "service": {
            "pipelines": {"traces": pipeline},
            "telemetry": {"logs": {"level": "error"}, "metrics": {"readers": [{"pull": pull}]}},
        },
    }
    settings = folder / f"{topic}.yaml"
    settings.write_text(json.dumps(made))
    process = subprocess.Popen([collector, "--config", settings])
    sent, grew = 0, time.monotonic()
    while sent < spans and time.monotonic() - grew < PATIENCE_S:
        time.sleep(1)
        assert process.poll() is None
        if (now := sent_spans(port)) > sent:
            sent, grew = now, time.monotonic()
    process.send_signal(signal.SIGTERM)
    return *usage(process), sent


def sent_spans(port: int) -> int:
    """By the Collector's own counter; 0 while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
            text = page.read().decode()
    except OSError:
        return 0
    found = re.findall(r"^otelcol_exporter_sent_spans\S* ([\d.e+]+)$", text, re.MULTILINE)
    return sum(int(float(number)) for number in found)


def beside(base: Path, bootstrap: str, topic: str, folder: Path, traces: int) -> str:
    """This version and that of another checkout in turns: CPU seconds, and the median of their ratios."""
    pairs = []
    for _ in range(ROUNDS):
        theirs = ingested(bootstrap, topic, folder, traces, base)[0]
        pairs.append((theirs, ingested(bootstrap, topic, folder, traces)[0]))
    shown = ", ".join(f"{theirs:.1f} and {ours:.1f}" for theirs, ours in pairs)
    ratio = statistics.median(theirs / ours for theirs, ours in pairs)
    return f"the base and this in turns {shown} CPU-s, ratio {ratio:.2f}"


def main(collector: str, spans: int = 1_000_000, base: str = "") -> None:
    """Broker, two topics, two processes each, figures."""
    traces = spans // 25 + 1  # as `trace_stream` makes them
    with tempfile.TemporaryDirectory() as name, started(Path(name) / "kafka") as broker:
        for heavy in (False, True):
            with KafkaBench(broker) as bench:
                topic = bench.topic()
                values = messages(spans, heavy=heavy, begin_ns=BEGIN_NS)
                bench.fill(topic, values, compression_type="zstd")
            cpu_s, peak_gb = ingested(broker.bootstrap[0], topic, Path(name), traces)
            their_cpu_s, their_gb, sent = grouped(collector, broker.bootstrap[0], topic, Path(name), spans)
            ours = f"{cpu_s:.1f} CPU-s ({spans / cpu_s:,.0f} spans/CPU-s), {peak_gb:.2f} GB"
            theirs = f"{their_cpu_s:.1f} CPU-s ({sent / their_cpu_s:,.0f} spans/CPU-s), {their_gb:.2f} GB"
            print(f"{'heavy' if heavy else 'light'}: flowdiff {ours}; groupbytrace {theirs}, ", end="")
            print(f"{sent:,} spans out; ratio {their_cpu_s / cpu_s:.1f}", flush=True)
            if base:
                print(f"    {beside(Path(base).resolve(), broker.bootstrap[0], topic, Path(name), traces)}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2] if len(sys.argv) > 2 else 1_000_000), *sys.argv[3:])
