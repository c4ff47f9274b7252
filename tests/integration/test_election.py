"""Of several processes of a lake one builds its windows; when it is killed another one does."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from fixtures.ingest_process import NS_PER_SECOND, IngestProcess, ingesting, records
from fixtures.kafka_bench import KafkaBench
from oracles import fork_server
from oracles.bucket_server import BucketServer
from oracles.waiting import wait_until

from stitch.drivers.live.election import LEASE, LeaseElection, LockElection, election
from stitch.drivers.live.live_settings import LiveSettings
from stitch.lake.chain import lanes, read_chain
from stitch.lake.encoding import decode
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_store
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE

LEASE_NS = LiveSettings().build_lease_ns
CANDIDATE = """
import sys
from contextlib import ExitStack
from stitch.drivers.live.election import election
from stitch.drivers.live.live_settings import LiveSettings
from stitch.lake.place import open_store
lake, owner = sys.argv[1:]
chosen, held = election(open_store(lake), lake, owner, LiveSettings().build_lease_ns), ExitStack()
for line in sys.stdin:
    print(chosen.take(held) if line == "take\\n" else held.close(), flush=True)
"""


class Candidate:
    """A process that stands for election when it is told to."""

    def __init__(self, lake: str, owner: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = fork_server.Popen([sys.executable, "-c", CANDIDATE, lake, owner], text=True, **pipes)

    def ask(self, what: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def is_elected(self) -> bool:
        return self.ask("take") == "True"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module", params=["folder", "bucket"])
def server(request: pytest.FixtureRequest) -> BucketServer | None:
    """Server of buckets; None where a lake is a folder."""
    return None if request.param == "folder" else request.getfixturevalue("bucket_server")


@pytest.fixture
def lake(server: BucketServer | None, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Place of a lake, and the environment for it."""
    if server is None:
        return str(tmp_path / "lake")
    request.getfixturevalue("bucket_environ")
    return server.new_lake()


@contextmanager
def candidates(lake: str) -> Iterator[tuple[Candidate, Candidate]]:
    one, other = Candidate(lake, "one"), Candidate(lake, "other")
    try:
        yield one, other
    finally:
        one.end()
        other.end()


def test_one_of_two_processes_is_elected_and_the_other_when_it_is_killed(lake: str) -> None:
    kind = LockElection if "://" not in lake else LeaseElection
    if kind is LockElection:
        Path(lake).mkdir()
    assert isinstance(election(open_store(lake), lake, "us", LEASE_NS), kind)
    with candidates(lake) as (one, other):
        assert one.is_elected()
        until = time.monotonic() + (1.5 * LEASE_NS / 1e9 if kind is LeaseElection else 0.5)
        while time.monotonic() < until:  # it lives, for longer than a lease lasts
            assert not other.is_elected()
            time.sleep(0.2)
        one.end()
        wait_until(other.is_elected, every_s=0.2)
        third = Candidate(lake, "third")
        try:
            assert not third.is_elected()
            other.ask("close")  # in order: nobody waits
            assert third.is_elected()
        finally:
            third.end()


def test_a_holder_that_slept_past_its_lease_hears_of_it_when_it_is_asked_again(
    bucket_server: BucketServer, bucket_environ: dict[str, str]
) -> None:
    lake = bucket_server.new_lake()
    with candidates(lake) as (one, other):
        assert one.is_elected()
        one.process.send_signal(signal.SIGSTOP)
        wait_until(other.is_elected, every_s=0.2)
        one.process.send_signal(signal.SIGCONT)
        assert one.ask("close") == "None"  # and leaves the lease to the other
        assert not one.is_elected()
        assert open_store(lake).size(LEASE) is not None
        assert not one.is_elected()


def published(store: Store) -> list[str]:
    files = open_manifest(store).files("flows")
    return [
        name for file in files for name in decode("flows", store.read(file.name))["request_id"].to_pylist()
    ]


def builders(store: Store) -> list[str]:
    """Owner of each commit that built, in order."""
    if UPKEEP_LANE not in lanes(store):
        return []
    chain = [link.record for link in read_chain(store, UPKEEP_LANE)]
    return [record.owner for record in chain if record.build is not None]


def test_another_process_builds_when_the_one_that_builds_is_killed(
    kafka: KafkaBench, lake: str, tmp_path: Path
) -> None:
    topic, store = kafka.topic(2), open_store(lake)
    began = time.time_ns() // (60 * NS_PER_SECOND) * 60 * NS_PER_SECOND - 3600 * NS_PER_SECOND
    sent: list[str] = []
    asks_s = 1 if "://" in lake else 0.2  # the server of buckets is a process beside the builders

    def send(minute: int) -> None:
        for partition in range(2):
            name = f"{'pq'[partition]}{minute}-"
            kafka.fill(topic, records(20, began + minute * 60 * NS_PER_SECOND, name=name), partition)
            sent.extend(f"{name}{i}" for i in range(20))

    options = ("--bootstrap", ",".join(kafka.broker.bootstrap), "--topics", topic, "--lake", lake)
    options = (*options, "--group", topic, "--default-format", "native")
    options = (*options, "--commit-interval", "1s", "--window-length", "1m", "--lateness", "1s")

    def has_built(minute: int, whose: Callable[[str], bool] = lambda _: True) -> bool:
        there = open_manifest(store).sealed_to_ns if builders(store) else None
        end = began + (minute + 1) * 60 * NS_PER_SECOND
        return there is not None and there >= end and whose(builders(store)[-1])

    with ExitStack() as held:
        send(0)
        runs: dict[int, IngestProcess] = {}
        for _ in range(2):
            run = held.enter_context(ingesting(tmp_path, *options))
            run.wait_for("lane gained")
            runs[run.process.pid] = run
        send(1)
        wait_until(lambda: has_built(0), every_s=asks_s)
        first = builders(store)[-1]
        assert set(builders(store)) == {first}
        (pid,) = [pid for pid in runs if f"-{pid}-" in first]
        runs[pid].signal(signal.SIGKILL)
        for minute in (2, 3):
            send(minute)
        # The other one has the lanes and the windows of both.
        wait_until(lambda: has_built(2, lambda owner: owner != first), every_s=asks_s)
        (survivor,) = [run for other, run in runs.items() if other != pid]
        survivor.signal(signal.SIGTERM)
        assert survivor.ended() == 0, survivor.text
    with ingesting(tmp_path, *options, "--until-end") as last:
        assert last.ended() == 0, last.text
    assert check(store) == []
    assert sorted(published(store)) == sorted(sent)
