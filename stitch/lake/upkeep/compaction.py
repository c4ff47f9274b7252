"""Compact sealed windows of many files into one file a table, as a new generation of the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.commits import Generation
from schemas.windows import Window
from stitch.lake.manifest import Manifest, open_manifest
from stitch.lake.store import Store
from stitch.lake.upkeep.rewriting import behind_pending, by_window, rewrite, settle_published
from stitch.lake.upkeep.upkeep_lane import UpkeepLane

_WINDOWS_A_COMMIT: Final = 128
"""Bounds the record, about 1 KB a window, and what is lost by an interruption."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a run of compaction did, or would do."""

    windows: int
    files_before: int
    files_after: int
    """Not known to a dry run: 0."""
    bytes_before: int
    bytes_after: int
    removed: int
    """Files removed from the store: replaced for longer than the grace."""


def compact(
    store: Store,
    lake: str,
    *,
    least_files: int,
    grace_ns: int,
    now_ns: int,
    owner: str,
    created_by: str,
    dry_run: bool = False,
) -> Compacted:
    """Write sealed windows anew that have `least_files` files of flows or more, and sweep what went before.

    What was written is read back and compared with what it replaces before the commit. Memory: the files of
    one window. On a disk the caller holds `exclusive_lock`. Raises LakeError, CommitTakenError (another
    upkeep ran: run it again), OSError: windows of commits made before stay compacted.
    """
    if dry_run:
        manifest = open_manifest(store, lake)
        files = by_window(manifest, _candidates(manifest, least_files))
        sizes = [file.size for own in files.values() for file in own]
        return Compacted(len(files), len(sizes), 0, sum(sizes), 0, 0)
    lane = UpkeepLane(store, open_manifest(store, lake).info, owner=owner, created_by=created_by)
    manifest = open_manifest(store, lake)  # after opening: what another upkeep does now takes our number
    settle_published(store)
    windows = _candidates(manifest, least_files)
    before: list[int] = []
    after: list[int] = []
    for start in range(0, len(windows), _WINDOWS_A_COMMIT):
        group = by_window(manifest, windows[start : start + _WINDOWS_A_COMMIT])
        with lane.stage() as staging:
            parts = [rewrite(store, manifest, staging, window, own) for window, own in group.items()]
            generation = Generation(seq=lane.seq, at_ns=now_ns, through=lane.all_of(manifest))
            record = lane.replace(staging, generation, sum(part.flows for part in parts))
        lane.set_aside(file for own in group.values() for file in own)
        before += [file.size for own in group.values() for file in own]
        after += [item.size for item in record.publish]
    removed = lane.sweep(now_ns - grace_ns)
    return Compacted(len(windows), len(before), len(after), sum(before), sum(after), removed)


def _candidates(manifest: Manifest, least_files: int) -> list[Window]:
    """Sealed windows with so many files of flows, all of commits that a generation can replace."""
    flows = manifest.listing.filter(pc.equal(manifest.listing["table"].cast(pa.string()), "flows"))
    starts, counts = np.unique(flows["window_ns"].to_numpy(), return_counts=True)
    many = set(starts[counts >= max(2, least_files)].tolist()) - behind_pending(manifest)
    return [e.window for e in manifest.windows() if e.sealed and e.window.start_ns in many]
