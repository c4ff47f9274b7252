"""Cut a history into blocks, each of which is one sample of the system's normal variation.

Differences between blocks show normal variation. By how much two means differ by chance depends on the length
of the periods, so a block should be as long as the shortest compared sample. If that gives too few blocks to
estimate a spread, blocks are shorter, at least a window; if it gives more blocks than `MOST_BLOCKS`, they are
longer. Cuts are at window bounds, because statistics are stored by window; blocks of six hours or longer are
whole quarters of a UTC day, because sums of windows are stored by quarter. If whole days are compared, blocks
are days: with parts of days the daily cycle would count as noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice, pairwise
from typing import Final, Literal, NamedTuple

import numpy as np

from analyze.load import load_population, sample_of, told_samples
from analyze.population import Sample
from analyze.profile.needed_memory import needed_memory
from analyze.profile.numbering import RunNames
from analyze.profile.samples import ComparedSamples
from analyze.profile.stored import QUARTER_NS, ProfileTally, gathered
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, LakePeriods, Lakes, parts_of
from schemas.errors import ConfigError, PeriodError
from schemas.periods import Period, fitted
from schemas.ranges import overlap, total_ns, united
from schemas.windows import Window

MOST_BLOCKS: Final = 120
"""Maximum number of blocks of a history. A sample index has one byte, so 256 samples are possible; but a
spread estimated from 120 blocks is accurate to 6 % (1 / sqrt(2 * 120)), and more blocks would only cost."""
MOST_OF_REFERENCE: Final = 64
"""Maximum number of blocks into which a reference is cut."""
LEAST_BLOCKS: Final = 12
"""Wanted minimum number of blocks: with fewer a spread is accurate to 20 % at best, and an envelope that
leaves out a tenth of the blocks is the whole range."""


@dataclass(frozen=True, slots=True)
class History:
    """Baseline periods, cut into blocks, each of which is one sample."""

    blocks: tuple[tuple[LakePeriod, ...], ...]
    """Periods of each block; blocks in time order."""
    left_out: tuple[Period, ...] = ()
    """Compared samples that overlap the history, which were left out of it."""

    @property
    def samples(self) -> tuple[tuple[str, tuple[LakePeriod, ...]], ...]:
        """(name, periods) of each block, as loading needs them: `history 1`, `history 2`, …"""
        return tuple((f"history {number}", block) for number, block in enumerate(self.blocks, 1))


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Part of the history in which every window has flows."""

    period: Period
    windows: tuple[Window, ...]
    """Windows that `period` overlaps, adjacent, in time order."""


def cut_history(
    periods: Sequence[Period],
    samples: Sequence[LakePeriods],
    lakes: Lakes,
    *,
    most: int = MOST_BLOCKS,
    calendar_ns: int = 0,
) -> History:
    """Cut periods into blocks of a history, leaving out the compared samples.

    periods: of the history; may overlap each other and the samples. samples: compared samples, whose windows
    are left out. most: maximum number of blocks. calendar_ns: length of a calendar unit, e.g. a day; each
    unit of which at least half is left becomes one block, if that gives at least LEAST_BLOCKS blocks; 0: no
    calendar units. Unsealed windows are skipped. Raises PeriodError if a period has no window, or if nothing
    is left.
    """
    compared = [part for sample in samples for part in parts_of(sample)]
    ranges = [
        replace(fitted(period, lakes.sealed(period)), lake=lakes.manifest(period).lake) for period in periods
    ]
    stretches: list[_Stretch] = []
    left_out: list[Period] = []
    for period in united(ranges):
        root = lakes.root(period)
        taken = [part for part in compared if part.root.resolve() == root and overlap(part.period, period)]
        left_out += [part.period for part in taken]
        for rest in _without(period, taken):
            stretches += _stretches(rest, [w for w in lakes.sealed(period) if rest.holds(w)])
    if not stretches:
        raise PeriodError(
            "Nothing of the history is left: all of it is among what is compared.",
            remedy="Give --history other times.",
        )
    blocks = _by_calendar(stretches, calendar_ns)
    if len(blocks) < LEAST_BLOCKS:
        wanted_ns = min((total_ns(part.period for part in parts_of(sample)) for sample in samples), default=0)
        length_ns = _block_ns(stretches, wanted_ns, most)
        pieces = [piece for stretch in stretches for piece in _cut(stretch, length_ns)]
        blocks = _joined(sorted(pieces, key=lambda piece: piece.period.start_ns), most)
    listed = iter(lakes.listed([(piece.period, piece.windows) for block in blocks for piece in block]))
    return History(tuple(tuple(islice(listed, len(block))) for block in blocks), tuple(left_out))


