"""Windows built again for late events: by a repair or in time; a crash anywhere is harmless."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from oracles.bucket_server import BucketServer
from oracles.every_death import deaths, deaths_in_bucket
from oracles.live_process import SETTINGS, START_NS, Sent, World, flow_rows, requests
from oracles.memory_disk import ENDINGS
from oracles.object_store import ObjectStore
from oracles.whole_lake import check

from flowdiff.__main__ import main
from schemas.config import StitchConfig
from schemas.windows import NS_PER_SECOND
from stitch.drivers.repair.repairing import Repaired, repair
from stitch.lake.chain import read_chain
from stitch.lake.encoding import decode
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_place, open_store
from stitch.lake.store import LocalStore, Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.upkeep.retention import retire
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch

pytestmark = pytest.mark.usefixtures("encoded_once")

S = NS_PER_SECOND
HOUR_NS = 3600 * S
NOW_NS = START_NS + HOUR_NS
KEEPS = SETTINGS.model_copy(
    update={"keep_events_ns": HOUR_NS, "stitch": StitchConfig(idle_ns=10 * S, max_age_ns=20 * S)}
)
WAITS = KEEPS.model_copy(update={"rebuild_share": 10.0, "rebuild_ns": HOUR_NS})
"""Live ingestion builds nothing again by itself."""


def repaired(store: Store, hours: int = 0, **options: bool) -> Repaired:
    run = UpkeepRun(store, "L", NOW_NS + hours * HOUR_NS, HOUR_NS, "test", "test")
    with Scratch() as scratch:
        return repair(run, scratch, **options)


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


def world(*late: Sent, settings: object = WAITS) -> World:
    told = sorted([*TRAFFIC, *late], key=lambda message: message.at_ns)
    made = World(told, settings=settings)  # type: ignore[arg-type]
    made.start("process")
    for _ in made.turns("process"):
        pass
    made.processes["process"].stop()
    return made


def late_rows(store: Store) -> list[str]:
    manifest = open_manifest(store)
    return sorted(
        f"{row['request_id']} {row['point']}"
        for file in manifest.files("late")
        for row in decode("late", store.read(file.name)).to_pylist()
    )


def expected(made: World) -> dict[str, tuple[object, ...]]:
    return {str(row[0]): row for row in flow_rows(made.expected().flows)}


def test_flows_become_what_the_kernel_makes_of_all_events() -> None:
    made = world(*LATE)
    before = made.published()
    assert before != expected(made)
    reader = open_manifest(made.store)
    files = reader.files("flows")
    dry = repaired(made.store, dry_run=True)
    assert made.published() == before
    done = repaired(made.store)
    assert done.windows == dry.windows == 1
    assert made.published() == expected(made)
    assert late_rows(made.store) == []
    assert check(made.store) == []
    assert [reader.read(file) for file in files]  # of a reader that had begun
    assert repaired(made.store).windows == repaired(made.store, dry_run=True).windows == 0
    assert repaired(made.store, hours=2).removed
    assert made.published() == expected(made)
    assert check(made.store) == []


def test_live_ingestion_does_so_by_itself() -> None:
    made = world(*LATE, settings=KEEPS)
    assert made.published() == expected(made)
    assert late_rows(made.store) == []
    assert check(made.store) == []
    assert repaired(made.store).windows == 0


def test_what_comes_late_when_its_events_are_gone_stays_late() -> None:
    settings = WAITS.model_copy(update={"keep_events_ns": 0})
    made = world(*LATE, settings=settings)
    whole = made.published()
    done = repaired(made.store)
    assert done.windows == 0
    assert made.published() == whole
    assert set(whole) == {f"r{n}" for n in range(12)} | ({"alone"} & set(whole))
    assert {"r0 forgotten", "r0 forgotten too"} <= set(late_rows(made.store))
    assert check(made.store) == []


@pytest.mark.parametrize("keep_s", [0, 30, 3600])
def test_segments_that_are_no_longer_kept_are_not_missed(keep_s: int) -> None:
    settings = KEEPS.model_copy(update={"keep_events_ns": keep_s * S})
    made = world(*LATE, settings=settings)
    left = made.store.names("control/segments/lane=1")
    committed = len([*read_chain(made.store, 1)])
    assert len(left) < committed if keep_s < 60 else left
    assert check(made.store) == []


def test_what_comes_late_again_is_built_in_again_and_copies_are_dropped() -> None:
    made = world(*LATE[:2])
    repaired(made.store)
    repaired(made.store, hours=2)
    more = (LATE[0], sent(400, 0, record("r0", 1.5, "once more", breadcrumb="b0")))
    after = [sent(401 + n, n % 2, record(f"z{n}", 400 + n, "later", "end")) for n in range(4)]
    made.sent += [*more, *after]
    made.start("another")
    for _ in made.turns("another"):
        pass
    made.processes["another"].stop()
    assert repaired(made.store, hours=4).windows
    assert late_rows(made.store) == []
    assert made.published() == expected(made)
    assert check(made.store) == []


def test_a_version_that_contradicts_is_counted() -> None:
    first = record("r2", 30, "told first", "event", id="x", breadcrumb="b2")
    other = record("r2", 30, "told otherwise", "event", id="x", breadcrumb="b2")
    made = world(sent(30, 0, first), sent(150, 0, other))
    repaired(made.store)
    records = [link.record for link in read_chain(made.store, UPKEEP_LANE)]
    assert records[-1].counters.rejects == {"conflict": 1}
    assert made.published() == expected(made)
    assert check(made.store) == []


def at_rest() -> World:
    """Little, for what is done at every operation: a window that changes."""
    settings = WAITS.model_copy(update={"commit_interval_ns": 60 * S})
    told = [
        sent(0, 0, record("r0", 0, "a")),
        sent(3, 0, record("r0", 3, "b", "end")),
        sent(70, 0, record("r1", 70, "a", "end")),
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
    assert len(judged) > 15


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
    assert said("repair", lake, "--dry-run") == ["1 windows would be built again"]
    assert said("repair", lake, "--grace", "0") == [
        "1 windows built again; 3 events in all windows that were built",
        "0 files and folders removed, replaced or retired longer than the grace ago",
    ]
    assert said("fsck", lake) == ["0 errors"]
    assert said("repair", lake)[0].startswith("0 windows built again")


def test_what_means_nothing_any_more_is_refused_with_what_replaced_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["repair", str(tmp_path), "--finished"])
    assert ended.value.code == 2
    assert "--finished means nothing any more" in (told := capsys.readouterr().err)
    assert "live.rebuild" in told


def test_late_events_of_retired_windows_are_late() -> None:
    made = at_rest()
    told = [entry.window.end_ns for entry in open_manifest(made.store).windows()]
    upkeep = UpkeepRun(made.store, "L", NOW_NS, 0, "test", "test")
    retire(upkeep, keep_ns=NOW_NS - told[1], keep_late_ns=2 * NOW_NS)
    repaired(made.store)
    assert len(seen(made.store)) == 1
    assert check(made.store) == []
    assert repaired(made.store).windows == 0


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
    assert repaired(store, hours=2).removed
    assert check(store) == []
