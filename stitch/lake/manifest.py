"""List the files of a lake from its commits; readers use this list and never search folders.

A commit is visible once all its files are, so a reader sees a whole commit or none of it. Opening reads a
listing of names, the last checkpoint and the few commits after it, however long the chain is.
"""

from __future__ import annotations

import errno
import hashlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8, U8
from schemas.commits import Publish, Upkeep
from schemas.errors import LakeError
from schemas.windows import Window
from stitch.columnar.hashing import mix
from stitch.lake.chain import (
    FILES_SCHEMA,
    Listing,
    Tail,
    lanes,
    read_tail,
    unknown_commit,
    verify_window_length,
)
from stitch.lake.copies import Copies
from stitch.lake.encoding import decode, unreadable
from stitch.lake.flow_counts import FILE_COUNTS_SCHEMA
from stitch.lake.layout import (
    ASIDE,
    LAKE_FILE,
    WINDOW_TABLES,
    LakeInfo,
    SideTable,
    WindowTable,
    most_looked_at,
    numbered_files,
    read_info,
    window_folder,
)
from stitch.lake.store import Store, map_concurrently
from stitch.lake.upkeep.hidden import UPKEEP_LANE, Hidden, commits_of, hidden_by, upkeep_of

_OF_A_FILE: Final = [name for name in FILES_SCHEMA.names if name != "counts"]
_NOTHING: Final = int(np.iinfo(np.int64).min)
"""Time before the start of every window, ns."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of the lake that readers may see."""

    table: str
    window: Window | None
    name: str
    """Path of the file relative to the lake."""
    rows: int
    size: int
    """Size of the file in bytes."""
    sha256: str
    lane: int
    seq: int
    """Number of the commit that published the file."""


