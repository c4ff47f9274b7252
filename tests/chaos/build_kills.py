"""Real processes that log and build, killed at random operations of a disk or a bucket; stopped ones wake as
zombies.

Run: `PYTHONPATH=tests python tests/chaos/build_kills.py [KILLS] [SEED] [folder|bucket]`. Two lanes log what
is dealt to them at random, a builder builds another lake of it, in processes of their own. Each is killed at
a random operation and started again; now and then one is stopped, replaced, and woken. Every second time it
is the same lake that is built, every third time by worker processes of the builder, which are killed too. At
the end it is what one batch of all events is, the ledger closes, and `fsck` finds nothing. The bucket is on a
real server, whose client has threads: only children use it.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np
import pyarrow as pa
from oracles.bucket_server import BucketServer, moto_server
from oracles.dying_builds import sometimes_killed
from oracles.logged_lake import BuiltLake, LoggingLane, as_rows, dealt, made_lake
from oracles.traffic import native_lines, otlp_messages
from oracles.whole_lake import check

from ingest.formats import codec_for
from schemas.config import DecodeConfig, StitchConfig
from schemas.errors import LakeError
from schemas.events import concat_events
from schemas.windows import NS_PER_SECOND
from stitch.drivers.build import builder
from stitch.drivers.build.build_settings import BuildSettings
from stitch.kernel import stitch
from stitch.lake.bucket.bucket_settings import bucket_settings
from stitch.lake.bucket.bucket_store import BucketStore
from stitch.lake.chain import CommitTakenError, read_tail
from stitch.lake.disk import LocalDisk, exclusive_lock
from stitch.lake.store import LocalStore, Store

LANES = 2
OPERATIONS = {"folder": 60, "bucket": 25}
"""Until a process dies, in the mean, by place."""
FENCED, FAILED, WORKERLESS = 3, 4, 5
"""Exit codes."""


class DyingDisk(LocalDisk):
    """A disk whose process is killed before or after an operation."""

    left: float = float("inf")


class DyingBucket(BucketStore):
    """A bucket whose process is killed before or after a request that changes something."""

    left: float = float("inf")


def _dying(owner: type, name: str) -> Callable[..., Any]:
    real = getattr(owner, name)

    def operation(self: Any, *given: Any, **named: Any) -> Any:
        for _ in range(2):
            self.left -= 0.5
            if self.left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            if _ == 0:
                found = real(self, *given, **named)
        return found

    return operation


for each in ("create", "link", "rename", "sync_file", "sync_folder", "remove", "make_folder"):
    setattr(DyingDisk, each, _dying(LocalDisk, each))
for each in ("_create", "_copy", "_delete", "put_if_absent", "replace"):
    setattr(DyingBucket, each, _dying(BucketStore, each))


def some_events(seed: int) -> pa.Table:
    """A thousand events over ten minutes."""
    spans = codec_for("otlp-proto").decode([*otlp_messages(25, seed=seed, spans=20)], DecodeConfig()).events
    lines = [line.encode() for line in native_lines(40, seed=seed)]
    return concat_events([codec_for("native").decode(lines, DecodeConfig()).events, spans])


class Run:
    """Pair of lakes, from nothing to the end."""

    def __init__(self, folder: Path, seed: int, bucket: BucketServer | None) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.target = "live" if seed % 2 else "built"
        self.workers = 1 if seed % 3 else 2
        self.bucket, self.lake = bucket, "" if bucket is None else bucket.new_lake()
        for name in ("live", "built"):
            (folder / name).mkdir()
        self.in_a_child(lambda: [made_lake(self.whole(name)) for name in ("live", "built")])
        rng = np.random.default_rng(seed)
        lanes = [_Plan() for _ in range(LANES)]
        self.every, parts = dealt(some_events(seed), rng, lanes, late=0.02, twice=0.05)
        for _ in parts:
            pass
        self.polls = [lane.polls for lane in lanes]
        self.counts: Counter[str] = Counter()

    def in_a_child(self, work: Callable[[], object]) -> None:
        """Do some work in a process of its own. Raises AssertionError if it fails."""
        pid = os.fork()
        if not pid:
            code = FAILED
            try:
                work()
                code = 0
            except BaseException:  # noqa: BLE001 - said, and counted by the parent
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def whole(self, name: str) -> Store:
        """A store whose process lives."""
        if self.bucket is None:
            return LocalStore.at(self.folder / name)
        return BucketStore(bucket_settings(f"{self.lake}/{name}", self.bucket.environ))

    def store(self, name: str) -> Store:
        """A store whose process dies sooner or later."""
        left = random.expovariate(1 / OPERATIONS["folder" if self.bucket is None else "bucket"])
        if self.bucket is None:
            disk = DyingDisk(self.folder / name)
            disk.left = left
            return LocalStore(disk)
        store = DyingBucket(bucket_settings(f"{self.lake}/{name}", self.bucket.environ))
        store.left = left
        return store

    def log(self, number: int) -> None:
        """Run a lane in a process."""
        lane = LoggingLane(self.store("live"), number + 1, polls=self.polls[number])
        while lane.sent < len(self.polls[number]):
            lane.polls = self.polls[number][: lane.sent + 1]
            lane.take()
            lane.commit()

    def build(self) -> None:
        """Run a builder in a process, until lanes are done."""
        settings = BuildSettings(
            rebuild_ns=0, windows_per_commit=2, workers=self.workers, workers_from_rows=0, most_at_once=50
        )
        vars(builder)["build_groups"] = sometimes_killed
        with ExitStack() as held:
            if self.bucket is None:
                held.enter_context(exclusive_lock(self.folder / self.target))
            store = self.store(self.target)
            source = store if self.target == "live" else self.whole("live")
            built = BuiltLake(source, self.folder / "scratch", settings, store)
            built.builder._log_lake = f"{self.folder if self.bucket is None else self.lake}/live"
            os.environ.update({} if self.bucket is None else self.bucket.environ)
            built.now_ns = time.time_ns()
            while True:
                done = [self._is_logged(source, number) for number in range(LANES)]
                step = built.step(finished=all(done))
                if all(done) and not step.did_anything:
                    return
                time.sleep(0.01)

    def _is_logged(self, source: Store, number: int) -> bool:
        positions = read_tail(source, number + 1).standing.positions
        return bool(positions) and positions[0].end == len(self.polls[number])

    def start(self, role: int) -> int:
        """Process id of a child at work."""
        pid = os.fork()
        if pid:
            return pid
        code = FAILED
        try:
            random.seed(os.urandom(8))
            if role < LANES:
                self.log(role)
            else:
                self.build()
            code = 0
        except (CommitTakenError, FileNotFoundError):
            code = FENCED
        except LakeError as error:
            code = FENCED if "is at work" in str(error) or "another" in str(error).lower() else FAILED
            code = WORKERLESS if "A worker process ended" in str(error) else code
            if code == FAILED:
                print(error, flush=True)
        except Exception:  # noqa: BLE001 - counted as failed, and said
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def until_done(self) -> None:
        """Start, stop, wake and replace processes until all have done their work."""
        done: set[int] = set()
        running: dict[int, int] = {}
        stopped: dict[int, float] = {}
        while len(done) <= LANES:
            for role in range(LANES + 1):
                if role not in done and role not in running.values():
                    running[self.start(role)] = role
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                if running and not stopped and self.rng.random() < 0.02:
                    free = LANES if self.bucket is None else LANES + 1  # a builder of a folder has its lock
                    pid = self.rng.choice([one for one, role in running.items() if role < free] or [0])
                    if pid:
                        os.kill(pid, signal.SIGSTOP)
                        del running[pid]
                        stopped[pid] = time.monotonic() + self.rng.random()
                        self.counts["zombies"] += 1
                for pid, when in [*stopped.items()]:
                    if time.monotonic() > when:
                        os.kill(pid, signal.SIGCONT)
                        stopped[pid] = when + 3600
                time.sleep(0.01)
                continue
            own = running.pop(pid, None)
            stopped.pop(pid, None)
            if os.WIFSIGNALED(status):
                self.counts["kills"] += 1
            elif os.WEXITSTATUS(status) == 0 and own is not None:
                done.add(own)
            else:
                names = {0: "fenced", FENCED: "fenced", WORKERLESS: "workers killed"}
                self.counts[names.get(os.WEXITSTATUS(status), "failed")] += 1
        for pid in stopped:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def judge(self) -> None:
        """Raise AssertionError where the lake is not what one batch is."""
        lake = self.whole("live")
        store = lake if self.target == "live" else self.whole("built")
        built = BuiltLake(lake, self.folder / "scratch", BuildSettings(), store, now_ns=time.time_ns())
        built.finish()
        expected = stitch(self.every, StitchConfig())
        assert as_rows(built.table("flows"), "lane") == as_rows(expected.flows, "lane")
        assert as_rows(built.table("params")) == as_rows(expected.params)
        ledger = built.ledger()
        assert ledger["events"] == self.every.num_rows, ledger
        assert ledger["duplicates"] == expected.counts["duplicates"], ledger
        assert ledger["late"] == ledger["missing"] == 0, ledger
        for each in (lake, store):
            assert check(each) == []


class _Plan:
    def __init__(self) -> None:
        self.polls: list[tuple[pa.Table, int]] = []


def main(kills: int, seed: int, place: str) -> None:
    """Print what happened, lake by lake."""
    with ExitStack() as life:
        above = Path(life.enter_context(tempfile.TemporaryDirectory()))
        _run(kills, seed, life.enter_context(moto_server(above / "log")) if place == "bucket" else None)


def _run(kills: int, seed: int, bucket: BucketServer | None) -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    total: Counter[str] = Counter()
    began = time.monotonic_ns()
    while total["kills"] < kills:
        with tempfile.TemporaryDirectory() as folder:
            run = Run(Path(folder), seed + total["lakes"], bucket)
            run.until_done()
            try:
                run.in_a_child(run.judge)
            except BaseException:
                shutil.copytree(folder, f"{folder}-bad", dirs_exist_ok=True)
                print(f"seed {seed + total['lakes']}: the lakes are in {folder}-bad", flush=True)
                raise
        total.update(run.counts, lakes=1)
        print(dict(total), f"{(time.monotonic_ns() - began) / NS_PER_SECOND:.0f} s", flush=True)


if __name__ == "__main__":
    _, kills, seed, place = (*sys.argv, *("200", "1", "folder")[len(sys.argv) - 1 :])
    main(int(kills), int(seed), place)
