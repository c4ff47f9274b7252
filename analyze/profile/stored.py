"""Profiles of windows and periods: read from the lake's `stats/` if stored there, else computed.

A window's profile depends only on the window's flows and the settings, as each window is refined separately.
New profiles are stored if the lake is writable. Profiles of the windows of a *quarter* (6 hours: a quarter of
a UTC day) can be replaced by their sum.
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
from typing import Any, Final, NamedTuple

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
"""Length of time, 6 hours in ns, over which stored sums of windows extend; the blocks of a long history are
seldom shorter."""
MOST_SLOTS: Final = 120
"""Maximum number of slots of a sample: a spread estimated from 120 blocks is accurate to 6 %, more would only
cost."""

_TABLES: Final = ("flows", "structures", "params")
"""Names of the attributes of a `LakePeriod` with the files of its windows."""

BYTES_A_VOTE: Final = 512
"""Bytes of memory budgeted per row of the table `votes`: twice the measured use during tests."""
WINDOWS_A_WORKER: Final = 6
"""Minimum number of windows per worker process: a start takes 1.3 s of CPU, a window of 8,400 spans 0.2 s."""
VOTES_A_WORKER: Final = 20_000_000
"""Minimum number of stored rows of `votes` per worker process: reading and adding them up takes 0.7 s of CPU,
and later steps use the processes as well."""


@dataclass(slots=True)
class ProfileTally:
    """Numbers of profiles read, computed and written, to be reported to the user."""

    read: int = 0
    """Number of windows whose profile was read from the lake."""
    made: int = 0
    """Number of windows (or parts of windows) whose profile was computed from requests."""
    kept: int = 0
    """Number of computed profiles that were written to the lake."""
    outdated: int = 0
    """Number of files of other profile versions deleted when new profiles were written."""
    refusals: list[str] = field(default_factory=list)
    """Distinct messages of the operating system for writes that failed."""

    def add(self, other: ProfileTally) -> None:
        """Add the numbers and messages of `other` to this tally."""
        self.read += other.read
        self.made += other.made
        self.kept += other.kept
        self.outdated += other.outdated
        self.refusals += [reason for reason in other.refusals if reason not in self.refusals]


class _Block(NamedTuple):
    """Adjacent windows of a sample, clipped to the sample's period, that are added up to one slot."""

    sample: int
    pieces: tuple[LakePeriod, ...]


