"""Profiles of windows and periods: read from the lake's `stats/` if stored there, else made.

A window's profile depends only on its flows and the settings: each window is refined alone. New profiles are
stored if the lake is writable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from analyze.load import load_population, no_request, read_flow_files
from analyze.population import Population
from analyze.profile.build import profile_of
from analyze.profile.encoding import (
    Stored,
    encode_stored,
    is_of_other_version,
    profile_of_stored,
    stored_of,
    stored_tables,
    version,
    votes_kept,
)
from analyze.profile.gathering import Added, Adding, Gathered, Gathering
from analyze.profile.needed_memory import needed_memory
from analyze.profile.numbering import RunNames
from analyze.profile.profile import Profile, Slot
from analyze.profile.segment_sums import segment_sums
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, LakePeriods, Lakes, parts_of
from schemas.errors import PeriodError
from schemas.periods import Period
from schemas.windows import NS_PER_DAY, Window
from stitch.heap import give_back, keep_freed
from stitch.lake.place import open_store
from stitch.lake.stats_files import (
    StatsKey,
    drop_stats,
    drop_versions,
    has_stats,
    put_stats,
    read_stats,
    settings_of,
    source_of,
    stats_size,
)
from stitch.lake.store import Store, prefetch
from stitch.processes import map_in_order, worker_processes
from stitch.scratch import Scratch

QUARTER_NS: Final = NS_PER_DAY // 4
"""Length by which sums of windows are stored: blocks of a history that is long to read are seldom shorter
than a quarter of a day."""
MOST_SLOTS: Final = 120
"""Maximum number of slots of a sample. A spread known from 120 blocks of time is known to 6 %; more would
only cost."""

BYTES_A_VOTE: Final = 512
"""Memory per vote held as a table, twice what it takes during tests."""
WINDOWS_A_WORKER: Final = 6
"""Minimum number of windows that justify another process: its start takes 1.3 s of CPU, a window of 8,400
spans 0.2 s."""
VOTES_A_WORKER: Final = 20_000_000
"""Minimum number of stored votes that justify another process: 0.7 s of CPU to read and add up; later steps
use the processes as well."""


@dataclass(slots=True)
class ProfileTally:
    """Counts of windows read, made and written while profiles are collected."""

    read: int = 0
    """Windows whose profile was read from the lake."""
    made: int = 0
    """Windows (or parts of one) profiled from their requests."""
    kept: int = 0
    """Profiles made and written to the lake."""
    outdated: int = 0
    """Files of other profile versions deleted when new ones were written."""
    refusals: list[str] = field(default_factory=list)
    """Reasons why writing failed, each once."""

    def add(self, other: ProfileTally) -> None:
        """Add the counts of another tally."""
        self.read += other.read
        self.made += other.made
        self.kept += other.kept
        self.outdated += other.outdated
        self.refusals += [reason for reason in other.refusals if reason not in self.refusals]


class _Block(NamedTuple):
    """Neighbouring windows of a sample (clipped to its period) that are added up to one slot."""

    sample: int
    pieces: tuple[LakePeriod, ...]


class _KeptBlock(NamedTuple):
    """Keys of a block's stored statistics, for a worker process."""

    keys: tuple[tuple[str, StatsKey], ...]
    """(lake, key) of each window; empty if one is not a whole window."""
    keep_account: bool
    folder: Path
    """Scratch folder for the block's votes."""


