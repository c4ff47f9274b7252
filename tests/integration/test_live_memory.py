"""What `flowdiff ingest` takes of memory at the most, on a real broker, and that its flags are true.

The bound is in docs/live.md: `live.memory`, and a gigabyte.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench.trace_stream import messages
from fixtures.ingest_process import NS_PER_SECOND
from fixtures.kafka_bench import KafkaBench

from stitch.lake.chain import read_chain
from stitch.lake.fsck import check
from stitch.lake.store import LocalStore

pytestmark = pytest.mark.slow
MB = 2**20
TOPICS: dict[tuple[bool, int], str] = {}


def most_bytes(budget_mb: int) -> int:
    return (1024 + budget_mb) * MB


def topic_of(kafka: KafkaBench, *, heavy: bool, spans: int) -> str:
    """Filled once, and read by every budget."""
    name = TOPICS.get((heavy, spans))
    if name is None:
        name = TOPICS[heavy, spans] = kafka.topic()
        begin_ns = time.time_ns() - 3600 * NS_PER_SECOND
        kafka.fill(name, messages(spans, heavy=heavy, begin_ns=begin_ns), compression_type="zstd")
    return name


def judge(kafka: KafkaBench, lake: Path, budget_mb: int, *, heavy: bool, spans: int) -> None:
    topic = topic_of(kafka, heavy=heavy, spans=spans)
    words = (
        *(sys.executable, "-m", "flowdiff", "ingest", "--until-end", "--serve-address", ""),
        *("--bootstrap", ",".join(kafka.broker.bootstrap), "--topics", topic, "--lake", str(lake)),
        *("--group", f"{topic}-{budget_mb}", "--memory", f"{budget_mb}MB"),
    )
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    most = usage.ru_maxrss * 1024
    print(
        f"\n{'heavy' if heavy else 'light'}, live.memory {budget_mb} MB: {most / MB:,.0f} MB at the most, ",
        end="",
    )
    print(f"{spans / (usage.ru_utime + usage.ru_stime):,.0f} spans a CPU second")
    store = LocalStore.at(lake)
    assert check(store) == []
    counters = [link.record.counters for link in read_chain(store, 1)]
    # Whole traces, sent in the order in which their spans end: what lacks nothing is not INCOMPLETE.
    assert sum(each.quality.get("INCOMPLETE", 0) for each in counters) == 0
    assert sum(each.events_late for each in counters) == 0
    assert sum(each.flows for each in counters) == spans // 25 + 1
    assert most < most_bytes(budget_mb)


@pytest.mark.bench
@pytest.mark.parametrize("heavy", [True, False])
@pytest.mark.parametrize("budget_mb", [128, 256, 512, 768, 1024])
def test_the_budget_bounds_the_process(
    kafka: KafkaBench, tmp_path: Path, budget_mb: int, *, heavy: bool
) -> None:
    judge(kafka, tmp_path / "lake", budget_mb, heavy=heavy, spans=1_000_000)
