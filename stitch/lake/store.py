"""Store protocol: the operations that the commit protocol needs, and their implementation on this machine.

Names use `/` and are relative to the lake. Two operations carry the protocol: `put_if_absent`, which decides
who commits, and `publish`, which moves files from the stage to names that nobody else uses. On an object
store the first is a put with `If-None-Match: *`, the second a copy and a delete, every object is durable once
put, and folders do not exist (`stitch.lake.bucket`). Links, renames and syncs are internal to `LocalStore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from stitch.lake.disk import LocalDisk

DRAFTS: Final = "drafts"
"""Folder below a stage folder for files not yet under their own names."""
MAX_KNOWN_FOLDERS: Final = 4096
"""Maximum folders a store on a disk remembers: a day of one-minute windows in two tables, half a MB, 1 ms a
remove."""


@dataclass(frozen=True, slots=True)
class Move:
    """A staged file and its final name."""

    stage: str
    final: str


class UncertainError(OSError):
    """A `put_if_absent` failed, but the file may exist, now or later."""


class Store(Protocol):
    """Operations on a lake. Every method may raise OSError."""

    @property
    def concurrency(self) -> int:
        """Useful number of concurrent requests; 1 on a disk, which answers at once."""
        ...

    def read(self, name: str) -> pa.Buffer:
        """Whole content of a file. Raises FileNotFoundError."""
        ...

    def read_end(self, name: str, n_bytes: int) -> pa.Buffer:
        """Last `n_bytes` bytes of a file, all of it if shorter. Raises FileNotFoundError."""
        ...

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None where it is missing."""
        ...

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Sizes of files in bytes, in the order of `names`; None where one is missing."""
        ...

    def names(self, folder: str, after: str = "") -> list[str]:
        """Sorted names in a folder (last parts only) that sort after `after`; empty for a missing folder."""
        ...

    def written(self, folder: str) -> dict[str, int]:
        """Time at which each file in a folder (last parts of names) was written, ns since the epoch by the
        store's clock; empty for a missing folder.
        """
        ...

    def below(self, folder: str, is_folder: Callable[[str], bool]) -> Iterator[str]:
        """Names of all files in a folder and the folders in it, sorted; none for a missing folder.

        `is_folder` distinguishes a folder from a file by the last part of its name.
        """
        ...

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        """Write a new staged file, durable after `persist`.

        The write may continue in the background: then `persist` raises its errors. Raises FileExistsError,
        now or from `persist`.
        """
        ...

    def persist(self, names: Sequence[str]) -> None:
        """Make files of `put` durable. Raises FileNotFoundError where another writer removed one."""
        ...

    def settle(self, folder: str) -> None:
        """Make every visible file in a folder durable, whichever process wrote it; creates a missing
        folder."""
        ...

    def put_if_absent(self, name: str, data: bytes, stage: str) -> None:
        """Write a file under a free name, atomically and durably.

        `stage` is a stage folder for drafts. Raises FileExistsError where the name is taken,
        FileNotFoundError where another writer swept the draft, UncertainError where the outcome is unknown;
        after any other OSError the file does not exist.
        """
        ...

    def publish(self, moves: Sequence[Move]) -> None:
        """Move files to their final names, durably; files already moved are skipped.

        At any instant a file is in at least one of the two places. Raises FileNotFoundError, with the final
        name, where one is in neither.
        """
        ...

    def replace(self, name: str, data: bytes, stage: str) -> None:
        """Replace a file's content atomically and durably. Not for data files."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file or a folder with its content; missing ones are ignored."""
        ...


class Listed(NamedTuple):
    """Entry of a listing: a file's name, its size in bytes, and its tag."""

    name: str
    size: int
    tag: str
    """Tag of the content (ETag); empty where the store has none."""


class RemoteStore(Store, Protocol):
    """A store reached over a network, whose files are copied to this machine to be read."""

    @property
    def url(self) -> str:
        """Name of the lake, without a slash at its end."""
        ...

    def check(self) -> None:
        """Raise LakeError, with a remedy, if the store cannot be reached."""
        ...

    def download(self, name: str, out: BinaryIO) -> None:
        """Write a file's content to `out`, piece by piece. Raises FileNotFoundError."""
        ...

    def listed(self, folder: str) -> list[Listed]:
        """Entries of all files below a folder, sorted by name."""
        ...


