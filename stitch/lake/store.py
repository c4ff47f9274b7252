"""Define what the commit protocol asks of whatever holds a lake, and the store on this machine.

Names use `/` and are relative to the lake. Two operations carry the protocol: `put_if_absent`, which decides
who commits, and `publish`, which moves files from the stage to names that nobody else uses. On an object
store the first is a put with `If-None-Match: *`, the second a copy and a delete, what was put is durable,
and folders do not exist (`stitch.lake.bucket`); links, renames and syncs are `LocalStore`'s business alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from stitch.lake.disk import LocalDisk

DRAFTS: Final = "drafts"
"""Folder below a stage folder for what is not yet under its own name."""
MAX_KNOWN_FOLDERS: Final = 4096
"""Remembered by a store on a disk: a day of windows of a minute in two tables, half a MB, 1 ms a remove."""


@dataclass(frozen=True, slots=True)
class Move:
    """A file on the stage and the name it gets."""

    stage: str
    final: str


class UncertainError(OSError):
    """A `put_if_absent` failed, and the file may be there all the same, now or later."""


class Store(Protocol):
    """Operations on a lake. Every method may raise OSError."""

    @property
    def concurrency(self) -> int:
        """Requests that are worth having under way at once; 1 on a disk, which answers at once."""
        ...

    def read(self, name: str) -> pa.Buffer:
        """Whole content. Raises FileNotFoundError."""
        ...

    def read_end(self, name: str, n_bytes: int) -> pa.Buffer:
        """The last bytes of a file, of all of it where it is shorter. Raises FileNotFoundError."""
        ...

    def size(self, name: str) -> int | None:
        """Bytes of a file; None where it is not there."""
        ...

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """`size` of each."""
        ...

    def names(self, folder: str, after: str = "") -> list[str]:
        """Sorted names in a folder (last parts only) that sort behind `after`; empty for a missing folder."""
        ...

    def written(self, folder: str) -> dict[str, int]:
        """Files in a folder (last parts of names), and when each was written, ns since the epoch, by the
        clock of whatever holds it; empty for a missing folder.
        """
        ...

    def below(self, folder: str, is_folder: Callable[[str], bool]) -> Iterator[str]:
        """Names of all files in a folder and the folders in it, sorted; none for a missing folder.

        `is_folder` distinguishes a folder from a file by the last part of its name.
        """
        ...

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        """Write a new file on the stage; it is durable after `persist`.

        It may still be under way when this returns: then `persist` raises what went wrong. Raises
        FileExistsError, here or there.
        """
        ...

    def persist(self, names: Sequence[str]) -> None:
        """Make files of `put` durable. Raises FileNotFoundError where one was removed by another writer."""
        ...

    def settle(self, folder: str) -> None:
        """Make durable what can be seen in a folder, whoever wrote it; it is made where it is missing."""
        ...

    def put_if_absent(self, name: str, data: bytes, stage: str) -> None:
        """Write a file under a name that is free; durable when it returns, there whole or not at all.

        `stage` is a stage folder for drafts. Raises FileExistsError where the name is taken,
        FileNotFoundError where another writer swept the draft, UncertainError where nobody can tell;
        after any other OSError the file is not there.
        """
        ...

    def publish(self, moves: Sequence[Move]) -> None:
        """Give files their names, durably; nothing happens to those that have theirs.

        At any instant a file is in at least one of the two places. Raises FileNotFoundError, with the final
        name, where one is in neither.
        """
        ...

    def replace(self, name: str, data: bytes, stage: str) -> None:
        """Write a file in the place of one that is there, in one step, durably. Not for data files."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file or a folder with all it holds; nothing happens where it is missing."""
        ...


