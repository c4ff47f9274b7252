"""Periods of lakes: their windows and files, found by manifests without opening any file.

A sample is one period or several (`LakePeriods`). `Lakes` finds them; everything found in one lake comes from
one snapshot, even if an import runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8
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
from stitch.lake.manifest import LakeFile, Manifest, WindowEntry, open_manifest
from stitch.lake.place import LakePlace, open_place
from stitch.lake.store import LocalStore, Store
from stitch.lake.sums import read_sums, sums_among

if TYPE_CHECKING:
    from stitch.drivers.build.provisional import ProvisionalFile


@dataclass(frozen=True, slots=True)
class LakePeriod:
    """A period of an existing lake, with bounds fitted to windows and its files listed."""

    period: Period
    root: Path
    """Folder of the lake, or of its local copies."""
    window_ns: int
    """Length of a window of the lake."""
    flows: tuple[Path, ...]
    structures: tuple[Path, ...]
    params: tuple[Path, ...]
    dead_letters: tuple[Path, ...] = ()
    """Dead letters of the whole lake: unreadable records have no time."""
    pending: int = 0
    """Commits not published yet; none of their files is listed."""
    sums: Mapping[Path, str] = field(default_factory=dict)
    """SHA-256 of each listed file, hex, from its commit."""
    windows: tuple[Window, ...] = ()
    """Windows whose files are listed, in time order."""
    n_flows: tuple[int, ...] = ()
    """[windows] number of flows."""
    unsealed: int = 0
    """Number of windows that may still grow: their files are provisional."""
    recorded: tuple[Recorded, ...] = ()
    """Recordings that the period touches, in sealed windows only; empty: unknown."""
    copies: Copies | None = None
    """Downloader of a bucket's files to `root`; None for a lake in a folder."""

    @property
    def lake(self) -> str:
        """Name of the lake, for messages and for opening it again."""
        return str(self.root) if self.copies is None else self.copies.lake

    @property
    def has_whole_windows(self) -> bool:
        """Tell whether the period leaves out no part of the windows whose files are listed."""
        first, last = (self.windows or (None,))[0], (self.windows or (None,))[-1]
        return (first is None or self.period.start_ns <= first.start_ns) and (
            last is None or last.end_ns <= self.period.end_ns
        )

    @property
    def store(self) -> Store:
        """Store of the lake itself, not of its copies."""
        return LocalStore.at(self.root) if self.copies is None else self.copies.store

    def fetch(self, paths: Iterable[Path]) -> None:
        """Download listed files and tables of reports, all at once, so that they can be read at their paths.

        No effect for a lake in a folder. Raises LakeError if a file cannot be downloaded.
        """
        if self.copies is not None:
            # Files of windows still open in live lanes are outside of `root`, on the local disk.
            names = {path: self.name_of(path) for path in paths if path.is_relative_to(self.root)}
            self.copies.fetch((name, self.sums[path]) for path, name in names.items() if path in self.sums)
            self.copies.fetch_tables(name for path, name in names.items() if path not in self.sums)

    def name_of(self, path: Path) -> str:
        """Name of a file within the lake, for messages."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)

    def report_files(self) -> list[Path]:
        """Tables of the lake's finished reports, by path; call `fetch` before reading them."""
        if self.copies is not None:
            return sorted(self.copies.report_files())
        return [path for folder in self.report_folders() for path in _report_tables(folder)]

    def report_folders(self) -> list[Path]:
        """Folders of the lake's finished reports, by id."""
        if self.copies is not None:
            return sorted({path.parent for path in self.copies.report_files()})
        return sorted(path.parent for path in (self.root / REPORTS).glob(f"[!.]*/{REPORT_END}"))


def _report_tables(folder: Path) -> list[Path]:
    """Tables of a report, including ones listed in checksums but missing: reading a missing one raises."""
    there = {path.name for path in folder.iterdir()}
    written = {name for sums in sums_among(there) for name in read_sums(mapped(folder / sums))}
    return [
        folder / name for name in sorted(there | written) if name.endswith(".parquet") and "/" not in name
    ]


@dataclass(frozen=True, slots=True)
class PeriodCounts:
    """Counts, from commits, of the windows that a period touches; each window counts as a whole."""

    found: LakePeriod
    """Period that was counted; its list of files is empty, as counts come from commits."""
    windows: pa.Table
    """Table of windows, one row each, with WINDOW_COUNTS_SCHEMA."""
    flags: Mapping[Quality, int]
    """Requests by quality flag; only flags that occur."""
    earlier: int
    """Number of earlier windows of the period, which were not counted."""


LakePeriods = LakePeriod | Sequence[LakePeriod]
"""Extent of a sample: one period, or several that share no instant (see `Lakes.ranges`)."""