class LocalStore:
    """A store on a disk of this machine."""

    concurrency: Final = 1

    def __init__(self, disk: LocalDisk) -> None:
        self._disk = disk
        self._made: set[str] = set()
        """Folders known to exist, perhaps not durably. Incomplete: existing ones may be missing."""
        self._settled: set[str] = set()
        """Folders known to exist durably. Incomplete: existing ones may be missing."""

    @classmethod
    def at(cls, root: Path) -> LocalStore:
        """Store of the lake in a folder."""
        return cls(LocalDisk(root))

    def read(self, name: str) -> pa.Buffer:
        """Whole content of a file. Raises FileNotFoundError."""
        return self._disk.read(name)

    def read_end(self, name: str, n_bytes: int) -> pa.Buffer:
        """Last `n_bytes` bytes of a file, all of it if shorter. The file is mapped: only its end is read."""
        data = self._disk.read(name)
        return data.slice(max(0, data.size - n_bytes))

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None where it is missing."""
        return self._disk.size(name)

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Sizes of files in bytes, in the order of `names`; None where one is missing."""
        return [self._disk.size(name) for name in names]

    def names(self, folder: str, after: str = "") -> list[str]:
        """Sorted names in a folder (last parts only) that sort after `after`; empty for a missing folder."""
        return [name for name in self._disk.names(folder) if name > after]

    def written(self, folder: str) -> dict[str, int]:
        """Time at which each file in a folder was written, ns since the epoch by this machine's clock."""
        return self._disk.written(folder)

    def below(self, folder: str, is_folder: Callable[[str], bool]) -> Iterator[str]:
        """Names of all files below a folder, sorted; none for a missing folder. `is_folder` is asked with the
        last part of a name."""
        for name in self._disk.names(folder):
            whole = f"{folder}/{name}" if folder else name
            if is_folder(name):
                yield from self.below(whole, is_folder)
            else:
                yield whole

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        """Write a new staged file, durable after `persist`."""
        for folder in _path(_parent(name)):
            if folder not in self._made:
                self._disk.make_folder(folder)
                _remember(self._made, {folder})
        self._disk.create(name, data)

    def persist(self, names: Sequence[str]) -> None:
        """Sync files of `put` to disk: the files first, then each of their folders once."""
        for name in names:
            self._disk.sync_file(name)
        folders = sorted({_parent(name) for name in names})
        self._make_folders(folders)
        for folder in folders:
            self._disk.sync_folder(folder)

    def settle(self, folder: str) -> None:
        """Sync every visible file in a folder, and the folder, to disk; creates a missing folder."""
        self._make_folders([folder])
        self._disk.sync_folder(folder)

    def _make_folders(self, folders: Iterable[str]) -> None:
        """Create folders and their parents, durably; each parent is synced once.

        Existing folders are synced too, the first time: their maker may have died before it did.
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
        """Write a file under a free name: a draft is written and synced, then linked, and the folder is
        synced."""
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
        """Replace a file's content atomically and durably."""
        self._disk.rename(self._draft(name, data, stage), name)
        self._sync_after(name)

    def _sync_after(self, name: str) -> None:
        try:
            self._disk.sync_folder(_parent(name))
        except OSError as error:
            raise _uncertain(name, error) from error

    def _draft(self, name: str, data: bytes, stage: str) -> str:
        """Write and sync a draft with the content, under a free name, and return the name. Dead writers leave
        drafts behind."""
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
        """Move files to their final names. Target folders are synced before the stage folder, so that no
        crash loses both names of a file.

        Target folders are synced even if every file is already moved: the process that moved it may have died
        before syncing.
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
        """Remove a file or a folder with its content; missing ones are ignored."""
        self._disk.remove(name)
        for known in (self._made, self._settled):
            known.difference_update([n for n in [*known] if n == name or n.startswith(f"{name}/")])


def _uncertain(name: str, error: OSError) -> UncertainError:
    return UncertainError(error.errno, f"{error.strerror or error}; '{name}' may be there or not")


def _remember(known: set[str], folders: Set[str]) -> None:
    """Add folders to a bounded set, which is emptied when full: a forgotten one costs a mkdir and a sync."""
    if len(known) + len(folders) > MAX_KNOWN_FOLDERS:
        known.clear()
    known |= folders


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


def _path(folder: str) -> list[str]:
    """The folder and its parents, from the top; empty for the root."""
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


T = TypeVar("T")
R = TypeVar("R")


def map_concurrently(store: Store, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Results of `call` for each item, run concurrently, in order; once all have ended, raises the first
    error in that order.

    Sequential on a disk: threads would cost more than they save.
    """
    listed = [*items]
    if store.concurrency == 1 or len(listed) < 2:
        return [call(item) for item in listed]
    with ThreadPoolExecutor(min(store.concurrency, len(listed)), thread_name_prefix="store") as pool:
        return [*pool.map(call, listed)]


def prefetch(store: Store, call: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Results of `call` in order, computed in batches of the store's concurrency ahead of their use."""
    for start in range(0, len(items), store.concurrency):
        yield from map_concurrently(store, call, items[start : start + store.concurrency])
