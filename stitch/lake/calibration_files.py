"""Keep calibration records under `calibration/`, one small file each; the newest counts.

A name is `<number>-<content>.json`, the content as the beginning of a SHA-256 in hex. Files are put once and
stay; one that is damaged is passed by for the one before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final

from stitch.lake.layout import own_stage
from stitch.lake.store import Store

CALIBRATION: Final = "calibration"
_FILE: Final = re.compile(r"(\d{6,})-([0-9a-f]{32})\.json")


def put_record(store: Store, data: bytes) -> str:
    """Keep a record as the newest; its name. Raises OSError where nothing can be written."""
    numbers = [int(match[1]) for name in store.names(CALIBRATION) if (match := _FILE.fullmatch(name))]
    name = f"{CALIBRATION}/{max(numbers, default=0) + 1:06d}-{_hash(data)}.json"
    with own_stage(store, CALIBRATION) as stage:
        store.put_if_absent(name, data, stage)
    return name


def records(store: Store) -> Iterator[bytes]:
    """Contents that are whole, the newest first. Raises OSError."""
    for name in sorted(store.names(CALIBRATION), key=_number, reverse=True):
        data = store.read(f"{CALIBRATION}/{name}").to_pybytes()
        if _is_whole(name, data):
            yield data


def damaged_records(store: Store) -> Iterator[str]:
    """Names of files that are not what was written. Raises OSError."""
    for name in store.names(CALIBRATION):
        if not _is_whole(name, store.read(f"{CALIBRATION}/{name}").to_pybytes()):
            yield f"{CALIBRATION}/{name}"


def _number(name: str) -> tuple[int, str]:
    match = _FILE.fullmatch(name)
    return (-1 if match is None else int(match[1])), name


def _is_whole(name: str, data: bytes) -> bool:
    match = _FILE.fullmatch(name)
    return match is not None and _hash(data) == match[2]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
