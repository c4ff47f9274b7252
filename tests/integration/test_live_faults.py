"""Faults that the live driver meets, one by one, over a disk, a log and a clock in memory."""

from __future__ import annotations

import errno
import json
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest
from oracles.live_process import SETTINGS, START_NS, Sent, World, flow_rows, requests
from oracles.memory_disk import MemoryDisk
from oracles.quiet_import import Quiet
from oracles.whole_lake import check

from ingest.source import StreamId
from schemas.commits import CommitRecord
from schemas.events import SMALLEST_RATE
from schemas.quality import Quality
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.batch import import_files
from stitch.drivers.ending import end_lane
from stitch.drivers.import_settings import ImportSettings
from stitch.drivers.live.live_run import LiveRun
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.watch import LaneState
from stitch.lake.chain import lanes, read_chain, read_tail
from stitch.lake.encoding import decode
from stitch.lake.manifest import open_manifest
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.upkeep.retention import retire
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch

pytestmark = pytest.mark.usefixtures("encoded_once")

SENT = requests(12, partitions=2, spread_s=100)


def run_to_end(world: World, name: str = "process") -> LiveRun:
    if name not in world.processes:
        world.start(name)
    for _ in world.turns(name):
        pass
    world.processes[name].stop()
    return world.processes[name]


def commits(world: World) -> list[CommitRecord]:
    return [link.record for lane in lanes(world.store) for link in read_chain(world.store, lane)]


def whole(world: World) -> None:
    assert check(world.store) == []
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


def letters(world: World) -> list[dict[str, object]]:
    manifest = open_manifest(world.store)
    return [
        row
        for file in manifest.files("dead_letters")
        for row in decode("dead_letters", world.store.read(file.name)).to_pylist()
    ]


def late_ids(world: World) -> list[str]:
    manifest = open_manifest(world.store)
    return [
        row["request_id"]
        for file in manifest.files("late")
        for row in decode("late", world.store.read(file.name)).to_pylist()
    ]


def record(request: str, at_ns: int, point: str = "p", kind: str = "event", **more: object) -> bytes:
    told = {"breadcrumb": request, "request_id": request, "ts": at_ns, "component": "web"}
    return json.dumps({**told, "point": point, "kind": kind, **more}).encode()


class FullDisk(MemoryDisk):
    """Refuses to make files between two steps of the world."""

    full: bool = False
    code: int = errno.ENOSPC

    def create(self, name: str, data: bytes) -> None:  # type: ignore[override]
        if self.full:
            raise OSError(self.code, "No space left on device")
        super().create(name, data)


def test_a_full_disk_stops_reading_keeps_membership_and_resumes_by_itself() -> None:
    disk = FullDisk()
    world = World(SENT, disk=disk)
    run = world.start("process")
    waited = False
    for turn in world.turns("process"):
        disk.full = 5 <= turn < 15
        if turn == 13:
            status = run.status()
            assert {lane.state for lane in status.lanes} == {LaneState.WAITING}
            assert "No space left" in status.lanes[0].why
            assert status.paused
            assert not status.ready
            assert world.members["process"] in world.log.members
            waited = True
    run.stop()
    assert waited
    whole(world)


def test_sampling_rates_however_small_end_no_process() -> None:
    """The smallest that there is weighs its requests, and any below is a dead letter."""
    rates = [SMALLEST_RATE, SMALLEST_RATE, SMALLEST_RATE / 2, 1e-300, 1e-308, 1e-308, 1e-310]
    sampled = [
        Sent(at, n % 2, record(f"s{n}", at, kind="end", sample_rate=rate))
        for n, rate in enumerate(rates)
        for at in [START_NS + n * NS_PER_SECOND]
    ]
    world = World(sorted([*SENT, *sampled], key=lambda message: message.at_ns))
    run_to_end(world)
    whole(world)
    assert {"s0", "s1"} == {name for name in world.published() if name.startswith("s")}
    assert [letter["reason"] for letter in letters(world)] == ["bad-value"] * 5
    counted = [item.counts for commit in commits(world) for item in commit.publish if item.counts is not None]
    assert sum(counts.weight for counts in counted) == 2 / SMALLEST_RATE + len(world.published()) - 2


