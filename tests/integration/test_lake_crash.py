"""The commit protocol under a crash at every operation, and the mutants that must not survive it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from copy import deepcopy
from functools import partial
from unittest.mock import patch

import pyarrow as pa
import pytest
from oracles.every_death import Death, Judged, deaths, deaths_in_bucket
from oracles.lake_script import HISTORY, Acknowledged, Content, Import, make, stage
from oracles.lake_script import content as content_of
from oracles.lake_script import open_lane as open_lane_of
from oracles.lake_script import run as run_on
from oracles.memory_disk import ENDINGS, CrashError, MemoryDisk, Node
from oracles.object_store import ObjectStore

from schemas.commits import CommitBody, CommitRecord, Publish
from schemas.errors import LakeError
from stitch.lake import chain, lane
from stitch.lake.chain import Chained, CommitTakenError, Tail, put_record, read_chain
from stitch.lake.fsck import Violation
from stitch.lake.fsck import check as check_store
from stitch.lake.lane import Lane
from stitch.lake.store import LocalStore, Store

pytestmark = pytest.mark.usefixtures("encoded_once")

DiskFactory = Callable[[], MemoryDisk]
Ending = Callable[[MemoryDisk], None]
Dead = Death[MemoryDisk, Acknowledged]


def run(disk: MemoryDisk, told: Acknowledged) -> None:
    run_on(LocalStore(disk), told)


def content(disk: MemoryDisk) -> Content:
    return content_of(LocalStore(disk))


def check(disk: MemoryDisk) -> list[Violation]:
    return check_store(LocalStore(disk))


def open_lane(disk: MemoryDisk, owner: str = "test") -> Lane:
    return open_lane_of(LocalStore(disk), owner)


def undisturbed(factory: DiskFactory = MemoryDisk) -> tuple[int, Content]:
    disk = factory()
    run(disk, Acknowledged())
    return disk.steps, content(disk)


STEPS, EXPECTED = undisturbed()


def resume_and_judge(disk: MemoryDisk, told: Acknowledged) -> None:
    """After the crash: readers see whole commits only; what was told is there; a second run completes it."""
    before = content(disk)
    assert not before - EXPECTED
    assert_only_committed_files(disk)
    promised = list(told.imports)
    if promised:
        open_lane(disk)
        assert {step.file.sha256 for step in HISTORY if step.name in promised} <= set(
            open_lane(disk).known_inputs()
        )
    run(disk, told)
    disk.lose_power()  # everything was acknowledged, so nothing may depend on luck
    assert check(disk) == []
    assert content(disk) == EXPECTED


def assert_only_committed_files(disk: MemoryDisk) -> None:
    """Not one file under a queryable folder before its commit (I2); a missing one (I3) may still come."""
    if disk.size("flowdiff.json") is not None:
        assert [f for f in check(disk) if f.invariant != "I3"] == []
    else:
        assert not {"flows", "structures", "params"} & set(disk.names(""))


def died(disk: MemoryDisk, told: Acknowledged) -> list[Dead]:
    """A run that dies in each of its operations."""
    return deaths(disk, lambda watched: run(watched, told), told)


def ended(death: Dead, ending: Ending) -> Dead:
    """What is left of it then, to go on with."""
    left, told = death.left.twin(), deepcopy(death.told)
    ending(left)
    return Death(left, told)


def crash_once(factory: DiskFactory, ending: Ending) -> None:
    judged = Judged()
    for death in died(factory(), Acknowledged()):
        left, told = ended(death, ending)
        if judged.is_new(left, told):
            resume_and_judge(left, told)


class Recoveries:
    """Runs after a first crash, each with all that a second crash leaves."""

    def __init__(self, factory: DiskFactory) -> None:
        self._first = died(factory(), Acknowledged())
        self._judged = Judged()
        self._second: dict[tuple[int, Ending], tuple[list[Dead], Dead]] = {}

    def crash_twice(self, at: int, again: int, first: Ending, second: Ending) -> None:
        """The second crash hits the recovery, or whatever comes `again` operations after the restart."""
        if (at, first) not in self._second:
            left, told = ended(self._first[at - 1], first)
            left.steps = 0
            self._second[at, first] = died(left, told), Death(left, told)
        crashes, whole = self._second[at, first]
        if again <= len(crashes):
            left, told = ended(crashes[again - 1], second)
        else:  # it lay behind the end
            left, told = ended(whole, MemoryDisk.kill)
        if self._judged.is_new(left, told):
            resume_and_judge(left, told)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_crash_at_any_operation_loses_and_doubles_nothing(ending: str) -> None:
    crash_once(MemoryDisk, ENDINGS[ending])


def test_two_crashes_in_a_row_lose_and_double_nothing() -> None:
    rng, recoveries = random.Random(7), Recoveries(MemoryDisk)
    for _ in range(200):
        first, second = rng.choice([*ENDINGS.values()]), rng.choice([*ENDINGS.values()])
        recoveries.crash_twice(rng.randint(1, STEPS), rng.randint(1, 40), first, second)


def test_an_error_of_the_disk_at_any_operation_is_no_worse_than_a_crash() -> None:
    for at in range(1, STEPS + 1):
        disk, told = MemoryDisk(crash_at=at, error=lambda: OSError(5, "Input/output error")), Acknowledged()
        with pytest.raises(OSError, match="Input/output"):
            run(disk, told)
        disk.lose_power()
        resume_and_judge(disk, told)


def zombie_wakes_after(disk: MemoryDisk, other: Callable[[], object]) -> None:
    """A zombie stalls before its syncs; another process finds it dead and goes on; the zombie wakes."""
    commit, told = zombie_of(disk)
    other()
    commit()
    resume_and_judge(disk, told)


def zombie_wakes_at_link(disk: MemoryDisk, other: Callable[[], object]) -> None:
    """The same, but everything of the zombie's is synced: only its link is missing."""
    commit, told = zombie_of(disk)
    disk.turns["link"] = other
    commit()
    resume_and_judge(disk, told)


