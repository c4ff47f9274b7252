"""Messages of a topic as an input: the lake of the same messages in a file."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fixtures.kafka_bench import KafkaBench
from kafka import TopicPartition
from oracles.mixed_input import tree
from oracles.quiet_import import Quiet
from oracles.traffic import native_lines

from flowdiff.__main__ import main
from ingest.kafka.topic_input import parse_topic_input, parts_of
from ingest.source import LogPart
from schemas.errors import InputError
from schemas.periods import format_instant
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

PARTITIONS = 3
GARBAGE = b'{"ts": "late"}'


def exit_code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["import", *words])
    return int(ended.value.code or 0)


def named(kafka: KafkaBench, topic: str, rest: str = "") -> str:
    return f"kafka://{','.join(kafka.broker.bootstrap)}/{topic}{rest}"


def dead_letters(lake: Path) -> list[tuple[str, int]]:
    manifest = open_manifest(LocalStore.at(lake))
    tables = [manifest.decoded(file) for file in manifest.files("dead_letters")]
    return sorted((row["source"], row["position"]) for table in tables for row in table.to_pylist())


def without_dead_letters(lake: Path) -> dict[str, bytes]:
    return {
        name: data
        for name, data in tree(lake).items()
        if not name.startswith("dead_letters") and name != "flowdiff.json"
    }


def of_partition(lines: list[bytes], number: int) -> list[bytes]:
    return [line for line in lines if int(json.loads(line)["request_id"][-8:]) % PARTITIONS == number]


@pytest.fixture
def lines() -> list[bytes]:
    return [line.encode() for line in native_lines(300, seconds=1_500)]


@pytest.fixture
def topic(kafka: KafkaBench, lines: list[bytes]) -> str:
    """The lines on three partitions by request, in several batches; something else among them."""
    topic = kafka.topic(PARTITIONS)
    for number in range(PARTITIONS):
        kafka.fill(topic, of_partition(lines, number), number, batch=500)
    kafka.fill(topic, [GARBAGE, None], 1)
    return topic


@pytest.mark.parametrize("workers", ["1", "3"])
def test_messages_make_the_lake_of_the_same_lines(
    kafka: KafkaBench,
    topic: str,
    lines: list[bytes],
    tmp_path: Path,
    workers: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, one, two = tmp_path / "lines.ndjson", tmp_path / "one", tmp_path / "two"
    file.write_bytes(b"\n".join([*lines, GARBAGE]))
    assert exit_code_of(str(file), "--lake", str(one)) == 0
    format_ = () if workers == "1" else ("--format", "native")  # else by content
    words = (*format_, "--lake", str(two), "--workers", workers)
    assert exit_code_of(named(kafka, topic), *words) == 0
    there = without_dead_letters(two)
    assert there == without_dead_letters(one)
    # Dead letters say where the message is.
    n = len(of_partition(lines, 1))
    whole = named(kafka, topic, f"/1@0:{n + 2}")
    assert dead_letters(two) == [(whole, n), (whole, n + 1)]

    capsys.readouterr()
    assert exit_code_of(named(kafka, topic), *words) == 0
    assert "nothing new: the lake is unchanged" in capsys.readouterr().out
    # What came since is another part, in which only that is new.
    kafka.fill(topic, [line.encode() for line in native_lines(3, id_base=900)], 0)
    assert exit_code_of(named(kafka, topic), *words, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["counters"]["flows"], summary["counters"]["flows_late"]) == (3, 0)
    assert len(summary["files_known"]) == PARTITIONS - 1


def test_workers_of_a_job_read_it_themselves(
    kafka: KafkaBench, topic: str, lines: list[bytes], tmp_path: Path
) -> None:
    file, one, job = tmp_path / "lines.ndjson", tmp_path / "one", tmp_path / "job"
    file.write_bytes(b"\n".join(lines))
    assert exit_code_of(str(file), "--lake", str(one)) == 0
    words = (named(kafka, topic), "--format", "native", "--lake", str(job), "--job", "a", "--worker")
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(lambda worker: exit_code_of(*words, worker), ("1/2", "0/2"))] == [0, 0]
    there = without_dead_letters(job)
    assert there.pop("stage/ended-jobs/a") == b""
    assert there == without_dead_letters(one)


def test_a_range_is_one_of_offsets_or_of_the_times_of_messages(
    kafka: KafkaBench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.topic(2)
    settings = kafka.settings(topic)
    between: list[str] = []
    for part in range(3):
        kafka.fill(topic, [line.encode() for line in native_lines(10, id_base=100 * part)], part % 2)
        time.sleep(0.005)  # messages have milliseconds
        between.append(format_instant(time.time_ns()))
        time.sleep(0.005)

    def ranges(rest: str) -> list[tuple[int, int, int]]:
        asked = parse_topic_input(named(kafka, topic, rest), now_ns=time.time_ns())
        return [(part.stream.partition, part.start, part.end) for part in parts_of(asked, settings, None)]

    n = [sum(1 for _ in native_lines(10, id_base=100 * part)) for part in range(3)]
    assert ranges("") == [(0, 0, n[0] + n[2]), (1, 0, n[1])] == ranges("@all") == ranges("@last 1h")
    assert ranges(f"@{between[0]}/{between[1]}") == [(1, 0, n[1])]
    assert ranges(f"@{between[1]}/1h") == [(0, n[0], n[0] + n[2])]
    assert ranges(f"@2001-01-01/{between[0]}") == [(0, 0, n[0])]
    assert ranges("/1") == [(1, 0, n[1])]
    assert ranges("/0@5:9") == [(0, 5, 9)]
    for rest in ("@2001-01-01", "/1@7:7"):
        with pytest.raises(InputError, match="has no message of what is asked for"):
            ranges(rest)
    for rest in ("/7", "/7@0:1"):
        with pytest.raises(InputError, match=r"does not exist, or may not be read.*Partition 7"):
            ranges(rest)

    lake = tmp_path / "lake"
    words = ("--format", "native", "--lake", str(lake))
    assert exit_code_of(named(kafka, topic, f"/0@0:{n[0]}"), *words) == 0
    assert sum(entry.flows for entry in open_manifest(LocalStore.at(lake)).windows()) == 10
    kafka.admin.delete_records({TopicPartition(topic, 0): 6})
    capsys.readouterr()
    for low, high in ((5, 9), (9, n[0] + n[2] + 1)):
        assert exit_code_of(named(kafka, topic, f"/0@{low}:{high}"), *words) == 2
        (told,) = [line for line in capsys.readouterr().err.splitlines() if topic in line]
        assert f"{topic}/0 has offsets 6 to {n[0] + n[2] - 1}, not all of {low} to {high - 1}" in told


def test_what_is_gone_once_it_is_read_is_refused(kafka: KafkaBench, topic: str, tmp_path: Path) -> None:
    """Retention goes past the start, or the topic is made anew, after offsets were found."""
    settings = kafka.settings(topic)
    found = parts_of(parse_topic_input(named(kafka, topic), now_ns=0), settings, None)

    def put(parts: list[LogPart], lake: Path) -> None:
        import_into(
            lake,
            parts,
            ImportSettings(kafka=settings),
            owner="test",
            created_by="test",
            stdin=sys.stdin.buffer,
            progress=Quiet(),
        )

    put(found[1:], tmp_path / "lake")
    before = tree(tmp_path / "lake")
    kafka.admin.delete_records({TopicPartition(topic, 0): 2})
    with pytest.raises(InputError, match=rf"{topic}/0: the log no longer has 0 to \d+ whole"):
        put(found, tmp_path / "lake")
    kafka.delete(topic)
    kafka.topic(PARTITIONS, name=topic)
    for number in range(PARTITIONS):
        kafka.fill(topic, [line.encode() for line in native_lines(300)], number)
    with pytest.raises(InputError, match=r"the log no longer has"):
        put(found[:1], tmp_path / "lake")
    assert tree(tmp_path / "lake") == before
    # The new topic's messages are others, at the same offsets.
    again = parts_of(parse_topic_input(named(kafka, topic), now_ns=0), settings, None)
    assert {part.sha256 for part in again}.isdisjoint(part.sha256 for part in found)


def test_no_broker_passes_and_a_wrong_name_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--format", "native", "--lake", str(tmp_path / "lake"))
    assert exit_code_of("kafka://127.0.0.1:1/t", *words) == 75
    assert "No broker at 127.0.0.1:1: connection refused." in capsys.readouterr().err
    for name in ("kafka://", "kafka://127.0.0.1:1", "kafka://me:secret@127.0.0.1:1/t", "kafka://a:1/t/1/2"):
        assert exit_code_of(name, *words) == 2
        told = capsys.readouterr().err
        assert "A topic is named kafka://HOST:PORT/TOPIC" in told
        assert "secret" not in told
    assert exit_code_of("kafka://127.0.0.1:1/t@5:9", *words) == 2
    assert "kafka://127.0.0.1:1/t/0@5:9" in " ".join(capsys.readouterr().err.split())
    assert exit_code_of("kafka://127.0.0.1:1/t@sometime", *words) == 2
    assert not (tmp_path / "lake").exists()