def test_a_disk_that_keeps_failing_halts_the_lane_with_its_reason() -> None:
    disk = FullDisk()
    disk.code = errno.EIO
    world = World(SENT, disk=disk)
    run = world.start("process")
    for turn in world.turns("process"):
        disk.full = turn >= 5
    assert set(run.halted) == {1, 2}
    assert run.all_halted
    assert "No space left" in run.halted[1]
    disk.full = False
    run.stop()
    world.processes.clear()
    world.now_ns = START_NS + 110 * NS_PER_SECOND
    run_to_end(world, "another")  # after a person saw to it
    whole(world)


def test_offsets_rewound_by_hand_change_nothing() -> None:
    world = World(SENT)
    world.start("a")
    for turn in world.turns("a"):
        if turn == 12:
            break
    world.processes.pop("a").stop()
    world.log.committed = dict.fromkeys(world.log.committed, 0)
    run_to_end(world, "b")
    whole(world)


def test_where_retention_passed_us_the_lane_halts_and_the_others_go_on(tmp_path: Path) -> None:
    world = World(SENT)
    world.start("a")
    for turn in world.turns("a"):
        if turn == 6:
            break
    world.processes.pop("a").stop()
    world.log.first[StreamId("spans", 0)] = 9
    run = run_to_end(world, "b")
    assert set(run.halted) == {1}
    assert "begins at 9" in run.halted[1]
    assert check(world.store) == []
    positions = {lane: read_tail(world.store, lane).standing.positions[0].end for lane in (1, 2)}
    assert positions[1] < positions[2] == 18  # what it logged waits for the other one, or for its end
    for lane in (1, 2):
        end_lane(UpkeepRun(world.store, "lake", world.now_ns, 0, "end", "test"), lane, Scratch(tmp_path))
    assert check(world.store) == []
    expected = {row[0]: row for row in flow_rows(world.expected().flows)}
    assert {name for name in expected if int(str(name)[1:]) % 2} <= set(world.published())


def test_a_gap_that_is_accepted_is_in_the_ledger() -> None:
    world = World(SENT, settings=replace_settings(accept_gaps=True))
    world.start("a")
    for turn in world.turns("a"):
        if turn == 6:
            break
    world.processes.pop("a").stop()
    world.log.first[StreamId("spans", 0)] = 9
    run = run_to_end(world, "b")
    assert run.halted == {}
    gaps = [gap for commit in commits(world) for gap in commit.gaps]
    assert [(gap.topic, gap.partition, gap.end) for gap in gaps] == [("spans", 0, 9)]
    assert gaps[0].start < 9
    assert check(world.store) == []


def test_a_topic_made_anew_halts_its_lanes() -> None:
    world = World(SENT)
    world.start("a")
    for turn in world.turns("a"):
        if turn == 6:
            break
    world.processes.pop("a").stop()
    world.log.topic_ids["spans"] = "id-2"
    run = run_to_end(world, "b")
    assert set(run.halted) == {1, 2}
    assert "made anew" in run.halted[1]


def test_a_log_that_does_not_answer_is_waited_for_and_said() -> None:
    world = World(SENT)
    run = world.start("a")
    for turn in world.turns("a"):
        world.log.unreachable = 5 <= turn < 12
        if turn == 10:
            assert run.status().trouble == "The log does not answer."
            assert not run.status().ready
    run.stop()
    whole(world)


def test_a_clock_far_ahead_moves_no_watermark() -> None:
    ahead = Sent(
        START_NS + 20 * NS_PER_SECOND, 0, record("wrong", START_NS + 10 * 365 * 86_400 * NS_PER_SECOND)
    )
    world = World(sorted([*SENT, ahead], key=lambda sent: sent.at_ns))
    run_to_end(world)
    assert check(world.store) == []
    found = letters(world)
    assert [(row["reason"], row["source"]) for row in found] == [("absurd-time", "(stitched)")]
    world.sent.remove(ahead)
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


