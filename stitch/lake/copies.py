"""Copies on this machine of the files of a lake in a bucket, made when they are read.

Published files never change and are told by their SHA-256, so a copy is as good as the file: verified when
it is made, and again by each process that takes it from the cache. Every file is found at `root / name`, as
in a lake that is a folder.
"""

from __future__ import annotations

import errno
import hashlib
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from schemas.errors import LakeError
from stitch.lake.abreast import abreast
from stitch.lake.bucket.bucket_store import BucketStore, Listed
from stitch.lake.file_cache import FileCache
from stitch.lake.layout import ASIDE, REPORTS
from stitch.lake.reading import unreadable

REPORT_END: Final = "report.json"
"""Written last: a report without it is not all there."""
DOWNLOADS: Final = 2
"""Of a file whose content is not what was committed: once for the way, once for the bucket."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class Copies:
    """See the module. Raises LakeError where a file cannot be had; threads may share it."""

    def __init__(self, store: BucketStore, cache: FileCache, short_name: str) -> None:
        """The folder is called `short_name`, as messages and reports name a lake."""
        self.store = store
        self._cache = cache
        self._lock = threading.Lock()
        self._there: set[str] = set()
        """Names of copies that this process has verified."""
        self._tables: dict[str, Listed] = {}
        """Of reports, as listed last."""
        # One folder above for each lake: two may have one short name.
        self.root = cache.session / hashlib.sha256(store.url.encode()).hexdigest()[:16] / short_name
        self.root.mkdir(parents=True, exist_ok=True)

    @property
    def lake(self) -> str:
        """Name of the lake, for messages."""
        return self.store.url

    def fetch(self, files: Iterable[tuple[str, str]]) -> None:
        """See to it that files (name, SHA-256 in hex) are there, whole; those missing are got abreast."""
        with self._lock:
            wanted = {name: sha256 for name, sha256 in files if name not in self._there}
            fetched = abreast(self.store, lambda item: self._one(*item), wanted.items())
            self._there.update(wanted)
            if any(fetched):
                self._cache.evict()

    def read(self, name: str, sha256: str) -> pa.Buffer:
        """Content of a file, mapped."""
        self.fetch([(name, sha256)])
        path = self.root / name
        if path.stat().st_size == 0:
            return pa.py_buffer(b"")
        with pa.memory_map(str(path)) as file:
            return file.read_buffer()

    def report_files(self) -> list[Path]:
        """Where tables of the finished reports will be once they are fetched, as the bucket has them now."""
        try:
            listed = [entry for entry in self.store.listed(REPORTS) if "/." not in entry.name]
        except OSError as error:
            raise LakeError(f"The reports of '{self.lake}' cannot be listed: {error.strerror}.") from error
        folder = {entry.name: entry.name.rpartition("/")[0] for entry in listed}
        done = {folder[entry.name] for entry in listed if entry.name.endswith(f"/{REPORT_END}")}
        tables = {
            entry.name: entry
            for entry in listed
            if folder[entry.name] in done and entry.name.endswith(".parquet")
        }
        with self._lock:
            self._tables = tables
        return [self.root / name for name in tables]

    def fetch_tables(self, names: Iterable[str]) -> None:
        """See to it that tables of reports are there; others than those of `report_files` are passed by."""
        with self._lock:
            wanted = [self._tables[name] for name in names if name in self._tables]
            if any(abreast(self.store, self._table, wanted)):
                self._cache.evict()

    def _table(self, entry: Listed) -> bool:
        """A table of a report. Its sum is in no commit: the bucket's tag tells whether it is still that."""
        key = hashlib.sha256(f"{self.store.url} {entry.name} {entry.size} {entry.tag}".encode()).hexdigest()
        if f"{entry.name} {key}" in self._there:
            return False
        fresh = self._got(
            entry.name, key, self._target(entry.name), lambda path: path.stat().st_size == entry.size
        )
        self._there.add(f"{entry.name} {key}")
        return fresh

    def _one(self, name: str, sha256: str) -> bool:
        """Whether the file had to be got from the bucket."""
        return self._got(name, sha256, self._target(name), lambda path: _sum(path) == sha256)

    def _got(self, name: str, key: str, target: Path, is_whole: Callable[[Path], bool]) -> bool:
        """A copy at `target`, from the cache or (True) the bucket."""
        target.unlink(missing_ok=True)
        try:
            if self._cache.take(key, target, is_whole):
                return False
            for _ in range(DOWNLOADS):
                if self._cache.add(key, target, lambda out: self._download(name, out), is_whole):
                    return True
        except FileNotFoundError as error:
            raise unreadable(self.lake, name, "it is missing") from error
        except OSError as error:
            remedy = "Set FLOWDIFF_CACHE to a larger disk." if error.errno in _FULL else ""
            raise LakeError(
                f"'{self.lake}/{name}' cannot be read: {error.strerror}.", remedy=remedy
            ) from error
        raise unreadable(self.lake, name, "its content is not what was committed")

    def _download(self, name: str, out: BinaryIO) -> None:
        try:
            self.store.download(name, out)
        except FileNotFoundError:  # set aside since the snapshot was taken
            self.store.download(f"{name}{ASIDE}", out)

    def _target(self, name: str) -> Path:
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        return target


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
