"""Files of `stats/`: kept under what they were made of, believed only where they are what was written."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracles.memory_disk import MemoryDisk
from oracles.object_store import ObjectStore

from schemas.windows import Window
from stitch.lake.kept_files import damaged
from stitch.lake.stats_files import (
    StatsKey,
    put_stats,
    read_stats,
    settings_of,
    source_of,
    stats_files,
    stats_folder,
    sweep,
)
from stitch.lake.store import LocalStore, Store

WINDOW = Window(1_793_491_200 * 10**9, 300 * 10**9)
OLD = StatsKey(WINDOW, source_of([("flows", "a" * 64)]), settings_of("one"))
NEW = OLD._replace(source=source_of([("flows", "b" * 64)]))
OTHER = NEW._replace(settings=settings_of("two"))


@pytest.fixture(params=["disk", "memory", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    stores = {
        "disk": lambda: LocalStore.at(tmp_path),
        "memory": lambda: LocalStore(MemoryDisk()),
        "objects": ObjectStore,
    }
    return stores[request.param]()


def read(store: Store, key: StatsKey) -> bytes | None:
    data = read_stats(store, key)
    return None if data is None else data.to_pybytes()


def names(store: Store) -> list[str]:
    return store.names(stats_folder(OLD))


def test_a_day_is_kept_beside_its_first_window(store: Store) -> None:
    day = OLD._replace(source=source_of([("flows", "c" * 64)]), span="day")
    put_stats(store, OLD, b"window")
    put_stats(store, day, b"day")
    assert (read(store, OLD), read(store, day)) == (b"window", b"day")
    assert [*damaged(store, stats_files(store))] == []


def test_a_content_is_found_by_what_it_was_made_of(store: Store) -> None:
    assert read(store, NEW) is None
    put_stats(store, NEW, b"new")
    put_stats(store, OTHER, b"other")
    assert (read(store, NEW), read(store, OTHER), read(store, OLD)) == (b"new", b"other", None)
    put_stats(store, NEW, b"new")
    assert len(names(store)) == 2
    assert [*damaged(store, stats_files(store))] == []
    assert store.names("stage") == []


def test_what_was_made_of_another_state_is_removed(store: Store) -> None:
    put_stats(store, OLD, b"old")
    put_stats(store, OTHER, b"other")
    assert read(store, OLD) is None
    assert read(store, OTHER) == b"other"
    assert len(names(store)) == 1


def test_what_is_damaged_is_not_read_and_gives_way(store: Store) -> None:
    put_stats(store, NEW, b"new")
    (name,) = names(store)
    place = f"{stats_folder(OLD)}/{name}"
    store.remove(place)
    store.put_if_absent(place, b"mew", "stage/x")
    store.put_if_absent(f"{stats_folder(OLD)}/of-a-person", b"notes", "stage/x")
    assert read(store, NEW) is None
    assert sorted(damaged(store, stats_files(store))) == sorted([place, f"{stats_folder(OLD)}/of-a-person"])
    put_stats(store, NEW, b"new")
    assert read(store, NEW) == b"new"
    assert names(store) == [name]


def test_what_is_gone_by_now_is_not_damaged(store: Store) -> None:
    put_stats(store, OLD, b"old")
    assert [*damaged(store, [*stats_files(store), f"{stats_folder(OLD)}/gone-0.parquet"])] == []


def test_what_a_dead_writer_left_is_swept(store: Store) -> None:
    store.put_if_absent("stage/stats-0/drafts/a", b"a", "stage/x")
    store.put_if_absent("stage/lane=0/b", b"b", "stage/x")
    store.remove("stage/x")
    sweep(store)
    assert store.names("stage") == ["lane=0"]


def test_a_source_does_not_depend_on_the_order_of_files() -> None:
    files = [("flows", "a"), ("structures", "b")]
    assert source_of(files) == source_of(files[::-1]) != source_of(files[:1])
    assert source_of([("flows", "b"), ("structures", "a")]) != source_of(files)
