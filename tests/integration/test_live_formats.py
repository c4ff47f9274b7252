"""What a real Collector wrote, on topics of a real broker, one an encoding: all of it reaches a lake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fixtures.kafka_bench import KafkaBench
from oracles import fork_server
from oracles.captured import FILES, messages
from oracles.live_process import flow_rows

from ingest.formats import codec_for
from schemas.config import DecodeConfig, StitchConfig
from stitch.kernel import stitch
from stitch.lake.encoding import decode
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def flowdiff(*words: str) -> subprocess.CompletedProcess[str]:
    return fork_server.run(
        [sys.executable, "-m", "flowdiff", *words], capture_output=True, text=True, check=False, timeout=120
    )


def lake_flows(lake: Path) -> set[tuple[object, ...]]:
    store = LocalStore.at(lake)
    assert check(store) == []
    manifest = open_manifest(store)
    assert not manifest.files("late")
    return {
        row for file in manifest.files("flows") for row in flow_rows(decode("flows", store.read(file.name)))
    }


def test_every_encoding_of_the_collector_reaches_the_lake(
    kafka: KafkaBench, shared_data: Path, tmp_path: Path
) -> None:
    """Each encoding into a lake of its own: the same flows as from the messages at once."""
    captured = shared_data / "kafka-captured"
    topics = {name: kafka.topic(partitions=2) for name in FILES}
    for place, (name, topic) in enumerate(topics.items()):
        # As the exporter keys them: by trace, so that all of one lies in one partition.
        by_id = place % 2 if "by-trace" not in name else 0
        kafka.fill(
            topic,
            messages(captured, name),
            by_id,
            compression_type=COMPRESSIONS[place % len(COMPRESSIONS)],
        )
    children = {
        name: fork_server.Popen(
            [
                sys.executable,
                "-m",
                "flowdiff",
                "ingest",
                "--until-end",
                f"--lake={tmp_path / name}",
                f"--bootstrap={kafka.broker.bootstrap[0]}",
                f"--topics={topic}",
                f"--group=g-{topic}",
                f"--default-format={FILES[name]}",
                "--serve-address=",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, topic in topics.items()
    }
    for name, child in children.items():
        _, told = child.communicate(timeout=180)
        assert child.returncode == 0, told
        events = codec_for(FILES[name]).decode(messages(captured, name), DecodeConfig()).events
        expected = set(flow_rows(stitch(events, StitchConfig()).flows))
        assert expected
        assert lake_flows(tmp_path / name) == expected, name
