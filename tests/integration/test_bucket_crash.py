"""The commit protocol on a real S3 server, with a crash before or after a request is carried out.

A proxy dies with the process it stands for; whoever comes next goes to the server itself.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from oracles.bucket_server import BucketServer, mortal_versitygw
from oracles.cutting_proxy import CuttingProxy, cutting_proxy
from oracles.lake_script import Acknowledged, Content, Import, make, open_lane, stage
from oracles.lake_script import content as content_of

from schemas.commits import CommitBody
from schemas.errors import LakeError
from stitch.lake import chain, lane
from stitch.lake.bucket import bucket_store
from stitch.lake.bucket.bucket_settings import bucket_settings
from stitch.lake.bucket.bucket_store import BucketStore
from stitch.lake.chain import CommitTakenError, put_record
from stitch.lake.fsck import check
from stitch.lake.store import Move, Store

LONG = (Import("monday", {"a": 1}, garbage=1), Import("tuesday", {"b": 2}))
GATEWAY = os.environ.get("FLOWDIFF_TEST_VERSITYGW")
PLACES = None if GATEWAY else 4
"""Crashes in each mode: everywhere in the long run, at some requests, others in each mode, in every run."""
KILLED_COMMITS = 40
"""While the server is killed."""


@pytest.fixture
def proxy(bucket_server: BucketServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[CuttingProxy]:
    monkeypatch.setattr(bucket_store, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(bucket_store, "PUT_ATTEMPTS", 3)
    monkeypatch.setattr(bucket_store, "READ_RETRIES", 0)
    monkeypatch.setattr(chain, "CHECKPOINT_EVERY", 1)
    with cutting_proxy(bucket_server.host_port) as between:
        yield between


def store_at(server: BucketServer, endpoint: str, lake: str) -> BucketStore:
    return BucketStore(bucket_settings(lake, {**server.environ, "AWS_ENDPOINT_URL": endpoint}))


def live(store: Store, told: Acknowledged) -> None:
    """One opening, a commit for each import that the lake does not have yet."""
    opened = open_lane(store)
    known = opened.known_inputs()
    for step in LONG:
        if step.file.sha256 not in known:
            make(opened, step)
            told.imports.append(step.name)


def undisturbed(server: BucketServer, proxy: CuttingProxy) -> tuple[int, Content]:
    proxy.revive()
    store = store_at(server, proxy.endpoint, server.new_lake())
    live(store, Acknowledged())
    assert check(store) == []
    return proxy.steps, content_of(store)


def crash_once(
    server: BucketServer, proxy: CuttingProxy, at: int, *, carries_out: bool
) -> tuple[Store, Content]:
    """A run that dies at a request, and one that completes it: the store, and what was seen in between."""
    lake, told = server.new_lake(), Acknowledged()
    proxy.revive(at, carries_out=carries_out)
    # The last deletion may die unseen: all is done then.
    try:
        live(store_at(server, proxy.endpoint, lake), told)
    except (OSError, LakeError):
        assert proxy.dead
    store = store_at(server, server.endpoint, lake)
    seen = content_of(store)
    promised = {step.file.sha256 for step in LONG if step.name in told.imports}
    if promised:
        assert promised <= set(open_lane(store).known_inputs())
    live(store, told)
    return store, seen


def judge(
    server: BucketServer, proxy: CuttingProxy, expected: Content, at: int, *, carries_out: bool
) -> None:
    store, seen = crash_once(server, proxy, at, carries_out=carries_out)
    assert not seen - expected, f"crash at {at}"
    assert check(store) == [], f"crash at {at}"
    assert content_of(store) == expected, f"crash at {at}"


def test_a_crash_at_a_request_loses_and_doubles_nothing(
    bucket_server: BucketServer, proxy: CuttingProxy
) -> None:
    steps, expected = undisturbed(bucket_server, proxy)
    assert steps > 20
    apart = 1 if PLACES is None else steps // PLACES
    for carries_out in (False, True):
        for at in range(1 + apart // 2 * carries_out, steps + 1, apart):
            judge(bucket_server, proxy, expected, at, carries_out=carries_out)


@pytest.mark.skipif(GATEWAY is None, reason="moto keeps its objects in memory: `make buckets` has a gateway")
@pytest.mark.parametrize("seed", range(4))
def test_a_server_that_is_killed_again_and_again_keeps_what_it_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(bucket_store, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(chain, "CHECKPOINT_EVERY", 4)
    rng, over = random.Random(seed), threading.Event()
    steps = [Import(f"file {n}", {f"r{n}": 1 + n % 30}, garbage=n % 2) for n in range(KILLED_COMMITS)]
    failed: list[Exception] = []
    kills = 0
    with mortal_versitygw(Path(str(GATEWAY)), tmp_path) as (server, kill_and_start):
        server.make_bucket()
        store = store_at(server, server.endpoint, server.new_lake())

        def blows() -> None:
            nonlocal kills
            while not over.wait(rng.uniform(0.02, 0.4)):
                kill_and_start()
                kills += 1

        killer = threading.Thread(target=blows)
        killer.start()
        try:
            acknowledged: set[str] = set()
            while len(acknowledged) < len(steps):
                try:
                    opened = open_lane(store)
                    known = set(opened.known_inputs())
                    assert acknowledged <= known
                    for step in steps:
                        if step.file.sha256 not in known:
                            make(opened, step)
                        acknowledged.add(step.file.sha256)
                except (OSError, LakeError) as error:
                    failed.append(error)
                    assert killer.is_alive(), "the server did not come back"
        finally:
            over.set()
            killer.join()
        print(f"\n{kills} kills of the server, {len(failed)} writers failed")
        assert kills > 0
        assert check(store) == []
        expected = store_at(server, server.endpoint, server.new_lake())
        opened = open_lane(expected)
        for step in steps:
            make(opened, step)
        assert content_of(store) == content_of(expected)


def test_publishing_before_the_commit_is_caught(
    bucket_server: BucketServer, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publishes_before(store: Store, record: lane.CommitRecord, stage: str) -> lane.Chained:
        store.publish([Move(item.stage, item.final) for item in record.publish])
        return put_record(store, record, stage)

    monkeypatch.setattr(lane, "put_record", publishes_before)
    expected = undisturbed(bucket_server, proxy)[1]
    at = next(n for n, seen in enumerate(proxy.seen, 1) if "/control/commits/" in seen)
    with pytest.raises((AssertionError, LakeError, FileNotFoundError)):
        judge(bucket_server, proxy, expected, at, carries_out=False)


def test_overwriting_a_commit_is_caught(
    bucket_server: BucketServer, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With plain puts a zombie takes a number that is another's, whose rows are in no commit then."""
    lake = bucket_server.new_lake()
    store = store_at(bucket_server, bucket_server.endpoint, lake)
    monkeypatch.setattr(
        BucketStore, "put_if_absent", lambda self, name, data, stage: self.replace(name, data, stage)
    )
    monkeypatch.setattr(lane.Lane, "_refuse_names_in_use", lambda self, items: None)  # catches it, too
    with pytest.raises(LakeError, match="with other content than was committed"):
        both_commit(store)
    assert check(store) != []


def test_a_zombie_is_fenced(bucket_server: BucketServer, proxy: CuttingProxy) -> None:
    store = store_at(bucket_server, bucket_server.endpoint, bucket_server.new_lake())
    with pytest.raises(CommitTakenError):
        both_commit(store)
    live(store, Acknowledged())
    assert check(store) == []


def both_commit(store: Store) -> None:
    """Two writers want the same number; the second, which opened first, wakes late."""
    zombie, other = open_lane(store, "zombie"), open_lane(store, "other")
    with zombie.stage() as staging:
        counters = stage(staging, LONG[1])
        make(other, LONG[0])
        zombie.commit(staging, CommitBody(kind="import", inputs=(LONG[1].file,), counters=counters))
