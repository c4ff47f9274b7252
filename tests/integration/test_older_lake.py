"""Live lakes of earlier versions, which published flows by lane, are taken over: nothing is lost or doubled.

`tests/data/older-lakes` says what is in them.
"""

from __future__ import annotations

import json
import random
import tarfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from oracles.live_process import SETTINGS, START_NS, Sent, World, flow_rows
from oracles.memory_disk import ENDINGS, CrashError, MemoryDisk, Node
from oracles.whole_lake import check

from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.windows import NS_PER_SECOND as S
from stitch.drivers.ending import end_lane
from stitch.kernel import stitch
from stitch.lake.chain import lanes, read_chain, read_tail
from stitch.lake.encoding import decode
from stitch.lake.manifest import open_manifest
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch

pytestmark = pytest.mark.usefixtures("encoded_once")

LAKES = ("75d759cf", "ea086073-repaired")
STITCH = SETTINGS.stitch.model_copy(update={"max_age_ns": 80 * S})
SETTINGS = SETTINGS.model_copy(
    update={"commit_interval_ns": 5 * S, "keep_events_ns": 600 * S, "stitch": STITCH}
)


@cache
def stored(data: Path, name: str) -> tuple[MemoryDisk, int, tuple[Sent, ...]]:
    """(Disk with a lake, the time when its process was killed, all messages of its topic)."""
    disk = MemoryDisk()
    now_ns, sent = 0, ()
    with tarfile.open(data / "older-lakes" / f"{name}.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            content = file.read()
            if member.name == "messages.json":
                told = json.loads(content)
                now_ns = told["now_ns"]
                sent = tuple(Sent(at, partition, value.encode()) for at, partition, value in told["sent"])
                continue
            path = member.name.removeprefix("lake/")
            parts = path.split("/")
            for depth in range(1, len(parts)):
                disk._seen.setdefault("/".join(parts[:depth]), Node(None))
            disk._seen[path] = Node(content, synced=True)
    disk._durable = dict(disk._seen)
    return disk, now_ns, sent


def late_record(request: str, at_s: float, now_ns: int, partition: int) -> Sent:
    """A record of a request, long after the others of it."""
    at = START_NS + int(at_s * S)
    number = request.removeprefix("r")
    record = {
        "breadcrumb": f"b{number}",
        "request_id": request,
        "ts": at,
        "component": "web",
        "point": "late",
        "kind": "event",
    }
    return Sent(now_ns, partition, json.dumps(record).encode())


def world_of(data: Path, name: str, more: tuple[Sent, ...] = ()) -> World:
    """The lake, and a log that goes on."""
    disk, now_ns, sent = stored(data, name)
    messages = sorted([*sent, *more], key=lambda message: message.at_ns)
    return World(messages, disk=disk.twin(), settings=SETTINGS, now_ns=now_ns)


def live(world: World, name: str) -> None:
    world.start(name)
    for _ in world.turns(name):
        pass
    world.processes[name].stop()


def late(world: World) -> Counter[str]:
    """Breadcrumb, point of each late event."""
    store = world.store
    rows = [
        row
        for file in open_manifest(store).files("late")
        for row in decode("late", store.read(file.name)).to_pylist()
    ]
    return Counter(f"{row['breadcrumb']} {row['point']}" for row in rows)


def judge(world: World) -> None:
    """Every message is in a flow as one batch makes it, or late."""
    world.disk.lose_power()
    assert check(world.store) == []
    unseen = late(world)
    payloads = []
    for message in world.sent:
        told = json.loads(message.value) if message.value.startswith(b"{") else {}
        if unseen[key := f"{told.get('breadcrumb')} {told.get('point')}"] > 0:
            unseen[key] -= 1
            continue
        payloads.append(message.value)
    assert not +unseen
    events = codec_for("native").decode(payloads, DecodeConfig()).events
    expected = {row[0]: row for row in flow_rows(stitch(events, SETTINGS.stitch).flows)}
    assert world.published() == expected
    counted = [link.record.counters for lane in lanes(world.store) for link in read_chain(world.store, lane)]
    assert sum(each.events_lost for each in counted) == 0
    assert sum(each.rejects.get("bad-json", 0) for each in counted) == 1


@pytest.mark.parametrize("name", LAKES)
def test_an_older_lake_is_read_as_it_was(name: str, shared_data: Path) -> None:
    world = world_of(shared_data, name)
    assert check(world.store) == []
    assert len(world.published()) > 20
    sealed_to_ns = open_manifest(world.store).sealed_to_ns
    run = world.start("new")
    before = world.published()
    for turn in range(4):
        world.pass_time(1)
        run.turn(0.0)
        assert set(before.items()) <= set(world.published().items()), turn
        reached = open_manifest(world.store).sealed_to_ns
        assert reached is not None
        assert sealed_to_ns is not None
        assert reached >= sealed_to_ns  # no window is unsealed


@pytest.mark.parametrize("name", LAKES)
def test_what_it_left_open_is_published_once(name: str, shared_data: Path) -> None:
    world = world_of(shared_data, name)
    assert sum(read_tail(world.store, lane).records[-1].record.counters.events_open for lane in (1, 2)) > 40
    live(world, "new")
    judge(world)
    assert open_manifest(world.store).sealed_to_ns is not None
    assert all(read_tail(world.store, lane).standing.logs for lane in (1, 2))
    assert UPKEEP_LANE in lanes(world.store)


@pytest.mark.parametrize("name", LAKES)
def test_what_comes_late_of_its_windows_is_late_and_of_what_was_open_is_joined(
    name: str, shared_data: Path
) -> None:
    _, now_ns, _ = stored(shared_data, name)
    more = (
        late_record("r1", 5, now_ns + 10 * S, 1),  # published by its lane
        late_record("r36", 145, now_ns + 10 * S, 0),  # open when the lane was taken over
    )
    world = world_of(shared_data, name, more)
    before = late(world)
    live(world, "new")
    judge(world)
    assert late(world) - before == Counter({"b1 late": 1})


@cache
def operations(data: Path, name: str) -> range:
    """Numbers of the disk's operations in a takeover to its end."""
    world = world_of(data, name)
    began = world.disk.steps
    live(world, "new")
    return range(began + 1, world.disk.steps + 1)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", LAKES)
def test_a_crash_at_any_operation_of_the_takeover_loses_and_doubles_nothing(
    name: str, ending: str, shared_data: Path
) -> None:
    for at in random.Random(f"{name} {ending}").sample(operations(shared_data, name), 3):
        world = world_of(shared_data, name)
        world.disk.crash_at = at
        try:
            live(world, "first")
        except CrashError:
            ENDINGS[ending](world.disk)
            world.bury("first")
            live(world, "second")
        judge(world)


@pytest.mark.parametrize("name", LAKES)
def test_its_lanes_may_be_ended_by_this_version(name: str, shared_data: Path, tmp_path: Path) -> None:
    world = world_of(shared_data, name)
    sent = [message for message in world.sent if message.at_ns <= world.now_ns]
    open_before = read_tail(world.store, 2).records[-1].record.counters.events_open
    assert open_before > 0
    for lane in (2, 1):
        end_lane(UpkeepRun(world.store, "lake", world.now_ns, 0, "o", "t"), lane, Scratch(tmp_path))
        assert check(world.store) == []
    assert read_tail(world.store, 2).records[-1].record.counters.events_logged == open_before
    ends = {
        position.partition: position.end
        for lane in (1, 2)
        for position in read_tail(world.store, lane).standing.positions
    }
    own = [[message for message in sent if message.partition == partition] for partition in (0, 1)]
    world.sent = [
        message for partition, messages in enumerate(own) for message in messages[: ends[partition]]
    ]
    judge(world)