@pytest.mark.parametrize("ahead_s", [86_400, 45, -45, -1_800])
def test_a_clock_of_ours_that_jumps_for_minutes_seals_nothing_and_refuses_nothing(ahead_s: int) -> None:
    """One partition is silent the while, so that the lane goes by the clock for it; the other pauses, too."""
    sent = requests(36, partitions=2, spread_s=400)
    first, last = (START_NS + s * NS_PER_SECOND for s in (150, 250))
    world = World([each for each in sent if each.partition == 0 and not first < each.at_ns < last])
    run = world.start("process")
    committed = []
    for _ in world.turns("process"):
        is_wrong = first + 50 * NS_PER_SECOND < world.now_ns < last + 50 * NS_PER_SECOND
        world.clock_ahead_ns["process"] = ahead_s * NS_PER_SECOND if is_wrong else 0
        if is_wrong:
            committed.append(run.status().lanes[0].commit)
    run.stop()
    assert committed[-1] > committed[0] + 2
    assert check(world.store) == []
    assert not letters(world)
    assert not late_ids(world)
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


def test_a_clock_of_ours_that_is_wrong_from_the_start_halts_and_loses_nothing() -> None:
    world = World(SENT, settings=replace_settings(max_dead_letters_per_commit=2))
    world.clock_ahead_ns["behind"] = -30 * 86_400 * NS_PER_SECOND
    run = world.start("behind")
    for _ in range(6):
        world.pass_time(world.step_s)
        run.turn(0.0)
    assert set(run.halted) == {1, 2}
    assert "ahead of the clock of this host, 2026-12-" in run.halted[1]
    run.stop()
    world.bury("behind")
    run_to_end(world, "right")
    assert not letters(world)
    whole(world)


def test_what_comes_a_day_behind_is_a_window_of_its_own() -> None:
    behind = Sent(START_NS + 90 * NS_PER_SECOND, 0, record("old", START_NS - 86_400 * NS_PER_SECOND))
    world = World(sorted([*SENT, behind], key=lambda sent: sent.at_ns))
    run_to_end(world)
    whole(world)
    assert late_ids(world) == []


def test_a_record_after_its_window_was_built_builds_it_again_and_a_copy_is_dropped() -> None:
    first = min(SENT, key=lambda sent: sent.at_ns)
    at = START_NS + 100 * NS_PER_SECOND
    more = [Sent(at, 0, first.value), Sent(at, 0, record("r0", START_NS, "more"))]
    settings = SETTINGS.model_copy(update={"keep_events_ns": 1200 * NS_PER_SECOND})
    world = World(sorted([*SENT, *more], key=lambda sent: sent.at_ns), settings=settings)
    run_to_end(world)
    whole(world)
    versions = [window for commit in commits(world) if commit.build for window in commit.build.windows]
    again = [window for window in versions if window.version == 2]
    assert [window.duplicates for window in again] == [1]
    assert len(world.published()) == 12


def test_a_record_whose_window_cannot_be_built_again_is_late() -> None:
    first = min(SENT, key=lambda sent: sent.at_ns)
    at = START_NS + 170 * NS_PER_SECOND
    more = [Sent(at, 0, first.value), Sent(at, 0, record("r0", START_NS, "more"))]
    world = World(sorted([*SENT, *more], key=lambda sent: sent.at_ns))
    run_to_end(world)
    assert check(world.store) == []
    assert late_ids(world) == ["r0", "r0"]
    assert sum(commit.counters.events_late for commit in commits(world)) == 2
    assert len(world.published()) == 12


def test_a_silent_partition_does_not_hold_up_the_seal() -> None:
    world = World(requests(36, partitions=2, spread_s=300), partitions=3)
    world.sent = [
        sent for sent in world.sent if sent.partition == 0 or sent.at_ns < START_NS + 60 * NS_PER_SECOND
    ]
    run = world.start("process")
    for turn in world.turns("process"):
        if turn == 70:
            break
    sealed = open_manifest(world.store).sealed_to_ns
    assert sealed is not None
    assert sealed > world.now_ns - 2 * NS_PER_MINUTE
    run.stop()
    idle = {name for commit in commits(world) for name in commit.standing.idle}
    assert "spans/2" in idle