def parts_of(found: LakePeriods) -> tuple[LakePeriod, ...]:
    """Periods of a sample."""
    return (found,) if isinstance(found, LakePeriod) else tuple(found)


class Lakes:
    """Lakes named by periods, each opened once."""

    def __init__(self, default: str | None = None, *, provisional: Path | None = None) -> None:
        """Set the default lake and the mode of reading.

        default: lake of periods that name none. provisional: folder for files of windows that live lanes hold
        open; with it, periods may touch unsealed windows and get the flows known so far.
        """
        self._default = default
        self._provisional = provisional
        self._opened: dict[Path, _Opened] = {}
        """Opened lakes by real path of the root."""

    def manifest(self, period: Period) -> Manifest:
        """Manifest of the period's lake.

        Raises PeriodError where no lake is named, LakeError where there is none.
        """
        return self._open(period).manifest

    def find(self, period: Period, *, may_be_empty: bool = False) -> LakePeriod:
        """Find the windows and files of one period; see `resolve`."""
        lake = self._whole(period)
        windows = self._windows(period, may_be_empty=may_be_empty)
        (found,) = self.listed([(fitted(period, windows), windows)])
        letters = lake.manifest.files("dead_letters")
        return replace(
            found,
            dead_letters=tuple(inside(found.root, file.name) for file in letters),
            sums={**found.sums, **{inside(found.root, file.name): file.sha256 for file in letters}},
        )

    def bounds(self, period: Period, *, may_be_empty: bool = False) -> LakePeriod:
        """Find the windows of one period, without listing their files; see `resolve`."""
        lake = self._whole(period)
        windows = self._windows(period, may_be_empty=may_be_empty)
        return _without_files(replace(fitted(period, windows), lake=lake.name), lake, windows)

    def counts(
        self, period: Period, *, may_be_empty: bool = False, at_most: int | None = None
    ) -> PeriodCounts:
        """Count the flows of the windows that a period touches, each window as a whole; see `resolve`.

        at_most: count only so many windows, the last ones. The counts are in commits: no file of the lake is
        opened.
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
        found = _without_files(replace(fitted(period, windows), lake=lake.name), lake, windows)
        return PeriodCounts(found, by_window(files), by_flag(files), earlier)

    def dated(self, text: str) -> str:
        """List of ranges, with times of day as instants of the latest day of their lake that has them.

        Raises PeriodError for a lake without sealed windows, or none; LakeError where there is none.
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
        """Find the extent of a sample of several periods: periods that touch or overlap are merged, so that
        nothing counts twice. Dead letters are not listed.

        Raises PeriodError if one of the periods has no window, or an unsealed one.
        """
        whole = [replace(fitted(p, self._windows(p)), lake=self._whole(p).name) for p in periods]
        return tuple(self.listed([(period, self._windows(period)) for period in united(whole)]))

    def sealed(self, period: Period) -> list[Window]:
        """Sealed windows that a period touches, in time order; unsealed ones are skipped.

        Raises PeriodError where there is none.
        """
        lake = self._open(period)
        near = [entry.window for entry in lake.entries(period) if entry.sealed]
        return near or windows_of(period, [entry.window for entry in lake.entries() if entry.sealed])

    def sealed_part(self, period: Period) -> LakePeriod:
        """Sealed part of a period. Raises PeriodError if it has no sealed window."""
        windows = self.sealed(period)
        (found,) = self.listed([(fitted(period, windows), windows)])
        return found

    def listed(self, parts: Sequence[tuple[Period, Sequence[Window]]]) -> list[LakePeriod]:
        """List the files of given windows for several periods; dead letters are not listed.

        The manifest of a lake is queried once for all its periods. Raises LakeError if a file is missing.
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
        """Real path of the folder with the files of the period's lake."""
        return self._open(period).place.root.resolve()

    def _windows(self, period: Period, *, may_be_empty: bool = False) -> list[Window]:
        lake = self._open(period)
        if may_be_empty and lake.is_empty:
            return []
        near = lake.entries(period)
        if near and (self._provisional is not None or all(entry.sealed for entry in near)):
            return [entry.window for entry in near]
        entries = lake.entries()  # an error says what there is
        if self._provisional is not None:
            return windows_of(period, [entry.window for entry in entries])
        sealed = [entry.window for entry in entries if entry.sealed]
        unsealed = [entry.window for entry in entries if not entry.sealed]
        if not any(period.holds(window) for window in sealed):
            unsealed += lake.unbuilt(period)
        return windows_of(period, sealed, unsealed)

    def _whole(self, period: Period) -> _Opened:
        """The period's lake, refused if commits of the period are lost. Raises what `manifest` raises."""
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
    """An opened lake with its manifest, and files of live lanes."""

    name: str
    """Name by which the lake was first given."""
    place: LakePlace
    manifest: Manifest
    starts_ns: I8
    """[windows] ascending starts of the sealed windows with flows."""
    provisional: tuple[ProvisionalFile, ...] = ()

    def unbuilt(self, period: Period) -> list[Window]:
        """First window of a period that may be in the log of live lanes, behind what is sealed."""
        sealed_to_ns, length_ns = self.manifest.sealed_to_ns, self.manifest.info.window_length_ns
        if sealed_to_ns is None or period.end_ns <= sealed_to_ns:
            return []
        return [Window(max(sealed_to_ns, period.start_ns // length_ns * length_ns), length_ns)]

    @property
    def is_empty(self) -> bool:
        """True if the lake has no window at all."""
        return not self.provisional and pc.max(self.manifest.listing["window_ns"]).as_py() is None

    def entries(self, period: Period | None = None) -> list[WindowEntry]:
        """Windows that a period touches (None: all), in order of time."""
        manifest = self.manifest
        found = manifest.windows() if period is None else manifest.windows(period.start_ns, period.end_ns)
        held = {file.window for file in self.provisional if period is None or period.holds(file.window)}
        if not held:
            return found
        more = held - {entry.window for entry in found}
        found += [WindowEntry(window, sealed=False, flows=0, files=0, size=0) for window in more]
        return sorted(found, key=lambda entry: entry.window)


def _manifest(place: LakePlace) -> Manifest:
    """Open a manifest. Raises LakeError, also if a bucket cannot be read."""
    try:
        return open_manifest(place.store, place.name, place.copies)
    except OSError as error:
        if place.copies is None:
            raise
        raise lake_error(f"The lake '{place.name}' cannot be read: {error.strerror}.", error) from error


_SNAPSHOTS: Final = 5
"""Attempts to read the files of live lanes before one of them commits and deletes these files."""


def _opened(name: str, place: LakePlace, provisional: Path | None) -> _Opened:
    """Open a lake, with files of its live lanes if a folder for them is given."""
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
    """Files of some windows, each with its path. Raises LakeError if one is missing."""
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
    """Period with the files of `windows`."""
    own = [listed for window in windows for listed in files[window]]
    flows, structures, params = (
        tuple(path for path, file in own if file.table == table) for table in WINDOW_TABLES
    )
    return replace(
        _without_files(period, lake, windows),
        flows=flows,
        structures=structures,
        params=params,
        sums={path: file.sha256 for path, file in own},
        n_flows=tuple(
            sum(file.rows for _, file in files[window] if file.table == "flows") for window in windows
        ),
    )


def _without_files(period: Period, lake: _Opened, windows: Sequence[Window]) -> LakePeriod:
    """Period with its windows, without files."""
    manifest = lake.manifest
    return LakePeriod(
        period,
        lake.place.root,
        manifest.info.window_length_ns,
        (),
        (),
        (),
        pending=manifest.pending,
        windows=tuple(windows),
        unsealed=sum(not manifest.is_sealed(window) for window in windows),
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

    may_be_empty: a lake that has no window at all gives a period without flows. provisional: see `Lakes`.
    Raises PeriodError if no lake is named or no sealed window lies in the period (or an unsealed one does),
    LakeError if there is no lake or a file of its last commit is lost.
    """
    lakes = Lakes(default_lake, provisional=provisional)
    return lakes.find(period, may_be_empty=may_be_empty)


def notes(periods: Iterable[LakePeriod]) -> list[str]:
    """Warnings on data that readers of some periods do not get: one sentence a lake and cause."""
    changes = [
        (part.root.resolve(), note(part)) for note in (_pending_note, _provisional_note) for part in periods
    ]
    return [f"{root.name}: {text}" for root, text in dict.fromkeys(changes) if text is not None]


def _pending_note(found: LakePeriod) -> str | None:
    """Sentence on data withheld by an interrupted import; None if there is none."""
    if not found.pending:
        return None
    commits = "1 commit is" if found.pending == 1 else f"{found.pending} commits are"
    return f"{commits} not published yet; the next import finishes {'it' if found.pending == 1 else 'them'}."


def _provisional_note(found: LakePeriod) -> str | None:
    """Sentence on unsealed windows of a period; None if there are none."""
    if not found.unsealed:
        return None
    windows = "1 window is" if found.unsealed == 1 else f"{found.unsealed} windows are"
    return (
        f"{windows} not sealed: provisional. Requests that still run are cut where they are, "
        "and what is yet to come is missing."
    )


def refuse_overlap(samples: Sequence[LakePeriods]) -> None:
    """Refuse overlapping samples, whose common requests would be compared with themselves.

    Two samples of one lake may overlap in time only if each has a filter of its own (two versions in the same
    hour); whether the filters separate the requests is not checked. Raises PeriodError.
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
