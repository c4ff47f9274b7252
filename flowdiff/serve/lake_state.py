"""State of a lake at one time: its windows, and an identity of their content."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.errors import LakeError
from schemas.recorded import Recorded, recordings
from stitch.lake.layout import LakeInfo, read_info
from stitch.lake.manifest import WindowEntry, open_manifest
from stitch.lake.place import address, open_place


@dataclass(frozen=True, slots=True)
class Known:
    """State of a lake when it was read: windows, recordings, identities."""

    info: LakeInfo | None
    """Content of the lake's `flowdiff.json`; None if there is no lake yet."""
    windows: tuple[WindowEntry, ...] = ()
    """Sealed windows with requests, in time order."""
    recorded: tuple[Recorded, ...] = ()
    """Recordings (`schemas.recorded`): ranges of time without a gap in the recording, ascending."""
    token: str = ""
    """16 hex digits that identify the windows and their content."""
    lake: str = ""
    """16 hex digits that identify the lake, by its location."""

    @property
    def is_empty(self) -> bool:
        """True if there is no sealed window with requests."""
        return not self.windows

    @property
    def bounds_ns(self) -> tuple[int, int]:
        """(Start of the first window, end of the last one), ns since the epoch."""
        return self.windows[0].window.start_ns, self.windows[-1].window.end_ns


def read_known(lake: str) -> Known:
    """Read the current state of a lake. Raises LakeError."""
    place = open_place(lake)
    try:
        info = read_info(place.store, lake)
    except OSError as error:
        raise LakeError(f"The lake '{lake}' cannot be read: {error.strerror}.") from error
    if info is None:
        return Known(None)
    manifest = open_manifest(place.store, place.name, place.copies)
    windows = tuple(entry for entry in manifest.windows() if entry.sealed)
    if not windows:
        return Known(info, lake=lake_identity(lake))
    recorded = recordings(
        manifest.starts_ns(),
        info.window_length_ns,
        windows[0].window.start_ns,
        windows[-1].window.end_ns,
        manifest.sealed_to_ns,
    )
    return Known(info, windows, tuple(recorded), _token(windows), lake_identity(lake))


def lake_identity(lake: str) -> str:
    """16 hex digits that identify a lake by its location, equal for every path to the same folder."""
    return hashlib.sha256(address(lake).encode()).hexdigest()[:16]


def _token(windows: Sequence[WindowEntry]) -> str:
    digest = hashlib.sha256()
    for entry in windows:
        digest.update(
            f"{entry.window.start_ns} {entry.flows} {entry.files} {entry.size} {entry.commits};".encode()
        )
    return digest.hexdigest()[:16]
