"""Lanes that halt, on a real broker: no restart and nobody else passes what a person must decide."""

from __future__ import annotations

import contextlib
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.ingest_process import NS_PER_SECOND, ingesting, records
from fixtures.kafka_bench import KafkaBench, numbered
from fixtures.kafka_broker import cut_log, started
from kafka import TopicPartition
from oracles.waiting import wait_until

from flowdiff.__main__ import main
from ingest.kafka.log_reader import LogReader
from ingest.source import Place, StreamId
from schemas.config import DecodeConfig
from schemas.errors import HaltedError
from stitch.lake.chain import read_chain
from stitch.lake.encoding import decode
from stitch.lake.event_log import named_segments
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

pytestmark = pytest.mark.slow

RESTARTS, PASSES = 5, 3
"""Of a process alone, and of two together."""
READ, LOST = 90, 30
"""Messages: read before the log lost its end, and how many of them it lost."""


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBench]:
    """A broker of this file's own, which is stopped and whose disk is cut."""
    with started(tmp_path_factory.mktemp("mortal")) as broker, KafkaBench(broker) as bench:
        yield bench


def requests_of(lake: Path) -> set[str]:
    store = LocalStore.at(lake)
    return {
        request
        for file in open_manifest(store).files("flows")
        for request in decode("flows", store.read(file.name))["request_id"].to_pylist()
    }


def read_to(lake: Path, lane: int = 1) -> int:
    """Position of a lane by its last commit."""
    return [*read_chain(LocalStore.at(lake), lane)][-1].record.standing.positions[0].end


CUT = "was cut back to 60, and was read to 90"


