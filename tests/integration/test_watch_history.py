"""A watch that starts anew learns old days from one file each, and decides as if it had never stopped."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

from oracles.quiet_import import Quiet
from oracles.watched_shop import write_minutes

from analyze.refine.settings import RefineSettings
from analyze.watch.lane import last_commit
from analyze.watch.settings import WatchSettings
from analyze.watch.watcher import State
from analyze.watch.watching import LakeWatch
from schemas.windows import NS_PER_DAY
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings
from stitch.lake.store import LocalStore

QUARTER = NS_PER_DAY // 4
START_NS = 20_395 * NS_PER_DAY
SETTINGS = WatchSettings(slot_ns=0, baseline_ns=6 * NS_PER_DAY, daily=False, weekly=False, versions="")
"""Ticks of six days are needed, and hours of four weeks."""
LEARNED, DAYS = 30, 34


def add(lake: Path, first: int, past: int) -> None:
    file = lake.parent / "days.otlp.jsonl"
    last = range(DAYS * 4 - 1, DAYS * 4)  # so that a sum is not zero at the end
    write_minutes(file, first * 4, past * 4, slow=last, start_ns=START_NS, minute_ns=QUARTER)
    import_into(
        str(lake),
        [str(file)],
        ImportSettings(window_length_ns=QUARTER),
        owner="test",
        created_by="test",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )


def state_after(lake: Path, restarts: bool) -> State:
    """The state when all is decided, by one process, or by a new one for every day."""
    watch = LakeWatch(str(lake), SETTINGS, RefineSettings(), "test", "test")
    for day in range(LEARNED, DAYS):
        if restarts:
            watch = LakeWatch(str(lake), SETTINGS, RefineSettings(), "test", "test")
            watch.resume()
        list(watch.poll())
        add(lake, day, day + 1)
    list(watch.poll())
    last = last_commit(LocalStore.at(lake))
    assert last is not None
    return last.state


def test_days_are_learned_from_a_file_each_and_nothing_is_decided_otherwise(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    add(one, 0, LEARNED)
    shutil.copytree(one, other)
    whole = state_after(one, restarts=False)
    assert len(whole.sums) > 0
    assert state_after(other, restarts=True) == whole
    kept = sorted(folder.name for folder in (other / "stats").glob("day=*"))
    assert len(kept) >= 5
    # What was kept is enough: of those days no window is read any more.
    for day in kept:
        for folder in (other / "stats").glob(f"window={day[4:12]}*"):
            shutil.rmtree(folder)
    watch = LakeWatch(str(other), SETTINGS, RefineSettings(), "test", "test")
    watch.resume()
    add(other, DAYS, DAYS + 1)
    list(watch.poll())
    made = {folder.name for folder in (other / "stats").glob("window=*")}
    assert not [day for day in kept[:5] if f"window={day[4:12]}T0000Z" in made]