@dataclass(frozen=True, slots=True)
class WindowEntry:
    """A window that has flows."""

    window: Window
    sealed: bool
    """True if no more events are expected in the window: every live lane has published it completely. Windows
    of imported files are always sealed."""
    flows: int
    files: int
    size: int
    """Bytes of the window's files in `flows`, `structures` and `params`."""
    commits: int = 0
    """Sum of hashes of the commits of these files; it changes with a repair, even if sizes do not."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Snapshot of a lake: its files do not change, and stay readable for the grace period."""

    info: LakeInfo
    lake: str
    """Name of the lake, for messages."""
    pending: int
    """Number of commits whose publication was interrupted; the next import finishes it."""
    sealed_to_ns: int | None
    """Time, ns since the epoch; windows that end at or before it are sealed. None: all windows are sealed, as
    no live ingestion is going on."""
    listing: pa.Table
    """Visible files, sorted by lane, then commit: rows of `listed.table`."""
    listed: Listing
    """All files that the commit chains list."""
    store: Store
    copies: Copies | None = None
    """Local copies from which files are read, verified when fetched; None: files are read from the store."""
    heads: tuple[tuple[int, int], ...] = ()
    """(lane number, commit number), ascending: the lane's last commit such that it and all earlier ones are
    visible."""
    retired_to_ns: int | None = None
    """Windows that end at or before this time, ns since the epoch, are retired; None: no window is."""

    @property
    def has_upkeep(self) -> bool:
        """True if upkeep has ever removed a file."""
        return any(lane == UPKEEP_LANE for lane, _ in self.heads)

    def windows(self, from_ns: int = _NOTHING, to_ns: int = -_NOTHING - 1) -> list[WindowEntry]:
        """Windows with files that overlap [from_ns, to_ns), by default all windows, in order of time.
        O(files)."""
        start_ns = self.listing["window_ns"]
        inside = pc.and_(
            pc.less(start_ns, to_ns),
            pc.greater(start_ns, max(from_ns - self.info.window_length_ns, _NOTHING)),
        )
        listed = self.listing.filter(inside)
        if listed.num_rows == 0:
            return []
        starts, codes = np.unique(listed["window_ns"].to_numpy(), return_inverse=True)
        rows = np.where(_of_table(listed, "flows"), listed["rows"].to_numpy(), 0)
        sums = (
            np.bincount(codes, weights, len(starts)).astype(np.int64).tolist()
            for weights in (rows, None, listed["size"].to_numpy())
        )
        commits = np.zeros(len(starts), dtype=np.uint64)  # a sum of floats would lose the last digits
        np.add.at(commits, codes, _commit_hashes(listed))
        windows = (Window(start, self.info.window_length_ns) for start in starts.tolist())
        return [
            WindowEntry(window, self.is_sealed(window), flows, files, size, commits)
            for window, flows, files, size, commits in zip(windows, *sums, commits.tolist(), strict=True)
        ]

    def window_starts_ns(self) -> I8:
        """[windows] starts of all windows that have files, sealed or not, ns, ascending. O(files)."""
        starts: I8 = np.unique(self.listing["window_ns"].drop_null().to_numpy())
        return starts

    def starts_ns(self) -> I8:
        """[windows] starts of the sealed windows that have flows, ns, ascending. O(files)."""
        has_flows = _of_table(self.listing, "flows") & (self.listing["rows"].to_numpy() > 0)
        starts: I8 = np.unique(self.listing["window_ns"].filter(pa.array(has_flows)).to_numpy())
        ends = starts + self.info.window_length_ns
        return starts if self.sealed_to_ns is None else starts[ends <= self.sealed_to_ns]

    def is_sealed(self, window: Window) -> bool:
        """True if no more events are expected in the window."""
        return self.sealed_to_ns is None or window.end_ns <= self.sealed_to_ns

    def files(self, table: WindowTable | SideTable) -> list[LakeFile]:
        """Files of a table, sorted by window and name.

        Every file is checked: raises LakeError if one is missing, or its size or footer is not as committed.
        O(files of the lake), about 50 µs per returned file. With `copies`, files are checked when they are
        read.
        """
        return self._checked(self.listing.filter(pa.array(_of_table(self.listing, table))))

    def by_window(self, windows: Iterable[Window]) -> dict[Window, list[LakeFile]]:
        """Files of WINDOW_TABLES for each of the given windows, sorted by name and checked as in `files`."""
        found: dict[Window, list[LakeFile]] = {window: [] for window in windows}
        starts = pa.array([window.start_ns for window in found], pa.int64())
        listed = self.listing.filter(pc.is_in(self.listing["window_ns"], value_set=starts))
        tables = listed["table"].cast(pa.string())
        for file in self._checked(listed.filter(pc.is_in(tables, value_set=pa.array(WINDOW_TABLES)))):
            if file.window is not None:
                found[file.window].append(file)
        return found

    def flow_counts(self, windows: Iterable[Window]) -> pa.Table:
        """Counts of flows (FILE_COUNTS_SCHEMA) of the files of the given windows; the files are not checked.
        O(files)."""
        starts = pa.array([window.start_ns for window in windows], pa.int64())
        inside = pc.is_in(self.listing["window_ns"], value_set=starts)
        listed = self.listing.filter(pc.and_(inside, pa.array(_of_table(self.listing, "flows"))))
        return self.listed.whole(listed, FILE_COUNTS_SCHEMA.names)

    def refuse_lost_commits(self, start_ns: int, end_ns: int) -> None:
        """Raise LakeError if a window between `start_ns` and `end_ns` has a file whose commit is not in its
        lane's chain.

        The commit record was then lost, and readers of the chain would count too few requests. Checks only
        the last windows; `flowdiff fsck` checks all.
        """
        heads = dict(self.heads)
        for name, lane, seq in numbered_files(self.store, self._last_folders(start_ns, end_ns)):
            if seq > heads.get(lane, 0):
                heads[lane] = read_tail(self.store, lane).head  # it may have gone on since
                if seq > heads[lane]:
                    raise unknown_commit(name, lane, heads[lane])

    def _last_folders(self, start_ns: int, end_ns: int) -> list[str]:
        """Names of the folders of flows for the last windows between `start_ns` and `end_ns`."""
        length = self.info.window_length_ns
        most = most_looked_at(self.store)
        known = self.starts_ns()
        first, last = (at - at % length for at in (start_ns, end_ns - 1))
        if last - first < min(most, len(known)) * length:  # fewer windows in the range than known ones
            windows = (Window(at, length) for at in range(first, last + 1, length))
            return [window_folder("flows", window) for window in windows]
        known = known[(known >= first) & (known <= last)]
        before = int(known[-most - 1]) if len(known) > most else first - length
        lowest, highest = (f"window={Window(at, length).name}" for at in (first, last))
        names = self.store.names("flows", after=f"window={Window(before, length).name}")
        inside = names[bisect_left(names, lowest) : bisect_right(names, highest)]
        return [f"flows/{name}" for name in inside[-most:]]

    def files_near(self, starts_ns: I8, reach_ns: int) -> list[LakeFile]:
        """Files of flows that may contain requests of the windows with the given starts (ascending).

        These are the files of the windows themselves, of all windows at most `reach_ns` from one of them, and
        of any earlier window with a request that lasted into one of them.
        """
        if not len(starts_ns):
            return []
        length = self.info.window_length_ns
        own = pc.fill_null(self.listing["window_ns"], _NOTHING).to_numpy()
        last = np.maximum(pc.fill_null(self.listing["last_ns"], 0).to_numpy(), own + length - 1)
        # First given window that does not end before the file's begins: is it near enough?
        place = np.searchsorted(starts_ns + length + reach_ns, own, side="right")
        following = np.append(starts_ns, np.iinfo(np.int64).max)[place]
        near = _of_table(self.listing, "flows") & (following <= last + reach_ns)
        return self._checked(self.listing.filter(pa.array(near)))

    def _checked(self, listed: pa.Table) -> list[LakeFile]:
        length = self.info.window_length_ns
        rows = self.listed.whole(listed, _OF_A_FILE).to_pylist()
        if self.copies is None:
            map_concurrently(
                self.store,
                lambda row: self._check(row["name"], row["size"], row["footer_size"], row["footer_sha256"]),
                rows,
            )
        found = [
            LakeFile(
                table=row["table"],
                window=None if row["window_ns"] is None else Window(row["window_ns"], length),
                name=row["name"],
                rows=row["rows"],
                size=row["size"],
                sha256=row["sha256"].hex(),
                lane=row["lane"],
                seq=row["seq"],
            )
            for row in rows
        ]
        return sorted(found, key=lambda file: (file.window is not None and file.window.start_ns, file.name))

    def read(self, file: LakeFile) -> pa.Buffer:
        """Content of a listed file. Raises OSError; LakeError if a copy cannot be fetched."""
        if self.copies is not None:
            return self.copies.read(file.name, file.sha256)
        try:
            return self.store.read(file.name)
        except FileNotFoundError:
            return self.store.read(f"{file.name}{ASIDE}")

    def decoded(self, file: LakeFile, columns: list[str] | None = None) -> pa.Table:
        """Rows of a listed file. columns: names of the columns; None: all. Raises LakeError if the file
        cannot be read."""
        try:
            return decode(file.table, self.read(file), columns)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(self.lake, file.name, error=error) from error

    def of_table(self, table: str) -> pa.Table:
        """Rows of `listing` for the files of one table."""
        return self.listing.filter(pa.array(_of_table(self.listing, table)))

    def _check(self, name: str, size: int, footer_size: int, footer_sha256: bytes) -> None:
        """Check the size and footer of a file, on which readers rely; pages have their own checksums. Raises
        LakeError."""
        try:
            try:
                whole = self._is_whole(name, size, footer_size, footer_sha256)
            except FileNotFoundError:  # set aside since the snapshot was taken, perhaps just now
                whole = self._is_whole(f"{name}{ASIDE}", size, footer_size, footer_sha256)
        except OSError as error:
            # Not Arrow's own text, which names the file and the errno again.
            why = os.strerror(error.errno).lower() if error.errno else ""
            raise unreadable(self.lake, name, why, error=error) from error
        if not whole:
            raise unreadable(self.lake, name)

    def _is_whole(self, at: str, size: int, footer_size: int, footer_sha256: bytes) -> bool:
        """True if size and footer of the file at `at` are as committed. Raises OSError."""
        there = self.store.size(at)
        if there is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), at)
        if there != size:
            return False
        return hashlib.sha256(self.store.read_end(at, footer_size)).digest() == footer_sha256


