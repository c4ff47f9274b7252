"""A life of live ingestion in which much goes wrong at once: processes, disk and log, by chance from a seed.

Nothing here knows what the driver does about it. In the end all is well again, a person restarts what halted,
and the lake must be what one quiet process would have made of it.
"""

from __future__ import annotations

import errno
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from chaos.reading import GrowingLake
from oracles.live_process import SETTINGS, START_NS, Sent, World, requests
from oracles.memory_disk import CrashError, MemoryDisk
from oracles.object_store import ObjectStore

from schemas.config import StitchConfig
from schemas.errors import FlowdiffError
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.lake.layout import LAKE_FILE
from stitch.lake.manifest import open_manifest
from stitch.lake.store import UncertainError
from stitch.lake.upkeep.compaction import compact
from stitch.lake.upkeep.upkeep_lane import UpkeepRun

KEEPS = SETTINGS.model_copy(
    update={
        "keep_events_ns": 60 * NS_PER_MINUTE,
        "stitch": StitchConfig(idle_ns=10 * NS_PER_SECOND, max_age_ns=20 * NS_PER_SECOND),
    }
)
"""All that a repair needs."""
LASTS_S = 160
MOST_PROCESSES = 3
TROUBLE = 0.25
"""Of the turns in which something happens."""


@dataclass
class Troubles:
    """Of whatever holds the lake."""

    rng: random.Random
    full_to_ns: int = 0
    away_to_ns: int = 0
    doubts: int = 0
    """Commits to come whose answer is lost."""

    def is_doubtful(self, name: str, now_ns: int) -> bool:
        """Whether the answer to a commit is lost."""
        if "/commits/" not in name or not (self.doubts or now_ns < self.away_to_ns):
            return False
        self.doubts = max(0, self.doubts - 1)
        return True


class UnreliableDisk(MemoryDisk):
    """Full, away, or in doubt about a commit."""

    troubles: Troubles

    def create(self, name: str, data: pa.Buffer | bytes) -> None:
        if self.now_ns < self.troubles.full_to_ns:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().create(name, data)

    def link(self, source: str, target: str) -> None:
        is_doubtful = self.troubles.is_doubtful(target, self.now_ns)
        if not is_doubtful or self.troubles.rng.random() < 0.5:
            super().link(source, target)
        if is_doubtful:
            raise TimeoutError(errno.ETIMEDOUT, "the store did not answer in time")

    def end(self, how: str) -> None:
        """A process died on it, or all did, without power."""
        if how == "kill":
            self.kill()
        elif how == "power":
            self.lose_power()
        else:
            self.lose_some(self.troubles.rng)


class UnreliableBucket(ObjectStore):
    """Refuses what is put, or does not say whether it took it."""

    troubles: Troubles

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        if self.now_ns < self.troubles.full_to_ns:
            raise OSError(errno.EAGAIN, "the store answered 503 SlowDown; try again later")
        super().put(name, data)

    def put_if_absent(self, name: str, data: bytes, stage: str) -> None:
        is_doubtful = self.troubles.is_doubtful(name, self.now_ns)
        if not is_doubtful or self.troubles.rng.random() < 0.5:
            super().put_if_absent(name, data, stage)
        if is_doubtful:
            raise UncertainError(errno.ETIMEDOUT, "the store did not answer in time")

    def end(self, how: str) -> None:
        """A process died: with its last request done, or not."""
        del how
        self.restart()


