"""Keep files that are in no commit under names that end in their content, so that nothing has to be believed.

A name is `<anything>-<hash>.<ending>`, the hash the first 32 digits of the content's SHA-256. A file is put
once and never changed; one that is not what its name says is passed by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import pyarrow as pa

from stitch.lake.layout import own_stage
from stitch.lake.store import Store, ahead

_DIGITS: Final = 32
"""Hex digits: 128 bits distinguish contents."""


def keep(store: Store, beginning: str, data: bytes, ending: str) -> str:
    """Put a content; nothing happens where it is there. Its name. Raises OSError."""
    name = name_of(beginning, data, ending)
    with own_stage(store, beginning.partition("/")[0]) as stage, suppress(FileExistsError):
        store.put_if_absent(name, data, stage)
    return name


def name_of(beginning: str, data: bytes, ending: str) -> str:
    """Name a content."""
    return f"{beginning}-{_hash(data)}.{ending}"


def read_whole(store: Store, name: str) -> pa.Buffer | None:
    """Content of a file; None where it is gone, or not what its name says. Raises OSError."""
    try:
        data = store.read(name)
    except FileNotFoundError:
        return None
    return data if name.rpartition(".")[0].rpartition("-")[2] == _hash(data) else None


def damaged(store: Store, names: Iterable[str]) -> Iterator[str]:
    """Those that are not what was written, but for those gone by now. Reads them all. Raises OSError."""
    given = [*names]
    for name, data in zip(given, ahead(store, lambda name: read_whole(store, name), given), strict=True):
        if data is None and store.size(name) is not None:
            yield name


def _hash(data: pa.Buffer | bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
