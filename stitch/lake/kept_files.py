"""Store files that no commit lists under names that contain a hash of their content, so that damage can be
detected.

A name is `<anything>-<hash>.<ending>`; the hash is the first 32 hex digits of the content's SHA-256. A file
is written once and never changed; readers skip a file whose hash differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import pyarrow as pa

from stitch.lake.layout import own_stage
from stitch.lake.store import Store, prefetch

_DIGITS: Final = 32
"""Number of hex digits of the hash in a name: 128 bits distinguish contents."""


def keep(store: Store, beginning: str, data: bytes, ending: str) -> str:
    """Store data under the name given by `name_of`, unless it exists; return the name. Raises OSError."""
    name = name_of(beginning, data, ending)
    with own_stage(store, beginning.partition("/")[0]) as stage, suppress(FileExistsError):
        store.put_if_absent(name, data, stage)
    return name


def name_of(beginning: str, data: bytes, ending: str) -> str:
    """File name for data: `<beginning>-<hash>.<ending>`."""
    return f"{beginning}-{_hash(data)}.{ending}"


def read_whole(store: Store, name: str) -> pa.Buffer | None:
    """Content of a file; None if it is missing or its hash differs. Raises OSError."""
    try:
        data = store.read(name)
    except FileNotFoundError:
        return None
    return data if name.rpartition(".")[0].rpartition("-")[2] == _hash(data) else None


def damaged(store: Store, names: Iterable[str]) -> Iterator[str]:
    """Names of files whose checksum fails; files deleted meanwhile are skipped. Reads every file. Raises
    OSError."""
    given = [*names]
    for name, data in zip(given, prefetch(store, lambda name: read_whole(store, name), given), strict=True):
        if data is None and store.size(name) is not None:
            yield name


def _hash(data: pa.Buffer | bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