class LocalStore:
    """A store on a disk of this machine."""

    concurrency: Final = 1

    def __init__(self, disk: LocalDisk) -> None:
        self._disk = disk
        self._made: set[str] = set()
        """Folders made or found by us, not yet durable perhaps. Some of them, as below."""
        self._settled: set[str] = set()
        """Folders whose names are durable."""

    @classmethod
    def at(cls, root: Path) -> LocalStore:
        """The lake in a folder."""
        return cls(LocalDisk(root))

    def read(self, name: str) -> pa.Buffer:
        """See Store."""
        return self._disk.read(name)

    def read_end(self, name: str, n_bytes: int) -> pa.Buffer:
        """See Store. The file is mapped: only its end is read."""
        data = self._disk.read(name)
        return data.slice(max(0, data.size - n_bytes))

    def size(self, name: str) -> int | None:
        """See Store."""
        return self._disk.size(name)

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """See Store."""
        return [self._disk.size(name) for name in names]

    def names(self, folder: str, after: str = "") -> list[str]:
        """See Store."""
        return [name for name in self._disk.names(folder) if name > after]

    def written(self, folder: str) -> dict[str, int]:
        """See Store."""
        return self._disk.written(folder)

    def below(self, folder: str, is_folder: Callable[[str], bool]) -> Iterator[str]:
        """See Store."""
        for name in self._disk.names(folder):
            whole = f"{folder}/{name}" if folder else name
            if is_folder(name):
                yield from self.below(whole, is_folder)
            else:
                yield whole

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        """See Store."""
        for folder in _path(_parent(name)):
            if folder not in self._made:
                self._disk.make_folder(folder)
                _remember(self._made, {folder})
        self._disk.create(name, data)

    def persist(self, names: Sequence[str]) -> None:
        """See Store. Files first, then every folder once."""
        for name in names:
            self._disk.sync_file(name)
        folders = sorted({_parent(name) for name in names})
        self._make_folders(folders)
        for folder in folders:
            self._disk.sync_folder(folder)

    def settle(self, folder: str) -> None:
        """See Store."""
        self._make_folders([folder])
        self._disk.sync_folder(folder)

    def _make_folders(self, folders: Iterable[str]) -> None:
        """Make folders and those above them, and make their names durable: each parent is synced once.

        Folders that are there are synced too, the first time: whoever made them may have died before it did.
        """
        wanted = {above for folder in folders for above in _path(folder)} - self._settled
        for depth in sorted({folder.count("/") for folder in wanted}):
            level = sorted(folder for folder in wanted if folder.count("/") == depth)
            for folder in level:
                self._disk.make_folder(folder)
            for parent in sorted({_parent(folder) for folder in level}):
                self._disk.sync_folder(parent)
        _remember(self._settled, wanted)
        _remember(self._made, wanted)

    def put_if_absent(self, name: str, data: bytes, stage: str) -> None:
        """See Store: a draft is written and synced, then linked, and the folder synced."""
        draft = self._draft(name, data, stage)
        self._make_folders([_parent(name)])
        try:
            self._disk.link(draft, name)
        except (FileExistsError, FileNotFoundError):
            raise
        except OSError as error:
            raise _uncertain(name, error) from error
        self._sync_after(name)

    def replace(self, name: str, data: bytes, stage: str) -> None:
        """See Store."""
        self._disk.rename(self._draft(name, data, stage), name)
        self._sync_after(name)

    def _sync_after(self, name: str) -> None:
        try:
            self._disk.sync_folder(_parent(name))
        except OSError as error:
            raise _uncertain(name, error) from error

    def _draft(self, name: str, data: bytes, stage: str) -> str:
        """A synced file with the content; under a name that is free, as the dead leave theirs behind."""
        folder = f"{stage}/{DRAFTS}"
        base = name.rpartition("/")[2]
        self._make_folders([folder])
        for draft in (f"{folder}/{base}-{n}" for n in count()):
            if self._disk.size(draft) is None:
                with suppress(FileExistsError):  # by another process, just now
                    self._disk.create(draft, data)
                    break
        self._disk.sync_file(draft)
        return draft

    def publish(self, moves: Sequence[Move]) -> None:
        """See Store. Target folders are synced before the stage: no state has a file in neither.

        All are synced even where every file has its name: whoever moved it may have died before it did.
        """
        targets = sorted({_parent(move.final) for move in moves})
        self._make_folders(targets)
        for move in moves:
            if self._disk.size(move.final) is not None:
                continue
            try:
                self._disk.rename(move.stage, move.final)
            except FileNotFoundError as error:
                if self._disk.size(move.final) is None:
                    raise FileNotFoundError(
                        error.errno, "neither published nor staged", move.final
                    ) from error
        for folder in targets:
            self._disk.sync_folder(folder)
        for folder in sorted({_parent(move.stage) for move in moves}):
            if self._disk.size(folder) is not None:
                self._disk.sync_folder(folder)

    def remove(self, name: str) -> None:
        """See Store."""
        self._disk.remove(name)
        for known in (self._made, self._settled):
            known.difference_update([n for n in [*known] if n == name or n.startswith(f"{name}/")])


def _uncertain(name: str, error: OSError) -> UncertainError:
    return UncertainError(error.errno, f"{error.strerror or error}; '{name}' may be there or not")


def _remember(known: set[str], folders: Set[str]) -> None:
    """Remember folders; all are forgotten where there are too many: one that is needed again costs a mkdir
    and a sync."""
    if len(known) + len(folders) > MAX_KNOWN_FOLDERS:
        known.clear()
    known |= folders


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


def _path(folder: str) -> list[str]:
    """The folder and those above it, from the top; nothing for the root."""
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


T = TypeVar("T")
R = TypeVar("R")


def abreast(store: Store, ask: Callable[[T], R], about: Iterable[T]) -> list[R]:
    """`ask` of each, in their order; the first error, by that order, is raised once none is under way.

    On a disk one after the other: threads would cost more than they save.
    """
    items = [*about]
    if store.concurrency == 1 or len(items) < 2:
        return [ask(item) for item in items]
    with ThreadPoolExecutor(min(store.concurrency, len(items)), thread_name_prefix="abreast") as pool:
        return [*pool.map(ask, items)]


def ahead(store: Store, ask: Callable[[T], R], about: Sequence[T]) -> Iterator[R]:
    """`abreast` for answers that are used one by one: no more are asked for at once than the store likes."""
    for start in range(0, len(about), store.concurrency):
        yield from abreast(store, ask, about[start : start + store.concurrency])
