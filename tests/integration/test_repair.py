"""Repair: late events end in the flows that the kernel makes of all events; a crash anywhere is harmless."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from oracles.bucket_server import BucketServer
from oracles.every_death import deaths, deaths_in_bucket
from oracles.live_process import SETTINGS, START_NS, Sent, World, flow_rows, requests
from oracles.memory_disk import ENDINGS
from oracles.object_store import ObjectStore

from flowdiff.__main__ import main
from schemas.config import StitchConfig
from schemas.windows import NS_PER_SECOND
from stitch.drivers.repair.mending import LateOutcome
from stitch.drivers.repair.repairing import Repaired, repair
from stitch.lake.chain import read_chain, read_tail
from stitch.lake.encoding import decode
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_place, open_store
from stitch.lake.store import LocalStore, Store
from stitch.lake.upkeep.retention import retire
from stitch.lake.upkeep.upkeep_lane import UpkeepRun

pytestmark = pytest.mark.usefixtures("encoded_once")

S = NS_PER_SECOND
HOUR_NS = 3600 * S
NOW_NS = 10**18
KEEPS = SETTINGS.model_copy(
    update={"keep_events_ns": HOUR_NS, "stitch": StitchConfig(idle_ns=10 * S, max_age_ns=20 * S)}
)
RESTS = KEEPS.model_copy(update={"stitch": StitchConfig(idle_ns=10 * S, max_age_ns=120 * S)})


def repaired(store: Store, hours: int = 0, **options: bool) -> Repaired:
    return repair(UpkeepRun(store, "L", NOW_NS + hours * HOUR_NS, HOUR_NS, "test", "test"), **options)


def record(request: str, at_s: float, point: str, kind: str = "event", **more: object) -> bytes:
    told = {"breadcrumb": f"b-{request}", "request_id": request, "ts": START_NS + int(at_s * S)}
    return json.dumps({**told, "component": "web", "point": point, "kind": kind, **more}).encode()


def sent(at_s: float, partition: int, value: bytes) -> Sent:
    return Sent(START_NS + int(at_s * S), partition, value)


TRAFFIC = requests(12, partitions=2, spread_s=160)
LATE = (
    sent(150, 0, record("r0", 1, "forgotten", breadcrumb="b0")),  # of a request that was published
    sent(152, 0, record("r0", 2.5, "forgotten too", breadcrumb="b0")),
    sent(154, 1, record("r1", -40, "began long before", breadcrumb="b1")),  # it moves into an earlier window
    sent(156, 1, record("alone", 30, "one")),  # nobody knew the request
    sent(157, 1, record("alone", 31, "two", "end")),
)
STILL_OPEN = sent(158, 0, record("r10", 40, "much too early", breadcrumb="b10"))


def world(*late: Sent, settings: object = KEEPS) -> World:
    told = sorted([*TRAFFIC, *late], key=lambda message: message.at_ns)
    made = World(told, settings=settings)  # type: ignore[arg-type]
    made.start("process")
    for _ in made.turns("process"):
        pass
    made.processes["process"].stop()
    return made


def late_rows(store: Store, table: str = "late") -> list[str]:
    manifest = open_manifest(store)
    return sorted(
        f"{row['request_id']} {row['point']}"
        for file in manifest.files(table)  # type: ignore[arg-type]
        for row in decode(table, store.read(file.name)).to_pylist()
    )


def expected(made: World) -> dict[str, tuple[object, ...]]:
    return {str(row[0]): row for row in flow_rows(made.expected().flows)}


def test_flows_become_what_the_kernel_makes_of_all_events() -> None:
    made = world(*LATE)
    before = made.published()
    assert len(late_rows(made.store)) == len(LATE)
    assert before != expected(made)
    reader = open_manifest(made.store)
    files = reader.files("flows")
    assert repaired(made.store, dry_run=True).requests == 3
    assert made.published() == before
    done = repaired(made.store)
    assert (done.requests, done.events) == (3, {LateOutcome.FOLDED: 5})
    assert made.published() == expected(made)
    assert late_rows(made.store) == []
    assert len(late_rows(made.store, "repaired")) == len(LATE)
    assert check(made.store) == []
    assert [reader.read(file) for file in files]  # of a reader that had begun
    again = repaired(made.store)
    assert (again.requests, again.windows, again.events) == (0, 0, {})
    assert repaired(made.store, hours=2).removed
    assert made.published() == expected(made)
    assert check(made.store) == []


def test_what_cannot_be_folded_waits_and_says_why() -> None:
    settings = KEEPS.model_copy(update={"keep_events_ns": 0})
    elsewhere = sent(155, 1, record("r0", 1, "by another way", breadcrumb="b0"))
    made = world(*LATE, elsewhere, settings=settings)
    done = repaired(made.store)
    # r0 and r1 are in the lake and their events are not kept; r0 also came by a lane that is not its own.
    assert done.events == {LateOutcome.FOLDED: 2, LateOutcome.LOST: 3, LateOutcome.SPLIT: 1}
    assert set(made.published()) == {f"r{n}" for n in range(12)} | {"alone"}
    assert made.published()["alone"] == expected(made)["alone"]
    assert len(late_rows(made.store)) == 4
    assert check(made.store) == []
    assert repaired(made.store).requests == 0


def test_kept_events_that_are_lost_are_reported() -> None:
    made = world(*LATE)
    whole = {lane: read_tail(made.store, lane).standing.kept_from for lane in (1, 2)}
    assert all(whole.values())
    segments = [f"control/segments/lane=1/{name}" for name in made.store.names("control/segments/lane=1")]
    lost = next(name for name in segments if b"r0" in made.store.read(name).to_pybytes())
    data = made.store.read(lost).to_pybytes()
    made.store.remove(lost)
    assert [violation.invariant for violation in check(made.store)] == ["I3"]
    assert lost in check(made.store)[0].detail
    done = repaired(made.store)
    assert done.lost_segments == (lost,)
    assert done.events[LateOutcome.LOST] == 2
    made.disk.create(lost, data)
    again = repaired(made.store)
    assert again.lost_segments == ()
    assert made.published() == expected(made)
    assert check(made.store) == []


@pytest.mark.parametrize("keep_s", [0, 30, 3600])
def test_segments_that_are_no_longer_kept_are_not_missed(keep_s: int) -> None:
    settings = KEEPS.model_copy(update={"keep_events_ns": keep_s * S})
    made = world(*LATE, settings=settings)
    left = made.store.names("control/segments/lane=1")
    committed = len([*read_chain(made.store, 1)])
    assert len(left) < committed if keep_s < 60 else left
    assert check(made.store) == []
    assert repaired(made.store, dry_run=True).lost_segments == ()


def test_a_request_rests_until_nothing_more_can_come() -> None:
    made = world(*LATE, STILL_OPEN, settings=RESTS)
    done = repaired(made.store)
    assert done.events == {LateOutcome.FOLDED: 5, LateOutcome.WAITS: 1}
    assert late_rows(made.store) == ["r10 much too early"]
    assert set(made.published()) == {f"r{n}" for n in range(12)} | {"alone"}
    assert check(made.store) == []
    sealed = open_manifest(made.store).sealed_to_ns
    assert sealed is not None
    finished = repaired(made.store, finished=True)
    assert finished.requests == 1
    assert made.published() == expected(made)
    assert check(made.store) == []


def test_what_comes_late_again_is_folded_in_again_and_copies_are_dropped() -> None:
    made = world(*LATE[:2])
    repaired(made.store)
    repaired(made.store, hours=2)
    more = (LATE[0], sent(400, 0, record("r0", 1.5, "once more", breadcrumb="b0")))
    after = [sent(401 + n, n % 2, record(f"z{n}", 400 + n, "later", "end")) for n in range(4)]
    made.sent += [*more, *after]
    made.settings = KEEPS
    made.start("another")
    for _ in made.turns("another"):
        pass
    made.processes["another"].stop()
    waiting = late_rows(made.store)
    assert "r0 once more" in waiting
    done = repaired(made.store, hours=4)
    assert done.requests == 1
    assert late_rows(made.store) == []
    assert made.published() == expected(made)
    assert check(made.store) == []


def test_a_version_that_contradicts_becomes_a_dead_letter() -> None:
    first = record("r2", 30, "told first", "event", id="x", breadcrumb="b2")
    other = record("r2", 30, "told otherwise", "event", id="x", breadcrumb="b2")
    made = world(sent(30, 0, first), sent(150, 0, other))
    assert late_rows(made.store) == ["r2 told otherwise"]
    repaired(made.store)
    manifest = open_manifest(made.store)
    (letters,) = [
        decode("dead_letters", made.store.read(file.name)) for file in manifest.files("dead_letters")
    ]
    assert letters["reason"].to_pylist() == ["conflict"]
    assert made.published() == expected(made)
    assert check(made.store) == []


def at_rest() -> World:
    """Little, for what is done at every operation: a window that changes, one that comes, one that is left
    without a flow.
    """
    settings = KEEPS.model_copy(update={"commit_interval_ns": 60 * S})
    told = [
        sent(0, 0, record("r0", 0, "a")),
        sent(3, 0, record("r0", 3, "b", "end")),
        sent(70, 0, record("r1", 70, "a", "end")),
        sent(170, 0, record("r1", -40, "early")),
        sent(171, 0, record("r0", 1, "late")),
        sent(200, 0, record("r2", 200, "a", "end")),
    ]
    made = World(told, settings=settings, partitions=1)
    made.start("process")
    for _ in made.turns("process"):
        pass
    made.processes["process"].stop()
    made.disk.lose_power()
    made.disk.steps = 0
    return made


def both(store: Store) -> None:
    """Repaired, and swept by a later run."""
    repaired(store)
    repaired(store, hours=2)


def seen(store: Store) -> list[tuple[object, ...]]:
    manifest = open_manifest(store)
    flows = [decode("flows", store.read(file.name)) for file in manifest.files("flows")]
    return sorted(row for table in flows for row in flow_rows(table))


def test_a_crash_at_any_operation_of_repair() -> None:
    """With every ending; what two of them leave alike is looked at once."""
    made = at_rest()
    before, after = seen(made.store), sorted(expected(made).values())
    assert len(before) == len(after)
    assert before != after
    crashed = deaths(made.disk, lambda watched: both(LocalStore(watched)), None)
    assert seen(made.store) == after
    judged = set()
    for disk, _ in crashed:
        for end in ENDINGS.values():
            ended = disk.twin()
            end(ended)
            left = ended.files()
            if left not in judged:  # nothing is asked of what was not synced
                judged.add(left)
                judge(LocalStore(ended), before, after)
    assert len(judged) > 25


def test_a_crash_at_any_request_of_repair_in_a_bucket() -> None:
    """Whether or not the last one was carried out."""
    made = at_rest()
    objects = {name: node.data for name, node in made.disk._seen.items() if node.data is not None}
    whole = ObjectStore(objects=dict(objects))
    before, after = seen(whole), sorted(expected(made).values())
    crashed = deaths_in_bucket(whole, both, None)
    assert seen(whole) == after
    for store, _ in crashed:
        judge(store, before, after)


def judge(store: Store, before: list[tuple[object, ...]], after: list[tuple[object, ...]]) -> None:
    """After a crash: the lake of before or that of after; a second run completes it."""
    assert seen(store) in (before, after)
    repaired(store, hours=3)
    assert seen(store) == after
    assert late_rows(store) == []
    assert len(late_rows(store, "repaired")) == 2
    assert check(store) == []


def test_the_command_tells_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = at_rest()
    for name, node in made.disk._seen.items():
        if node.data is not None:
            path = tmp_path / "L" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(node.data)

    def said(*arguments: str) -> list[str]:
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        out = capsys.readouterr()
        assert ended.value.code == 0, out.err
        return out.out.splitlines()

    lake = str(tmp_path / "L")
    assert said("repair", lake, "--dry-run") == [
        "2 late events of 2 requests would be folded in, 3 windows would be written anew"
    ]
    assert said("repair", lake, "--grace", "0") == [
        "2 late events of 2 requests folded in, 3 windows written anew",
        "5 files and folders removed, replaced or retired longer than the grace ago",
    ]
    assert said("fsck", lake) == ["0 errors"]
    assert said("repair", lake)[0].startswith("0 late events of 0 requests folded in, 0 windows")


def test_late_events_of_retired_windows_are_dropped_with_them() -> None:
    made = at_rest()
    reads = open_manifest(made.store)
    told = [entry.window.end_ns for entry in reads.windows()]
    upkeep = UpkeepRun(made.store, "L", NOW_NS, 0, "test", "test")
    retire(upkeep, keep_ns=NOW_NS - told[1], keep_late_ns=2 * NOW_NS)
    assert len(late_rows(made.store)) == 2
    done = repaired(made.store)
    assert (done.requests, done.events) == (0, {LateOutcome.RETIRED: 2})
    assert late_rows(made.store) == late_rows(made.store, "repaired") == []
    assert len(seen(made.store)) == 1
    assert check(made.store) == []
    assert repaired(made.store).events == {}


def test_late_events_that_cannot_be_folded_in_go_at_their_age_however_often_repairs_run() -> None:
    stuck = sent(150, 1, record("r0", 1.5, "of another lane", breadcrumb="b0"))
    waves = [sent(160 + 40 * k, 0, record(f"late{k}", 30, "alone", "end")) for k in range(5)]
    made = World(sorted([*TRAFFIC, stuck, *waves], key=lambda message: message.at_ns), settings=KEEPS)
    made.start("process")
    gone_s = None
    for n in made.turns("process"):
        made.disk.now_ns = made.now_ns
        if n % 10:
            continue
        upkeep = UpkeepRun(made.store, "L", made.now_ns, 0, "t", "t")
        repair(upkeep)
        retire(upkeep, keep_ns=NOW_NS, keep_late_ns=100 * S)
        assert check(made.store) == []
        if made.now_ns > START_NS + 200 * S and "r0 of another lane" not in late_rows(made.store):
            gone_s = gone_s or (made.now_ns - START_NS) // S
    made.processes["process"].stop()
    # It came after 150 s. Each repair folds in what came since, and wrote it anew: it never grew old.
    assert gone_s is not None
    assert gone_s <= 150 + 100 + 80
    flows = made.published()
    assert {f"late{k}" for k in range(5)} <= set(flows)


def test_a_lake_in_a_bucket_is_repaired_under_a_reader(
    bucket_server: BucketServer, bucket_environ: dict[str, str]
) -> None:
    made = at_rest()
    lake = bucket_server.new_lake()
    store = open_store(lake)
    files = {name: node.data for name, node in made.disk._seen.items() if node.data is not None}
    for name, data in files.items():
        store.put(name, data)
    store.persist([*files])
    place = open_place(lake, bucket_environ)
    reader = open_manifest(place.store, lake, place.copies)
    before = seen(store)
    repaired(store)
    assert seen(store) == sorted(expected(made).values())
    flows = [decode("flows", reader.read(file)) for file in reader.files("flows")]  # copied only now
    assert sorted(row for table in flows for row in flow_rows(table)) == before
    assert [name for name in store.below("late", lambda _: False) if name.endswith(".parquet")] == []
    assert check(store) == []
    assert repaired(store, hours=2).removed == 5
    assert check(store) == []
