"""Cache, under `stats/`, of statistics that the analyzer computed for windows.

No commit lists these files: a file may be missing, outdated or damaged, and nothing is lost. A name contains
prefixes of three SHA-256 hashes in hex, `<source>-<settings>-<content>.parquet`: of the window's flow files,
of the settings, and of the content (`stitch.lake.kept_files`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple, get_args

import pyarrow as pa

from schemas.windows import Window
from stitch.lake import kept_files
from stitch.lake.layout import STAGE
from stitch.lake.store import Store

STATS: Final = "stats"
_DIGITS: Final = 16
"""Number of hex digits of each hash in a name: 64 bits distinguish the states of one window."""


Span = Literal["window", "quarter", "day", "ticks"]
SPANS: Final[tuple[Span, ...]] = get_args(Span)


class StatsKey(NamedTuple):
    """Key of the statistics of a window in one state, that is, with one set of files."""

    window: Window
    source: str
    """Hash of the window's files, from `source_of`."""
    settings: str
    """Hash of all settings on which the statistics depend, from `settings_of`."""
    span: Span = "window"
    """Time span of the statistics: a window of the lake, or a quarter of a day.

    In the watch's files, which are stored in another folder: a day of windows, or the ticks of a window.
    """


def source_of(files: Iterable[tuple[str, str]]) -> str:
    """Hash of a window's files, given as (table, SHA-256) in any order."""
    return _hash("\n".join(f"{table} {sha256}" for table, sha256 in sorted(files)).encode())


def settings_of(text: str) -> str:
    """Hash of settings and versions, given as text."""
    return _hash(text.encode())


def stats_folder(key: StatsKey) -> str:
    """Name of the folder of a window's statistics."""
    return f"{STATS}/{key.span}={key.window.name}"


def read_stats(store: Store, key: StatsKey) -> pa.Buffer | None:
    """Content stored under a key; None if there is none or it is damaged. Raises OSError."""
    found = (kept_files.read_whole(store, f"{stats_folder(key)}/{name}") for name in _kept(store, key))
    return next((data for data in found if data is not None), None)


def has_stats(store: Store, key: StatsKey) -> bool:
    """True if content is stored under a key; it is not read. Raises OSError."""
    return bool(_kept(store, key))


def put_stats(store: Store, key: StatsKey, data: bytes) -> None:
    """Store data unless it is stored already; remove damaged files and statistics of other states of the
    window.

    Raises OSError if it cannot be written.
    """
    folder = stats_folder(key)
    for name in store.names(folder):
        is_old = not name.startswith(f"{key.source}-")
        if is_old or kept_files.read_whole(store, f"{folder}/{name}") is None:
            store.remove(f"{folder}/{name}")
    kept_files.keep(store, f"{folder}/{key.source}-{key.settings}", data, "parquet")


def drop_versions(store: Store, key: StatsKey, is_other: Callable[[pa.Buffer], bool]) -> int:
    """Remove the files in a key's folder whose content is of another version; return their number.

    is_other: function of the content; True for another version. Files of other settings stay. Raises OSError.
    """
    folder, mine, n = stats_folder(key), {*_kept(store, key)}, 0
    for name in store.names(folder):
        data = None if name in mine else kept_files.read_whole(store, f"{folder}/{name}")
        if data is not None and is_other(data):
            store.remove(f"{folder}/{name}")
            n += 1
    return n


def stats_size(store: Store, key: StatsKey) -> int:
    """Number of bytes stored under a key. Raises OSError."""
    return sum(store.size(f"{stats_folder(key)}/{name}") or 0 for name in _kept(store, key))


def drop_stats(store: Store, key: StatsKey) -> int:
    """Remove all files of a key; returns their bytes. Raises OSError."""
    size = stats_size(store, key)
    for name in _kept(store, key):
        store.remove(f"{stats_folder(key)}/{name}")
    return size


def stats_files(store: Store) -> Iterator[str]:
    """Names of all files under `stats/`. Raises OSError."""
    yield from store.below(STATS, lambda name: name.partition("=")[0] in SPANS)


def sweep(store: Store) -> None:
    """Remove drafts that writers left in stage folders when they died. A writer that is alive loses its
    draft, and does not store its statistics."""
    for name in store.names(STAGE):
        if name.startswith(f"{STATS}-"):
            store.remove(f"{STAGE}/{name}")


def _kept(store: Store, key: StatsKey) -> list[str]:
    start = f"{key.source}-{key.settings}-"
    return [name for name in store.names(stats_folder(key)) if name.startswith(start)]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
