"""The commit protocol on a real S3 server, with a crash before or after a request is carried out.

A proxy dies with the process it stands for; whoever comes next goes to the server itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from oracles.bucket_server import BucketServer
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
PLACES = None if os.environ.get("FLOWDIFF_TEST_VERSITYGW") else 4
"""Crashes in each mode: everywhere in the long run, at some requests, others in each mode, in every run."""


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