def _commit_hashes(listed: pa.Table) -> U8:
    """[files] hash of the lane number and commit number that published the file."""
    lane, seq = (listed[name].to_numpy().astype(np.uint64) for name in ("lane", "seq"))
    return mix(mix(lane) ^ seq)


def _of_table(listed: pa.Table, table: str) -> B1:
    """[files] True for files of a table."""
    found: B1 = pc.equal(listed["table"].cast(pa.string()), table).to_numpy()
    return found


def open_manifest(store: Store, lake: str = "LAKE", copies: Copies | None = None) -> Manifest:
    """Take a snapshot of a lake, from the verified end of every lane's chain. lake: name of the lake for
    messages. copies: see Manifest.

    Raises LakeError if there is no lake or it is damaged; also if `flowdiff.json` has another window length
    than the commits, or a file of the last commit is neither published nor staged, so that the lake is
    incomplete. No data file is opened.
    """
    info = read_info(store, lake)
    if info is None:
        raise LakeError(
            f"There is no lake at '{lake}': {LAKE_FILE} is missing.", remedy="Run `flowdiff import` first."
        )
    length = info.window_length_ns
    found = lanes(store)
    tails = map_concurrently(
        store, lambda lane: read_tail(store, lane), [n for n in found if n != UPKEEP_LANE]
    )
    # The upkeep lane is read last: files it hides may have left the other lanes' checkpoints, not vice versa.
    if UPKEEP_LANE in found:
        tails.append(read_tail(store, UPKEEP_LANE))
    listed = Listing([part for tail in tails for part in tail.parts()])
    listing = listed.table
    hidden = hidden_by(Upkeep(), listing.slice(0, 0), length)
    pending = 0
    heads: dict[int, int] = {}
    for tail in reversed(tails):
        verify_window_length(tail, length)
        upkeep, own = upkeep_of(tail.standing), hidden
        if tail.lane == UPKEEP_LANE:
            files = listing.filter(pc.equal(listing["lane"], UPKEEP_LANE))
            own = hidden_by(upkeep, files, length)
        commits = commits_of(_unpublished(store, tail, own, lake))
        if commits:
            seqs = pa.array(sorted(commits), pa.int64())
            seen = pc.invert(pc.is_in(listing["seq"], value_set=seqs))
            listing = listing.filter(pc.or_(seen, pc.not_equal(listing["lane"], tail.lane)))
        pending += len(commits)
        if tail.lane == UPKEEP_LANE:
            hidden = hidden_by(upkeep, files, length, without=commits)
        heads[tail.lane] = min(commits) - 1 if commits else tail.head
    return Manifest(
        info=info,
        lake=lake,
        pending=pending,
        sealed_to_ns=_sealed_to_ns(tails),
        listing=hidden.visible(listing),
        listed=listed,
        store=store,
        copies=copies,
        heads=tuple(sorted(heads.items())),
        retired_to_ns=hidden.retired_to_ns,
    )


