"""Statistics kept by quarter of a day under a crash at every operation: a history reads the same at any
instant, of windows or of their sums."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from oracles.every_death import Judged, deaths, deaths_in_bucket
from oracles.lake_script import flows_table, structures_table
from oracles.made_profiles import Service, held
from oracles.memory_disk import ENDINGS, MemoryDisk
from oracles.object_store import ObjectStore
from oracles.stored_lake import write_lake

from analyze.profile.encoding import encode
from analyze.profile.numbering import RunNames
from analyze.profile.profile import Slot
from analyze.profile.stored import Coarsened, ProfileTally, coarsen, gathered, key_of, whole_windows
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, Lakes
from schemas.ranges import parse_ranges
from schemas.windows import NS_PER_DAY
from stitch.lake.stats_files import StatsKey, has_stats, put_stats
from stitch.lake.store import LocalStore, Store

SETTINGS = RefineSettings()
WINDOW_NS = NS_PER_DAY // 8
N_WINDOWS, N_OLD = 5, 4
"""The last window begins the third quarter, which is not over."""


class Kept(NamedTuple):
    """A lake's period, and the statistics of its windows."""

    period: LakePeriod
    statistics: list[tuple[StatsKey, bytes]]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("coarse") / "lake"
    starts = [n * WINDOW_NS + 1 for n in range(N_WINDOWS)]
    flows = flows_table([f"r{n}" for n in range(N_WINDOWS)], starts)
    write_lake(folder, flows, structures_table(), WINDOW_NS)
    (period,) = Lakes(str(folder)).ranges(parse_ranges(["all"], now_ns=0))
    statistics = []
    for seed, here in enumerate(whole_windows(period)):
        slots = (Slot(0, here.period.start_ns, here.period.end_ns),)
        profile = Service(n_roots=2, n_sites=3 + seed % 2).profile(seed, slots, 20)
        profile = replace(profile, slots=held(slots, profile.responses))
        statistics.append((key_of(here, SETTINGS), encode(profile)))
    return Kept(period, statistics)


def in_store(kept: Kept, store: Store) -> LakePeriod:
    """The period as one of a lake in a store, which holds statistics alone."""
    return replace(kept.period, copies=SimpleNamespace(store=store, lake="L"))


def filled(kept: Kept, store: Store) -> None:
    for key, data in kept.statistics:
        put_stats(store, key, data)


def coarsened(kept: Kept, store: Store) -> Coarsened:
    tally = ProfileTally()
    done = coarsen([in_store(kept, store)], SETTINGS, N_OLD * WINDOW_NS, tally=tally)
    assert tally.refusals == []
    return done


Said = Counter[tuple[object, ...]]
_SAID: dict[frozenset[tuple[str, bytes]], Said] = {}


def read(kept: Kept, store: Store) -> Said:
    """What a history of all windows says of its call sites, by their names; of the same files once."""
    files = (store._disk if isinstance(store, LocalStore) else store).files()  # type: ignore[attr-defined]
    if files not in _SAID:
        _SAID[files] = told(kept, store)
    return _SAID[files]


def told(kept: Kept, store: Store) -> Said:
    profile = gathered([in_store(kept, store)], SETTINGS, RunNames(), a_slot=None).profile()
    found: Said = Counter()
    for row in profile.votes.to_pylist():
        site = row["site"]
        key = (profile.names.caller(site), profile.names.operation(site), row["measure"], row["bin"])
        found[key] += row["n"]
    return found


def judge(kept: Kept, store: Store, expected: Said) -> None:
    """After a crash: nothing is missing or doubled, and a second run completes it."""
    assert read(kept, store) == expected
    coarsened(kept, store)
    assert read(kept, store) == expected
    assert [has_stats(store, key) for key, _ in kept.statistics] == [False] * N_OLD + [True]
    assert coarsened(kept, store) == Coarsened(0, 0, 0)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_crash_at_any_operation_of_coarsening(kept: Kept, ending: str) -> None:
    disk, judged = MemoryDisk(), Judged()
    filled(kept, LocalStore(disk))
    expected, disk.steps = read(kept, LocalStore(disk)), 0
    crashed = deaths(disk, lambda watched: whole(kept, LocalStore(watched)), None)
    assert len(crashed) == disk.steps > 25
    for left, _ in crashed:
        ENDINGS[ending](left)
        if judged.is_new(left):
            judge(kept, LocalStore(left), expected)
            left.lose_power()
            judge(kept, LocalStore(left), expected)


def whole(kept: Kept, store: Store) -> None:
    """A run without a crash."""
    done = coarsened(kept, store)
    assert (done.windows, done.quarters) == (N_OLD, 2)


def test_a_crash_at_any_request_of_coarsening_in_a_bucket(kept: Kept) -> None:
    """Whether or not the last one was carried out."""
    store = ObjectStore()
    filled(kept, store)
    expected = read(kept, store)
    for left, _ in deaths_in_bucket(store, lambda store: whole(kept, store), None):
        judge(kept, left, expected)
