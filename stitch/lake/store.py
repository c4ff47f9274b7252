"""Store protocol: the operations that the commit protocol needs, and their implementation on this machine.

Names use `/` and are relative to the lake. The protocol rests on two operations: `put_if_absent`, which
decides who commits, and `publish`, which moves files from the stage to names that nobody else uses. On an
object store `put_if_absent` is a put with `If-None-Match: *`, `publish` is a copy and a delete, every object
is durable once put, and folders do not exist (`stitch.lake.bucket`). Links, renames and syncs are used only
inside `LocalStore`.
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
"""Name of the folder below a stage folder for files that do not have their names yet."""
MAX_KNOWN_FOLDERS: Final = 4096
"""Maximum number of folders that a store on a disk remembers: a day of one-minute windows in two tables,
which takes half a MB, and 1 ms per call of `remove`."""


@dataclass(frozen=True, slots=True)
class Move:
    """A staged file and its final name."""

    stage: str
    final: str


class UncertainError(OSError):
    """A `put_if_absent` failed, but the file may exist or appear later."""


class Store(Protocol):
    """Operations on the files of a lake. Every method may raise OSError."""

    @property
    def concurrency(self) -> int:
        """Useful number of concurrent requests; 1 on a disk, where requests have no latency."""
        ...

    def read(self, name: str) -> pa.Buffer:
        """Whole content of a file. Raises FileNotFoundError."""
        ...

    def read_end(self, name: str, n_bytes: int) -> pa.Buffer:
        """Last `n_bytes` bytes of a file, or the whole file if it is shorter. Raises FileNotFoundError."""
        ...

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None if it does not exist."""
        ...

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Sizes of files in bytes, in the order of `names`; None for a missing file."""
        ...

    def names(self, folder: str, after: str = "") -> list[str]:
        """Names in a folder (last path parts) that sort after `after`, sorted; empty for a missing folder."""
        ...

    def written(self, folder: str) -> dict[str, int]:
        """Last part of the name of each file in a folder -> time at which it was written, ns since the epoch
        on the store's clock; empty for a missing folder."""
        ...

    def below(self, folder: str, is_folder: Callable[[str], bool]) -> Iterator[str]:
        """Names of all files below a folder, at any depth, sorted; none for a missing folder.

        is_folder: function of the last part of a name; True if it is the name of a folder.
        """
        ...

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        """Write a new staged file, which is durable after `persist`.

        The write may continue in the background; then `persist` raises its errors. Raises FileExistsError,
        here or from `persist`.
        """
        ...

    def persist(self, names: Sequence[str]) -> None:
        """Make files written by `put` durable. Raises FileNotFoundError if another writer removed one of
        them."""
        ...

    def settle(self, folder: str) -> None:
        """Make every visible file in a folder durable, whichever process wrote it; creates the folder if it
        is missing."""
        ...

    def put_if_absent(self, name: str, data: bytes, stage: str) -> None:
        """Write a file if its name is free, atomically and durably.

        stage: stage folder for drafts. Raises FileExistsError if the name is taken, FileNotFoundError if
        another writer swept the draft, UncertainError if the outcome is unknown; after any other OSError the
        file was not written.
        """
        ...

    def publish(self, moves: Sequence[Move]) -> None:
        """Move files to their final names, durably; files already moved are skipped.

        At any time a file exists under at least one of its two names. Raises FileNotFoundError, with the
        final name, if a file has neither.
        """
        ...

    def replace(self, name: str, data: bytes, stage: str) -> None:
        """Replace the content of a file atomically and durably. Must not be used for data files."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its content; does nothing if it is missing."""
        ...


class Listed(NamedTuple):
    """Entry of a listing: a file's name, its size in bytes, and its tag."""

    name: str
    size: int
    tag: str
    """Tag of the content (ETag); empty if the store has none."""


class RemoteStore(Store, Protocol):
    """A store that is reached over a network; its files are copied to this machine to be read."""

    @property
    def url(self) -> str:
        """Name of the lake, without a trailing slash."""
        ...

    def check(self) -> None:
        """Raise LakeError, with a remedy, if the store cannot be reached."""
        ...

    def download(self, name: str, out: BinaryIO) -> None:
        """Write the content of a file to `out`, piece by piece. Raises FileNotFoundError."""
        ...

    def listed(self, folder: str) -> list[Listed]:
        """Entries of all files below a folder, sorted by name."""
        ...


