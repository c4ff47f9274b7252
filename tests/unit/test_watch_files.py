"""The chain under `watch/`: what it wrote and is gone is missed; what was never named stays."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from oracles.memory_disk import MemoryDisk
from oracles.object_store import ObjectStore

from schemas.errors import LakeError
from stitch.lake import watch_files
from stitch.lake.kept_files import keep
from stitch.lake.store import LocalStore, Store
from stitch.lake.watch_files import (
    COMMITS,
    HEAD,
    KEPT_COMMITS,
    LISTED_FROM,
    LISTINGS,
    TakenError,
    head,
    highest,
    put_body,
    put_rows,
    read_rows_of,
    table_files,
    watch_faults,
)

_encoded = watch_files._encoded


@cache
def _once(rows: str, _write: object) -> list[tuple[str, bytes, int]]:
    return [*_encoded(json.loads(rows))]


@pytest.fixture(autouse=True)
def _rows_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of a hundred commits are the same in every test."""
    monkeypatch.setattr(watch_files, "_encoded", lambda rows: _once(json.dumps(rows), pq.write_table))


@pytest.fixture(params=["disk", "memory", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    stores: dict[str, Callable[[], Store]] = {
        "disk": lambda: LocalStore.at(tmp_path),
        "memory": lambda: LocalStore(MemoryDisk()),
        "objects": ObjectStore,
    }
    return stores[request.param]()


def rows(seq: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of a commit: an event in one of two, a look in one of three."""
    return {
        "incident_events": [{"event": f"e{seq}"}] if seq % 2 else [],
        "change_points": [{"at_ns": seq}] if seq % 3 == 0 else [],
        "watch_runs": [],
    }


def watched(store: Store, commits: range) -> None:
    for seq in commits:
        put_body(store, seq, json.dumps({"seq": seq}).encode(), rows(seq))


def events(store: Store) -> list[str]:
    found: list[str] = read_rows_of(store, "incident_events")["event"].to_pylist()
    return found


def test_a_chain_names_all_its_files(store: Store) -> None:
    watched(store, range(1, 250))
    assert [*watch_faults(store)] == []
    assert events(store) == [f"e{seq}" for seq in range(1, 250, 2)]
    assert read_rows_of(store, "change_points")["at_ns"].to_pylist() == [*range(3, 250, 3)]
    last = head(store)
    assert last is not None
    assert last.link is not None
    assert len(last.link.files) <= LISTED_FROM
    assert len(store.names(LISTINGS)) == 2
    assert len(store.names(COMMITS)) == KEPT_COMMITS


@pytest.mark.parametrize("commits", [9, 100], ids=["in commits", "in a listing"])
def test_a_file_that_is_gone_is_missed(store: Store, commits: int) -> None:
    watched(store, range(1, commits + 2))
    for table, which in itertools.product(("incident_events", "change_points"), (0, 1, -1)):
        gone = table_files(store, table)[which]
        data = store.read(gone).to_pybytes()
        store.remove(gone)
        assert [*watch_faults(store)] == [f"'{gone}' (1 rows) was committed and is not there"]
        with pytest.raises(LakeError, match=f"'{gone}' is missing"):
            read_rows_of(store, table)
        store.put_if_absent(gone, data, "stage/x")


@pytest.mark.parametrize("commits", [9, 100], ids=["in commits", "in a listing"])
def test_a_person_goes_on_without_what_is_lost(store: Store, commits: int) -> None:
    watched(store, range(1, commits))
    wanted = [event for event in events(store) if event != "e3"]
    store.remove(table_files(store, "incident_events")[1])
    store.remove(HEAD)  # as the message says
    assert events(store) == wanted
    assert f"'{HEAD}' is missing: the next commit takes the files that are there for all" in [
        *watch_faults(store)
    ]
    watched(store, range(commits, commits + 1))
    assert [*watch_faults(store)] == []
    assert events(store) == [*wanted, *([f"e{commits}"] if commits % 2 else [])]


def test_a_listing_that_is_lost_is_made_anew(store: Store) -> None:
    watched(store, range(1, 100))
    wanted = events(store)
    store.remove(LISTINGS)
    with pytest.raises(LakeError, match="the list of the watch's files, is missing"):
        events(store)
    store.remove(HEAD)
    watched(store, range(100, 102))
    assert [*watch_faults(store)] == []
    assert sorted(events(store)) == sorted([*wanted, "e101"])


def test_all_files_of_a_table_that_are_gone_are_missed(store: Store) -> None:
    watched(store, range(1, 9))
    store.remove("watch/incident_events")
    assert len([*watch_faults(store)]) == 4
    with pytest.raises(LakeError, match="is missing"):
        events(store)


@pytest.mark.parametrize("seq", [7, 8], ids=["of an event", "of nothing"])
def test_the_last_commit_that_is_gone_is_missed(store: Store, seq: int) -> None:
    watched(store, range(1, seq + 1))
    store.remove(f"{COMMITS}/{seq:012d}.json")
    assert f"'{COMMITS}/{seq:012d}.json' is missing: the watch committed it" in [*watch_faults(store)]
    for read in (lambda: events(store), lambda: put_body(store, seq, b"{}", {})):
        with pytest.raises(LakeError, match="is missing: the watch committed it"):
            read()
    store.remove(HEAD)  # as the message says
    watched(store, range(seq, seq + 3))
    assert [*watch_faults(store)] == []
    assert events(store) == [f"e{seq}" for seq in range(1, seq + 3, 2)]


def test_a_commit_in_the_middle_that_is_gone_is_missed(store: Store) -> None:
    watched(store, range(1, 9))
    store.remove(f"{COMMITS}/{5:012d}.json")
    assert [*watch_faults(store)] == [f"'{COMMITS}/{5:012d}.json' is missing"]


def test_a_commit_that_is_another_one_is_missed(store: Store) -> None:
    watched(store, range(1, 9))
    body = b'{}\n{"seq": "other"}'
    data = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    store.replace(f"{COMMITS}/{5:012d}.json", data, "stage/x")
    assert [*watch_faults(store)] == [f"'{COMMITS}/{6:012d}.json' does not follow the commit before it"]


def test_all_commits_that_are_gone_are_missed(store: Store) -> None:
    watched(store, range(1, 9))
    store.remove(COMMITS)
    with pytest.raises(LakeError, match=r"000000000008.json' is missing.*to begin anew, remove 'watch/head'"):
        events(store)
    store.remove(HEAD)
    assert events(store) == ["e1", "e3", "e5", "e7"]
    assert highest(store) == 7
    watched(store, range(8, 12))  # the tables stay, and are named
    assert events(store) == ["e1", "e3", "e5", "e7", "e9", "e11"]
    store.remove(table_files(store, "incident_events")[0])
    assert len([*watch_faults(store)]) == 1


@pytest.mark.parametrize("place", [LISTINGS, COMMITS])
def test_what_is_damaged_is_said(store: Store, place: str) -> None:
    watched(store, range(1, 90))
    name = f"{place}/{store.names(place)[-1]}"
    store.replace(name, b"x", "stage/x")
    assert any(f"'{name}'" in fault and "not what was written" in fault for fault in watch_faults(store))
    with pytest.raises(LakeError, match="is not what was written"):
        events(store)


def test_a_table_s_file_that_is_damaged_is_said(store: Store) -> None:
    watched(store, range(1, 4))
    name = table_files(store, "incident_events")[0]
    store.replace(name, b"x", "stage/x")
    assert [*watch_faults(store)] == [f"'{name}' is not what was written"]
    with pytest.raises(LakeError, match=f"'{name}' is not what was written"):
        events(store)


def test_a_file_that_nobody_committed_is_said_and_not_read(store: Store) -> None:
    watched(store, range(1, 4))
    name = keep(store, "watch/incident_events/000000000009", b"PAR1", "parquet")
    assert [*watch_faults(store)] == [f"'{name}' is in no commit of the watch"]
    assert events(store) == ["e1", "e3"]


def earlier(store: Store, seq: int) -> None:
    """A commit as flowdiff made it before it named files."""
    for table, data, _ in watch_files._encoded(rows(seq)):
        keep(store, f"watch/{table}/{seq:012d}", data, "parquet")
    body = json.dumps({"seq": seq}).encode()
    data = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    store.put_if_absent(f"{COMMITS}/{seq:012d}.json", data, "stage/x")


def test_a_lake_of_an_earlier_flowdiff_is_read_and_goes_on(store: Store) -> None:
    for seq in range(1, 8):
        earlier(store, seq)
    assert [*watch_faults(store)] == []
    assert events(store) == ["e1", "e3", "e5", "e7"]
    watched(store, range(8, 11))
    assert [*watch_faults(store)] == []
    assert events(store) == ["e1", "e3", "e5", "e7", "e9"]
    gone = table_files(store, "incident_events")[0]
    store.remove(gone)
    assert [*watch_faults(store)] == [f"'{gone}' (1 rows) was committed and is not there"]


class DiedError(BaseException):
    """The process was killed."""


def put_and_die(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit 3, by a process that dies before it puts the rows."""

    def died(*_: object) -> None:
        raise DiedError

    with monkeypatch.context() as dying:
        dying.setattr(watch_files, "put_rows", died)
        with pytest.raises(DiedError):
            put_body(store, 3, b'{"seq": 3}', rows(3))


def test_rows_on_their_way_are_not_missed_by_readers_and_put_by_whoever_comes_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched(store, range(1, 3))
    put_and_die(store, monkeypatch)
    assert events(store) == ["e1"]
    put_rows(store, 3, rows(3))
    assert events(store) == ["e1", "e3"]
    assert [*watch_faults(store)] == []


def test_rows_that_another_version_of_arrow_wrote_are_the_same_rows(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever goes on after a death writes other bytes, hence another name: the next commit has it."""
    watched(store, range(1, 3))
    put_and_die(store, monkeypatch)
    with monkeypatch.context() as other:
        write = pq.write_table
        other.setattr(pq, "write_table", lambda *given, **named: write(*given, **named, compression="none"))
        put_rows(store, 3, rows(3))
    watched(store, range(4, 6))
    assert [*watch_faults(store)] == []
    assert events(store) == ["e1", "e3", "e5"]


def test_a_number_is_taken_once(store: Store) -> None:
    watched(store, range(1, 4))
    put_body(store, 3, b'{"seq": 3}', rows(3))  # in doubt, and ours
    for seq in (1, 3):
        with pytest.raises(TakenError, match=f"took commit {seq}"):
            put_body(store, seq, b"other", {})
    assert [*watch_faults(store)] == []
