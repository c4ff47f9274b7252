"""Profiles of windows and periods, read from the lake's `stats/` where they are kept and made where not.

A window's profile depends on nothing but its own flows and the settings: each window is refined alone. What
can be read is read, whoever asks; what had to be made is kept if the lake can be written to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from analyze.load import load_population
from analyze.profile.build import profile_of
from analyze.profile.encoding import Stored, encode, profile_of_stored, stored_of, stored_tables, version
from analyze.profile.gathering import Gathered, Gathering
from analyze.profile.numbering import RunNames
from analyze.profile.profile import Profile, Slot
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, LakePeriods, Lakes, parts_of
from schemas.errors import PeriodError
from schemas.periods import Period
from schemas.windows import Window
from stitch.drivers.sharded.processes import worker_processes
from stitch.lake.stats_files import StatsKey, put_stats, read_stats, settings_of, source_of
from stitch.lake.store import Store, ahead

MOST_SLOTS: Final = 120
"""Slots of a sample. A spread known from 120 blocks of time is known to 6 %; more would only cost."""

WINDOWS_A_WORKER: Final = 6
"""Fewest that a process of its own is started for: that takes 1.3 s of CPU, a window of 8,400 spans 0.2 s."""


@dataclass(slots=True)
class ProfileTally:
    """What was read and made on the way to some profiles."""

    read: int = 0
    """Windows whose profile was kept in the lake."""
    made: int = 0
    """Windows (or parts of one) whose requests were read."""
    kept: int = 0
    """Of those made, how many were written to the lake."""
    refusals: list[str] = field(default_factory=list)
    """Why some could not be written, each reason once."""

    def add(self, other: ProfileTally) -> None:
        """Count what another one counted."""
        self.read += other.read
        self.made += other.made
        self.kept += other.kept
        self.refusals += [reason for reason in other.refusals if reason not in self.refusals]


def gathered(
    samples: Sequence[LakePeriods],
    settings: RefineSettings,
    run: RunNames,
    *,
    tally: ProfileTally | None = None,
    with_silent: bool = False,
    a_slot: int | None = 1,
) -> Gathered:
    """Slots of several samples, in time order.

    Slot.sample is the sample's place in `samples`. `a_slot`: so many neighbouring windows (or the parts of
    them that a period has) are added up in a slot, and more where there would be over MOST_SLOTS of a sample;
    None: a sample is one slot, and has no account. Whole windows without a filter come from
    `stats/`; the others are made of their requests, and not kept. What a filter leaves nothing of has no
    slot, unless with_silent: then windows that were recorded and hold nothing have empty ones. Raises
    LakeError where flows cannot be read, PeriodError where no sample has a request.
    """
    tally = ProfileTally() if tally is None else tally
    parts = [(place, part) for place, sample in enumerate(samples) for part in parts_of(sample)]
    wanted = [(at, _piece(part, window)) for at, (_, part) in enumerate(parts) for window in part.windows]
    many, seen = Counter(parts[at][0] for at, _ in wanted), Counter[int]()
    found: list[list[Slot]] = [[] for _ in parts]
    gathering = Gathering(run, keep_account=a_slot is not None)
    kept = _decoded(_kept_ahead([here for _, here in wanted], settings))
    block = None
    for (at, here), one_kept in zip(wanted, kept, strict=True):
        sample = parts[at][0]
        n = 1 if a_slot is None else min(-(-many[sample] // a_slot), MOST_SLOTS)
        if block != (block := (sample, seen[sample] * n // many[sample])):
            gathering.close()
        seen[sample] += 1
        stored = (
            _kept_or_made(one_kept, here, settings, tally)
            if _is_whole(here)
            else _piece_made(here, settings, tally)
        )
        if stored is not None:
            found[at] += stored.slots
            gathering.add(stored, at, sample)
    gathering.close()
    if not any(found):
        raise PeriodError("No window of these periods holds a request.")
    for at, (sample, part) in enumerate(parts) if with_silent else ():
        for slot in _silent(part, found[at]):
            gathering.add_silent(at, replace(slot, sample=sample))
    return gathering.gathered()


def _silent(part: LakePeriod, slots: Sequence[Slot]) -> Iterator[Slot]:
    """Whole windows in which a recording went on beside those that hold requests, ascending."""
    there = {slot.start_ns for slot in slots}
    length, bounds = part.window_ns, (part.period.start_ns, part.period.end_ns)
    for one in part.recorded:
        mine = [slot for slot in slots if one.start_ns <= slot.start_ns < one.end_ns]
        if not mine:
            continue
        first = mine[0].start_ns if one.before_ns is None else bounds[0]
        last = mine[-1].end_ns if one.after_ns is None else bounds[1]
        for start in range(first - first % length, last, length):
            slot = Slot(0, max(start, bounds[0]), min(start + length, bounds[1]))
            if slot.start_ns not in there and first <= slot.start_ns and slot.end_ns <= last:
                there.add(slot.start_ns)
                yield slot


def keep_profiles(
    periods: Sequence[LakePeriod],
    settings: RefineSettings,
    *,
    tally: ProfileTally,
    watch: Callable[[int, int], None],
    workers: int = 1,
) -> None:
    """See to it that the profile of every window that the periods touch is kept.

    Missing ones are made one after the other, or by so many processes (`workers`) where they are worth their
    start, each with a window at a time in memory. What cannot be written is in `tally.refusals`. Raises
    LakeError.
    """
    wanted = {(part.root, window): part for part in periods for window in part.windows}
    pieces = [of_window(part, window, window.start_ns, window.end_ns) for (_, window), part in wanted.items()]
    missing = []
    for here in pieces:
        watch(tally.read + tally.made, len(pieces))
        if (data := _read(here, settings)) is None:
            missing.append(here)
        else:
            _kept_or_made(stored_tables(data), here, settings, tally)
    workers = min(workers, len(missing) // WINDOWS_A_WORKER)
    with ExitStack() as stack:
        if workers > 1:
            pool = stack.enter_context(worker_processes(workers))
            named = [replace(here.period, lake=here.lake) for here in missing]
            made = pool.map(partial(_named_profile_made, settings), named)
        else:
            made = map(partial(_profile_made, settings), missing)
        for one in made:
            tally.add(one)
            watch(tally.read + tally.made, len(pieces))


def _profile_made(settings: RefineSettings, here: LakePeriod) -> ProfileTally:
    """Make the profile of a whole window, and keep it."""
    tally = ProfileTally()
    _kept_or_made(None, here, settings, tally)
    return tally


def _named_profile_made(settings: RefineSettings, window: Period) -> ProfileTally:
    """Make it in a process of its own, which finds the lake and the window's files itself."""
    return _profile_made(settings, _lakes().sealed_part(window))