class _KeptBlock(NamedTuple):
    """Task for a worker process: the stored statistics of a block to add up."""

    keys: tuple[tuple[str, StatsKey], ...]
    """(lake, key of the stored statistics) of each window; empty if the block has a clipped window."""
    keep_account: bool
    """True to keep the table `account`."""
    folder: Path
    """Scratch folder to which the block's votes are written if they are many."""


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
    """Read the statistics of several samples as slots, in time order.

    Whole windows without a filter are read from `stats/`; clipped or filtered ones are computed from requests
    and not stored. `Slot.sample` of the result is the index into `samples`; windows without a request that
    passes the filter get no slot.

    a_slot: number of adjacent windows per slot, more if a sample would exceed MOST_SLOTS; None: one slot per
    sample, without the table `account`. n_blocks: see `Gathering.gathered`. with_silent: add empty slots for
    recorded windows without requests. workers: maximum number of processes, started only if worthwhile.
    most_bytes: memory for the requests of a window, and for all votes; None: no limit. Raises LakeError if
    flows cannot be read, PeriodError if no sample has a request.
    """
    tally = ProfileTally() if tally is None else tally
    parts = [(place, part) for place, sample in enumerate(samples) for part in parts_of(sample)]
    blocks = [_with_quarters(block, settings) for block in _blocks(parts, a_slot)]
    found: list[list[Slot]] = [[] for _ in samples]
    gathering = Gathering(run, most_votes=None if most_bytes is None else most_bytes // BYTES_A_VOTE)
    reading = _Reading(settings, tally, a_slot is not None, run, gathering.scratch, most_bytes)
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
    """Yield blocks of windows, one per slot. parts: (index of the sample, period). a_slot: see `gathered`."""
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
    """Replace the windows of each quarter (6 hours) whose sum is stored by one piece for that sum."""
    pieces: list[LakePeriod] = []
    for windows in _by_quarter(block.pieces):
        quarter = _joined(windows)
        pieces += [quarter] if len(windows) > 1 and _is_kept(quarter, settings) else windows
    return block._replace(pieces=tuple(pieces))


def _by_quarter(windows: Iterable[LakePeriod]) -> Iterator[list[LakePeriod]]:
    """Yield runs of consecutive whole windows in the same lake and quarter of a UTC day.

    A clipped window, or a window whose length does not divide a quarter, is yielded alone."""

    def quarter_of(here: LakePeriod) -> tuple[Path, bool, int]:
        start_ns, joins = here.windows[0].start_ns, _is_whole(here) and QUARTER_NS % here.window_ns == 0
        return here.root, joins, start_ns // QUARTER_NS if joins else start_ns

    yield from ([*mine] for _, mine in groupby(windows, quarter_of))


def _joined(windows: Sequence[LakePeriod]) -> LakePeriod:
    """Merge adjacent windows of one lake into one period."""
    first, last = windows[0], windows[-1]
    joined: dict[str, Any] = {
        of: tuple(one for here in windows for one in getattr(here, of)) for of in (*_TABLES, "windows")
    }
    return replace(
        first,
        period=replace(first.period, end_ns=last.period.end_ns),
        sums={path: here.sums[path] for here in windows for _, path in _files(here)},
        **joined,
    )


def _files(here: LakePeriod) -> list[tuple[str, Path]]:
    """(table, path) of the files of a period's windows."""
    return [(table, path) for table in _TABLES for path in getattr(here, table)]


def _is_kept(here: LakePeriod, settings: RefineSettings) -> bool:
    try:
        return has_stats(here.store, key_of(here, settings))
    except OSError:  # a cache that may not be read is none
        return False


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads blocks of windows; computes the profiles that are not stored."""

    settings: RefineSettings
    tally: ProfileTally
    keep_account: bool
    run: RunNames
    scratch: Scratch
    most_bytes: int | None = None

    def blocks(self, blocks: Sequence[_Block], workers: int) -> Iterator[tuple[_Block, Added | None]]:
        """Yield (block, the block's sum as one slot or None without requests).

        workers: maximum number of processes; fewer are started if there is little to read."""
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
        """Estimated number of stored rows of `votes` in all blocks: rows of the first stored window times the
        number of windows."""
        pieces = [here for block in blocks for here in block.pieces]
        data = (_read(here, self.settings) for here in pieces if _is_whole(here))
        return next((votes_kept(one) for one in data if one is not None), 0) * len(pieces)

    def _here(self, blocks: Sequence[_Block]) -> Iterator[Added | None]:
        """Yield the sum of each block, read in this process; computes the profiles that are not stored."""
        pieces = [here for block in blocks for here in block.pieces]
        with ThreadPoolExecutor(1, thread_name_prefix="statistics") as pool:
            # Decoded one ahead: meanwhile those before are added up.
            read = partial(stored_tables, with_account=self.keep_account, run=self.run)
            kept = map_in_order(pool, read, _kept_ahead(pieces, self.settings), 2)
            for block in blocks:
                adding = Adding(keep_account=self.keep_account, run=self.run)
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
    """Add up a block's stored statistics, in a worker process; None if any of them is not stored."""
    keep_freed()
    adding = Adding(keep_account=block.keep_account)
    for lake, several in groupby(block.keys, lambda one: one[0]):
        keys = [key for _, key in several]
        for data in prefetch(_store(lake), partial(_kept_data, _store(lake)), keys):
            stored = stored_tables(data, with_account=block.keep_account, run=adding.run)
            if stored is None:
                return None
            adding.add(stored)
    return adding.added(lambda: block.folder)


@cache
def _store(lake: str) -> Store:
    """Object store of a lake, opened once per worker process."""
    return open_store(lake)


def _silent(part: LakePeriod, slots: Sequence[Slot]) -> Iterator[Slot]:
    """Yield a slot for each whole window of the period without requests during which recording was on,
    ascending.

    Recording was on from the first to the last slot with requests of a recording; from the period's start or
    to the period's end if `Recorded` says so. slots: with requests, in time order."""
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

    Windows for which the sum of the quarter (6 hours) is stored instead (`coarsen`) count as stored. Missing
    profiles are computed one after the other, or by `workers` processes (a maximum) if worthwhile, or by an
    Executor; each process holds one window at a time in memory. watch: called with (windows done, all
    windows). Failed writes are in `tally.refusals`. Raises LakeError if flows cannot be read.
    """
    pieces = _each_window(periods)
    missing = []
    for windows in _by_quarter(pieces):
        lacking = []
        for here in windows:
            watch(tally.read + tally.made, len(pieces))
            if _read(here, settings) is None:
                lacking.append(here)
            else:
                tally.read += 1
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
    """Ensure that the sum of every quarter (6 hours) that the periods overlap is stored.

    Returns the number of quarters. Missing profiles of windows are computed. Memory: the statistics of one
    quarter. Failed writes are in `tally.refusals`. Raises LakeError if flows cannot be read.
    """
    quarters = _quarters(periods)
    for quarter in quarters:
        _keep_sum(quarter, settings, tally)
    return len(quarters)


class Coarsened(NamedTuple):
    """Result of `coarsen`: numbers of statistics files replaced by sums of quarters (6 hours), or, in a dry
    run, to be replaced."""

    windows: int
    """Number of windows whose separate statistics were deleted."""
    quarters: int
    """Number of quarters that contain these windows."""
    size: int
    """Size of the deleted files, bytes."""


def coarsen(
    periods: Sequence[LakePeriod],
    settings: RefineSettings,
    until_ns: int,
    *,
    tally: ProfileTally,
    dry_run: bool = False,
) -> Coarsened:
    """Store the sum of each quarter (6 hours) that ended by `until_ns` (Unix ns), then delete the statistics
    of the quarter's windows.

    Quarters without stored windows are skipped. dry_run: only count. Can be interrupted at any time; the next
    run continues. Raises LakeError if flows cannot be read, OSError if a file cannot be deleted.
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
    """Quarters (6 hours) that the periods overlap and that contain several windows, as one period each."""
    return [_joined(windows) for windows in _by_quarter(_each_window(periods)) if len(windows) > 1]


def _keep_sum(quarter: LakePeriod, settings: RefineSettings, tally: ProfileTally) -> bool:
    """Store the sum of a quarter's windows unless it is stored already; returns True if it is stored now."""
    key, written = key_of(quarter, settings), ProfileTally()
    if _read(quarter, settings) is not None:
        return True
    stored = _summed_windows(quarter, settings, tally)
    if stored is None:
        return False
    _keep(quarter.store, key, encode_stored(stored), written)
    tally.add(ProfileTally(refusals=written.refusals, outdated=written.outdated))
    return not written.refusals


def _each_window(periods: Sequence[LakePeriod]) -> list[LakePeriod]:
    """Whole windows that the periods overlap, each once even if several periods overlap it."""
    return [*{(here.root, here.windows): here for part in periods for here in whole_windows(part)}.values()]


def _profile_made(settings: RefineSettings, here: LakePeriod) -> ProfileTally:
    """Compute and store the profile of a whole window; returns the numbers of profiles computed and
    written."""
    tally = ProfileTally()
    _kept_or_made(None, here, settings, tally)
    return tally


def _named_profile_made(settings: RefineSettings, window: Period) -> ProfileTally:
    """Compute and store a window's profile in a worker process, which opens the lake separately."""
    return _profile_made(settings, _lakes().sealed_part(window))


@cache
def _lakes() -> Lakes:
    """Lakes of a worker process, opened once: one snapshot for all windows that the process handles."""
    return Lakes()


def _clipped(here: LakePeriod, part: LakePeriod) -> LakePeriod:
    """Window `here`, clipped to the period of `part`."""
    start_ns, end_ns = (
        max(here.period.start_ns, part.period.start_ns),
        min(here.period.end_ns, part.period.end_ns),
    )
    return replace(here, period=replace(here.period, start_ns=start_ns, end_ns=end_ns))


def _is_whole(here: LakePeriod) -> bool:
    """True if a period consists of whole windows, without filter, so that statistics can be stored for it."""
    bounds = (here.period.start_ns, here.period.end_ns)
    return here.period.where is None and bounds == (here.windows[0].start_ns, here.windows[-1].end_ns)


def _kept_ahead(pieces: Sequence[LakePeriod], settings: RefineSettings) -> Iterator[pa.Buffer | None]:
    """Yield the stored statistics of each piece, or None if there are none or the window is clipped.

    Reads ahead if the lake is in an object store."""
    if not pieces:
        return iter(())
    slowest = max((here.store for here in pieces), key=lambda store: store.concurrency)
    return prefetch(slowest, lambda here: _read(here, settings) if _is_whole(here) else None, pieces)


def whole_windows(part: LakePeriod) -> Iterator[LakePeriod]:
    """Yield each window that a period overlaps, as a period that is the whole window, in time order.
    O(files)."""
    files: dict[tuple[str, str], list[Path]] = {}
    for table, path in _files(part):
        files.setdefault((path.parent.name, table), []).append(path)
    for window in part.windows:
        period = replace(part.period, start_ns=window.start_ns, end_ns=window.end_ns)
        own: dict[str, Any] = {
            table: tuple(files.get((f"window={window.name}", table), ())) for table in _TABLES
        }
        yield replace(part, period=period, windows=(window,), **own)


def window_pieces(part: LakePeriod) -> list[LakePeriod]:
    """Parts into which window bounds divide a period, without the period's filter, in time order."""
    whole = replace(part, period=replace(part.period, where=None))
    return [_clipped(here, whole) for here in whole_windows(whole)]


def kept_of_window(here: LakePeriod, settings: RefineSettings) -> pa.Buffer | None:
    """Statistics file of a window; None if there is none, or if `here` is only a part of a window."""
    is_listed = all(path in here.sums for _, path in _files(here))
    return _read(here, settings) if is_listed and _is_whole(here) else None


def window_profile(here: LakePeriod, settings: RefineSettings) -> Profile | None:
    """Profile of a whole window, read from the lake or computed (and stored); None if there is no request."""
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
    """Profile of a window, or sum of several windows: `stored` if it covers `here`, else computed.

    A computed profile is written to the lake if `here` consists of whole windows. A window whose requests
    need more than `most_bytes` is computed in slices of time, which are refined separately, and not written.
    None if no request passes the filter. with_totals: include votes of TOTAL_TIME in a computed profile.
    """
    key = key_of(here, settings) if _is_whole(here) else None
    if key is not None and stored is not None:
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
    """Number of slices of time such that the requests of a slice fit into `most_bytes`; 1 if all requests fit
    together with their parameters."""
    needed = needed_memory([here])
    if sum(needed) <= most_bytes:
        return 1
    return max(2, -(-needed.requests // most_bytes))


def _made_of_slices(here: LakePeriod, n: int, settings: RefineSettings) -> Stored | None:
    """Profile of `here` as the sum of `n` slices of time with equally many requests; None without requests.

    The profile has no numbers of requests by attribute value."""
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
    """Profile of the requests of window `here`, with numbers of requests by attribute value."""
    slot = Slot(0, here.period.start_ns, here.period.end_ns)
    profile = profile_of(population, [slot], with_totals=True).profile
    return stored_of(profile, segment_sums(population, settings.statistics))


def _summed_windows(quarter: LakePeriod, settings: RefineSettings, tally: ProfileTally) -> Stored | None:
    """Sum of the windows of a quarter (6 hours), each read or computed; None without requests."""
    adding = Adding()
    for here in whole_windows(quarter):
        kept = stored_tables(_read(here, settings), with_totals=True, run=adding.run)
        stored = _kept_or_made(kept, here, settings, tally, with_totals=True)
        if stored is not None:
            adding.add(stored)
    return adding.stored()


def _read(here: LakePeriod, settings: RefineSettings) -> pa.Buffer | None:
    return _kept_data(here.store, key_of(here, settings))


def _kept_data(store: Store, key: StatsKey) -> pa.Buffer | None:
    try:
        return read_stats(store, key)
    except OSError:  # a cache that may not be read is none
        return None


def _keep(store: Store, key: StatsKey, data: bytes, tally: ProfileTally) -> None:
    """Write a statistics file; a failure is only noted in the tally, so that a read-only lake can be used."""
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
    """Key of the statistics file of `here`, a window or all windows of a quarter (6 hours): the time, the
    source files and the settings."""
    first, several = here.windows[0], len(here.windows) > 1
    return StatsKey(
        Window(first.start_ns // QUARTER_NS * QUARTER_NS, QUARTER_NS) if several else first,
        source_of([(table, here.sums[path]) for table, path in _files(here)]),
        settings_of(f"{version()} {settings.model_dump_json()}"),
        "quarter" if several else "window",
    )