def test_a_lagging_partition_delays_the_seal_visibly() -> None:
    world = World(SENT)
    run = world.start("process")
    member = world.members["process"]
    for turn in world.turns("process"):
        if turn == 5:
            member.pause([StreamId("spans", 0)])
        if turn == 40:
            break
    told = {lane.lane: lane for lane in run.status().lanes}
    assert told[1].streams[0].lag > 0
    assert told[2].streams[0].lag == 0
    assert (told[1].watermark_ns or 0) < (told[2].watermark_ns or 0)
    sealed_to_ns = open_manifest(world.store).sealed_to_ns or 0
    assert sealed_to_ns <= (told[1].watermark_ns or 0)
    assert run.status().build.sealed_to_ns in (None, sealed_to_ns)
    member.resume([StreamId("spans", 0)])
    run_to_end(world)
    whole(world)


def test_bad_messages_become_dead_letters_of_their_offset_and_cost_no_neighbour() -> None:
    at = START_NS + 30 * NS_PER_SECOND
    bad = [b"", b"\xff\xfe", b"{" * 10_000, b'{"ts": 1e400}', b"[[[", b'{"breadcrumb": 1}']
    world = World(sorted([*SENT, *(Sent(at, 0, value) for value in bad)], key=lambda sent: sent.at_ns))
    run_to_end(world)
    assert check(world.store) == []
    found = letters(world)
    assert {row["source"] for row in found} == {"spans/0"}
    stream = world.log.messages[StreamId("spans", 0)]
    assert {stream[int(str(row["position"]))].value for row in found} == set(bad)
    world.sent = SENT
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


def test_a_request_without_end_holds_no_seal_and_is_built_once() -> None:
    """A strand that never ends: a record every few seconds, for longer than a request may take."""
    endless = [
        Sent(
            START_NS + i * 4 * NS_PER_SECOND, 0, record("endless", START_NS + i * 4 * NS_PER_SECOND, f"p{i}")
        )
        for i in range(60)
    ]
    stitch = SETTINGS.stitch.model_copy(update={"max_age_ns": 60 * NS_PER_SECOND})
    world = World(
        sorted([*SENT, *endless], key=lambda sent: sent.at_ns), settings=replace_settings(stitch=stitch)
    )
    run_to_end(world)
    assert check(world.store) == []
    assert "endless" in world.published()
    assert len(world.published()) == 13
    assert "endless" in late_ids(world)
    manifest = open_manifest(world.store)
    flows = pa.concat_tables([manifest.decoded(file) for file in manifest.files("flows")]).to_pylist()
    incomplete = [row["request_id"] for row in flows if row["quality"] & Quality.INCOMPLETE]
    assert incomplete == ["endless"]


@pytest.mark.parametrize("has_id", [True, False])
@pytest.mark.parametrize("restarts", [(), (50, 75)])
def test_a_request_longer_than_its_age_is_one_flow_whoever_has_the_lane(
    restarts: tuple[int, ...], has_id: bool
) -> None:
    long = [
        Sent(at, 0, record("long", at) if has_id else nameless("long", at))
        for at in (START_NS + after * NS_PER_SECOND for after in range(0, 350, 5))
    ]
    others = requests(35, partitions=1, spread_s=350)
    stitch = SETTINGS.stitch.model_copy(
        update={"idle_ns": 20 * NS_PER_SECOND, "max_age_ns": 60 * NS_PER_SECOND}
    )
    world = World(
        sorted([*long, *others], key=lambda sent: sent.at_ns),
        settings=replace_settings(stitch=stitch),
        partitions=1,
    )
    name = "first"
    world.start(name)
    while not world.over:
        for turn in world.turns(name):
            if turn in restarts:
                break
        world.processes[name].stop()
        world.bury(name)
        name, restarts = f"after {restarts[:1]}", restarts[1:]
        world.start(name)
    world.processes[name].stop()
    assert check(world.store) == []
    assert len(world.published()) == 36  # raises where one is there twice


def nameless(breadcrumb: str, at_ns: int) -> bytes:
    told = {"breadcrumb": breadcrumb, "ts": at_ns, "component": "web", "point": "p", "kind": "event"}
    return json.dumps(told).encode()