def _without(period: Period, taken: Iterable[LakePeriod]) -> list[Period]:
    """Parts of a period that no window of the samples in `taken` overlaps, in time order."""
    left = [period]
    for part in taken:
        first, past = (
            part.period.start_ns // part.window_ns * part.window_ns,
            -(-part.period.end_ns // part.window_ns) * part.window_ns,
        )
        ends = [(p, p.start_ns, min(p.end_ns, first)) for p in left]
        ends += [(p, max(p.start_ns, past), p.end_ns) for p in left]
        left = [replace(p, start_ns=start, end_ns=end) for p, start, end in ends if start < end]
    return sorted(left, key=lambda p: p.start_ns)


def _stretches(period: Period, windows: Sequence[Window]) -> list[_Stretch]:
    """Parts of a period without gaps: one for each run of adjacent `windows` (with flows)."""
    runs: list[list[Window]] = []
    for window in windows:
        if runs and runs[-1][-1].end_ns == window.start_ns:
            runs[-1].append(window)
        else:
            runs.append([window])
    return [_stretch(period, run) for run in runs]


def _stretch(period: Period, windows: Sequence[Window]) -> _Stretch:
    """Part of a period from the first to the last of `windows`."""
    start, end = max(period.start_ns, windows[0].start_ns), min(period.end_ns, windows[-1].end_ns)
    return _Stretch(replace(period, start_ns=start, end_ns=end), tuple(windows))


def _by_calendar(stretches: Sequence[_Stretch], length_ns: int) -> list[list[_Stretch]]:
    """Blocks that are calendar units of `length_ns`, of which at least half is left, in time order; empty if
    `length_ns` is 0."""
    found: dict[int, list[_Stretch]] = {}
    for stretch in stretches if length_ns else ():
        for number, windows in groupby(stretch.windows, lambda window: window.start_ns // length_ns):
            found.setdefault(number, []).append(_stretch(stretch.period, [*windows]))
    return [
        parts
        for _, parts in sorted(found.items())
        if 2 * total_ns(part.period for part in parts) >= length_ns
    ]


def _block_ns(stretches: Sequence[_Stretch], wanted_ns: int, most: int) -> int:
    """Length of a block, ns: `wanted_ns`, made shorter or longer for LEAST_BLOCKS to `most` blocks."""
    window_ns = min(stretch.windows[0].length_ns for stretch in stretches)
    longest = max(stretch.period.end_ns - stretch.period.start_ns for stretch in stretches)
    length = _of_quarters(max(window_ns, wanted_ns), window_ns)
    while length > window_ns and sum(_n_blocks(s, length) for s in stretches) < LEAST_BLOCKS:
        length = _of_quarters(max(window_ns, length // 2), window_ns)
    while length < longest and sum(_n_blocks(s, length) for s in stretches) > most:
        more = -(-length // 4)
        more = max(more, QUARTER_NS) if _has_quarters(length, window_ns) else more
        length = _of_quarters(length + more, window_ns)
    return length


def _has_quarters(length_ns: int, window_ns: int) -> bool:
    """True if a block is at least 6 hours (a quarter of a day) long and windows divide 6 hours evenly."""
    return length_ns >= QUARTER_NS and QUARTER_NS % window_ns == 0


def _of_quarters(length_ns: int, window_ns: int) -> int:
    """Length of a block, ns, rounded down to a multiple of 6 hours if `_has_quarters`."""
    return length_ns - length_ns % QUARTER_NS if _has_quarters(length_ns, window_ns) else length_ns


def _n_blocks(stretch: _Stretch, block_ns: int) -> int:
    length = stretch.period.end_ns - stretch.period.start_ns
    return max(1, min(round(length / block_ns), len(stretch.windows)))


def _cut(stretch: _Stretch, block_ns: int) -> list[_Stretch]:
    """Cut a part of the history into parts of about `block_ns`, at window bounds, or at quarters of a UTC day
    if `_has_quarters`."""
    period, windows = stretch.period, stretch.windows
    start = np.array([window.start_ns for window in windows], dtype=np.int64)
    of_quarters = _has_quarters(block_ns, windows[0].length_ns)
    inner = np.flatnonzero(start[1:] % (QUARTER_NS if of_quarters else 1) == 0) + 1
    even = np.linspace(period.start_ns, period.end_ns, _n_blocks(stretch, block_ns) + 1)[1:-1]
    cuts = sorted({int(inner[np.argmin(np.abs(start[inner] - at))]) for at in even}) if len(inner) else []
    bounds = zip([0, *cuts], [*cuts, len(windows)], strict=True)
    return [_stretch(period, windows[first:past]) for first, past in bounds]


def _joined(pieces: Sequence[_Stretch], most: int) -> list[list[_Stretch]]:
    """Merge consecutive pieces into at most `most` blocks with about equally many pieces."""
    n = min(most, len(pieces))
    bounds = [len(pieces) * place // n for place in range(n + 1)]
    return [[*pieces[first:past]] for first, past in pairwise(bounds)]


def reference_blocks(reference: Sample, history: Sequence[Sample]) -> int:
    """Number of blocks into which to cut the reference, so that they are about as long as the history's."""
    usual = float(np.median([sample.length_ns for sample in history]))
    return max(1, min(MOST_OF_REFERENCE, round(reference.length_ns / max(usual, 1))))


StatisticsUse = Literal["auto", "never", "history", "all"]
"""Samples to read from stored statistics instead of requests; `auto`: those with many requests."""
NamedSamples = Sequence[tuple[str, tuple[LakePeriod, ...]]]
"""(name, periods) of each sample; samples do not share requests."""

MOST_HISTORY: Final = 50_000
"""Maximum number of requests of a history to be loaded as requests (one second of refining). They are refined
together with the samples, which makes a difference only for windows with few requests: 0 of 99,000 call
patterns differed at 580 requests per window, 0.3 % at 130."""
MOST_REQUESTS: Final = 2_000_000
"""Maximum number of requests of the samples to be loaded as requests: about 8 GB of memory at 30 nodes per
request."""


class Read(NamedTuple):
    """Compared samples and their history (None: no history), as requests or statistics."""

    compared: ComparedSamples
    history: ComparedSamples | None


def read_samples(
    compared: NamedSamples,
    history: NamedSamples,
    refine: RefineSettings,
    *,
    use: StatisticsUse = "auto",
    can_use: bool = True,
    workers: int = 1,
    most_bytes: int | None = None,
) -> Read:
    """Read samples as requests or as statistics, depending on their size.

    use: which samples to read as statistics. can_use: True if the chosen methods work on statistics; False:
    `auto` reads requests. workers: maximum number of processes for reading statistics. most_bytes: memory for
    requests, None: no limit; if requests need more, statistics are read, window by window. Raises as
    `load_population` and `gathered`, and ConfigError if requests must be read and do not fit.
    """
    large = can_use and use == "auto"
    over, over_with_history = _too_large(compared, history, most_bytes)
    if not large and (over or (over_with_history and use == "never")) and use != "all":
        raise _does_not_fit(compared, history if use == "never" else (), most_bytes or 0, can_use=can_use)
    kept = partial(_statistics, refine=refine, workers=workers, most_bytes=most_bytes)
    if use == "all" or (large and (over or n_flows(compared) > MOST_REQUESTS)):
        how = (
            "compared from the statistics of their windows: there are no examples, no explanations, and no "
            "breakdown of slow requests"
        )
        run, past, n_blocks = RunNames(), None, None
        if history:
            n_blocks = reference_blocks(sample_of(*compared[0]), [sample_of(*one) for one in history])
        both = kept(compared, run=run, a_slot=_windows_a_slot(compared, history), n_blocks=n_blocks)
        if history:
            past = kept(history, run=run, a_slot=None)
        return Read(both.noted(after=[f"The samples were {how}."]), past)
    if history and (use == "history" or (large and (over_with_history or n_flows(history) > MOST_HISTORY))):
        past = kept(history, run=RunNames(), a_slot=None)
        population = load_population(compared, refine, folded=past.population.folded).population
        return Read(ComparedSamples(population).noted(after=past.population.notes), past)
    loaded = load_population(compared, refine, history=history)
    past = None if loaded.history is None else ComparedSamples(loaded.history)
    return Read(ComparedSamples(loaded.population), past)


def _too_large(compared: NamedSamples, history: NamedSamples, most_bytes: int | None) -> tuple[bool, bool]:
    """(True if the requests of the compared samples need more than `most_bytes` of memory, True if the
    requests of samples and history together do)."""
    if most_bytes is None:
        return False, False
    alone, both = (
        sum(needed_memory(part for _, parts in samples for part in parts))
        for samples in (compared, [*compared, *history])
    )
    return alone > most_bytes, both > most_bytes


def _does_not_fit(
    compared: NamedSamples, history: NamedSamples, most_bytes: int, *, can_use: bool
) -> ConfigError:
    needed = sum(needed_memory(part for _, parts in [*compared, *history] for part in parts))
    instead = "leave --statistics to itself" if can_use else "the method robust"
    return ConfigError(
        f"The requests of these periods take about {needed >> 20:,} MB, and {most_bytes >> 20:,} MB of "
        "--memory are left for them.",
        remedy=f"Take shorter periods, more memory, or {instead}, which can do without requests.",
    )


def _windows_a_slot(compared: NamedSamples, history: NamedSamples) -> int:
    """Number of windows of the compared samples to add up per slot; 1 without a history.

    At most as many windows as the smallest block of the history has, and few enough for LEAST_BLOCKS slots
    per sample."""
    if not history:
        return 1
    fewest, a_block = (
        min(sum(len(part.windows) for part in parts) for _, parts in samples)
        for samples in (compared, history)
    )
    return max(1, min(fewest // LEAST_BLOCKS, a_block))


def n_flows(samples: NamedSamples) -> int:
    """Number of flows in all windows that the samples overlap; a shared window counts once."""
    parts = [part for _, parts in samples for part in parts]
    # A window that two samples touch (filters part them) counts once.
    flows = {
        (part.root, window): n for part in parts for window, n in zip(part.windows, part.n_flows, strict=True)
    }
    return sum(flows.values())


def _statistics(
    samples: NamedSamples,
    *,
    refine: RefineSettings,
    run: RunNames,
    a_slot: int | None,
    n_blocks: int | None = None,
    workers: int,
    most_bytes: int | None,
) -> ComparedSamples:
    """Read samples as statistics. a_slot: windows per slot; None: one slot per sample, for a history."""
    tally = ProfileTally()
    found = gathered(
        [parts for _, parts in samples],
        refine,
        run,
        tally=tally,
        with_silent=a_slot is not None,
        a_slot=a_slot,
        n_blocks=n_blocks,
        workers=1 if most_bytes is not None else workers,
        most_bytes=most_bytes,
    )
    notes = tuple(
        f"Statistics of windows cannot be kept in the lake and will be worked out again: {reason.lower()}."
        for reason in tally.refusals
    )
    named = told_samples(samples)
    return ComparedSamples.of_statistics(
        named, found.profile(refine.max_names), samples[0][1][0].window_ns, notes, found, workers
    )