class TroubledLife:
    """One life; everything by chance is of `seed`, but for when threads are done with decoding."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.troubles = Troubles(self.rng)
        self.place: UnreliableDisk | UnreliableBucket
        if self.rng.random() < 0.5:
            self.place = disk = UnreliableDisk()
            bucket = None
        else:
            self.place = bucket = UnreliableBucket(times_out=self.rng.random() < 0.5)
            disk = UnreliableDisk()
        self.place.troubles = self.troubles
        partitions = self.rng.choice((1, 2, 3))
        self.is_late = self.rng.random() < 0.5
        """Whether messages come again, and some long after their window was sealed."""
        sent = _sent(partitions)
        self.world = World(
            _disordered(sent, self.rng) if self.is_late else sent,
            disk,
            bucket=bucket,
            settings=KEEPS if self.is_late else SETTINGS,
            partitions=partitions,
            step_s=self.rng.choice((3, 4, 7)),
            drains=False,
        )
        self.world.log.per_poll = self.rng.choice((2, 5, 50))
        self.asleep: dict[str, int] = {}
        """Processes that sleep, and to when."""
        self.born = 0
        self.reader = self._new_reader()
        self.told: list[str] = []
        """What happened, for whoever has to understand it."""

    def lead(self) -> None:
        """From the first message to a lake at rest."""
        self._bear()
        while not self.world.over:
            self._pass()
            if self.rng.random() < TROUBLE:
                self.rng.choice(self._troubles)()
        self._heal()
        while not self._rests():
            self._pass()
        assert self._compact(), self.told[-1]  # it finishes what the last one could not publish
        for name in [*self.world.processes]:
            self._stop(name, whole=True)

    # -- time -----------------------------------------------------------------------------------------------

    def _pass(self) -> None:
        """A moment, in which every process that is awake does something."""
        world = self.world
        if "more" not in world.log.topic_ids and world.now_ns + world.step_s * NS_PER_SECOND >= _MORE_FROM_NS:
            world.log.create("more", 2)
            world.log.rebalance()
        world.pass_time(world.step_s)
        self.place.now_ns = world.now_ns
        for name in self.rng.sample([*world.processes], len(world.processes)):
            if name in world.processes and world.now_ns >= self.asleep.get(name, 0):
                self._turn(name)
        if not world.processes:
            self._bear()
        self._read()

    def _new_reader(self) -> GrowingLake:
        return GrowingLake(lambda: open_manifest(self.world.store), all_every=20)

    def _read(self) -> None:
        """Somebody reads all the while."""
        if self.world.store.size(LAKE_FILE) is not None:
            self.reader.read()
        assert not self.reader.trouble, self.reader.trouble
        assert not self.reader.vanished, f"{self.reader.vanished} requests are gone"
        assert not self.reader.doubled, f"{self.reader.doubled} requests are there twice"

    def _turn(self, name: str) -> None:
        run = self.world.processes[name]
        try:
            run.turn(0.0)
            if run.all_halted:  # the command ends, and is started again
                self.told.append(f"{name} halted: {run.halted}")
                self._stop(name)
        except CrashError:
            self._die(name)

    def _die(self, name: str) -> None:
        end = self.rng.choice(("kill", "power", "some"))
        self.told.append(f"{name} dies: {end}")
        self._bury(name)
        self._end_disk(end)

    def _end_disk(self, end: str) -> None:
        """What a death leaves on the disk; without power nobody is left, and what was seen may be undone."""
        if end != "kill":
            self.reader = self._new_reader()
            for each in [*self.world.processes]:
                self._bury(each)
        self.place.end(end)

    def _stop(self, name: str, *, whole: bool = False) -> None:
        try:
            self.world.processes[name].stop(whole=whole)
        except CrashError:
            self._die(name)
        else:
            self.world.bury(name)
            self.asleep.pop(name, None)

    def _bury(self, name: str) -> None:
        self.world.processes[name]._decoders.close()
        self.world.bury(name)
        self.asleep.pop(name, None)

    def _heal(self) -> None:
        self.told.append("all is well")
        self.place.crash_at = 0
        self.troubles.full_to_ns = self.troubles.away_to_ns = self.troubles.doubts = 0
        self.world.log.unreachable = self.world.log.silent_on_start = False
        self.asleep.clear()
        self.world.clock_ahead_ns.clear()
        self.world.settings = self.world.settings.model_copy(update={"accept_gaps": True})
        self._healed_ns = self.world.now_ns

    def _rests(self) -> bool:
        """Whether all was read, and every window had time to be sealed. A person restarts what halted."""
        for name, run in [*self.world.processes.items()]:
            if run.halted:
                self.told.append(f"{name} is restarted: {run.halted}")
                self._stop(name)
            for _, _, decoded in run._decoders._under_way:  # the clock here does not wait for threads
                decoded.result()
        assert self.world.now_ns < self._healed_ns + 900 * NS_PER_SECOND, "it does not come to rest"
        read = {
            stream.name: stream.lag
            for run in self.world.processes.values()
            for lane in run.status().lanes
            for stream in lane.streams
        }
        all_read = {stream.name for stream in self.world.log.messages} == read.keys() and not any(
            read.values()
        )
        return all_read and self.world.now_ns > self._healed_ns + 150 * NS_PER_SECOND

    # -- troubles -------------------------------------------------------------------------------------------

    def _bear(self) -> None:
        """One process more."""
        if len(self.world.processes) >= MOST_PROCESSES:
            return
        self.born += 1
        try:
            self.world.start(f"p{self.born}")
        except (OSError, FlowdiffError) as error:  # the command ends with a line, and is started again
            self.told.append(f"p{self.born} cannot begin: {error}")
        except CrashError:
            self.told.append(f"p{self.born} dies at birth")
            self.place.end("kill")

    def _crash(self) -> None:
        self.place.crash_at = self.place.steps + self.rng.randint(1, 30)

    def _sleep(self) -> None:
        """Its session ends, and it does not know."""
        if not self.world.processes:
            return
        name = self.rng.choice([*self.world.processes])
        if self.world.members[name] in self.world.log.members:
            self.told.append(f"{name} sleeps")
            self.asleep[name] = self.world.now_ns + self._while_ns()
            self.world.log.declare_dead(self.world.members[name])

    def _jump(self) -> None:
        """The clock of a host is wrong for some time."""
        if self.world.processes:
            name = self.rng.choice([*self.world.processes])
            ahead_s = self.rng.choice((0, 40, 86_400, -40, -3_600))
            self.told.append(f"the clock of {name} is {ahead_s} s ahead")
            self.world.clock_ahead_ns[name] = ahead_s * NS_PER_SECOND

    def _end(self) -> None:
        """A process ends in order."""
        awake = [name for name in self.world.processes if self.world.now_ns >= self.asleep.get(name, 0)]
        if len(awake) > 1:
            name = self.rng.choice(awake)
            self.told.append(f"{name} stops")
            self._stop(name)

    def _fill(self) -> None:
        self.told.append("full")
        self.troubles.full_to_ns = self.world.now_ns + self._while_ns()

    def _vanish(self) -> None:
        self.told.append("away")
        self.troubles.away_to_ns = self.world.now_ns + self._while_ns()

    def _doubt(self) -> None:
        self.told.append("doubt")
        self.troubles.doubts = self.rng.randint(1, 3)

    def _compact(self) -> bool:
        """Another process makes few files of many, on a machine of its own or ours; whether it could."""
        self.born += 1
        try:
            grace_ns = 10 * NS_PER_SECOND
            run = UpkeepRun(self.world.store, "lake", self.world.now_ns, grace_ns, f"u{self.born}", "test")
            done = compact(run, least_files=2)
            self.told.append(f"compacted {done.windows}")
        except CrashError:
            self._end_disk(self.rng.choice(("kill", "power", "some")))
        except (OSError, FlowdiffError) as error:  # a line, and it is run again another time
            self.told.append(f"not compacted: {error}")
        else:
            return True
        return False

    def _cut(self) -> None:
        """The log does not answer, or answers again."""
        self.world.log.unreachable = not self.world.log.unreachable

    def _shorten(self) -> None:
        """An unclean election: a log loses its end, and its senders write that again."""
        log = self.world.log
        stream = self.rng.choice(sorted(log.messages))
        end = len(log.messages[stream])
        lost = log.cut_back(stream, max(0, end - self.rng.randint(1, 20)))
        self.told.append(f"{stream.name} is cut back from {end} by {len(lost)}")
        for message in lost:
            log.write(stream.topic, stream.partition, message.value, message.at_ns)

    def _silence(self) -> None:
        self.world.log.silent_on_start = not self.world.log.silent_on_start

    def _while_ns(self) -> int:
        return self.rng.randint(5, 30) * NS_PER_SECOND

    @property
    def _troubles(self) -> list[Callable[[], object]]:
        return [
            *(self._bear, self._crash, self._sleep, self._end),
            *(self._fill, self._vanish, self._doubt, self._cut, self._silence, self._jump),
            *(self._compact, self._compact),
            *([self._shorten] if self.is_late else []),
        ]


_MORE_FROM_NS = START_NS + LASTS_S * NS_PER_SECOND // 3


def _sent(partitions: int) -> list[Sent]:
    """Requests of two topics, the second of which is not there from the start."""
    first = requests(30, partitions, LASTS_S)
    second = [
        replace(
            message,
            at_ns=message.at_ns + _MORE_FROM_NS - START_NS,
            value=_later(message.value),
            topic="more",
        )
        for message in requests(12, 2, LASTS_S // 2)
    ]
    return sorted([*first, *second], key=lambda message: message.at_ns)


def _disordered(sent: list[Sent], rng: random.Random) -> list[Sent]:
    """One message in twenty comes again, one in twenty late: moments or minutes after its time."""
    told = []
    for message in sent:
        delays = [rng.random() < 0.05, *([True] if rng.random() < 0.05 else [])]
        for is_delayed in delays:
            after_s = rng.choice((2, 20, 60, 120)) if is_delayed else 0
            told.append(replace(message, at_ns=message.at_ns + after_s * NS_PER_SECOND))
    return sorted(told, key=lambda message: message.at_ns)


def _later(value: bytes) -> bytes:
    """A record of another request, in the second topic's time."""
    record = json.loads(value)
    record["ts"] += _MORE_FROM_NS - START_NS
    record["breadcrumb"], record["request_id"] = f"m{record['breadcrumb']}", f"m{record['request_id']}"
    return json.dumps(record).encode()