@cache
def _lakes() -> Lakes:
    """Lakes that a worker process has opened: one snapshot for all of its windows."""
    return Lakes()


def _piece(part: LakePeriod, window: Window) -> LakePeriod:
    """What a period has of one window."""
    return of_window(
        part, window, max(window.start_ns, part.period.start_ns), min(window.end_ns, part.period.end_ns)
    )


def _is_whole(here: LakePeriod) -> bool:
    """Whether it is all of its window, so that statistics of it are kept."""
    (window,) = here.windows
    bounds = (here.period.start_ns, here.period.end_ns)
    return here.period.where is None and bounds == (window.start_ns, window.end_ns)


def _kept_ahead(pieces: Sequence[LakePeriod], settings: RefineSettings) -> Iterator[pa.Buffer | None]:
    """What is kept of each, read ahead where a lake is in a bucket; None for a part of a window."""
    if not pieces:
        return iter(())
    slowest = max((here.store for here in pieces), key=lambda store: store.concurrency)
    return ahead(slowest, lambda here: _read(here, settings) if _is_whole(here) else None, pieces)


def _decoded(kept: Iterator[pa.Buffer | None]) -> Iterator[Stored | None]:
    """What files hold, decoded one ahead in a thread: meanwhile the one before is added up."""
    with ThreadPoolExecutor(1, thread_name_prefix="statistics") as pool:
        tasks = (pool.submit(_kept_tables, data) for data in kept)
        coming = next(tasks, None)
        while coming is not None:
            now, coming = coming, next(tasks, None)
            yield now.result()


def _kept_tables(data: pa.Buffer | None) -> Stored | None:
    return None if data is None else stored_tables(data)


def of_window(part: LakePeriod, window: Window, start_ns: int, end_ns: int) -> LakePeriod:
    """The part of a period that lies in one of its windows."""

    def mine(paths: Sequence[Path]) -> tuple[Path, ...]:
        return tuple(path for path in paths if path.parent.name == f"window={window.name}")

    return replace(
        part,
        period=replace(part.period, start_ns=start_ns, end_ns=end_ns),
        flows=mine(part.flows),
        structures=mine(part.structures),
        params=mine(part.params),
        windows=(window,),
    )


def window_profile(here: LakePeriod, settings: RefineSettings) -> Profile | None:
    """The profile of a whole window, `here`, kept or made; None where it holds no request."""
    stored = _kept_or_made(_kept_tables(_read(here, settings)), here, settings, ProfileTally())
    return None if stored is None else profile_of_stored(stored)


def _kept_or_made(
    stored: Stored | None, here: LakePeriod, settings: RefineSettings, tally: ProfileTally
) -> Stored | None:
    """The profile of a whole window from what was kept, if that is one; else made, and kept."""
    (window,) = here.windows
    slot = Slot(0, window.start_ns, window.end_ns)
    if stored is not None and stored.slots == (slot,):
        tally.read += 1
        return stored
    tally.made += 1
    profile = _made(here, slot, settings)
    if profile is None:
        return None
    _keep(here.store, key_of(here, window, settings), encode(profile), tally)
    return stored_of(profile)


def _piece_made(here: LakePeriod, settings: RefineSettings, tally: ProfileTally) -> Stored | None:
    """The profile of a part of a window, or of what a filter leaves of it."""
    tally.made += 1
    profile = _made(here, Slot(0, here.period.start_ns, here.period.end_ns), settings)
    return None if profile is None else stored_of(profile)


def _read(here: LakePeriod, settings: RefineSettings) -> pa.Buffer | None:
    try:
        return read_stats(here.store, key_of(here, here.windows[0], settings))
    except OSError:  # a cache that may not be read is none
        return None


def _made(here: LakePeriod, slot: Slot, settings: RefineSettings) -> Profile | None:
    try:
        loaded = load_population([("window", here)], settings)
    except PeriodError:  # the filter keeps nothing of it
        return None
    return profile_of(loaded.population, [slot]).profile


def _keep(store: Store, key: StatsKey, data: bytes, tally: ProfileTally) -> None:
    """Write it if that is possible: a lake that may only be read is compared all the same."""
    try:
        put_stats(store, key, data)
    except OSError as error:
        reason = error.strerror or str(error)
        if reason not in tally.refusals:
            tally.refusals.append(reason)
    else:
        tally.kept += 1


def key_of(here: LakePeriod, window: Window, settings: RefineSettings) -> StatsKey:
    """Under which the profile of a window is kept: all that it is made of, which parameters are not."""
    tables = (("flows", here.flows), ("structures", here.structures))
    return StatsKey(
        window,
        source_of([(table, here.sums[path]) for table, paths in tables for path in paths]),
        settings_of(f"{version()} {settings.model_dump_json()}"),
    )
