"""Copy files of a remote store to this machine on demand, into a cache of limited size that processes share.

Published files never change and are identified by their SHA-256, so a copy can replace the file: it is
verified when it is made, and again by each process that takes it from the cache. A copy's path is `root /
name`, as in a lake that is a folder.

The folder `objects/` of the cache has the contents by hash; above the maximum size the least recently used
ones are evicted. Each process has a folder below `sessions/` (`stitch.scratch`) with hard links to these
files, which stay readable when another process evicts the files.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from schemas.errors import ConfigError, LakeError, lake_error
from schemas.sizes import parse_size
from stitch.lake.disk import FILE_MODE, FOLDER_MODE, file_sha256, inside, mapped
from stitch.lake.encoding import unreadable
from stitch.lake.layout import ASIDE, REPORT_END, REPORTS
from stitch.lake.store import Listed, RemoteStore, map_concurrently
from stitch.scratch import Scratch

_DOWNLOADS: Final = 2
"""Number of attempts to download a file: if the content differs from its hash twice, it was not a
transmission error."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_DEFAULT_BYTES: Final = 10 * 2**30
_LEAST_BYTES: Final = 64 * 2**20


class Copies:
    """Local copies of files of one remote store. Thread-safe.

    Raises LakeError if a file cannot be fetched.
    """

    def __init__(self, store: RemoteStore, cache: FileCache) -> None:
        self.store = store
        self._cache = cache
        self._lock = threading.Lock()
        self._there: set[str] = set()
        """Names of the copies that this process has verified; for tables of reports, name and version."""
        self._tables: dict[str, Listed] = {}
        """Name of a report's table -> its entry in the last listing of the store."""
        # The last part of its name is that of the lake in messages and reports. Two lakes may have the same.
        short_name = store.url.rpartition("/")[2]
        self.root = cache.session / hashlib.sha256(store.url.encode()).hexdigest()[:16] / short_name
        self.root.mkdir(parents=True, exist_ok=True)

    @property
    def lake(self) -> str:
        """Name of the lake, for messages."""
        return self.store.url

    def fetch(self, files: Iterable[tuple[str, str]]) -> None:
        """Fetch those of the files (name, SHA-256 in hex) that are missing, concurrently, and verify them."""
        with self._lock:
            wanted = {name: sha256 for name, sha256 in files if name not in self._there}
            fetched = map_concurrently(
                self.store,
                lambda item: self._got(*item, lambda path: file_sha256(path) == item[1]),
                wanted.items(),
            )
            self._there.update(wanted)
            if any(fetched):
                self._cache.evict()

    def read(self, name: str, sha256: str) -> pa.Buffer:
        """Content of a file, memory-mapped; fetched first if missing. sha256: in hex."""
        self.fetch([(name, sha256)])
        return mapped(inside(self.root, name))

    def report_files(self) -> list[Path]:
        """Local paths of the tables of all finished reports that are in the store now; `fetch_tables` fetches
        their content."""
        try:
            listed = [entry for entry in self.store.listed(REPORTS) if "/." not in entry.name]
        except OSError as error:
            raise lake_error(
                f"The reports of '{self.lake}' cannot be listed: {error.strerror}.", error
            ) from error
        folder = {entry.name: entry.name.rpartition("/")[0] for entry in listed}
        done = {folder[entry.name] for entry in listed if entry.name.endswith(f"/{REPORT_END}")}
        tables = {
            entry.name: entry
            for entry in listed
            if folder[entry.name] in done and entry.name.endswith(".parquet")
        }
        with self._lock:
            self._tables = tables
        return [inside(self.root, name) for name in tables]

    def fetch_tables(self, names: Iterable[str]) -> None:
        """Fetch tables of reports; skips names that `report_files` did not list."""
        with self._lock:
            wanted = [self._tables[name] for name in names if name in self._tables]
            if any(map_concurrently(self.store, self._table, wanted)):
                self._cache.evict()

    def _table(self, entry: Listed) -> bool:
        """Fetch a table of a report; return True if it was downloaded, False if it was in the cache.

        Commits contain no hash of these tables: the ETag identifies the version.
        """
        key = hashlib.sha256(f"{self.store.url} {entry.name} {entry.size} {entry.tag}".encode()).hexdigest()
        if f"{entry.name} {key}" in self._there:
            return False
        fresh = self._got(entry.name, key, lambda path: path.stat().st_size == entry.size)
        self._there.add(f"{entry.name} {key}")
        return fresh

    def _got(self, name: str, key: str, is_whole: Callable[[Path], bool]) -> bool:
        """Put a copy of the file `name` below the root; return True if it was downloaded, False if it was in
        the cache.

        key: key of the content in the cache. is_whole: function that checks a copy.
        """
        target = inside(self.root, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            if self._cache.take(key, target, is_whole):
                return False
            for _ in range(_DOWNLOADS):
                if self._cache.add(key, target, lambda out: self._download(name, out), is_whole):
                    return True
        except FileNotFoundError as error:
            raise unreadable(self.lake, name, "it is missing") from error
        except OSError as error:
            remedy = "Set FLOWDIFF_CACHE to a larger disk." if error.errno in _FULL else ""
            raise lake_error(
                f"'{self.lake}/{name}' cannot be read: {error.strerror}.", error, remedy=remedy
            ) from error
        raise unreadable(self.lake, name, "its content is not what was committed")

    def _download(self, name: str, out: BinaryIO) -> None:
        try:
            self.store.download(name, out)
        except FileNotFoundError:  # set aside since the snapshot was taken
            self.store.download(f"{name}{ASIDE}", out)


class FileCache:
    """Cache folder that processes share. Raises LakeError if it cannot be used; every method may raise
    OSError."""

    def __init__(self, folder: Path, limit_bytes: int = _DEFAULT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._objects, sessions = folder / "objects", folder / "sessions"
        self._scratch = Scratch(sessions)
        try:
            for path in (self._objects, sessions):
                path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            self.session = self._scratch.folder
        except OSError as error:
            raise LakeError(
                f"The cache '{folder}' cannot be used: {error.strerror}.",
                remedy="Set FLOWDIFF_CACHE to a folder that can be written.",
            ) from error

    def take(self, key: str, target: Path, is_whole: Callable[[Path], bool]) -> bool:
        """Link a cached file to `target`, a path below `session`; return False if it is not cached.

        key: key of the content. A file that `is_whole` refuses is removed from the cache.
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
        """Write a file to `target`, a path below `session`, with the function `write`, and cache it under
        `key`; if `is_whole` refuses the file, delete it and return False."""
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
        """Remove the least recently used files until the cache is within its maximum size. O(files)."""
        found = []
        for path in self._objects.glob("*/*"):
            with suppress(FileNotFoundError):
                stat = path.lstat()
                found.append((stat.st_mtime_ns, stat.st_size, path))
        size = sum(size for _, size, _ in found)
        for _, n_bytes, path in sorted(found):
            if size <= self._limit_bytes:
                return
            path.unlink(missing_ok=True)
            size -= n_bytes

    def close(self) -> None:
        """Remove the hard links of this process."""
        self._scratch.close()

    def _object(self, key: str) -> Path:
        return self._objects / key[:2] / key


def cache_at(environ: Mapping[str, str]) -> FileCache:
    """The user's cache, in the folder `FLOWDIFF_CACHE`, else in the XDG cache folder; `FLOWDIFF_CACHE_SIZE`
    is its maximum size. Every call in a process returns the same object.

    Raises ConfigError, LakeError.
    """
    configured = environ.get("FLOWDIFF_CACHE")
    if configured:
        folder = Path(configured)
    else:
        home = environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        folder = Path(home) / "flowdiff"
    size = environ.get("FLOWDIFF_CACHE_SIZE")
    limit = _DEFAULT_BYTES if not size else parse_size(size)
    if limit is None or limit < _LEAST_BYTES:
        raise ConfigError(
            f"FLOWDIFF_CACHE_SIZE={size} is no size of a cache.", remedy="Write 64MB or more: 10GB."
        )
    return _cache_in(folder, limit)


@lru_cache(maxsize=4)
def _cache_in(folder: Path, limit_bytes: int) -> FileCache:
    return FileCache(folder, limit_bytes)