class LocalStore:
    """Implementation of Store on a disk of this machine."""

    concurrency: Final = 1

    def __init__(self, disk: LocalDisk) -> None:
        self._disk = disk
        self._made: set[str] = set()
        """Folders known to exist, but perhaps not durably; other folders may exist too."""
        self._settled: set[str] = set()
        """Folders known to exist durably; other folders may too."""

    @classmethod
    def at(cls, root: Path) -> LocalStore:
        """Store of the lake in the folder `root`."""
        return cls(LocalDisk(root))

    def read(self, name: str) -> pa.Buffer:
        """Whole content of a file. Raises FileNotFoundError."""
        return self._disk.read(name)

    def read_end(self, name: str, n_bytes: int) -> pa.Buffer:
        """Last `n_bytes` bytes of a file, or the whole file if it is shorter. The file is memory-mapped, so
        only its end is read."""
        data = self._disk.read(name)
        return data.slice(max(0, data.size - n_bytes))

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None if it does not exist."""
        return self._disk.size(name)

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Sizes of files in bytes, in the order of `names`; None for a missing file."""
        return [self._disk.size(name) for name in names]

    def names(self, folder: str, after: str = "") -> list[str]:
        """Names in a folder (last path parts) that sort after `after`, sorted; empty for a missing folder."""
        return [name for name in self._disk.names(folder) if name > after]

    def written(self, folder: str) -> dict[str, int]:
        """Last part of the name of each file in a folder -> time at which it was written, ns since the epoch
        on this machine's clock."""
        return self._disk.written(folder)

    def below(self, folder: str, is_folder: Callable[[str], bool]) -> Iterator[str]:
        """Names of all files below a folder, sorted; none for a missing folder. is_folder: function of the
        last part of a name."""
        for name in self._disk.names(folder):
            whole = f"{folder}/{name}" if folder else name
            if is_folder(name):
                yield from self.below(whole, is_folder)
            else:
                yield whole

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        """Write a new staged file, which is durable after `persist`."""
        for folder in _path(_parent(name)):
            if folder not in self._made:
                self._disk.make_folder(folder)
                _remember(self._made, {folder})
        self._disk.create(name, data)

    def persist(self, names: Sequence[str]) -> None:
        """Sync files written by `put` to disk: first the files, then each of their folders once."""
        for name in names:
            self._disk.sync_file(name)
        folders = sorted({_parent(name) for name in names})
        self._make_folders(folders)
        for folder in folders:
            self._disk.sync_folder(folder)

    def settle(self, folder: str) -> None:
        """Sync every visible file in a folder, and the folder, to disk; creates the folder if it is
        missing."""
        self._make_folders([folder])
        self._disk.sync_folder(folder)

    def _make_folders(self, folders: Iterable[str]) -> None:
        """Create folders and their parents, durably; each parent is synced once.

        Existing folders are synced too, the first time: the process that created them may have died before it
        synced them.
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
        """Write a file if its name is free: a draft is written and synced, then linked to the name, and the
        folder is synced."""
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
        """Write and sync a draft with the content, under an unused name below `stage`, and return the name.
        Writers that die leave drafts behind."""
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

        Target folders are synced even if all files are already moved: the process that moved them may have
        died before syncing.
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
        """Remove a file, or a folder with its content; does nothing if it is missing."""
        self._disk.remove(name)
        for known in (self._made, self._settled):
            known.difference_update([n for n in [*known] if n == name or n.startswith(f"{name}/")])


def _uncertain(name: str, error: OSError) -> UncertainError:
    return UncertainError(error.errno, f"{error.strerror or error}; '{name}' may be there or not")


def _remember(known: set[str], folders: Set[str]) -> None:
    """Add folders to `known`, which is emptied when it is full: a forgotten folder only costs a mkdir and a
    sync."""
    if len(known) + len(folders) > MAX_KNOWN_FOLDERS:
        known.clear()
    known |= folders


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


def _path(folder: str) -> list[str]:
    """Names of a folder and its parents, from the top down; empty for the root."""
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


T = TypeVar("T")
R = TypeVar("R")


def map_concurrently(store: Store, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Call `call` for each item concurrently, and return the results in order; when all calls have ended,
    raise the first error in that order.

    Sequential on a disk, where threads would cost more than they save.
    """
    listed = [*items]
    if store.concurrency == 1 or len(listed) < 2:
        return [call(item) for item in listed]
    with ThreadPoolExecutor(min(store.concurrency, len(listed)), thread_name_prefix="store") as pool:
        return [*pool.map(call, listed)]


def prefetch(store: Store, call: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield the results of `call` for each item, in order, computed ahead of their use in batches of the
    store's concurrency."""
    for start in range(0, len(items), store.concurrency):
        yield from map_concurrently(store, call, items[start : start + store.concurrency])
