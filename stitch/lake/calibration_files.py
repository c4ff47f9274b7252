"""Store calibration records under `calibration/`, one small file each; the newest intact record is the valid
one.

A name is `<number>-<hash of the content>.json` (`stitch.lake.kept_files`), so that damaged records are
recognised.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stitch.lake import kept_files
from stitch.lake.store import Store

CALIBRATION: Final = "calibration"


def put_record(store: Store, data: bytes) -> str:
    """Store a record as the newest one, and return its name. Raises OSError if it cannot be written."""
    last = max(map(_number, store.names(CALIBRATION)), default=0)
    return kept_files.keep(store, f"{CALIBRATION}/{last + 1:06d}", data, "json")


def records(store: Store) -> Iterator[bytes]:
    """Contents of the intact calibration records, newest first. Raises OSError."""
    for name in sorted(store.names(CALIBRATION), key=lambda name: (_number(name), name), reverse=True):
        if (data := kept_files.read_whole(store, f"{CALIBRATION}/{name}")) is not None:
            yield data.to_pybytes()


def calibration_files(store: Store) -> Iterator[str]:
    """Names of all calibration records. Raises OSError."""
    for name in store.names(CALIBRATION):
        yield f"{CALIBRATION}/{name}"


def _number(name: str) -> int:
    number = name.partition("-")[0]
    return int(number) if number.isdecimal() else 0
