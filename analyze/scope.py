"""Find the windows and files of periods of lakes, from manifests, without opening any data file.

A sample is one period or several (`LakePeriods`). `Lakes` finds periods; all results for one lake come from
one snapshot, even if an import runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8
from schemas.errors import LakeError, PeriodError, lake_error
from schemas.periods import (
    Condition,
    Period,
    dated,
    fitted,
    has_time_of_day,
    parse_period,
    windows_of,
)
from schemas.quality import Quality
from schemas.ranges import united
from schemas.recorded import Recorded, recordings
from schemas.windows import Window
from stitch.lake.copies import Copies
from stitch.lake.disk import inside, mapped
from stitch.lake.flow_counts import FILE_COUNTS_SCHEMA, by_flag, by_window
from stitch.lake.layout import REPORT_END, REPORTS, WINDOW_TABLES
from stitch.lake.manifest import LakeFile, Manifest, open_manifest
from stitch.lake.place import LakePlace, open_place
from stitch.lake.store import LocalStore, Store
from stitch.lake.sums import read_sums, sums_among

if TYPE_CHECKING:
    from stitch.drivers.build.provisional import ProvisionalFile


@dataclass(frozen=True, slots=True)
class LakePeriod:
    """Period of an existing lake, with the windows that it overlaps and the files of these windows."""

    period: Period
    root: Path
    """Folder of the lake; for a lake in a bucket the folder with local copies of its files."""
    window_ns: int
    """Length of a window of the lake, ns."""
    flows: tuple[Path, ...]
    """Paths of the windows' files of flows."""
    structures: tuple[Path, ...]
    """Paths of the windows' files of structures."""
    params: tuple[Path, ...]
    """Paths of the windows' files of parameters."""
    dead_letters: tuple[Path, ...] = ()
    """Paths of all dead-letter files of the lake, of any period: unreadable records have no time."""
    pending: int = 0
    """Number of commits that are not published yet; their files are not listed."""
    sums: Mapping[Path, str] = field(default_factory=dict)
    """Path of each listed file -> SHA-256 of its content in hex, as in its commit."""
    windows: tuple[Window, ...] = ()
    """Windows that the period overlaps, in time order."""
    n_flows: tuple[int, ...] = ()
    """Number of flows of each of `windows`; empty if files are not listed."""
    unsealed: int = 0
    """Number of windows in `windows` that are not sealed: more flows may come, and their files are
    provisional."""
    recorded: tuple[Recorded, ...] = ()
    """Recordings that the period overlaps, from sealed windows only; empty: unknown."""
    copies: Copies | None = None
    """Downloader of files from a bucket to `root`; None for a lake in a folder."""

    @property
    def lake(self) -> str:
        """Path or address of the lake, for messages and for opening it again."""
        return str(self.root) if self.copies is None else self.copies.lake

    @property
    def has_whole_windows(self) -> bool:
        """True if each of `windows` lies entirely within the period."""
        first, last = (self.windows or (None,))[0], (self.windows or (None,))[-1]
        return (first is None or self.period.start_ns <= first.start_ns) and (
            last is None or last.end_ns <= self.period.end_ns
        )

    @property
    def store(self) -> Store:
        """Store that holds the lake: its folder or its bucket, not the local copies."""
        return LocalStore.at(self.root) if self.copies is None else self.copies.store

    def fetch(self, paths: Iterable[Path]) -> None:
        """Download listed files or tables of reports, so that they can be read at their `paths`.

        No effect for a lake in a folder. Raises LakeError if a file cannot be downloaded.
        """
        if self.copies is not None:
            # Files of windows still open in live lanes are outside of `root`, on the local disk.
            names = {path: self.name_of(path) for path in paths if path.is_relative_to(self.root)}
            self.copies.fetch((name, self.sums[path]) for path, name in names.items() if path in self.sums)
            self.copies.fetch_tables(name for path, name in names.items() if path not in self.sums)

    def name_of(self, path: Path) -> str:
        """Name of a file relative to the lake's root, for messages."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def report_files(self) -> list[Path]:
        """Paths of the tables of the lake's finished reports, sorted; call `fetch` before reading them."""
        if self.copies is not None:
            return sorted(self.copies.report_files())
        return [path for folder in self.report_folders() for path in _report_tables(folder)]

    def report_folders(self) -> list[Path]:
        """Folders of the lake's finished reports, sorted; the name of a folder is the report's id."""
        if self.copies is not None:
            return sorted({path.parent for path in self.copies.report_files()})
        return sorted(path.parent for path in (self.root / REPORTS).glob(f"[!.]*/{REPORT_END}"))