def zombie_wakes_within(disk: MemoryDisk, other: Callable[[], object]) -> None:
    """The zombie wakes after the other's fence, before the other's sweep."""
    commit, told = zombie_of(disk)
    disk.turns["remove"] = commit
    other()
    resume_and_judge(disk, told)


def zombie_of(disk: MemoryDisk) -> tuple[Callable[[], None], Acknowledged]:
    """A writer that has staged the first import, and its last act."""
    told = Acknowledged()
    zombie = open_lane(disk, "zombie")
    last_act = ExitStack()
    staging = last_act.enter_context(zombie.stage())
    counters = stage(staging, HISTORY[0])

    def commit() -> None:
        body = CommitBody(kind="import", inputs=(HISTORY[0].file,), counters=counters)
        try:
            with last_act:
                zombie.commit(staging, body)
        except CommitTakenError:
            return
        told.imports.append(HISTORY[0].name)

    return commit, told


def dies_before_sweeping(disk: MemoryDisk) -> None:
    with patch.object(disk, "remove", side_effect=CrashError), pytest.raises(CrashError):
        open_lane(disk, "takeover")


RACES = [zombie_wakes_after, zombie_wakes_at_link, zombie_wakes_within]
OTHERS: list[Callable[[MemoryDisk], object]] = [open_lane, lambda disk: run(disk, Acknowledged())]


@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("other", [*OTHERS, dies_before_sweeping])
def test_a_writer_thought_dead_cannot_commit_what_was_swept(
    race: Callable[[MemoryDisk, Callable[[], object]], None], other: Callable[[MemoryDisk], object]
) -> None:
    disk = MemoryDisk()
    race(disk, lambda: other(disk))


def all_races(factory: DiskFactory) -> None:
    for race in RACES:
        for other in OTHERS:
            disk = factory()
            race(disk, partial(other, disk))


# -- mutants of the protocol: each must be caught by one of the tests above ------------------------


class SkipsFileSync(MemoryDisk):
    """Leaves out fsync of some files."""

    pattern = ""

    def sync_file(self, name: str) -> None:
        if self.pattern in name:
            self.skip()
        else:
            super().sync_file(name)


class SkipsStagedSync(SkipsFileSync):
    pattern = ".parquet"


class SkipsDraftSync(SkipsFileSync):
    pattern = "draft"


