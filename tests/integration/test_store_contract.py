"""What every store promises, on a disk, in memory, and in a bucket of a real S3 server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from oracles.bucket_server import BucketServer
from oracles.cutting_proxy import CuttingProxy, cutting_proxy
from oracles.memory_disk import MemoryDisk
from oracles.object_store import ObjectStore

from schemas.commits import CommitBody, Counters
from schemas.errors import LakeError
from stitch.lake.backends import backend_of
from stitch.lake.bucket import bucket_store
from stitch.lake.bucket.bucket_settings import bucket_settings
from stitch.lake.bucket.bucket_store import BucketStore
from stitch.lake.chain import CommitTakenError
from stitch.lake.lane import Lane
from stitch.lake.layout import ensure_lake
from stitch.lake.store import LocalStore, Move, RemoteStore, Store, UncertainError

StoreFactory = Callable[[], Store]


@pytest.fixture(params=["disk", "memory disk", "memory objects", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path, bucket_server: BucketServer) -> Store:
    made: dict[str, StoreFactory] = {
        "disk": lambda: LocalStore.at(tmp_path),
        "memory disk": lambda: LocalStore(MemoryDisk()),
        "memory objects": ObjectStore,
        "bucket": lambda: in_bucket(bucket_server),
    }
    return made[request.param]()


def test_a_row_of_the_table_opens_the_store(bucket_server: BucketServer) -> None:
    name = bucket_server.new_lake()
    backend = backend_of(name)
    assert backend is not None
    store: RemoteStore = in_bucket(bucket_server, lake=name)
    opened = backend.store(backend.settings(name, bucket_server.environ))
    assert type(opened) is type(store)
    assert opened.url == store.url == name


def in_bucket(server: BucketServer, endpoint: str | None = None, lake: str | None = None) -> BucketStore:
    environ = {**server.environ, "AWS_ENDPOINT_URL": endpoint or server.endpoint}
    return BucketStore(bucket_settings(lake or server.new_lake(), environ))


def put(store: Store, name: str, data: bytes) -> None:
    store.put(name, data)
    store.persist([name])


def test_what_was_put_is_read(store: Store) -> None:
    put(store, "stage/a", b"12345")
    put(store, "stage/empty", b"")
    store.put("stage/b", pa.py_buffer(b"67890"))
    store.persist(["stage/b"])
    assert store.read("stage/a").to_pybytes() == b"12345"
    assert store.read("stage/b").to_pybytes() == b"67890"
    assert store.read("stage/empty").size == 0
    assert [store.read_end("stage/a", n).to_pybytes() for n in (0, 2, 5, 9)] == [
        b"",
        b"45",
        b"12345",
        b"12345",
    ]
    assert [store.size(f"stage/{name}") for name in ("a", "empty", "none")] == [5, 0, None]
    assert store.sizes(["stage/none", "stage/a", "other/none"]) == [None, 5, None]
    for missing in (lambda: store.read("stage/none"), lambda: store.read_end("stage/none", 3)):
        with pytest.raises(FileNotFoundError):
            missing()


def test_when_files_were_written_is_told(store: Store, request: pytest.FixtureRequest) -> None:
    put(store, "late/a", b"1")
    put(store, "late/deeper/b", b"2")
    before = store.written("late")
    assert [*before] == ["a"]
    assert store.written("none") == {}
    now_ns = 0 if "memory" in request.node.callspec.id else time.time_ns()
    assert abs(now_ns - before["a"]) < 60 * 10**9
    store.publish([Move("late/a", "late/a.replaced")])
    assert [*store.written("late")] == ["a.replaced"]


def test_a_name_is_put_once(store: Store) -> None:
    put(store, "stage/a", b"first")
    with pytest.raises(FileExistsError):
        put(store, "stage/a", b"second")
    store.put_if_absent("commits/1", b"first", "stage")
    with pytest.raises(FileExistsError):
        store.put_if_absent("commits/1", b"second", "stage")
    with pytest.raises(FileExistsError):
        store.put_if_absent("commits/1", b"first", "stage")
    assert store.read("commits/1").to_pybytes() == store.read("stage/a").to_pybytes() == b"first"


def test_of_racing_creates_one_wins(store: Store) -> None:
    for round_ in range(5):
        name = f"commits/{round_}"

        def create(number: int, name: str = name) -> bool:
            try:
                store.put_if_absent(name, f"writer {number}".encode(), f"stage/{number}")
            except FileExistsError:
                return False
            return True

        with ThreadPoolExecutor(16) as pool:
            won = [*pool.map(create, range(16))]
        assert sum(won) == 1
        assert store.read(name).to_pybytes() == f"writer {won.index(True)}".encode()


def test_persist_misses_what_another_writer_swept(store: Store) -> None:
    store.put("stage/7/a", b"1")
    store.persist(["stage/7/a"])
    store.remove("stage/7")
    with pytest.raises(FileNotFoundError):
        store.persist(["stage/7/a"])


def test_names_and_what_is_below(store: Store) -> None:
    for name in ("flows/window=2/b", "flows/window=1/a", "flows/window=1/c", "flows/x", "late/9"):
        put(store, name, b"1")
    assert store.names("flows") == ["window=1", "window=2", "x"]
    assert store.names("flows/window=1") == ["a", "c"]
    assert store.names("flows/window=1", after="a") == ["c"]
    assert store.names("flows/window=1", after="c") == []
    assert store.names("nothing") == store.names("nothing", after="a") == []
    assert set(store.names("")) >= {"flows", "late"}
    below = [*store.below("flows", lambda name: name.startswith("window="))]
    assert below == ["flows/window=1/a", "flows/window=1/c", "flows/window=2/b", "flows/x"]
    assert [*store.below("nothing", lambda name: False)] == []


def test_publishing_moves_and_may_be_repeated(store: Store) -> None:
    moves = [Move(f"stage/1/{n}", f"flows/window={n % 3}/{n}") for n in range(7)]
    for move in moves:
        store.put(move.stage, move.stage.encode())
    store.persist([move.stage for move in moves])
    store.publish(moves[:3])
    store.publish(moves)
    store.publish(moves)
    assert [store.read(move.final).to_pybytes() for move in moves] == [m.stage.encode() for m in moves]
    assert store.names("stage/1") == []
    with pytest.raises(FileNotFoundError) as lost:
        store.publish([Move("stage/1/lost", "flows/window=1/lost")])
    assert lost.value.filename == "flows/window=1/lost"


def test_remove_takes_a_file_or_all_below_and_nothing_beside(store: Store) -> None:
    for name in ("stage/1/a", "stage/1/drafts/b", "stage/10/c", "stage/d"):
        put(store, name, b"1")
    store.remove("stage/1")
    store.remove("stage/d")
    store.remove("stage/none")
    assert [*store.below("stage", lambda name: "." not in name and len(name) > 1)] == ["stage/10/c"]


def test_replace_takes_the_place(store: Store) -> None:
    store.put_if_absent("a", b"1", "stage")
    store.replace("a", b"22", "stage")
    assert store.read("a").to_pybytes() == b"22"


def test_many_files_are_put_listed_published_and_removed(store: Store) -> None:
    """In a bucket more than a page of a listing, and than the sizes that are asked for one by one."""
    n_files = 1_100 if isinstance(store, BucketStore) else 110
    moves = [Move(f"stage/1/{n:05d}", f"flows/window={n // 10:03d}/{n:05d}") for n in range(n_files)]
    for move in moves:
        store.put(move.stage, move.stage.encode())
    store.persist([move.stage for move in moves])
    assert store.names("stage/1") == [move.stage[8:] for move in moves]
    last = [f"{n:05d}" for n in range(n_files - 10, n_files)]
    assert store.names("stage/1", after=last[0]) == last[1:]
    store.publish(moves)
    finals = [move.final for move in moves]
    store.put_if_absent("flowdiff.json", b"123", "stage")
    asked = ["flows/window=000/none", "flowdiff.json", *finals]
    assert store.sizes(asked) == [None, 3] + [13] * len(moves)
    assert [*store.below("flows", lambda name: name.startswith("window="))] == finals
    store.remove("flows")
    assert store.names("flows") == []


# -- of a bucket alone --------------------------------------------------------------------------------


@pytest.fixture
def proxy(bucket_server: BucketServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[CuttingProxy]:
    monkeypatch.setattr(bucket_store, "FIRST_PAUSE_S", 0.01)
    with cutting_proxy(bucket_server.host_port) as between:
        yield between


def test_a_put_whose_answer_was_lost_is_told_from_anothers(
    bucket_server: BucketServer, proxy: CuttingProxy
) -> None:
    lake = bucket_server.new_lake()
    store = in_bucket(bucket_server, proxy.endpoint, lake)
    proxy.loses = 1
    store.put_if_absent("commits/1", b"mine", "stage")
    assert len(proxy.seen) == 2, "stored, not heard of, asked again"
    assert store.read("commits/1").to_pybytes() == b"mine"
    other = in_bucket(bucket_server, lake=lake)
    other.put_if_absent("commits/2", b"another's", "stage")
    proxy.loses = 1
    with pytest.raises(FileExistsError):
        store.put_if_absent("commits/2", b"mine", "stage")
    proxy.loses = 99
    with pytest.raises(UncertainError, match="may be there or not"):
        store.put_if_absent("commits/3", b"mine", "stage")
    assert other.read("commits/3").to_pybytes() == b"mine"


def test_a_commit_whose_answer_was_lost_is_made_once(
    bucket_server: BucketServer, proxy: CuttingProxy
) -> None:
    lake = bucket_server.new_lake()
    store = in_bucket(bucket_server, proxy.endpoint, lake)
    info = ensure_lake(store, None, 300 * 10**9, "test")
    lane = Lane(store, info, owner="me", created_by="test")
    with lane.stage() as staging:
        proxy.loses = 1
        lane.commit(staging, CommitBody(kind="import", counters=Counters()))
    assert store.names("control/commits/lane=0") == ["000000000001.json"]
    zombie = Lane(store, info, owner="zombie", created_by="test")
    with lane.stage() as staging:
        lane.commit(staging, CommitBody(kind="import", counters=Counters()))
    proxy.loses = 1
    with zombie.stage() as staging, pytest.raises(CommitTakenError):
        zombie.commit(staging, CommitBody(kind="import", counters=Counters()))
    assert len(store.names("control/commits/lane=0")) == 2


def test_a_store_that_is_gone_is_told_and_comes_back(
    bucket_server: BucketServer, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_store, "READ_RETRIES", 1)
    store = in_bucket(bucket_server, proxy.endpoint)
    store.put_if_absent("a", b"1", "stage")
    proxy.dead = True
    with pytest.raises(LakeError, match="cannot be opened: the connection was lost"):
        store.check()
    with pytest.raises(OSError, match="the connection was lost; try again"):
        store.read("a")
    store.put("stage/a", b"1")
    with pytest.raises(UncertainError):
        store.persist(["stage/a"])
    proxy.revive()
    assert store.read("a").to_pybytes() == b"1"


def test_requests_run_abreast(bucket_server: BucketServer) -> None:
    with cutting_proxy(bucket_server.host_port) as slow:
        slow.delay_s = 0.02
        store = in_bucket(bucket_server, slow.endpoint)
        names = [f"stage/{n:03d}" for n in range(100)]
        for name in names:
            store.put(name, b"1")
        store.persist(names)
        written, slow.most_at_once = slow.most_at_once, 0
        store.sizes(names[:50])
    assert min(written, slow.most_at_once) > 8


def test_the_conditional_put_is_one_of_the_servers(bucket_server: BucketServer) -> None:
    """The request says `If-None-Match: *`, and it is the server that refuses the second."""
    with cutting_proxy(bucket_server.host_port) as between:
        store = in_bucket(bucket_server, between.endpoint)
        store.put_if_absent("a", b"1", "stage")
        with pytest.raises(FileExistsError):
            store.put_if_absent("a", b"2", "stage")
    assert between.conditions == ["*", "*"]
    assert between.statuses[-2:] == [200, 412]
