"""Compaction: sealed windows in many files become one file a table, as a new generation of the window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.commits import Generation
from schemas.errors import LakeError
from schemas.windows import Window
from stitch.lake.chain import lanes
from stitch.lake.checkpoint import read_tail
from stitch.lake.encoding import decode
from stitch.lake.layout import WINDOW_TABLES, WindowTable
from stitch.lake.manifest import LakeFile, Manifest, open_manifest
from stitch.lake.merging import merged_flows, merged_params, merged_structures, same_rows
from stitch.lake.reading import unreadable
from stitch.lake.staging import Staging
from stitch.lake.store import Store
from stitch.lake.upkeep import UPKEEP_LANE
from stitch.lake.upkeep_lane import UpkeepLane

WINDOWS_A_COMMIT: Final = 128
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
        files = _by_window(manifest, _candidates(manifest, least_files))
        sizes = [file.size for own in files.values() for file in own]
        return Compacted(len(files), len(sizes), 0, sum(sizes), 0, 0)
    lane = UpkeepLane(store, open_manifest(store, lake).info, owner=owner, created_by=created_by)
    manifest = open_manifest(store, lake)  # after opening: what another upkeep does now takes our number
    settle_published(store)
    windows = _candidates(manifest, least_files)
    before: list[int] = []
    after: list[int] = []
    for start in range(0, len(windows), WINDOWS_A_COMMIT):
        group = _by_window(manifest, windows[start : start + WINDOWS_A_COMMIT])
        with lane.stage() as staging:
            flows = sum(_rewrite(store, manifest, staging, window, own) for window, own in group.items())
            through = {**dict(manifest.heads), UPKEEP_LANE: lane.seq - 1}
            told = tuple(sorted(through.items()))
            record = lane.replace(staging, Generation(seq=lane.seq, at_ns=now_ns, through=told), flows)
        before += [file.size for own in group.values() for file in own]
        after += [item.size for item in record.publish]
    removed = lane.sweep(now_ns - grace_ns)
    return Compacted(len(windows), len(before), len(after), sum(before), sum(after), removed)


def settle_published(store: Store) -> None:
    """Make durable what can be seen of every lane's last commit; all before it is.

    A reader sees a file that was renamed before the rename is durable; what replaces it must not outlive it.
    """
    folders: set[str] = set()
    for lane in lanes(store):
        tail = read_tail(store, lane)
        if tail.records:
            last = tail.records[-1].record
            folders.update(item.final.rpartition("/")[0] for item in (*last.carried, *last.publish))
    for folder in sorted(folders):
        if store.names(folder):
            store.settle(folder)


def _candidates(manifest: Manifest, least_files: int) -> list[Window]:
    """Sealed windows with so many files of flows, all of commits that a generation can replace."""
    flows = manifest.listing.filter(pc.equal(manifest.listing["table"].cast(pa.string()), "flows"))
    starts, counts = np.unique(flows["window_ns"].to_numpy(), return_counts=True)
    many = set(starts[counts >= max(2, least_files)].tolist()) - _behind_pending(manifest)
    return [e.window for e in manifest.windows() if e.sealed and e.window.start_ns in many]


def _behind_pending(manifest: Manifest) -> set[int | None]:
    """Starts of windows with files of a commit behind one that cannot be seen yet."""
    listing = manifest.listing
    heads = dict(manifest.heads)
    head = np.array([heads[lane] for lane in listing["lane"].to_pylist()], dtype=np.int64)
    return set(listing["window_ns"].filter(pa.array(listing["seq"].to_numpy() > head)).to_pylist())


def _by_window(manifest: Manifest, windows: list[Window]) -> dict[Window, list[LakeFile]]:
    found: dict[Window, list[LakeFile]] = {window: [] for window in windows}
    for table in WINDOW_TABLES:
        for file in manifest.files(table, windows):
            if file.window is not None:
                found[file.window].append(file)
    return found


def _rewrite(
    store: Store, manifest: Manifest, staging: Staging, window: Window, files: list[LakeFile]
) -> int:
    """Stage the window's rows as one file a table; returns the number of flows. Raises LakeError."""
    before = {table: [*_read(manifest, files, table)] for table in WINDOW_TABLES}
    flows = merged_flows(before["flows"])
    after = {"flows": flows, "structures": merged_structures(before["structures"])}
    if before["params"]:
        after["params"] = merged_params(before["params"], flows)
    for table in WINDOW_TABLES:
        if table in after:
            staging.add_window(table, window, 0, after[table])
    staged = [item for item in staging.items() if item.window == window.name]
    store.persist([item.stage for item in staged])
    for item in staged:
        told = before[item.table]  # type: ignore[index]
        written = decode(item.table, store.read(item.stage))
        if not same_rows(told, written, distinct=item.table == "structures"):
            raise LakeError(
                f"Compaction of {item.table} of window {window.name} would change rows.",
                remedy="Nothing was changed; run `flowdiff fsck`, and report it if that finds nothing.",
            )
    return int(flows.num_rows)


def _read(manifest: Manifest, files: list[LakeFile], table: WindowTable) -> Iterator[pa.Table]:
    for file in files:
        if file.table == table:
            try:
                yield decode(table, manifest.read(file))
            except (OSError, pa.ArrowException) as error:
                raise unreadable(manifest.lake, file.name) from error
