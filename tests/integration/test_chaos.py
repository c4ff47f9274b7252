"""A short run of chaos against a real broker; `make chaos` runs the long one."""

from __future__ import annotations

from pathlib import Path

from chaos.chaos import run_chaos
from fixtures.kafka_bench import KafkaBench

READ_PAUSE_S = 0.03
"""Some 25 reads a second; without a pause they take a quarter of what the test takes of the CPU."""


def test_nothing_is_lost_or_doubled_while_processes_are_killed_and_readers_read(
    kafka: KafkaBench, tmp_path: Path
) -> None:
    figures = run_chaos(
        kafka.broker, kafka, tmp_path, seconds=20, kills=13, seed=7, read_pause_s=READ_PAUSE_S
    )
    assert figures.sound, str(figures)
    assert figures.kills >= 13
    assert figures.rebalances >= 13
    assert figures.reads >= 200