def test_a_backlog_older_than_what_was_retired_is_late_and_not_hidden(tmp_path: Path) -> None:
    world = World(SENT)
    later = START_NS + 600 * NS_PER_SECOND
    file = tmp_path / "later.ndjson"
    file.write_bytes(record("imported", later, kind="end"))
    import_files(
        world.store,
        tmp_path / "scratch",
        [str(file)],
        ImportSettings(window_length_ns=NS_PER_MINUTE),
        owner="import",
        created_by="test",
        stdin=BytesIO(),
        progress=Quiet(),
    )
    upkeep = UpkeepRun(world.store, "lake", later + 3600 * NS_PER_SECOND, 0, "retire", "test")
    retired = retire(upkeep, keep_ns=10 * NS_PER_SECOND)
    assert retired.to_ns is not None
    run_to_end(world)
    assert sum(commit.counters.flows for commit in commits(world)) == 1
    assert len(late_ids(world)) == len(world.sent)


def test_a_new_partition_is_a_new_lane() -> None:
    world = World(SENT, partitions=2)
    world.start("process")
    for turn in world.turns("process"):
        if turn == 10:
            world.log.create_partition("spans", 2)
            world.log.write("spans", 2, record("new", world.now_ns, kind="end"), world.now_ns)
    world.processes["process"].stop()
    assert check(world.store) == []
    assert "new" in world.published()
    assert lanes(world.store) == [1, 2, 3, UPKEEP_LANE]


def test_two_groups_on_one_lake_end_with_one_of_them_and_a_clear_error() -> None:
    world = World(SENT)
    run = world.start("ours")
    other = World(SENT, disk=world.disk)
    stranger = other.start("theirs")
    while not world.over:
        for each in (world, other):
            each.pass_time(each.step_s)
        run.turn(0.0)
        stranger.turn(0.0)
    halted = {**run.halted, **stranger.halted}
    assert set(halted) == {1, 2}
    assert "second group" in halted[1]
    assert "Run the command" not in halted[1]
    run.stop()
    stranger.stop()
    whole(world)


@pytest.mark.parametrize("n", [1, 7])
def test_memory_is_bounded_by_publishing_early(n: int) -> None:
    """With a budget of almost nothing, windows are written in parts, and nothing is lost."""
    world = World(SENT, settings=SETTINGS.model_copy(update={"memory_bytes": n}))
    run_to_end(world)
    assert check(world.store) == []
    assert set(world.published()) == {row[0] for row in flow_rows(world.expected().flows)}


@pytest.mark.parametrize("budget", [5_000, 10_000])
def test_lanes_of_which_none_holds_half_of_the_budget_go_on(budget: int) -> None:
    """Together they hold more than there is: each gives some of its share, and reading goes on."""
    settings = SETTINGS.model_copy(update={"memory_bytes": budget})
    world = World(requests(64, partitions=8, spread_s=20), partitions=8, settings=settings)
    run_to_end(world)
    assert check(world.store) == []
    assert set(world.published()) == {row[0] for row in flow_rows(world.expected().flows)}


def replace_settings(**update: object) -> LiveSettings:
    return SETTINGS.model_copy(update=update)


def test_a_disk_that_is_full_when_a_lane_is_taken_over_is_waited_for() -> None:
    disk = FullDisk()
    world = World(SENT, disk=disk)
    run = world.start("process")
    next(world.turns("process"))
    run.stop()
    run = world.start("process")  # its lanes have commits, so a takeover writes one
    disk.full = True
    for turn in world.turns("process"):
        disk.full = turn < 8
        if turn == 5:
            assert {lane.state for lane in run.status().lanes} == {LaneState.WAITING}
            assert not run.status().ready
            assert not run.halted
    assert run.stop()
    whole(world)


def test_a_log_that_does_not_answer_when_a_lane_is_taken_over_is_waited_for() -> None:
    world = World(SENT)
    run = world.start("a")
    world.log.silent_on_start = True
    for turn in world.turns("a"):
        world.log.silent_on_start = turn < 8
        if turn == 5:
            assert "is not known" in run.status().lanes[0].why
            assert not run.halted
    assert run.stop()
    whole(world)


def test_a_stop_tells_that_something_was_not_committed() -> None:
    disk = FullDisk()
    world = World(SENT, disk=disk)
    run = world.start("process")
    for turn in world.turns("process"):
        if turn == 8:
            break
    disk.full = True
    assert not run.stop(whole=True)