def _report_tables(folder: Path) -> list[Path]:
    """Paths of the tables of a report, including tables that are listed in its checksums but missing, so that
    reading a missing table raises an error."""
    there = {path.name for path in folder.iterdir()}
    written = {name for sums in sums_among(there) for name in read_sums(mapped(folder / sums))}
    return [
        folder / name for name in sorted(there | written) if name.endswith(".parquet") and "/" not in name
    ]


@dataclass(frozen=True, slots=True)
class PeriodCounts:
    """Numbers of requests, read from commits, in the windows that a period overlaps.

    Each window counts as a whole, even if the period overlaps only a part of it."""

    found: LakePeriod
    """Period that was counted, without files, as the numbers come from commits."""
    windows: pa.Table
    """Numbers by window: one row per window, with WINDOW_COUNTS_SCHEMA."""
    flags: Mapping[Quality, int]
    """Quality flag -> number of requests with the flag, in all windows counted; only flags that occur."""
    earlier: int
    """Number of windows of the period that were not counted: the earliest ones, beyond `at_most`."""


@dataclass(frozen=True, slots=True)
class UnlistedPeriod:
    """Period of an existing lake whose files are listed on demand, for some of its windows."""

    found: LakePeriod
    """The period, without windows and files."""
    starts_ns: I8
    """int64[windows]: starts of the windows that the period overlaps, Unix ns, ascending."""
    listed: Callable[[I8], LakePeriod]
    """Function that lists the files of the windows with the given starts, and the dead letters of the lake.
    Raises LakeError if a file is missing."""


LakePeriods = LakePeriod | Sequence[LakePeriod]
"""Periods that make up a sample: one, or several that do not overlap (see `Lakes.ranges`)."""


def parts_of(found: LakePeriods) -> tuple[LakePeriod, ...]:
    """Periods of a sample as a tuple, also if there is only one."""
    return (found,) if isinstance(found, LakePeriod) else tuple(found)


