"""Retention: windows past their age leave the lake at once for readers, and the disk after a grace."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.commits import Retirement
from stitch.lake.manifest import WindowEntry, open_manifest
from stitch.lake.store import Store
from stitch.lake.sweeping import swept
from stitch.lake.upkeep import read_hidden
from stitch.lake.upkeep_lane import UpkeepLane


@dataclass(frozen=True, slots=True)
class Retired:
    """What a run of retention did, or would do."""

    to_ns: int | None
    """Windows that end there or before leave the lake; None: this run retires none."""
    windows: tuple[WindowEntry, ...]
    """Retired by this run, in order of time."""
    removed: int
    """Files and folders of windows removed from the store: hidden for longer than the grace."""
    held_back: int
    """Windows past their age that stay, as they are not sealed."""


def retire(
    store: Store,
    lake: str,
    *,
    keep_ns: int,
    grace_ns: int,
    now_ns: int,
    owner: str,
    created_by: str,
    dry_run: bool = False,
) -> Retired:
    """Retire windows that ended `keep_ns` before `now_ns` or earlier, and sweep what went `grace_ns` ago.

    Windows that are not sealed stay: a live lane may still publish into them. On a disk the caller holds
    `exclusive_lock`. Raises LakeError, CommitTakenError (another upkeep ran: run it again), OSError.
    """
    manifest = open_manifest(store, lake)
    wanted_ns = now_ns - keep_ns
    old = [entry for entry in manifest.windows() if entry.window.end_ns <= wanted_ns]
    gone = tuple(entry for entry in old if entry.sealed)
    to_ns = max((entry.window.end_ns for entry in gone), default=None)
    held_back = len(old) - len(gone)
    if dry_run:
        hidden = read_hidden(store, manifest.info.window_length_ns, until_ns=now_ns - grace_ns)
        return Retired(to_ns, gone, len(swept(store, hidden)), held_back)
    removed = 0
    if to_ns is not None or manifest.has_upkeep:
        lane = UpkeepLane(store, manifest.info, owner=owner, created_by=created_by)
        if to_ns is not None:
            lane.retire(Retirement(to_ns=to_ns, at_ns=now_ns), grace_ns)
        removed = lane.sweep(now_ns - grace_ns)
    return Retired(to_ns, gone, removed, held_back)
