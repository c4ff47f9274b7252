"""A bounded folder of this machine with files by their content, shared by any number of processes.

`objects/` holds them, named by what they are; least recently used ones go when it is too full. A process
works with names of its own below `sessions/<id>/`, hard links to the same bytes: what another process evicts
meanwhile stays readable here. A session's folder goes with its process, or is swept by the next one once the
lock of a dead process is free.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from schemas.errors import ConfigError, LakeError
from schemas.sizes import parse_size
from stitch.lake.disk import FILE_MODE, FOLDER_MODE

DEFAULT_BYTES: Final = 10 * 2**30
LEAST_BYTES: Final = 64 * 2**20
_OBJECTS: Final = "objects"
_SESSIONS: Final = "sessions"
_LOCK: Final = ".lock"


class FileCache:
    """See the module. Raises LakeError where its folder cannot be used; every method may raise OSError."""

    def __init__(self, folder: Path, limit_bytes: int = DEFAULT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._objects = folder / _OBJECTS
        self._sessions = folder / _SESSIONS
        try:
            for path in (self._objects, self._sessions):
                path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            self._sweep()
            self.session, lock = self._begin()
        except OSError as error:
            raise LakeError(
                f"The cache '{folder}' cannot be used: {error.strerror}.",
                remedy="Set FLOWDIFF_CACHE to a folder that can be written.",
            ) from error
        self._end = weakref.finalize(self, _leave, self.session, lock)

    def take(self, key: str, target: Path, is_whole: Callable[[Path], bool]) -> bool:
        """Give a file that is kept the name `target`, below `session`; False where it is not kept.

        One that is not whole is thrown away.
        """
        kept = self._object(key)
        try:
            target.hardlink_to(kept)
        except FileNotFoundError:
            return False
        if not is_whole(target):
            for path in (target, kept):
                path.unlink(missing_ok=True)
            return False
        with suppress(FileNotFoundError):  # evicted in this moment: ours all the same
            os.utime(kept)
        return True

    def add(
        self, key: str, target: Path, write: Callable[[BinaryIO], None], is_whole: Callable[[Path], bool]
    ) -> bool:
        """Write a file to `target`, below `session`, and keep it. False: it is not whole, and not kept."""
        draft = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as out:
                write(out)
            if not is_whole(draft):
                return False
            draft.rename(target)
        finally:
            draft.unlink(missing_ok=True)
        kept = self._object(key)
        kept.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
        with suppress(FileExistsError):  # by another process
            kept.hardlink_to(target)
        return True

    def evict(self) -> None:
        """Remove what was used longest ago until the rest is within the bound. O(files)."""
        found = []
        for folder in _entries(self._objects):
            for entry in _entries(Path(folder.path)):
                with suppress(FileNotFoundError):
                    stat = entry.stat(follow_symlinks=False)
                    found.append((stat.st_mtime_ns, stat.st_size, entry.path))
        size = sum(size for _, size, _ in found)
        for _, n_bytes, path in sorted(found):
            if size <= self._limit_bytes:
                return
            Path(path).unlink(missing_ok=True)
            size -= n_bytes

    def close(self) -> None:
        """Give up the session: its files go."""
        self._end()

    def _object(self, key: str) -> Path:
        return self._objects / key[:2] / key

    def _begin(self) -> tuple[Path, int]:
        """A new session's folder, and its lock, which nobody else holds."""
        while True:
            name = secrets.token_hex(8)
            lock = self._sessions / f"{name}{_LOCK}"
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # A sweeper may have taken it for a dead one's before it was locked.
            if lock.exists() and lock.stat().st_ino == os.fstat(descriptor).st_ino:
                folder = self._sessions / name
                folder.mkdir(mode=FOLDER_MODE)
                return folder, descriptor
            os.close(descriptor)

    def _sweep(self) -> None:
        """Remove the sessions of processes that are no more."""
        for entry in _entries(self._sessions):
            if not entry.name.endswith(_LOCK):
                continue
            with suppress(FileNotFoundError, BlockingIOError):
                descriptor = os.open(entry.path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(Path(entry.path.removesuffix(_LOCK)))
                finally:
                    os.close(descriptor)


def cache_at(environ: Mapping[str, str]) -> FileCache:
    """The user's cache: `FLOWDIFF_CACHE`, else in the XDG cache folder; `FLOWDIFF_CACHE_SIZE` bounds it.

    Raises ConfigError, LakeError.
    """
    told = environ.get("FLOWDIFF_CACHE")
    if told:
        folder = Path(told)
    else:
        home = environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        folder = Path(home) / "flowdiff"
    size = environ.get("FLOWDIFF_CACHE_SIZE")
    limit = DEFAULT_BYTES if not size else parse_size(size)
    if limit is None or limit < LEAST_BYTES:
        raise ConfigError(
            f"FLOWDIFF_CACHE_SIZE={size} is no size of a cache.", remedy="Write 64MB or more: 10GB."
        )
    return FileCache(folder, limit)


def _leave(session: Path, lock: int) -> None:
    _remove(session)
    os.close(lock)


def _remove(session: Path) -> None:
    shutil.rmtree(session, ignore_errors=True)
    session.with_name(f"{session.name}{_LOCK}").unlink(missing_ok=True)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [*entries]
    except (FileNotFoundError, NotADirectoryError):
        return []
