"""File system operations that `LocalStore` needs.

Names are relative to the root of the lake and use `/`. `LocalDisk` is minimal because tests replace it by a
simulated disk that stops after any single operation and loses everything that is not synced.

Durability is explicit: `create` and `rename` promise nothing until `sync_file` on the file *and*
`sync_folder` on its folder have returned. After a failed sync, do not sync the same file again (Linux drops
the dirty pages), but write another file.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from schemas.errors import BusyLakeError, LakeError

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
"""Permissions of a lake's files and folders: for the owner only, whatever the umask, as they contain
requests' data."""
MAPPED_FROM: Final = 2**16
"""Size in bytes from which files are memory-mapped; smaller files are read, which is faster."""


def mapped(path: Path) -> pa.Buffer:
    """Content of a file, memory-mapped if it is large. Raises OSError if the system cannot read it.

    A large file is read once before it is mapped: accessing a mapped page that a damaged disk cannot read
    would kill the process (SIGBUS).
    """
    try:
        with path.open("rb", buffering=0) as file:
            if len(data := file.read(MAPPED_FROM)) < MAPPED_FROM:
                return pa.py_buffer(data)
            chunk = bytearray(2**20)
            while file.readinto(chunk):
                pass
    except OSError as error:
        error.filename = str(path)  # a read does not say of what
        raise
    with pa.memory_map(str(path)) as mapping:
        return mapping.read_buffer()


def inside(root: Path, name: str) -> Path:
    """Path below `root` of the file that has this name in the lake. Raises LakeError for a name that leads
    out of `root`.

    Names come from commits and tables of the lake, which anyone with write access to the lake may have
    written.
    """
    if (".." in name or name.startswith("/")) and (name.startswith("/") or ".." in name.split("/")):
        raise LakeError(
            f"A commit or table of the lake names {name!a}, which lies outside of it.",
            remedy="Find out who wrote it; `flowdiff fsck` finds what else is wrong.",
        )
    return root / name if name else root


class LocalDisk:
    """A folder of a POSIX file system. Every method may raise OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        """Absolute path of a name. Raises LakeError (`inside`)."""
        return inside(self.root, name)

    def read(self, name: str) -> pa.Buffer:
        """Whole content of a file. Raises FileNotFoundError."""
        return mapped(self.path(name))

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None if it does not exist; an arbitrary number for a folder."""
        if ".." in name:
            inside(self.root, name)
        try:
            return os.stat(f"{self.root}/{name}").st_size  # noqa: PTH116 - a third of Path's time
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, folder: str) -> list[str]:
        """Names in a folder (last path parts), sorted; empty if the folder does not exist."""
        try:
            return sorted(os.listdir(self.path(folder)))  # noqa: PTH208 - a third of iterdir's time
        except FileNotFoundError:
            return []

    def written(self, folder: str) -> dict[str, int]:
        """Last part of the name of each file in a folder -> time at which it was written, ns since the epoch.

        A rename does not change the time; a copy may.
        """
        try:
            with os.scandir(self.path(folder)) as entries:
                return {entry.name: entry.stat().st_mtime_ns for entry in entries if entry.is_file()}
        except FileNotFoundError:
            return {}

    def make_folder(self, name: str) -> None:
        """Create one folder below an existing one; an existing folder is left alone."""
        make_private_folder(self.path(name))

    def create(self, name: str, data: pa.Buffer | bytes) -> None:
        """Write a new file. Raises FileExistsError: files are never overwritten."""
        descriptor = os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, FILE_MODE)
            file.write(data)

    def sync_file(self, name: str) -> None:
        """Make the content of a file (not its name) durable. A write error since the file was created is
        raised here (Linux >= 4.13)."""
        sync(self.path(name))

    def sync_folder(self, name: str) -> None:
        """Make the names in a folder durable; `""` is the lake's root."""
        sync(self.path(name))

    def link(self, source: str, target: str) -> None:
        """Give a file a second name, a hard link. Raises FileExistsError if the name exists."""
        os.link(self.path(source), self.path(target))

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder, replacing a file that has the new name."""
        self.path(source).rename(self.path(target))

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its content; does nothing if it is missing."""
        path = self.path(name)
        while True:
            try:
                if path.is_symlink() or not path.is_dir():
                    return path.unlink(missing_ok=True)
                shutil.rmtree(path)
            # Another process removes or remakes it: rmtree reports that as a link, with no errno.
            except OSError as error:
                if error.errno not in (None, errno.ENOENT, errno.ENOTEMPTY, errno.EISDIR):
                    raise


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content, hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private_folder(path: Path) -> None:
    """Create one folder with access for its owner only; an existing folder is left alone."""
    try:
        path.mkdir(mode=FOLDER_MODE)
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        path.chmod(FOLDER_MODE)


@contextmanager
def exclusive_lock(root: Path, name: str = "lock") -> Iterator[None]:
    """Context manager that holds a lock (flock) on a file in the lake's `control/`; it is released at the
    latest when the process ends.

    Raises BusyLakeError if another process holds the lock. It only saves wasted work: put-if-absent in the
    commit protocol excludes a second writer.
    """
    path = root / "control" / name
    make_private_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyLakeError(
                f"Another process is writing to the lake '{root}'.", remedy="Wait for it, or stop it."
            ) from error
        yield
    finally:
        os.close(descriptor)