def cut_back(
    mortal: KafkaBench, tmp_path: Path, partitions: int
) -> tuple[str, Path, int, tuple[object, ...]]:
    """A topic, its lake, when its messages begin, and options: all was read, then its end was lost."""
    topic, lake = mortal.topic(partitions), tmp_path / "lake"
    # A window's beginning: what comes a minute later falls into no window that the first end has sealed.
    began = (time.time_ns() // (60 * NS_PER_SECOND) - 60) * 60 * NS_PER_SECOND
    for partition in range(partitions):
        mortal.fill(topic, records(READ // 3, began, name=f"p{partition}-"), partition, batch=3)
    options = (
        *("--bootstrap", ",".join(mortal.broker.bootstrap), "--topics", topic, "--lake", lake),
        *("--default-format", "native", "--commit-interval", "1s", "--window-length", "1m"),
    )
    with ingesting(tmp_path, *options, "--until-end") as run:
        assert run.ended() == 0, run.text
    assert read_to(lake) == READ
    mortal.broker.stop()
    cut_log(mortal.broker, topic, READ - LOST)
    mortal.broker.up()
    return topic, lake, began, options


def accept_the_gap(
    tmp_path: Path, options: tuple[object, ...], lake: Path, topic: str, requests: int
) -> None:
    """A person does: the ledger has the gap, the lake all that was read and all that came."""
    with ingesting(tmp_path, *options, "--accept-gaps", "--until-end") as run:
        assert run.ended() == 0, run.text
        assert run.wait_for("gap")["messages"] == LOST
    store = LocalStore.at(lake)
    assert check(store) == []
    gaps = [gap for link in read_chain(store, 1) for gap in link.record.gaps]
    assert [(gap.topic, gap.start, gap.end) for gap in gaps] == [(topic, READ - LOST, READ)]
    assert len(requests_of(lake)) == requests
    with ingesting(tmp_path, *options, "--until-end") as run:  # the order was for once
        assert run.ended() == 0, run.text


def test_a_log_that_was_cut_back_waits_for_a_person(mortal: KafkaBench, tmp_path: Path) -> None:
    topic, lake, began, options = cut_back(mortal, tmp_path, 1)
    for restart in range(RESTARTS):
        with ingesting(tmp_path, *options) as run:
            assert run.ended() == HaltedError.exit_code, run.text
            assert CUT in run.wait_for("lane halted")["why"]
            assert "Traceback" not in run.text
        assert read_to(lake) == READ
        mortal.fill(topic, records(5, began + (60 + restart) * NS_PER_SECOND, name=f"new{restart}-"))
    assert mortal.end(StreamId(topic, 0)) == READ - LOST + 15 * RESTARTS > READ
    accept_the_gap(tmp_path, options, lake, topic, READ // 3 + 5 * RESTARTS)


def test_a_halted_lane_halts_whichever_member_of_the_group_gets_it(
    mortal: KafkaBench, tmp_path: Path
) -> None:
    """Who has no other lane ends; the one that is left gets it, halts it, and goes on with its own."""
    topic, lake, began, options = cut_back(mortal, tmp_path, 2)
    for restart in range(PASSES):
        with ingesting(tmp_path, *options) as one, ingesting(tmp_path, *options) as other:
            wait_until(lambda: one.process.poll() is not None or other.process.poll() is not None)
            ended, left = (one, other) if one.process.poll() is not None else (other, one)
            assert ended.ended() == HaltedError.exit_code, ended.text
            for run in (ended, left):
                assert CUT in run.wait_for("lane halted")["why"]
            beside = read_to(lake, 2) + 15
            mortal.fill(topic, records(5, time.time_ns(), name=f"beside{restart}-"), 1)
            wait_until(lambda beside=beside: read_to(lake, 2) == beside)
            left.signal(signal.SIGTERM)
            assert left.ended() == 0, left.text
        assert read_to(lake) == READ
        mortal.fill(topic, records(5, began + (60 + restart) * NS_PER_SECOND, name=f"new{restart}-"))
    assert mortal.end(StreamId(topic, 0)) > READ
    accept_the_gap(tmp_path, options, lake, topic, 2 * READ // 3 + 2 * 5 * PASSES)


@pytest.mark.chaos
def test_an_unclean_election_among_three_brokers_waits_for_a_person(tmp_path: Path) -> None:
    """Both followers die, more is written, the leader dies, a follower is elected that never had it."""
    began = (time.time_ns() // (60 * NS_PER_SECOND) - 60) * 60 * NS_PER_SECOND
    first, last = records(20, began), records(10, began + 2 * NS_PER_SECOND, name="lost")
    with started(tmp_path / "kafka", nodes=3) as broker, KafkaBench(broker) as bench:
        topic, lake = bench.topic(replicas=3, unclean_leader_election_enable="true"), tmp_path / "lake"
        options = (
            *("--bootstrap", ",".join(broker.bootstrap), "--topics", topic, "--lake", lake, "--until-end"),
            *("--default-format", "native", "--commit-interval", "1s", "--window-length", "1m"),
        )
        bench.fill(topic, first)
        leader, replicas = bench.replicas(topic)
        heir, other = (node for node in replicas if node != leader)
        broker.kill(heir)
        broker.kill(other)
        wait_until(lambda: bench.replicas(topic) == (leader, [leader]))
        bench.fill(topic, last)
        with ingesting(tmp_path, *options) as run:
            assert run.ended() == 0, run.text
        broker.kill(leader)
        broker.up(heir)
        wait_until(lambda: bench.replicas(topic) == (heir, [heir]))
        broker.up(leader)  # it follows the heir now, and cuts its own log
        broker.up(other)
        wait_until(lambda: bench.replicas(topic) == (heir, replicas))
        for restart in range(2):
            with ingesting(tmp_path, *options) as run:
                assert run.ended() == HaltedError.exit_code, run.text
                assert CUT in run.wait_for("lane halted")["why"]
            bench.fill(topic, records(20, began + 60 * NS_PER_SECOND, name=f"new{restart}-"))
        assert bench.end(StreamId(topic, 0)) > READ
        accept_the_gap(tmp_path, options, lake, topic, READ // 3 + 2 * 20)


def test_a_segment_that_is_gone_is_read_again(
    mortal: KafkaBench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, lake = mortal.topic(), tmp_path / "lake"
    whole = records(40, time.time_ns() - 20 * NS_PER_SECOND, apart_ns=NS_PER_SECOND // 5)
    mortal.fill(topic, whole[:100], batch=7)
    config = tmp_path / "flowdiff.toml"
    config.write_text(
        f'lake = "{lake}"\n[kafka]\nbootstrap = {[*mortal.broker.bootstrap]}\ntopics = ["{topic}"]\n'
        'default_format = "native"\n[live]\ncommit_interval = "1s"\nwindow_length = "1m"\n'
    )
    with ingesting(tmp_path, "--config", config, "--log-level", "debug") as run:
        run.wait_for("commit", lambda told: told["logged"] > 0)
        run.signal(signal.SIGTERM)
        assert run.ended() == 0, run.text
    store = LocalStore.at(lake)
    named = named_segments(link.record for link in read_chain(store, 1))
    for name in named:
        store.remove(name)
    with ingesting(tmp_path, "--config", config, "--log-level", "debug") as run:
        told = run.wait_for("build")
        assert "`flowdiff repair --lane`" in told["why"]
        run.signal(signal.SIGTERM)
        assert run.ended() == 0, run.text
    with pytest.raises(SystemExit) as end:
        main(["repair", str(lake), "--lane", "1", "--config", str(config)])
    assert end.value.code == 0
    count = sum(segment.rows for segment in named.values())
    assert f"{count} of {count} events are there" in capsys.readouterr().out
    mortal.fill(topic, whole[100:])
    with ingesting(tmp_path, "--config", config, "--until-end") as run:
        assert run.ended() == 0, run.text
    assert check(store) == []
    assert requests_of(lake) == {f"r{i}" for i in range(40)}
    counters = [link.record.counters for link in read_chain(store, 1)]
    assert sum(each.events_logged for each in counters) == len(whole)


def test_a_topic_that_is_gone_is_lost_while_the_client_asks_for_it(
    mortal: KafkaBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client asks for an assigned topic by itself, and who waits for that answer gets an error."""
    log = LogReader(mortal.settings(mortal.topic()), DecodeConfig())
    consumer = log._consumer
    assign = consumer.assign

    def assigned(partitions: list[TopicPartition]) -> None:
        assign(partitions)
        until = time.monotonic() + 0.5
        while not consumer._cluster.metadata_refresh_in_progress and time.monotonic() < until:
            time.sleep(1e-4)

    monkeypatch.setattr(consumer, "assign", assigned)
    with contextlib.closing(log):
        for n in range(3):
            time.sleep(0.15)  # the client waits so long between two questions
            assert log.read(StreamId(f"t-nowhere{n}", 0), 60, Place(80)) == ([], [(60, 80)])


def test_what_kafka_lost_of_a_segment_is_told_and_booked(mortal: KafkaBench) -> None:
    topic = mortal.topic()
    stream = StreamId(topic, 0)
    mortal.fill(topic, numbered(0, 100), batch=10)
    log = LogReader(mortal.settings(topic), DecodeConfig())
    with contextlib.closing(log):
        polls, missing = log.read(stream, 5, Place(95))
        assert [value for poll in polls for value in poll.payloads] == [*numbered(5, 95)]
        assert missing == []
        mortal.admin.delete_records({TopicPartition(topic, 0): 40})
        polls, missing = log.read(stream, 5, Place(95))
        assert [value for poll in polls for value in poll.payloads] == [*numbered(40, 95)]
        assert missing == [(5, 40)]
        assert log.read(stream, 5, Place(30)) == ([], [(5, 30)])
        assert log.read(stream, 60, Place(80, "another-topic")) == ([], [(60, 80)])
        assert log.read(StreamId("t-nowhere", 0), 60, Place(80)) == ([], [(60, 80)])
        polls, missing = log.read(stream, 90, Place(120))
        assert [value for poll in polls for value in poll.payloads] == [*numbered(90, 100)]
        assert missing == [(100, 120)]


def test_a_process_that_stays_tells_of_its_halted_lanes(mortal: KafkaBench, tmp_path: Path) -> None:
    """As in Kubernetes: alive, not ready, with a gauge for the alert, and nothing starts it again."""
    topic, lake = mortal.topic(), tmp_path / "lake"
    mortal.fill(topic, records(4, time.time_ns() - 3600 * NS_PER_SECOND))
    options = ("--bootstrap", ",".join(mortal.broker.bootstrap), "--topics", topic, "--lake", lake)
    with ingesting(tmp_path, *options, "--default-format", "native", "--until-end") as run:
        assert run.ended() == 0, run.text
    mortal.delete(topic)
    mortal.topic(name=topic)
    with ingesting(tmp_path, *options, "--stay-halted", "--serve-address", "127.0.0.1:0") as run:
        address = run.wait_for("started")["serves"]
        run.wait_for("lane halted")
        wait_until(lambda: 'flowdiff_lanes{state="halted"} 1.0' in scraped(f"http://{address}/metrics"))
        assert scraped(f"http://{address}/healthz") == "ok\n"
        with pytest.raises(urllib.error.HTTPError, match="503"):
            scraped(f"http://{address}/readyz")
        assert run.process.poll() is None
        run.signal(signal.SIGTERM)
        assert run.ended() == 0, run.text


def scraped(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())