class SkipsFolderSync(MemoryDisk):
    """Leaves out fsync of some folders."""

    def skipped(self, name: str) -> bool:
        return False

    def sync_folder(self, name: str) -> None:
        if self.skipped(name):
            self.skip()
        else:
            super().sync_folder(name)


class SkipsStageFolderSync(SkipsFolderSync):
    def skipped(self, name: str) -> bool:
        return name.startswith("stage/lane=0/")


class SkipsCommitFolderSync(SkipsFolderSync):
    def skipped(self, name: str) -> bool:
        return name == "control/commits/lane=0"


class SkipsWindowFolderSync(SkipsFolderSync):
    def skipped(self, name: str) -> bool:
        return "window=" in name


class SkipsPublishSyncs(SkipsFolderSync):
    """Both folders of the rename: syncing one of them is enough on a journaling file system."""

    def skipped(self, name: str) -> bool:
        return "window=" in name or name == "dead_letters" or name.startswith("stage/lane=0/")


class SkipsTableFolderSync(SkipsFolderSync):
    def skipped(self, name: str) -> bool:
        return name in {"flows", "structures"}


class Overwrites(MemoryDisk):
    """`link` as a rename would do it: the later one wins."""

    def link(self, source: str, target: str) -> None:
        self.interrupt("link")
        self.skip()
        self._require(source)
        node: Node = self._seen[source]
        self._change((target.rpartition("/")[0],), None, target, node)


def all_schedules(factory: DiskFactory) -> None:
    """What the tests above try, in the order of likely catches. Raises once the lake went wrong."""
    all_races(factory)
    for ending in ENDINGS.values():
        crash_once(factory, ending)
    rng, recoveries = random.Random(7), Recoveries(factory)
    for _ in range(400):
        recoveries.crash_twice(
            rng.randint(1, STEPS), rng.randint(1, 40), MemoryDisk.kill, MemoryDisk.lose_power
        )


CAUGHT = (AssertionError, LakeError, FileNotFoundError, FileExistsError, pa.ArrowInvalid)
"""How a wrong lake shows; a mutant that merely breaks the program would raise something else."""


@pytest.mark.parametrize(
    "mutant",
    [
        SkipsStagedSync,
        SkipsDraftSync,
        SkipsStageFolderSync,
        SkipsCommitFolderSync,
        SkipsPublishSyncs,
        SkipsTableFolderSync,
        Overwrites,
    ],
)
def test_a_disk_that_cheats_is_caught(mutant: type[MemoryDisk]) -> None:
    assert undisturbed(mutant)[1] == EXPECTED
    with pytest.raises(CAUGHT):
        all_schedules(mutant)


def publishes_before_commit(store: Store, record: CommitRecord, stage: str) -> Chained:
    store.publish([lane.Move(item.stage, item.final) for item in record.publish])
    return put_record(store, record, stage)


def test_publishing_before_the_commit_is_caught() -> None:
    with patch.object(lane, "put_record", publishes_before_commit):
        assert undisturbed()[1] == EXPECTED
        with pytest.raises(CAUGHT):
            all_schedules(MemoryDisk)


def test_an_opening_that_does_not_finish_the_last_commit_is_caught() -> None:
    def only_own(self: Lane, items: Iterable[Publish]) -> None:
        if self._unpublished:
            publish(self, items)

    publish = Lane._publish
    with patch.object(Lane, "_publish", only_own):
        assert undisturbed()[1] == EXPECTED
        with pytest.raises(CAUGHT):
            all_schedules(MemoryDisk)


class ForgetsTheCommitFolder(MemoryDisk):
    """Recovery that trusts the last record it reads: the folder is only synced by who links."""

    linked = False

    def link(self, source: str, target: str) -> None:
        self.linked = True
        super().link(source, target)

    def sync_folder(self, name: str) -> None:
        if name != "control/commits/lane=0" or self.linked:
            self.linked = self.linked and name != "control/commits/lane=0"
            super().sync_folder(name)
        else:
            self.skip()

    def kill(self) -> None:
        self.linked = False
        super().kill()


