"""Cache under `stats/` what the analyzer worked out of a window.

A cache, in no commit: a file may be missing, old or damaged, and nothing is lost. Its name says what it was
made of (the window's flow files), how (settings) and what is in it (content), so that nothing in a file has
to be believed: `<source>-<settings>-<content>.parquet`, each the beginning of a SHA-256 in hex.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, Literal, NamedTuple, get_args

import pyarrow as pa

from schemas.windows import Window
from stitch.lake.layout import STAGE, own_stage
from stitch.lake.store import Store, ahead

STATS: Final = "stats"
_SHORT: Final = 16
_LONG: Final = 32
"""Hex digits: 64 bits distinguish the states of one window, 128 its contents."""
_FILE: Final = re.compile(rf"([0-9a-f]{{{_SHORT}}})-([0-9a-f]{{{_SHORT}}})-([0-9a-f]{{{_LONG}}})\.parquet")


Span = Literal["window", "quarter", "day"]
SPANS: Final[tuple[Span, ...]] = get_args(Span)


class StatsKey(NamedTuple):
    """Which statistics of which state of a window."""

    window: Window
    source: str
    """Of the window's files: `source_of`."""
    settings: str
    """Of all that decides what is worked out of them: `settings_of`."""
    span: Span = "window"
    """What they are of: a window of the lake, or a quarter of a day, or a day of windows."""


def source_of(files: Iterable[tuple[str, str]]) -> str:
    """Hash the (table, SHA-256) of a window's files, in any order."""
    return _hash("\n".join(f"{table} {sha256}" for table, sha256 in sorted(files)).encode(), _SHORT)


def settings_of(text: str) -> str:
    """Hash settings and versions written as text."""
    return _hash(text.encode(), _SHORT)


def stats_folder(key: StatsKey) -> str:
    """Name the folder of a window's statistics."""
    return f"{STATS}/{key.span}={key.window.name}"


def read_stats(store: Store, key: StatsKey) -> pa.Buffer | None:
    """The content that was kept under a key; None where there is none that is whole. Raises OSError."""
    for name in _kept(store, key):
        data = _read(store, f"{stats_folder(key)}/{name}")
        if data is not None and _is_whole(name, data):
            return data
    return None


def has_stats(store: Store, key: StatsKey) -> bool:
    """Tell whether something is kept under a key; it is not read. Raises OSError."""
    return bool(_kept(store, key))


def put_stats(store: Store, key: StatsKey, data: bytes) -> None:
    """Keep a content; what is damaged, and what was made of another state of the window, is removed.

    Nothing happens where it is kept already. Raises OSError where nothing can be written.
    """
    folder = stats_folder(key)
    for name in store.names(folder):
        match = _FILE.fullmatch(name)
        old = match is not None and match[1] != key.source
        if old or not _is_whole(name, _read(store, f"{folder}/{name}")):
            store.remove(f"{folder}/{name}")
    final = f"{folder}/{key.source}-{key.settings}-{_hash(data, _LONG)}.parquet"
    with own_stage(store, STATS) as stage, suppress(FileExistsError):  # another process was at the same
        store.put_if_absent(final, data, stage)


def stats_size(store: Store, key: StatsKey) -> int:
    """Count the bytes that are kept under a key. Raises OSError."""
    return sum(store.size(f"{stats_folder(key)}/{name}") or 0 for name in _kept(store, key))


def drop_stats(store: Store, key: StatsKey) -> int:
    """Remove what is kept under a key: how many bytes. Raises OSError."""
    size = stats_size(store, key)
    for name in _kept(store, key):
        store.remove(f"{stats_folder(key)}/{name}")
    return size


def damaged_stats(store: Store) -> Iterator[str]:
    """Names of files under `stats/` that are not what was written there. Reads them all. Raises OSError."""
    names = [*store.below(STATS, lambda name: name.partition("=")[0] in SPANS)]
    whole = ahead(store, lambda name: _is_whole(name.rpartition("/")[2], _read(store, name)), names)
    yield from (name for name, is_whole in zip(names, whole, strict=True) if not is_whole)


def sweep(store: Store) -> None:
    """Remove what writers that died left on the stage; one that lives keeps nothing this time."""
    for name in store.names(STAGE):
        if name.startswith(f"{STATS}-"):
            store.remove(f"{STAGE}/{name}")


def _kept(store: Store, key: StatsKey) -> list[str]:
    start = f"{key.source}-{key.settings}-"
    return [name for name in store.names(stats_folder(key)) if name.startswith(start)]


def _read(store: Store, name: str) -> pa.Buffer | None:
    try:
        return store.read(name)
    except FileNotFoundError:  # removed by another process
        return None


def _is_whole(name: str, data: pa.Buffer | None) -> bool:
    match = _FILE.fullmatch(name)
    return match is not None and data is not None and _hash(data, _LONG) == match[3]


def _hash(data: pa.Buffer | bytes, digits: int) -> str:
    return hashlib.sha256(data).hexdigest()[:digits]