def gathered(
    samples: Sequence[LakePeriods],
    settings: RefineSettings,
    run: RunNames,
    *,
    tally: ProfileTally | None = None,
    with_silent: bool = False,
    a_slot: int | None = 1,
    n_blocks: int | None = None,
    workers: int = 1,
    most_bytes: int | None = None,
) -> Gathered:
    """Read several samples as slots, in time order.

    Slot.sample is the index into `samples`. a_slot: number of neighbouring windows (clipped to the period)
    per slot, more if a sample would exceed MOST_SLOTS; None: one slot a sample, without account. n_blocks:
    see `Gathering.gathered`. Whole windows without a filter come from `stats/`; others are made from
    requests, and not stored. A window in which the filter leaves nothing has no slot; with_silent: recorded
    windows without requests have empty slots. workers: most processes that read, started only if worthwhile.
    most_bytes: memory for the requests of a window, and for all votes. Raises LakeError if flows cannot be
    read, PeriodError if no sample has a request.
    """
    tally = ProfileTally() if tally is None else tally
    parts = [(place, part) for place, sample in enumerate(samples) for part in parts_of(sample)]
    blocks = [_with_quarters(block, settings) for block in _blocks(parts, a_slot)]
    found: list[list[Slot]] = [[] for _ in samples]
    gathering = Gathering(run, most_votes=None if most_bytes is None else most_bytes // BYTES_A_VOTE)
    reading = _Reading(settings, tally, a_slot is not None, gathering.scratch, most_bytes)
    for block, added in reading.blocks(blocks, workers):
        if added is None:
            continue
        found[block.sample] += [Slot(0, one.start_ns, one.end_ns) for one in added.slot.watched]
        gathering.add(added, block.sample)
    if not any(found):
        raise no_request(parts_of(samples[0]))
    for sample, part in parts if with_silent else ():
        own = [slot for slot in found[sample] if part.period.start_ns <= slot.start_ns < part.period.end_ns]
        for slot in _silent(part, own):
            gathering.add_silent(replace(slot, sample=sample))
    return gathering.gathered(n_blocks)


def _blocks(parts: Sequence[tuple[int, LakePeriod]], a_slot: int | None) -> Iterator[_Block]:
    """Blocks of windows, one a slot; parts: (sample, period)."""
    wanted = [(sample, _clipped(here, part)) for sample, part in parts for here in whole_windows(part)]
    many, seen = Counter(sample for sample, _ in wanted), Counter[int]()

    def block_of(piece: tuple[int, LakePeriod]) -> tuple[int, int]:
        sample, _ = piece
        n = 1 if a_slot is None else min(-(-many[sample] // a_slot), MOST_SLOTS)
        seen[sample] += 1
        return sample, (seen[sample] - 1) * n // many[sample]

    for (sample, _), block in groupby(wanted, block_of):
        yield _Block(sample, tuple(here for _, here in block))


def _with_quarters(block: _Block, settings: RefineSettings) -> _Block:
    """Replace windows that make up a stored quarter-day sum by that sum."""
    pieces: list[LakePeriod] = []
    for windows in _by_quarter(block.pieces):
        quarter = _joined(windows)
        pieces += [quarter] if len(windows) > 1 and _is_kept(quarter, settings) else windows
    return block._replace(pieces=tuple(pieces))


def _by_quarter(windows: Iterable[LakePeriod]) -> Iterator[list[LakePeriod]]:
    """Runs of whole windows in one lake and one quarter of a UTC day; a clipped window, or one whose length
    does not divide a quarter, is alone."""

    def quarter_of(here: LakePeriod) -> tuple[Path, bool, int]:
        start_ns, joins = here.windows[0].start_ns, _is_whole(here) and QUARTER_NS % here.window_ns == 0
        return here.root, joins, start_ns // QUARTER_NS if joins else start_ns

    yield from ([*mine] for _, mine in groupby(windows, quarter_of))


def _joined(windows: Sequence[LakePeriod]) -> LakePeriod:
    """Merge neighbouring windows of one lake into one period."""
    first, last = windows[0], windows[-1]
    return replace(
        first,
        period=replace(first.period, end_ns=last.period.end_ns),
        flows=tuple(path for here in windows for path in here.flows),
        structures=tuple(path for here in windows for path in here.structures),
        params=tuple(path for here in windows for path in here.params),
        sums={
            path: here.sums[path]
            for here in windows
            for path in (*here.flows, *here.structures, *here.params)
        },
        windows=tuple(window for here in windows for window in here.windows),
    )


def _is_kept(here: LakePeriod, settings: RefineSettings) -> bool:
    try:
        return has_stats(here.store, key_of(here, settings))
    except OSError:  # a cache that may not be read is none
        return False


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reader of blocks, with its settings."""

    settings: RefineSettings
    tally: ProfileTally
    keep_account: bool
    scratch: Scratch
    most_bytes: int | None = None

    def blocks(self, blocks: Sequence[_Block], workers: int) -> Iterator[tuple[_Block, Added | None]]:
        """Yield (block, its sum as one slot; None without requests); in several processes if there is enough
        to read."""
        if workers > 1:
            workers = min(workers, self._votes_kept(blocks) // VOTES_A_WORKER)
        if workers < 2:
            yield from zip(blocks, self._here(blocks), strict=True)
            return
        folder = self.scratch.folder
        kept = (_KeptBlock(_keys(block, self.settings), self.keep_account, folder) for block in blocks)
        with worker_processes(workers) as pool:
            for block, added in zip(blocks, map_in_order(pool, _read_there, kept, workers + 1), strict=True):
                if added is None:
                    yield block, next(self._here([block]))
                else:
                    self.tally.read += sum(len(here.windows) for here in block.pieces)
                    yield block, added

    def _votes_kept(self, blocks: Sequence[_Block]) -> int:
        """Estimated number of stored votes, from the first stored window times the number of windows."""
        pieces = [here for block in blocks for here in block.pieces]
        data = (_read(here, self.settings) for here in pieces if _is_whole(here))
        return next((votes_kept(one) for one in data if one is not None), 0) * len(pieces)

    def _here(self, blocks: Sequence[_Block]) -> Iterator[Added | None]:
        """Read blocks in this process; make the profiles that are not stored."""
        pieces = [here for block in blocks for here in block.pieces]
        with ThreadPoolExecutor(1, thread_name_prefix="statistics") as pool:
            # Decoded one ahead: meanwhile those before are added up.
            read = partial(stored_tables, with_account=self.keep_account)
            kept = map_in_order(pool, read, _kept_ahead(pieces, self.settings), 2)
            for block in blocks:
                adding = Adding(keep_account=self.keep_account)
                for here, of_window in zip(block.pieces, kept, strict=False):
                    stored = _kept_or_made(
                        of_window, here, self.settings, self.tally, most_bytes=self.most_bytes
                    )
                    if stored is not None:
                        adding.add(stored)
                yield adding.added(lambda: self.scratch.folder)


def _keys(block: _Block, settings: RefineSettings) -> tuple[tuple[str, StatsKey], ...]:
    if not all(_is_whole(here) for here in block.pieces):
        return ()
    return tuple((here.lake, key_of(here, settings)) for here in block.pieces)


def _read_there(block: _KeptBlock) -> Added | None:
    """Add up a block's stored statistics, in a worker process; None if some are not stored."""
    keep_freed()
    adding = Adding(keep_account=block.keep_account)
    for lake, several in groupby(block.keys, lambda one: one[0]):
        keys = [key for _, key in several]
        for key, data in zip(
            keys, prefetch(_store(lake), partial(_kept_data, _store(lake)), keys), strict=True
        ):
            stored = stored_tables(data, with_account=block.keep_account)
            if stored is None or not _is_of(stored, key):
                return None
            adding.add(stored)
    return adding.added(lambda: block.folder)


@cache
def _store(lake: str) -> Store:
    """Store of a lake, cached in a worker process."""
    return open_store(lake)


def _silent(part: LakePeriod, slots: Sequence[Slot]) -> Iterator[Slot]:
    """Whole windows without requests during which recording went on around windows with requests,
    ascending."""
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
    workers: int | Executor = 1,
) -> None:
    """Ensure that the profile of every window that the periods overlap is stored.

    Windows whose quarter-day sum is stored instead (`coarsen`) count as stored. Missing ones are made one
    after the other, or by `workers` processes if worthwhile, or by an Executor; each holds one window at a
    time in memory. Failed writes are in `tally.refusals`. Raises LakeError.
    """
    pieces = _each_window(periods)
    missing = []
    for windows in _by_quarter(pieces):
        lacking = []
        for here in windows:
            watch(tally.read + tally.made, len(pieces))
            if (data := _read(here, settings)) is None:
                lacking.append(here)
            else:
                _kept_or_made(stored_tables(data), here, settings, tally)
        if lacking and len(windows) > 1 and _read(_joined(windows), settings) is not None:
            tally.read += len(lacking)
        else:
            missing += lacking
    with ExitStack() as stack:
        pool = workers if isinstance(workers, Executor) else None
        if isinstance(workers, int) and (n := min(workers, len(missing) // WINDOWS_A_WORKER)) > 1:
            pool = stack.enter_context(worker_processes(n))
        if pool is not None:
            named = [replace(here.period, lake=here.lake) for here in missing]
            made = pool.map(partial(_named_profile_made, settings), named)
        else:
            made = map(partial(_profile_made, settings), missing)
        for one in made:
            tally.add(one)
            watch(tally.read + tally.made, len(pieces))


def keep_quarters(periods: Sequence[LakePeriod], settings: RefineSettings, *, tally: ProfileTally) -> int:
    """Ensure that the sum of every quarter of a UTC day that the periods overlap is stored; returns the
    number of quarters.

    Missing statistics of windows are made. Memory: the statistics of one quarter. Failed writes are in
    `tally.refusals`. Raises LakeError.
    """
    quarters = _quarters(periods)
    for quarter in quarters:
        _keep_sum(quarter, settings, tally)
    return len(quarters)


class Coarsened(NamedTuple):
    """Counts of windows whose statistics are now stored only as quarter-day sums."""

    windows: int
    quarters: int
    size: int
    """Bytes freed, or to be freed in a dry run."""


def coarsen(
    periods: Sequence[LakePeriod],
    settings: RefineSettings,
    until_ns: int,
    *,
    tally: ProfileTally,
    dry_run: bool = False,
) -> Coarsened:
    """Store the sum of each quarter of a UTC day that ended by until_ns, then delete its windows' statistics.

    Quarters without stored windows are skipped. Can be interrupted at any time; the next run continues.
    Raises as `keep_quarters`, and OSError if a file cannot be removed.
    """
    n_windows = n_quarters = size = 0
    for quarter in _quarters(periods):
        store, whole = quarter.store, key_of(quarter, settings)
        fine = [key_of(here, settings) for here in whole_windows(quarter)]
        there = [key for key in fine if has_stats(store, key)]
        if whole.window.end_ns > until_ns or not there:
            continue
        if not dry_run and not _keep_sum(quarter, settings, tally):
            continue
        n_windows, n_quarters = n_windows + len(there), n_quarters + 1
        size += sum(stats_size(store, key) if dry_run else drop_stats(store, key) for key in fine)
    return Coarsened(n_windows, n_quarters, size)


def _quarters(periods: Sequence[LakePeriod]) -> list[LakePeriod]:
    """Quarters of a day that hold several windows."""
    return [_joined(windows) for windows in _by_quarter(_each_window(periods)) if len(windows) > 1]


def _keep_sum(quarter: LakePeriod, settings: RefineSettings, tally: ProfileTally) -> bool:
    """Store the sum of a quarter's windows unless it is there; True if it is stored now."""
    key, written = key_of(quarter, settings), ProfileTally()
    kept = stored_tables(_read(quarter, settings))
    if kept is not None and _is_of(kept, key):
        return True
    stored = _summed_windows(quarter, settings, tally)
    if stored is None:
        return False
    _keep(quarter.store, key, encode_stored(stored), written)
    tally.add(ProfileTally(refusals=written.refusals, outdated=written.outdated))
    return not written.refusals


def _each_window(periods: Sequence[LakePeriod]) -> list[LakePeriod]:
    """Windows that periods overlap, whole, each once."""
    return [*{(here.root, here.windows): here for part in periods for here in whole_windows(part)}.values()]


def _profile_made(settings: RefineSettings, here: LakePeriod) -> ProfileTally:
    """Make and store the profile of a whole window."""
    tally = ProfileTally()
    _kept_or_made(None, here, settings, tally)
    return tally


def _named_profile_made(settings: RefineSettings, window: Period) -> ProfileTally:
    """Make a window's profile in a worker process, which opens the lake itself."""
    return _profile_made(settings, _lakes().sealed_part(window))


@cache
def _lakes() -> Lakes:
    """Lakes opened by a worker process: one snapshot for all of its windows."""
    return Lakes()


def _clipped(here: LakePeriod, part: LakePeriod) -> LakePeriod:
    """Clip a window to a period."""
    start_ns, end_ns = (
        max(here.period.start_ns, part.period.start_ns),
        min(here.period.end_ns, part.period.end_ns),
    )
    return replace(here, period=replace(here.period, start_ns=start_ns, end_ns=end_ns))


def _is_whole(here: LakePeriod) -> bool:
    """True if a period is exactly its windows, without filter, so that statistics are stored for it."""
    bounds = (here.period.start_ns, here.period.end_ns)
    return here.period.where is None and bounds == (here.windows[0].start_ns, here.windows[-1].end_ns)


def _kept_ahead(pieces: Sequence[LakePeriod], settings: RefineSettings) -> Iterator[pa.Buffer | None]:
    """Yield the stored statistics of each piece, prefetched for a bucket; None for a clipped window."""
    if not pieces:
        return iter(())
    slowest = max((here.store for here in pieces), key=lambda store: store.concurrency)
    return prefetch(slowest, lambda here: _read(here, settings) if _is_whole(here) else None, pieces)


def whole_windows(part: LakePeriod) -> Iterator[LakePeriod]:
    """Each window that a period overlaps as a whole period, in order. O(files)."""
    files: dict[str, dict[str, list[Path]]] = {}
    for table in ("flows", "structures", "params"):
        for path in getattr(part, table):
            mine = files.setdefault(path.parent.name, {"flows": [], "structures": [], "params": []})
            mine[table].append(path)
    for window in part.windows:
        own = files.get(f"window={window.name}", {})
        yield replace(
            part,
            period=replace(part.period, start_ns=window.start_ns, end_ns=window.end_ns),
            flows=tuple(own.get("flows", ())),
            structures=tuple(own.get("structures", ())),
            params=tuple(own.get("params", ())),
            windows=(window,),
        )


def window_pieces(part: LakePeriod) -> list[LakePeriod]:
    """Part of a period in each of its windows, without its filter, in time order."""
    whole = replace(part, period=replace(part.period, where=None))
    return [_clipped(here, whole) for here in whole_windows(whole)]


def kept_of_window(here: LakePeriod, settings: RefineSettings) -> pa.Buffer | None:
    """Stored statistics of a window; None if there are none, or `here` is a part of a window."""
    is_listed = all(path in here.sums for path in (*here.flows, *here.structures, *here.params))
    return _read(here, settings) if is_listed and _is_whole(here) else None


def window_profile(here: LakePeriod, settings: RefineSettings) -> Profile | None:
    """Profile of a whole window, read or made; None if it holds no request."""
    stored = _kept_or_made(stored_tables(_read(here, settings)), here, settings, ProfileTally())
    return None if stored is None else profile_of_stored(stored)


def _kept_or_made(
    stored: Stored | None,
    here: LakePeriod,
    settings: RefineSettings,
    tally: ProfileTally,
    *,
    with_totals: bool = False,
    most_bytes: int | None = None,
) -> Stored | None:
    """Profile of a window, or sum of several: `stored` if it matches, else made; stored if `here` is whole
    windows.

    A window whose requests exceed `most_bytes` is made in slices of time, refined separately, and not stored.
    """
    key = key_of(here, settings) if _is_whole(here) else None
    if key is not None and stored is not None and _is_of(stored, key):
        tally.read += len(here.windows)
        return stored
    if key is not None and key.span == "quarter":
        whole = _summed_windows(here, settings, tally)
        return whole if with_totals or whole is None else whole.without_totals()
    tally.made += 1
    n_slices = 1 if most_bytes is None else _slices_needed(here, most_bytes)
    if n_slices > 1:
        return _made_of_slices(here, n_slices, settings)
    try:
        loaded = load_population([("window", here)], settings)
    except PeriodError:  # the filter keeps nothing of it
        return None
    stored = made_of(loaded.population, here, settings)
    if key is not None:
        _keep(here.store, key, encode_stored(stored), tally)
    return stored if with_totals else stored.without_totals()


def _slices_needed(here: LakePeriod, most_bytes: int) -> int:
    """Number of slices so that each slice's requests fit into most_bytes; 1 if all fit, with parameters."""
    needed = needed_memory([here])
    if sum(needed) <= most_bytes:
        return 1
    return max(2, -(-needed.requests // most_bytes))


def _made_of_slices(here: LakePeriod, n: int, settings: RefineSettings) -> Stored | None:
    """Sum over n slices of equal numbers of requests, without counts by attributes; None without requests."""
    starts = np.sort(
        np.concatenate([table["start_ns"].to_numpy() for _, table in read_flow_files(here, ["start_ns"])])
    )
    if not len(starts):  # the filter keeps nothing of it
        return None
    begin, end = here.period.start_ns, here.period.end_ns
    cuts = sorted({begin, *starts[np.arange(1, n) * len(starts) // n].tolist(), end})
    adding = Adding()
    for bounds in pairwise(cuts):
        start_ns, end_ns = bounds
        part = replace(here, period=replace(here.period, start_ns=start_ns, end_ns=end_ns))
        try:
            loaded = load_population([("window", part)], settings)
        except PeriodError:
            continue
        adding.add(stored_of(profile_of(loaded.population, [Slot(0, *bounds)]).profile))
        del loaded
        give_back()
    return adding.stored()


def made_of(population: Population, here: LakePeriod, settings: RefineSettings) -> Stored:
    """Profile of a window's requests, with counts by attribute values."""
    slot = Slot(0, here.period.start_ns, here.period.end_ns)
    profile = profile_of(population, [slot], with_totals=True).profile
    return stored_of(profile, segment_sums(population, settings.statistics))


def _summed_windows(quarter: LakePeriod, settings: RefineSettings, tally: ProfileTally) -> Stored | None:
    """Add up the windows of a quarter, each read or made; None if none holds a request."""
    adding = Adding()
    for here in whole_windows(quarter):
        kept = stored_tables(_read(here, settings), with_totals=True)
        stored = _kept_or_made(kept, here, settings, tally, with_totals=True)
        if stored is not None:
            adding.add(stored)
    return adding.stored()


def _is_of(stored: Stored, key: StatsKey) -> bool:
    (slot,) = stored.slots
    mine, asked = (slot.start_ns, slot.end_ns), (key.window.start_ns, key.window.end_ns)
    return (asked[0] <= mine[0] and mine[1] <= asked[1]) if key.span == "quarter" else mine == asked


def _read(here: LakePeriod, settings: RefineSettings) -> pa.Buffer | None:
    return _kept_data(here.store, key_of(here, settings))


def _kept_data(store: Store, key: StatsKey) -> pa.Buffer | None:
    try:
        return read_stats(store, key)
    except OSError:  # a cache that may not be read is none
        return None


def _keep(store: Store, key: StatsKey, data: bytes, tally: ProfileTally) -> None:
    """Store a profile; a failure is noted in the tally, so that a read-only lake can be compared."""
    try:
        put_stats(store, key, data)
        tally.outdated += drop_versions(store, key, is_of_other_version)
    except OSError as error:
        reason = error.strerror or str(error)
        if reason not in tally.refusals:
            tally.refusals.append(reason)
    else:
        tally.kept += 1


def key_of(here: LakePeriod, settings: RefineSettings) -> StatsKey:
    """Key of a stored profile or quarter-day sum: window, source files, and settings."""
    tables = (("flows", here.flows), ("structures", here.structures), ("params", here.params))
    first, several = here.windows[0], len(here.windows) > 1
    return StatsKey(
        Window(first.start_ns // QUARTER_NS * QUARTER_NS, QUARTER_NS) if several else first,
        source_of([(table, here.sums[path]) for table, paths in tables for path in paths]),
        settings_of(f"{version()} {settings.model_dump_json()}"),
        "quarter" if several else "window",
    )
