"""What a run leaves where it may die is what runs leave that died there, each of its own."""

from __future__ import annotations

import pytest
from oracles.every_death import Judged, deaths, deaths_in_bucket
from oracles.memory_disk import ENDINGS, CrashError, MemoryDisk
from oracles.object_store import ObjectStore


def on_a_disk(disk: MemoryDisk, told: list[str]) -> None:
    disk.make_folder("a")
    disk.sync_folder("")
    disk.create("a/one", b"0123456789")
    disk.sync_file("a/one")
    told.append("one")
    disk.link("a/one", "two")
    disk.create("three", b"abcdef")
    disk.rename("a", "b")
    disk.sync_folder("")
    disk.remove("two")
    told.append("all")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_death_on_a_disk(ending: str) -> None:
    told: list[str] = []
    found = deaths(MemoryDisk(), lambda disk: on_a_disk(disk, told), told)
    assert len(found) == 9
    assert told == ["one", "all"]
    for at, (left, by_then) in enumerate(found, 1):
        died, said = MemoryDisk(crash_at=at), list[str]()
        with pytest.raises(CrashError):
            on_a_disk(died, said)
        assert (left.state(), by_then) == (died.state(), said)
        ENDINGS[ending](left)
        ENDINGS[ending](died)
        assert (left.state(), left.files()) == (died.state(), died.files())


def in_a_bucket(store: ObjectStore) -> None:
    store.put("a", b"1")
    store.put_if_absent("b/1", b"2", "stage")
    store.put("b/2", b"3")
    store.replace("a", b"4", "stage")
    store.remove("b")


def test_a_death_in_a_bucket_with_and_without_its_last_request() -> None:
    found = {left.state() for left, _ in deaths_in_bucket(ObjectStore(), in_a_bucket, None)}
    died = set()
    for at in range(1, 7):
        for times_out in (False, True):
            store = ObjectStore(crash_at=at, times_out=times_out)
            with pytest.raises(CrashError):
                in_a_bucket(store)
            died.add(store.state())
    whole = ObjectStore()
    in_a_bucket(whole)
    assert found == died | {whole.state()}


def test_disks_are_alike_where_nothing_can_tell_them_apart() -> None:
    judged = Judged()
    one, other = MemoryDisk(), MemoryDisk()
    for disk in (one, other):
        disk.create("a", b"1")
    assert judged.is_new(one)
    assert not judged.is_new(other)
    assert not judged.is_new(one.twin())
    assert judged.is_new(other, ["told"])
    other.sync_file("a")
    assert judged.is_new(other)
    one.link("a", "b")
    linked = one.twin()
    assert judged.is_new(linked)
    linked.sync_file("b")
    assert judged.is_new(linked)
    assert len(judged) == 5
