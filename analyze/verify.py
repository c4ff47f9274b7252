"""Verification of a lake's files against the checksums of its commits, before DuckDB reads them.

A flipped bit in Parquet may decode to another number, and DuckDB checks no page checksums. The manifest has
the SHA-256 of every file, so each file is hashed when a process first reads it (again if its size or time
changed). That finds every change, in footers too. Results are not saved on disk: rot does not touch a file's
time. The price is reading all columns of the period's files.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from analyze.scope import LakePeriod
from stitch.lake.encoding import still_at, unreadable

HASHERS: Final = 2
"""Number of hashing threads; hashing releases the interpreter lock."""
REMEMBERED: Final = 65_536
"""Maximum number of verified files remembered in memory, some 20 MB; a file that is no longer remembered is
hashed again."""


def verify(found: LakePeriod, paths: Iterable[Path]) -> None:
    """Check files against the lake's checksums. Raises LakeError, with the name of the file, if a file is
    missing, cut or changed.

    Files that the manifest does not list (of reports, which are small) are read completely instead, which
    verifies their page checksums.
    """
    paths = [*paths]
    found.fetch(paths)  # which verifies what it brings
    for path in paths:
        if path not in found.sums:
            _read_pages(found, path)
    listed = [path for path in paths if path in found.sums]
    if not listed or found.copies is not None:
        return
    with ThreadPoolExecutor(min(HASHERS, len(listed))) as pool:
        for path, there in zip(listed, pool.map(_sum, listed), strict=True):
            if isinstance(there, OSError):
                why = str(there.strerror).lower()
                raise unreadable(found.lake, found.name_of(path), why, error=there) from there
            if there != found.sums[path]:
                raise unreadable(found.lake, found.name_of(path), "its content is not what was committed")


def _read_pages(found: LakePeriod, path: Path) -> None:
    try:
        deque(pq.ParquetFile(path, page_checksum_verification=True).iter_batches(), maxlen=0)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(found.lake, found.name_of(path), error=error) from error


def _sum(path: Path) -> str | OSError:
    """SHA-256 of a file as hex text, or the OSError if it cannot be read."""
    try:
        path = still_at(path)
        stat = path.stat()
        return _hashed(path, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        return error


@lru_cache(maxsize=REMEMBERED)
def _hashed(path: Path, _size: int, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