def sealed_to_ns(store: Store) -> int | None:
    """Time, ns, up to which every live lane has sealed windows; None: there is no live lane, or one of them
    has sealed nothing.

    If all lanes were ended: the latest such time of any lane. Raises LakeError.
    """
    tails = [read_tail(store, lane) for lane in lanes(store)]
    reached = _sealed_to_ns(tails)
    if reached is None:
        ended = (tail.standing.ended_to_ns for tail in tails)
        return max((end for end in ended if end is not None), default=None)
    return None if reached == _NOTHING else reached


def sealed_by_lanes(store: Store) -> int | None:
    """Time, ns, up to which all live lanes of an earlier version sealed windows; None: there are no such
    lanes."""
    tails = [read_tail(store, lane) for lane in lanes(store) if lane != UPKEEP_LANE]
    ends = [at.sealed_to_ns for at in (tail.standing for tail in tails) if at.positions]
    return min((end for end in ends if end is not None), default=None)


def _unpublished(store: Store, tail: Tail, hidden: Hidden, lake: str) -> list[Publish]:
    """Files that are committed but not visible yet; only the last commit can have such files. Raises
    LakeError if one is lost."""
    items = tail.last_files
    sizes = store.sizes([item.final for item in items])
    missing = [item for item, size in zip(items, sizes, strict=True) if size is None]
    waiting = []
    for item in missing:
        # Look for the final name again after the stage: a writer may move the file in between.
        if store.size(item.stage) is None and store.size(item.final) is None:
            if hidden.hides(item) or store.size(f"{item.final}{ASIDE}") is not None:
                continue
            raise LakeError(
                f"'{item.final}' of the lake's last commit is missing.",
                remedy=f"Run `flowdiff fsck {lake}`, and restore it from a backup.",
            )
        waiting.append(item)
    return waiting


def _sealed_to_ns(tails: Iterable[Tail]) -> int | None:
    """Time, ns, up to which windows are sealed by the upkeep lane, if it builds them from a log, and by every
    live lane of an earlier version; None if there is neither.

    What sealed nothing yet prevents sealing; an ended lane is ignored, and so is one of imported files.
    """
    found = [*tails]
    built = next((tail.standing.sealed_to_ns for tail in found if tail.lane == UPKEEP_LANE), None)
    live = [tail.standing for tail in found if tail.standing.positions]
    if live and all(at.ended_to_ns is not None for at in live):
        return None
    if not live and any(tail.standing.logs for tail in found):  # kept events of complete imports
        return None
    # A lane that logs goes on with the seal that an earlier version left.
    going = [at for at in live if at.ended_to_ns is None and (not at.logs or built is None)]
    ends = [at.sealed_to_ns for at in going] if built is None else [built, *(at.sealed_to_ns for at in going)]
    return min((_NOTHING if end is None else end for end in ends), default=None)
