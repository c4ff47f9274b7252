"""What a lake holds, told by its commits: readers take files from here and never glob.

A commit counts once every file of it can be seen, so a reader gets a whole commit or none of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from schemas.errors import LakeError
from schemas.windows import Window
from stitch.lake.commits import Chained, lanes, read_chain
from stitch.lake.layout import LAKE_FILE, LakeInfo, SideTable, WindowTable, read_info
from stitch.lake.store import Disk


@dataclass(frozen=True, slots=True)
class LakeFile:
    """One visible file."""

    table: str
    window: Window | None
    name: str
    """Relative to the lake."""
    rows: int
    size: int
    """Bytes."""
    sha256: str
    seq: int
    """Commit that brought it."""


@dataclass(frozen=True, slots=True)
class WindowEntry:
    """One window that has flows."""

    window: Window
    sealed: bool
    """Whether nothing more is expected; imported windows always are."""
    flows: int
    files: int
    size: int
    """Bytes of the window's files in all three tables."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A snapshot: what it lists never changes and never goes away."""

    info: LakeInfo
    commits: tuple[Chained, ...]
    """Visible commits, by lane, then number."""
    pending: int
    """Commits whose publishing was interrupted; the next import finishes it."""
    entries: tuple[LakeFile, ...]

    def windows(self) -> list[WindowEntry]:
        """Windows with flows, in order of time."""
        by_window: dict[Window, list[LakeFile]] = {}
        for entry in self.entries:
            if entry.window is not None:
                by_window.setdefault(entry.window, []).append(entry)
        return [
            WindowEntry(
                window=window,
                sealed=True,
                flows=sum(entry.rows for entry in files if entry.table == "flows"),
                files=len(files),
                size=sum(entry.size for entry in files),
            )
            for window, files in sorted(by_window.items())
        ]

    def files(
        self, table: WindowTable | SideTable, windows: Iterable[Window] | None = None
    ) -> list[LakeFile]:
        """Files of a table, of all windows or of some, sorted by window and name."""
        wanted = None if windows is None else set(windows)
        found = [
            entry
            for entry in self.entries
            if entry.table == table and (wanted is None or entry.window in wanted)
        ]
        return sorted(
            found, key=lambda entry: (entry.window is not None and entry.window.start_ns, entry.name)
        )


def open_manifest(disk: Disk, lake: str = "LAKE") -> Manifest:
    """Read and verify the commits of every lane. `lake` is its name for messages.

    Raises LakeError where there is no lake or a broken one: also where a file of the last commit is neither
    published nor waiting for it, for then no reader may take the lake for whole. O(files); no data file is
    opened.
    """
    info = read_info(disk)
    if info is None:
        raise LakeError(
            f"There is no lake at '{lake}': {LAKE_FILE} is missing.", remedy="Run `flowdiff import` first."
        )
    visible: list[Chained] = []
    pending = 0
    for lane in lanes(disk):
        chain = read_chain(disk, lane)
        # Every commit but the last was published before the next was made.
        if chain and not _is_published(disk, chain[-1], lake):
            chain.pop()
            pending += 1
        visible.extend(chain)
    return Manifest(
        info=info,
        commits=tuple(visible),
        pending=pending,
        entries=tuple(entry for link in visible for entry in _entries(link, info.window_length_ns)),
    )


def _is_published(disk: Disk, link: Chained, lake: str) -> bool:
    """Whether every file of a commit can be seen. Raises LakeError where one is lost."""
    missing = [item for item in link.record.publish if not disk.exists(item.final)]
    for item in missing:
        # Looked at again after the stage: a writer may move it in between.
        if not disk.exists(item.stage) and not disk.exists(item.final):
            raise LakeError(
                f"'{item.final}' of the lake's last commit is missing.",
                remedy=f"Run `flowdiff fsck {lake}`, and restore it from a backup.",
            )
    return not missing


def _entries(link: Chained, window_length_ns: int) -> list[LakeFile]:
    return [
        LakeFile(
            table=item.table,
            window=None if item.window is None else Window.from_name(item.window, window_length_ns),
            name=item.final,
            rows=item.rows,
            size=item.size,
            sha256=item.sha256,
            seq=link.record.seq,
        )
        for item in link.record.publish
    ]