class Lakes:
    """Lakes that periods refer to; each lake is opened once, at the first use."""

    def __init__(self, default: str | None = None, *, provisional: Path | None = None) -> None:
        """Set the default lake and the mode of reading.

        default: lake of periods that do not name one. provisional: folder into which flows of unsealed
        windows, so far held by live lanes, are written; with it, periods may overlap unsealed windows and get
        the flows known so far. None: only sealed windows can be read.
        """
        self._default = default
        self._provisional = provisional
        self._opened: dict[Path, _Opened] = {}
        """Real path of a lake's root -> opened lake."""

    def manifest(self, period: Period) -> Manifest:
        """Manifest of the period's lake.

        Raises PeriodError if neither the period nor the default names a lake, LakeError if the lake does not
        exist.
        """
        return self._open(period).manifest

    def find(self, period: Period, *, may_be_empty: bool = False) -> LakePeriod:
        """Find the windows and files of one period, dead letters included. Parameters and errors: see
        `resolve`."""
        unlisted = self.unlisted(period, may_be_empty=may_be_empty)
        return unlisted.listed(unlisted.starts_ns)

    def unlisted(self, period: Period, *, may_be_empty: bool = False) -> UnlistedPeriod:
        """Find the windows of one period without listing files. Parameters and errors: see `resolve`."""
        lake = self._whole(period)
        starts_ns = self._starts_ns(period, may_be_empty=may_be_empty)
        whole = replace(fitted(period, _windows(starts_ns[[0, -1][: len(starts_ns)]], lake)), lake=lake.name)

        def listed(some_ns: I8) -> LakePeriod:
            (found,) = self.listed([(whole, _windows(some_ns, lake))])
            letters = lake.manifest.files("dead_letters")
            return replace(
                found,
                dead_letters=tuple(inside(found.root, file.name) for file in letters),
                sums={**found.sums, **{inside(found.root, file.name): file.sha256 for file in letters}},
            )

        return UnlistedPeriod(_without_files(whole, lake, starts_ns), starts_ns, listed)

    def counts(
        self, period: Period, *, may_be_empty: bool = False, at_most: int | None = None
    ) -> PeriodCounts:
        """Count the flows of the windows that a period overlaps, each window as a whole.

        at_most: maximum number of windows, the latest ones; None: no limit. Numbers are read from commits: no
        data file is opened. Other parameters and errors: see `resolve`.
        """
        lake = self._whole(period)
        windows = self._windows(period, may_be_empty=may_be_empty)
        earlier = 0 if at_most is None else max(0, len(windows) - at_most)
        windows = windows[earlier:]
        asked = set(windows)
        held = [
            {"window_ns": file.window.start_ns, "rows": file.rows, "counts": file.counts.model_dump()}
            for file in lake.provisional
            if file.window in asked and file.counts is not None
        ]
        more = pa.Table.from_pylist(held, FILE_COUNTS_SCHEMA)
        files = pa.concat_tables([lake.manifest.flow_counts(windows), more])
        whole = replace(fitted(period, windows), lake=lake.name)
        starts_ns = np.array([window.start_ns for window in windows], dtype=np.int64)
        found = replace(_without_files(whole, lake, starts_ns), windows=tuple(windows))
        return PeriodCounts(found, by_window(files), by_flag(files), earlier)

    def dated(self, text: str) -> str:
        """Complete the times of day in a text of periods (`LAKE@RANGE,RANGE,…`) by the date: of the latest
        day, before the end of the lake's last sealed window, that has the time.

        Raises PeriodError if no lake is named or the lake has no sealed window, LakeError if it does not
        exist.
        """
        parts, lake = [], None
        for part in text.split(","):
            lake = part.strip().rpartition("@")[0] or lake
            if has_time_of_day(part):
                whole = replace(parse_period("all", now_ns=0), lake=lake)
                part = dated(part, self.sealed(whole)[-1].end_ns)
            parts.append(part)
        return ",".join(parts)

    def ranges(self, periods: Sequence[Period]) -> tuple[LakePeriod, ...]:
        """Find the windows and files of a sample that consists of several periods.

        Periods that are adjacent or overlap are merged, so that no request counts twice. Dead letters are not
        listed. Raises PeriodError if one of the periods has no window, or an unsealed window.
        """
        whole = [replace(fitted(p, self._windows(p)), lake=self._whole(p).name) for p in periods]
        return tuple(self.listed([(period, self._windows(period)) for period in united(whole)]))

    def sealed(self, period: Period) -> list[Window]:
        """Sealed windows that a period overlaps, in time order; unsealed windows are skipped.

        Raises PeriodError if there is no sealed window.
        """
        lake = self._open(period)
        near, every = lake.all_starts_ns(period), lake.all_starts_ns
        windows = _windows(near[lake.is_sealed(near)], lake)
        return windows or windows_of(period, _windows(every()[lake.is_sealed(every())], lake))

    def sealed_part(self, period: Period) -> LakePeriod:
        """The part of a period that lies in sealed windows, with its files. Raises PeriodError if there is no
        sealed window."""
        windows = self.sealed(period)
        (found,) = self.listed([(fitted(period, windows), windows)])
        return found

    def listed(self, parts: Sequence[tuple[Period, Sequence[Window]]]) -> list[LakePeriod]:
        """List the files of periods whose windows are known. Dead letters are not listed.

        parts: (period, windows that it overlaps). The manifest of a lake is queried once for all periods of
        that lake. Raises LakeError if a file is missing.
        """
        lakes = [self._open(period) for period, _ in parts]
        asked: dict[str, set[Window]] = {lake.name: set() for lake in lakes}
        for lake, (_, windows) in zip(lakes, parts, strict=True):
            asked[lake.name].update(windows)
        files = {name: _files(lake, asked[name]) for name, lake in {one.name: one for one in lakes}.items()}
        return [
            _listed(replace(period, lake=lake.name), lake, windows, files[lake.name])
            for lake, (period, windows) in zip(lakes, parts, strict=True)
        ]

    def root(self, period: Period) -> Path:
        """Real path of the folder that holds the files of the period's lake (or their local copies)."""
        return self._open(period).place.root.resolve()

    def _windows(self, period: Period, *, may_be_empty: bool = False) -> list[Window]:
        return _windows(self._starts_ns(period, may_be_empty=may_be_empty), self._open(period))

    def _starts_ns(self, period: Period, *, may_be_empty: bool = False) -> I8:
        """int64[windows]: starts of the windows that a period overlaps, Unix ns, ascending."""
        lake = self._open(period)
        near = lake.all_starts_ns(period)
        if (may_be_empty and lake.is_empty) or (
            len(near) and (self._provisional is not None or lake.is_sealed(near).all())
        ):
            return near
        starts_ns = lake.all_starts_ns()  # an error says what there is
        is_sealed = lake.is_sealed(starts_ns) | (self._provisional is not None)
        sealed, unsealed = _windows(starts_ns[is_sealed], lake), _windows(starts_ns[~is_sealed], lake)
        if self._provisional is None and not any(period.holds(window) for window in sealed):
            unsealed += lake.unbuilt(period)
        chosen = windows_of(period, sealed, unsealed)
        return np.array([window.start_ns for window in chosen], dtype=np.int64)

    def _whole(self, period: Period) -> _Opened:
        """The period's lake. Raises LakeError also if commits with data of the period are lost; other errors
        as `manifest`."""
        lake = self._open(period)
        lake.manifest.refuse_lost_commits(period.start_ns, period.end_ns)
        return lake

    def _open(self, period: Period) -> _Opened:
        name = period.lake if period.lake is not None else self._default
        if name is None:
            raise PeriodError(
                f"Period {period.text} names no lake.", remedy="Write LAKE@RANGE, or give --lake."
            )
        place = open_place(name)
        root = place.root.resolve()
        if root not in self._opened:
            self._opened[root] = _opened(name, place, self._provisional)
        return self._opened[root]


