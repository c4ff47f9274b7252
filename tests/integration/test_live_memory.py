"""What `flowdiff ingest` takes of memory at the most, on a real broker, and that its flags are true.

The bound is in docs/live.md: `live.memory`, and what is beside it.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from bench.trace_stream import messages
from fixtures.ingest_process import NS_PER_SECOND
from fixtures.kafka_bench import KafkaBench
from fixtures.timed_command import timed

from stitch.lake.chain import read_chain
from stitch.lake.fsck import check
from stitch.lake.store import LocalStore

pytestmark = pytest.mark.slow
LIBRARIES_MB, BESIDE_MB = 170, 512
TOPICS: dict[tuple[bool, int], str] = {}


def topic_of(kafka: KafkaBench, *, heavy: bool, spans: int) -> str:
    """Filled once, and read by every budget."""
    name = TOPICS.get((heavy, spans))
    if name is None:
        name = TOPICS[heavy, spans] = kafka.topic()
        begin_ns = time.time_ns() - 3600 * NS_PER_SECOND
        kafka.fill(name, messages(spans, heavy=heavy, begin_ns=begin_ns), compression_type="zstd")
    return name


def most_mb(budget_mb: int) -> float:
    """As docs/live.md has it."""
    return min(budget_mb + BESIDE_MB, 2.3 * budget_mb + LIBRARIES_MB)


def judge(kafka: KafkaBench, lake: Path, budget_mb: int, *, heavy: bool, spans: int) -> None:
    topic = topic_of(kafka, heavy=heavy, spans=spans)
    took = timed(
        *("ingest", "--until-end", "--serve-address", ""),
        *("--bootstrap", ",".join(kafka.broker.bootstrap), "--topics", topic, "--lake", str(lake)),
        *("--group", f"{topic}-{budget_mb}", "--memory", f"{budget_mb}MB"),
    )
    print(f"\n{'heavy' if heavy else 'light'}, live.memory {budget_mb} MB: {took}, ", end="")
    print(f"{spans / took.cpu_s:,.0f} spans a CPU second")
    store = LocalStore.at(lake)
    assert check(store) == []
    counters = [link.record.counters for link in read_chain(store, 1)]
    # Whole traces, sent in the order in which their spans end: what lacks nothing is not INCOMPLETE.
    assert sum(each.quality.get("INCOMPLETE", 0) for each in counters) == 0
    assert sum(each.events_late for each in counters) == 0
    assert sum(each.flows for each in counters) == spans // 25 + 1
    assert took.peak_gb * 1024 < most_mb(budget_mb)


@pytest.mark.bench
@pytest.mark.parametrize("heavy", [True, False])
@pytest.mark.parametrize("budget_mb", [128, 256, 512, 768, 1024])
def test_the_budget_bounds_the_process(
    kafka: KafkaBench, tmp_path: Path, budget_mb: int, *, heavy: bool
) -> None:
    judge(kafka, tmp_path / "lake", budget_mb, heavy=heavy, spans=1_000_000)


@pytest.mark.parametrize("budget_mb", [128, 256])
def test_a_small_budget_bounds_the_process(kafka: KafkaBench, tmp_path: Path, budget_mb: int) -> None:
    judge(kafka, tmp_path / "lake", budget_mb, heavy=True, spans=250_000)