def test_a_recovery_that_trusts_an_unsynced_commit_is_caught() -> None:
    assert undisturbed(ForgetsTheCommitFolder)[1] == EXPECTED
    with pytest.raises(CAUGHT):
        kill_after_each_link_then_lose_power(ForgetsTheCommitFolder)


def kill_after_each_link_then_lose_power(factory: DiskFactory) -> None:
    disk = factory()
    run(disk, Acknowledged())
    links = [step for step, what in enumerate(disk.log, start=1) if what.startswith("link")]
    recoveries = Recoveries(factory)
    for link in links:
        for again in range(1, 60):
            recoveries.crash_twice(link + 1, again, MemoryDisk.kill, MemoryDisk.lose_power)


def test_a_kill_right_after_the_link_then_a_power_loss() -> None:
    kill_after_each_link_then_lose_power(MemoryDisk)


def test_sweeping_without_a_fence_is_caught() -> None:
    def sweeps(self: Lane) -> Tail:
        self._store.settle("control/commits/lane=0")
        self._tail = lane.read_tail(self._store, self.lane)
        if self._tail.records:
            self._publish(self._tail.records[-1].record.publish)
        for folder in self._staged():
            self._store.remove(folder)
        return self._tail

    with patch.object(Lane, "_open", sweeps):
        assert undisturbed()[1] == EXPECTED
        with pytest.raises(CAUGHT):
            all_races(MemoryDisk)


# -- a lane that lives on ---------------------------------------------------------------------------

LONG = tuple(Import(f"minute-{n}", {f"r{n}": n}) for n in range(5))


def live(store: Store, told: Acknowledged) -> None:
    """One opening, many commits; checkpoints among them."""
    opened = open_lane_of(store)
    known = opened.known_inputs()
    for step in LONG:
        if step.file.sha256 not in known:
            make(opened, step)
            told.imports.append(step.name)


def lived(store: Store) -> Content:
    live(store, Acknowledged())
    return content_of(store)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "CHECKPOINT_EVERY", 2)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_crash_at_any_operation_of_a_lane_with_many_commits(ending: str) -> None:
    whole = MemoryDisk()
    expected = lived(LocalStore(whole))
    named = [link.record.checkpoint for link in read_chain(LocalStore(whole), 0)]
    assert [None if c is None else c.through for c in named] == [None, None, 2, None, 4]
    acknowledged, judged = Acknowledged(), Judged()
    for death in deaths(MemoryDisk(), lambda disk: live(LocalStore(disk), acknowledged), acknowledged):
        disk, told = ended(death, ENDINGS[ending])
        if not judged.is_new(disk, told):
            continue
        assert not content(disk) - expected
        live(LocalStore(disk), told)
        disk.lose_power()
        assert check(disk) == []
        assert content(disk) == expected
        assert [*dict.fromkeys(told.imports)] == [step.name for step in LONG if step.name in told.imports]


@pytest.mark.usefixtures("often")
def test_the_same_protocol_holds_on_an_object_store() -> None:
    """Whether or not the last request was carried out."""
    expected = lived(ObjectStore())
    acknowledged = Acknowledged()
    for store, told in deaths_in_bucket(ObjectStore(), lambda store: live(store, acknowledged), acknowledged):
        assert not content_of(store) - expected
        live(store, told)
        assert check_store(store) == []
        assert content_of(store) == expected


def test_what_could_not_be_published_is_carried_by_the_next_commit() -> None:
    disk = MemoryDisk()
    store = LocalStore(disk)
    opened = open_lane_of(store)
    make(opened, LONG[0])
    with (
        patch.object(disk, "rename", side_effect=OSError(28, "No space left on device")),
        pytest.raises(OSError, match="No space left"),
    ):
        make(opened, LONG[1])
    assert opened.seq == 3
    seen = content(disk)
    assert seen == lived_until(1)
    record = make(opened, LONG[2])
    assert [item.table for item in record.carried] == ["flows", "structures"]
    assert content(disk) == lived_until(3)
    assert check(disk) == []


def lived_until(n: int) -> Content:
    store = LocalStore(MemoryDisk())
    opened = open_lane_of(store)
    for step in LONG[:n]:
        make(opened, step)
    return content_of(store)
