"""A log that lost its end, on a real broker: no restart, no growth and no other process passes it."""

from __future__ import annotations

import contextlib
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.ingest_process import NS_PER_SECOND, IngestProcess, ingesting, records
from fixtures.kafka_bench import KafkaBench, wait_until
from fixtures.kafka_broker import cut_log, started

from ingest.source import StreamId
from schemas.errors import HaltedError
from stitch.lake.chain import read_chain
from stitch.lake.encoding import decode
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

pytestmark = pytest.mark.slow

RESTARTS = 10
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


def read_to(lake: Path) -> int:
    """Position of lane 1 by its last commit."""
    return [*read_chain(LocalStore.at(lake), 1)][-1].record.standing.positions[0].end


def first_halt(*processes: IngestProcess) -> str:
    """Why the first lane of any of them halted."""
    found: list[str] = []

    def is_told() -> bool:
        found.extend(
            told["why"] for run in processes for told in run.events() if told["event"] == "lane halted"
        )
        return bool(found)

    wait_until(is_told)
    return found[0]


@pytest.mark.parametrize("members", [1, 2])
def test_a_log_that_was_cut_back_waits_for_a_person(mortal: KafkaBench, tmp_path: Path, members: int) -> None:
    topic, lake = mortal.topic(members), tmp_path / "lake"
    began = time.time_ns() - 3600 * NS_PER_SECOND
    mortal.fill(topic, records(READ // 3, began), batch=3)
    options = (
        *("--bootstrap", ",".join(mortal.broker.bootstrap), "--topics", topic, "--lake", lake),
        *("--default-format", "native", "--commit-interval", "1s", "--window-length", "1m"),
        *("--session-timeout", "6s", "--heartbeat-interval", "200ms"),
    )
    with ingesting(tmp_path, *options, "--until-end") as run:
        assert run.ended() == 0, run.text
    assert read_to(lake) == READ
    mortal.broker.stop()
    cut_log(mortal.broker, topic, READ - LOST)
    mortal.broker.up()
    written = 0
    for restart in range(RESTARTS):
        with contextlib.ExitStack() as stack:  # in a group of its own: nobody waits for who was killed
            runs = [
                stack.enter_context(ingesting(tmp_path, *options, "--group", f"{topic}-{restart}"))
                for _ in range(members)
            ]
            assert "was cut back to 60, and was read to 90" in first_halt(*runs)
            if members == 1:
                assert runs[0].ended() == HaltedError.exit_code, runs[0].text
                assert "Traceback" not in runs[0].text
        assert read_to(lake) == READ
        mortal.fill(topic, records(5, began + (60 + restart) * NS_PER_SECOND, name=f"new{restart}-"))
        written += 5
    assert mortal.end(StreamId(topic, 0)) == READ - LOST + 3 * written > READ

    with ingesting(tmp_path, *options, "--accept-gaps", "--until-end") as run:
        assert run.ended() == 0, run.text
        assert run.wait_for("gap")["messages"] == LOST
    store = LocalStore.at(lake)
    assert check(store) == []
    gaps = [gap for link in read_chain(store, 1) for gap in link.record.gaps]
    assert [(gap.topic, gap.start, gap.end) for gap in gaps] == [(topic, READ - LOST, READ)]
    assert len(requests_of(lake)) == READ // 3 + written
    with ingesting(tmp_path, *options, "--until-end") as run:  # the order was for once
        assert run.ended() == 0, run.text


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
