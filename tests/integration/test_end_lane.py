"""A lane whose partition is gone is ended: what was open is published, and the others seal again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from oracles.live_process import SETTINGS, START_NS, Sent, World, flow_rows, requests
from oracles.whole_lake import check

from flowdiff.__main__ import main
from schemas.errors import LakeError
from schemas.windows import NS_PER_SECOND
from stitch.drivers.ending import Ended, end_lane, lanes_of_partitions
from stitch.lake.chain import lanes, read_chain, read_tail
from stitch.lake.encoding import decode
from stitch.lake.layout import segment_folder
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch

pytestmark = pytest.mark.usefixtures("encoded_once")

SCRATCH = Scratch()
GONE = 2
"""Lane of the second partition."""


def ended(world: World, lane: int = GONE) -> Ended:
    done = end_lane(UpkeepRun(world.store, "L", world.now_ns, 0, "operator", "test"), lane, SCRATCH)
    assert check(world.store) == []
    return done


def cut_short(world: World, seconds: float = 40) -> None:
    """A process reads for a while and dies with requests open."""
    world.start("a")
    for _ in world.turns("a"):
        if world.now_ns > START_NS + seconds * NS_PER_SECOND:
            break
    world.bury("a")


def replaced_topic(world: World) -> None:
    """The topic is gone; another one has one partition, and is read by a new process."""
    world.log.messages, world.log.first = {}, {}
    world.log.create("spans2", 1, "id-2")
    world.sent = [
        Sent(at_ns, 0, json.dumps(told).encode(), "spans2")
        for at_ns, told in (
            (
                world.now_ns + i * 5 * NS_PER_SECOND,
                {
                    "breadcrumb": f"n{i}",
                    "request_id": f"n{i}",
                    "ts": world.now_ns + i * 5 * NS_PER_SECOND,
                    "component": "web",
                    "point": "p",
                    "kind": "end",
                },
            )
            for i in range(60)
        )
    ]
    world._written = 0
    world.start("b")
    for _ in world.turns("b"):
        pass
    world.processes["b"].stop()
    world.bury("b")


def taken(world: World, lane: int) -> int:
    """Messages that the lane's commits took."""
    return sum(link.record.counters.messages for link in read_chain(world.store, lane))


def late_requests(world: World) -> set[str]:
    files = open_manifest(world.store).files("late")
    return {
        name
        for file in files
        for name in decode("late", world.store.read(file.name))["request_id"].to_pylist()
    }


def test_a_partition_that_is_gone_holds_the_seal_until_its_lane_is_ended() -> None:
    world = World(requests(30, 2, 60))
    cut_short(world)
    mine = {row["request_id"] for row in map(json.loads, read_of(world, 1))}
    replaced_topic(world)
    held_at_ns = read_tail(world.store, GONE).standing.watermark_ns
    assert held_at_ns is not None
    assert (open_manifest(world.store).sealed_to_ns or 0) <= held_at_ns  # for ever
    assert mine - set(world.published())  # in segments, and nowhere else
    done = ended(world)
    assert done.windows > 3
    assert mine <= set(world.published())
    manifest = open_manifest(world.store)
    assert manifest.sealed_to_ns is not None
    assert manifest.sealed_to_ns > world.sent[-1].at_ns - 120 * NS_PER_SECOND
    assert world.store.names(segment_folder(GONE)) == []


def read_of(world: World, partition: int) -> list[bytes]:
    """Messages of a partition that the lake's commits cover."""
    values = [message.value for message in world.sent if message.partition == partition]
    return values[: taken(world, partition + 1)]


def test_partitions_that_come_back_go_on_where_they_were_and_nothing_is_doubled() -> None:
    world = World(requests(60, 2, 90))
    cut_short(world)
    sealed = open_manifest(world.store).sealed_to_ns
    ended(world)
    world.start("b")
    for _ in world.turns("b"):
        now = open_manifest(world.store).sealed_to_ns
        assert sealed is None or (now is not None and now >= sealed)  # what readers took for whole stays so
        sealed = now
    world.processes["b"].stop()
    assert check(world.store) == []
    assert sum(taken(world, lane) for lane in lanes(world.store)) == len(world.sent)
    assert {*world.published(), *late_requests(world)} == {
        str(row[0]) for row in flow_rows(world.expected().flows)
    }
    assert [lane.standing.ended_to_ns for lane in lanes_of_partitions(world.store)] == [None, None]


def test_when_all_lanes_are_ended_one_that_comes_back_begins_behind_them() -> None:
    world = World(requests(60, 2, 90))
    cut_short(world)
    ended(world, 1)
    ended(world, 2)
    manifest = open_manifest(world.store)
    assert manifest.sealed_to_ns is None
    whole = {entry.window: entry.flows for entry in manifest.windows()}
    world.start("b")
    for _ in world.turns("b"):
        pass
    world.processes["b"].stop()
    assert check(world.store) == []
    assert whole.items() <= {e.window: e.flows for e in open_manifest(world.store).windows()}.items()
    assert {*world.published(), *late_requests(world)} == {
        str(r[0]) for r in flow_rows(world.expected().flows)
    }


def test_a_process_that_has_the_lane_loses_it_and_takes_it_back() -> None:
    world = World(requests(60, 2, 90))
    world.start("a")
    for turn in world.turns("a"):
        if turn == 12:
            ended(world)
    world.processes["a"].stop()
    assert check(world.store) == []
    assert [lane.standing.ended_to_ns for lane in lanes_of_partitions(world.store)] == [None, None]
    assert {*world.published(), *late_requests(world)} == {
        str(r[0]) for r in flow_rows(world.expected().flows)
    }


def test_what_is_no_lane_of_a_partition_is_refused() -> None:
    world = World(requests(10, 2, 20))
    cut_short(world)
    for lane in (0, 3, 2**31 - 1):
        with pytest.raises(LakeError, match="these are: 1, 2"):
            ended(world, lane)
    ended(world)
    commits = len([*read_chain(world.store, GONE)])
    with pytest.raises(LakeError, match="was ended before"):
        ended(world)
    assert len([*read_chain(world.store, GONE)]) == commits


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    world = World(requests(20, 2, 40), bucket=LocalStore.at(lake), settings=SETTINGS)  # type: ignore[arg-type]
    cut_short(world)
    for arguments, code, told in (
        ([], 0, "spans/1"),
        (["--lane", "7"], 2, "Lane 7"),
        (["--lane", "2"], 0, "lane 2 (spans/1) ended: "),
        (["--lane", "2"], 2, "ended before"),
        ([], 0, "ended"),
    ):
        with pytest.raises(SystemExit) as done:
            main(["end-lane", str(lake), *arguments])
        shown = capsys.readouterr()
        assert (done.value.code, told in shown.out + shown.err) == (code, True), shown
        assert code == 0 or (shown.err.count("\n"), shown.out) == (1, "")
    assert check(LocalStore.at(lake)) == []