@dataclass(frozen=True, slots=True)
class _Opened:
    """Opened lake: a snapshot of its manifest, and provisional files of its live lanes."""

    name: str
    """Path or address of the lake, as it was first given."""
    place: LakePlace
    manifest: Manifest
    starts_ns: I8
    """int64[windows]: starts of all sealed windows with flows, Unix ns, ascending."""
    provisional: tuple[ProvisionalFile, ...] = ()
    """Files with the flows that live lanes hold for unsealed windows; empty if these are not to be read."""

    def unbuilt(self, period: Period) -> list[Window]:
        """First window of a period after the last sealed one, whose flows live lanes may still hold in their
        log; empty if the lake has no live lanes, or if the period ends before that window."""
        sealed_to_ns, length_ns = self.manifest.sealed_to_ns, self.manifest.info.window_length_ns
        if sealed_to_ns is None or period.end_ns <= sealed_to_ns:
            return []
        return [Window(max(sealed_to_ns, period.start_ns // length_ns * length_ns), length_ns)]

    @property
    def is_empty(self) -> bool:
        """True if the lake has no window, sealed or not."""
        return not self.provisional and pc.max(self.manifest.listing["window_ns"]).as_py() is None

    def all_starts_ns(self, period: Period | None = None) -> I8:
        """int64[windows]: starts of the windows that a period overlaps, sealed or not, Unix ns, ascending.
        period: None for all windows."""
        held = [file.window.start_ns for file in self.provisional]
        starts_ns: I8 = np.union1d(self.manifest.window_starts_ns(), np.array(held, dtype=np.int64))
        if period is None:
            return starts_ns
        ends_ns = starts_ns + self.manifest.info.window_length_ns
        return starts_ns[(starts_ns < period.end_ns) & (ends_ns > period.start_ns)]

    def is_sealed(self, starts_ns: I8) -> B1:
        """bool[windows]: True for the windows in which no more events are expected."""
        sealed_to_ns = self.manifest.sealed_to_ns
        if sealed_to_ns is None:
            return np.ones(len(starts_ns), dtype=np.bool_)
        is_sealed: B1 = starts_ns + self.manifest.info.window_length_ns <= sealed_to_ns
        return is_sealed


def _windows(starts_ns: I8, lake: _Opened) -> list[Window]:
    return [Window(start, lake.manifest.info.window_length_ns) for start in starts_ns.tolist()]


def _manifest(place: LakePlace) -> Manifest:
    """Open the manifest of a lake. Raises LakeError if there is no lake, or if a bucket cannot be read."""
    try:
        return open_manifest(place.store, place.name, place.copies)
    except OSError as error:
        if place.copies is None:
            raise
        raise lake_error(f"The lake '{place.name}' cannot be read: {error.strerror}.", error) from error


_SNAPSHOTS: Final = 5
"""Maximum number of attempts to read the files of live lanes; an attempt fails if a lane commits meanwhile,
which deletes files."""


def _opened(name: str, place: LakePlace, provisional: Path | None) -> _Opened:
    """Open a lake. provisional: folder into which the flows held by live lanes are written; None: these are
    not read."""
    manifest = _manifest(place)
    if provisional is None:
        return _Opened(name, place, manifest, manifest.starts_ns())
    from stitch.drivers.build.provisional import write_provisional  # the kernel: only where it is asked for

    for number in range(_SNAPSHOTS):
        try:
            found = write_provisional(manifest, provisional / f"{len(list(provisional.iterdir())):d}")
        except LakeError:
            if number + 1 == _SNAPSHOTS:
                raise
            manifest = _manifest(place)
        else:
            break
    return _Opened(name, place, manifest, manifest.starts_ns(), found)


_Listed = tuple[Path, "LakeFile | ProvisionalFile"]


def _files(lake: _Opened, windows: Iterable[Window]) -> dict[Window, list[_Listed]]:
    """Window -> (path, entry) of each of its files. Raises LakeError if a window's file is missing."""
    root = lake.place.root
    found: dict[Window, list[_Listed]] = {
        window: [(inside(root, file.name), file) for file in files]
        for window, files in lake.manifest.by_window(windows).items()
    }
    for held in lake.provisional:
        if held.window in found:
            found[held.window].append((held.path, held))
    return found


def _listed(
    period: Period, lake: _Opened, windows: Sequence[Window], files: Mapping[Window, Sequence[_Listed]]
) -> LakePeriod:
    """`LakePeriod` with the files of `windows`. files: result of `_files` for at least these windows."""
    own = [listed for window in windows for listed in files[window]]
    flows, structures, params = (
        tuple(path for path, file in own if file.table == table) for table in WINDOW_TABLES
    )
    starts_ns = np.array([window.start_ns for window in windows], dtype=np.int64)
    return replace(
        _without_files(period, lake, starts_ns),
        windows=tuple(windows),
        flows=flows,
        structures=structures,
        params=params,
        sums={path: file.sha256 for path, file in own},
        n_flows=tuple(
            sum(file.rows for _, file in files[window] if file.table == "flows") for window in windows
        ),
    )


def _without_files(period: Period, lake: _Opened, starts_ns: I8) -> LakePeriod:
    """`LakePeriod` without windows and files. starts_ns: starts of its windows."""
    manifest = lake.manifest
    return LakePeriod(
        period,
        lake.place.root,
        manifest.info.window_length_ns,
        (),
        (),
        (),
        pending=manifest.pending,
        unsealed=int(np.count_nonzero(~lake.is_sealed(starts_ns))),
        recorded=recordings(
            lake.starts_ns,
            manifest.info.window_length_ns,
            period.start_ns,
            period.end_ns,
            manifest.sealed_to_ns,
        ),
        copies=lake.place.copies,
    )


def resolve(
    period: Period,
    *,
    default_lake: str | None = None,
    may_be_empty: bool = False,
    provisional: Path | None = None,
) -> LakePeriod:
    """Find the windows and files of one period.

    may_be_empty: True to return a period without files for a lake that has no windows, instead of raising
    PeriodError. provisional: see `Lakes`; None: only sealed windows can be read. Raises PeriodError if no
    lake is named, if the period overlaps no sealed window, or if it overlaps an unsealed window; LakeError if
    there is no lake, or a file of its last commit is lost.
    """
    lakes = Lakes(default_lake, provisional=provisional)
    return lakes.find(period, may_be_empty=may_be_empty)


def notes(periods: Iterable[LakePeriod]) -> list[str]:
    """Warnings on data that is missing or provisional in the periods: one sentence per lake and cause."""
    changes = [
        (part.root.resolve(), note(part)) for note in (_pending_note, _provisional_note) for part in periods
    ]
    return [f"{root.name}: {text}" for root, text in dict.fromkeys(changes) if text is not None]


def _pending_note(found: LakePeriod) -> str | None:
    """Sentence on commits of an interrupted import that are not published yet; None if there are none."""
    if not found.pending:
        return None
    commits = "1 commit is" if found.pending == 1 else f"{found.pending} commits are"
    return f"{commits} not published yet; the next import finishes {'it' if found.pending == 1 else 'them'}."


def _provisional_note(found: LakePeriod) -> str | None:
    """Sentence on the period's unsealed windows; None if all are sealed."""
    if not found.unsealed:
        return None
    windows = "1 window is" if found.unsealed == 1 else f"{found.unsealed} windows are"
    return (
        f"{windows} not sealed: provisional. Requests that still run are cut where they are, "
        "and what is yet to come is missing."
    )


def refuse_overlap(samples: Sequence[LakePeriods]) -> None:
    """Raise PeriodError if samples overlap: their common requests would be compared with themselves.

    Two samples of one lake may overlap in time only if their filters differ (two versions in the same hour);
    it is not checked that no request passes both filters.
    """
    parts = [part for sample in samples for part in parts_of(sample)]
    places = {root: root.resolve() for root in {part.root for part in parts}}
    latest: dict[tuple[Path, tuple[Condition, ...]], Period] = {}
    for part in sorted(parts, key=lambda part: part.period.start_ns):
        where = part.period.where
        alike = (places[part.root], () if where is None else where.conditions)
        # Parts of one sample share no instant: a part that ends after this one starts is of another sample.
        before = latest.get(alike)
        if before is not None and part.period.start_ns < before.end_ns:
            raise PeriodError(
                f"Periods {before.text} and {part.period.text} overlap: a request would be in both.",
                remedy="Take periods apart, or filters that differ (--reference-where, --problem-where).",
            )
        latest[alike] = part.period
