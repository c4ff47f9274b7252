"""Reports of finished jobs: a folder each, named by the question's identity; the oldest are evicted."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from analyze.report.store import write_report_table
from stitch.lake.disk import sync

REPORT: Final = "report.json"
_DRAFT: Final = ".draft"
_KEY: Final = re.compile(r"[0-9a-f]{32}")
_TABLE: Final = re.compile(r"[a-z_]{1,40}")


class Results:
    """Folder with results of jobs (report as JSON, and tables); it may outlive the server."""

    def __init__(self, folder: Path, most_bytes: int, most: int, draft_seconds: float) -> None:
        """most_bytes: maximum total size of results (the latest result is retained whatever its size); most:
        their maximum number; draft_seconds: age, s, from which an unfinished result counts as abandoned."""
        self._folder = folder
        self._most_bytes, self._most = most_bytes, most
        self._draft_seconds = draft_seconds
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, key: str) -> Path:
        """Path of the folder for a result. Raises ValueError if `key` is not 32 hex digits."""
        if _KEY.fullmatch(key) is None:
            raise ValueError(f"'{key}' is no key of a result")
        return self._folder / key

    def read(self, key: str) -> bytes | None:
        """Report of the result `key`, as JSON; None if there is no such result, or it was evicted."""
        try:
            path = self.path(key)
            found = (path / REPORT).read_bytes()
        except (ValueError, OSError):
            return None
        with suppress(OSError):
            os.utime(path)  # results in use are evicted last
        return found

    def table_file(self, key: str, name: str) -> Path | None:
        """Parquet file of a table of the result `key`; None if there is no such table, or the result was
        evicted."""
        try:
            path = self.path(key) / f"{name}.parquet"
        except ValueError:
            return None
        return path if _TABLE.fullmatch(name) and path.is_file() else None

    def tables(self, key: str) -> dict[str, pa.Table]:
        """Table name -> table of the result `key`; empty if there is no such result, or it was evicted."""
        with suppress(ValueError, OSError):
            path = self.path(key)
            names = sorted(one.stem for one in path.iterdir() if one.suffix == ".parquet")
            os.utime(path)  # results in use are evicted last
            return {name: pq.read_table(path / f"{name}.parquet") for name in names}
        return {}

    def forget_oldest(self) -> None:
        """Evict results, least recently read first, until their size and number are within the limits;
        remove abandoned drafts. Takes 0.08 ms a result."""
        written = []
        for path in self._folder.iterdir():
            with suppress(OSError):
                at = path.stat().st_mtime
                if path.suffix != _DRAFT:
                    written.append((at, path, sum(one.stat().st_size for one in path.iterdir())))
                elif time.time() - at > self._draft_seconds:
                    shutil.rmtree(path, ignore_errors=True)
        left, size = len(written), sum(size for _, _, size in written)
        for _, path, own in sorted(written):
            if left <= 1 or (size <= self._most_bytes and left <= self._most):
                break
            _remove(path)
            left, size = left - 1, size - own


def _remove(path: Path) -> None:
    """Remove a result. Atomic for readers: an interruption leaves a draft, which is removed later."""
    gone = _draft(path)
    with suppress(OSError):  # the next removal tries again
        path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def _draft(path: Path) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}{_DRAFT}")


def write_result(path: Path, report: str, tables: Mapping[str, pa.Table]) -> None:
    """Write a result completely and durably; if the result exists, it is left unchanged. Raises OSError."""
    draft = _draft(path)
    draft.mkdir()
    try:
        for name, table in tables.items():
            write_report_table(table, draft / f"{name}.parquet")
        (draft / REPORT).write_text(report, encoding="utf-8")
        # Else a crash of the machine leaves a result with a name and without content.
        for file in [*draft.iterdir(), draft]:
            sync(file)
        if not (path / REPORT).is_file():
            _remove(path)  # an interrupted removal left a part
        with suppress(OSError):
            draft.rename(path)
        sync(path.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    if not (path / REPORT).is_file():
        raise OSError(None, f"'{path}' cannot be written")
