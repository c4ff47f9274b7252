"""Rewrite windows as a new generation with one file per table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.commits import Counters, Generation, Upkeep
from schemas.errors import LakeError
from schemas.windows import Window
from stitch.lake.chain import CommitTakenError, lanes, read_tail
from stitch.lake.encoding import decode
from stitch.lake.layout import WINDOW_TABLES, WindowTable
from stitch.lake.manifest import LakeFile, Manifest, open_manifest
from stitch.lake.staging import Staging
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE, upkeep_of
from stitch.lake.upkeep.upkeep_lane import UpkeepLane, UpkeepRun
from stitch.lake.windowing import merged_flows, merged_params, merged_structures, same_rows


def behind_pending(manifest: Manifest) -> set[int | None]:
    """Starts, ns, of windows that cannot be rewritten yet, because one of their files is of a commit after
    the lane's published head. The set contains None if a file without a window is of such a commit."""
    listing = manifest.listing
    heads = dict(manifest.heads)
    head = np.array([heads[lane] for lane in listing["lane"].to_pylist()], dtype=np.int64)
    return set(listing["window_ns"].filter(pa.array(listing["seq"].to_numpy() > head)).to_pylist())


def settle_published(store: Store) -> None:
    """Make the visible files of every lane's last commit durable; files of earlier commits are durable
    already.

    A renamed file is visible before the rename is durable, and a generation that replaces the file must not
    become durable before it.
    """
    folders: set[str] = set()
    for lane in lanes(store):
        last = read_tail(store, lane).last_files
        folders.update(item.final.rpartition("/")[0] for item in last)
    for folder in sorted(folders):
        if store.names(folder):
            store.settle(folder)


def rewrite(
    store: Store, manifest: Manifest, staging: Staging, window: Window, files: Sequence[LakeFile]
) -> int:
    """Stage a window's rows as one file per table; returns the number of flows.

    files: the window's current files. The staged files are read back and compared with their source. Memory:
    the files of the window. Raises LakeError if a file cannot be read; OSError.
    """
    parts: dict[str, list[pa.Table]] = {
        table: [manifest.decoded(file) for file in files if file.table == table] for table in WINDOW_TABLES
    }
    flows = merged_flows(parts["flows"])
    merged: dict[WindowTable, pa.Table] = {
        "flows": flows,
        "structures": merged_structures(parts["structures"]),
        "params": merged_params(parts["params"], flows),
    }
    for table, rows in merged.items():
        staging.add_window(table, window, 0, rows)
    _verify(store, staging, window, parts)
    return int(flows.num_rows)


def _verify(store: Store, staging: Staging, window: Window, tables: Mapping[str, list[pa.Table]]) -> None:
    """Read staged files of a window back; raise LakeError unless they have exactly the rows of `tables`."""
    staged = [item for item in staging.items() if item.window == window.name]
    store.persist([item.stage for item in staged])
    for item in staged:
        written = decode(item.table, store.read(item.stage))
        if not same_rows(tables[item.table], written, distinct=item.table == "structures"):
            raise LakeError(
                f"Writing {item.table} of window {window.name} anew would change rows.",
                remedy="Nothing was changed; run `flowdiff fsck`, and report it if that finds nothing.",
            )


WINDOWS_A_COMMIT: Final = 128
"""Maximum number of windows rewritten in one commit: limits the record (about 1 KB per window) and what an
interruption loses."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Counts of a run of `flowdiff compact`, or of its dry run."""

    windows: int
    """Number of windows compacted, or to be compacted in a dry run."""
    files_before: int
    """Number of files that these windows had before compaction."""
    files_after: int
    """Number of files that these windows have after compaction; 0 in a dry run, which cannot know it."""
    bytes_before: int
    """Bytes of the files before compaction."""
    bytes_after: int
    """Bytes of the files after compaction; 0 in a dry run."""
    removed: int
    """Number of files deleted from the store, which had been replaced longer ago than the grace period."""


def compact(run: UpkeepRun, *, least_files: int, dry_run: bool = False) -> Compacted:
    """Rewrite sealed windows that have at least `least_files` files of flows, and delete files whose grace
    period is over.

    New files are read back and compared with the old ones before the commit. Memory: the files of one window.
    If another writer commits first, as a live builder may every few seconds, the run continues with fewer
    windows per commit. Raises LakeError, CommitTakenError (other writers always committed first: run it
    again), OSError; windows that were already committed stay compacted.
    """
    store, manifest = run.store, open_manifest(run.store, run.lake)
    if dry_run:
        upkeep = upkeep_of(read_tail(store, UPKEEP_LANE).standing)
        files = manifest.by_window(_candidates(manifest, least_files, upkeep))
        sizes = [file.size for own in files.values() for file in own]
        return Compacted(len(files), len(sizes), 0, sum(sizes), 0, 0)
    before: list[int] = []
    after: list[int] = []
    n_windows, losses, size = 0, 0, WINDOWS_A_COMMIT
    while True:
        lane = UpkeepLane(run, manifest.info)
        manifest = open_manifest(store, run.lake)  # after opening: what others do now takes our number
        settle_published(store)
        windows = _candidates(manifest, least_files, lane.upkeep)
        try:
            for start in range(0, len(windows), size):
                group = manifest.by_window(windows[start : start + size])
                with lane.stage() as staging:
                    n_flows = sum(rewrite(store, manifest, staging, *each) for each in group.items())
                    generation = Generation(seq=lane.seq, at_ns=run.now_ns, through=lane.all_of(manifest))
                    counters = Counters(flows=n_flows)
                    record = lane.commit(staging, counters=counters, generation=generation)
                lane.set_aside(file for own in group.values() for file in own)
                before += [file.size for own in group.values() for file in own]
                after += [item.size for item in record.publish]
                n_windows, losses = n_windows + len(group), 0
        except (CommitTakenError, FileNotFoundError):  # lost the number, or the stage, to another writer
            losses, size = losses + 1, max(1, size // 4)  # one window takes less time than a builder's pause
            if losses > run.losses_borne:
                raise
            continue
        removed = lane.sweep(run.sweep_ns)
        return Compacted(n_windows, len(before), len(after), sum(before), sum(after), removed)


def _candidates(manifest: Manifest, least_files: int, upkeep: Upkeep) -> list[Window]:
    """Sealed windows that have at least `least_files` files of flows, all of which a new generation can
    replace."""
    flows = manifest.of_table("flows")
    starts, counts = np.unique(flows["window_ns"].to_numpy(), return_counts=True)
    many = set(starts[counts >= max(2, least_files)].tolist()) - behind_pending(manifest)
    many -= _partly_built(flows, upkeep)
    return [e.window for e in manifest.windows() if e.sealed and e.window.start_ns in many]


def _partly_built(flows: pa.Table, upkeep: Upkeep) -> set[int]:
    """Starts, ns, of windows that may still be rebuilt and have files both of the upkeep lane and of other
    lanes.

    A rebuild replaces only files of the upkeep lane, so compaction must not merge them with the others.
    """
    if upkeep.rebuilds_from_ns is None:
        return set()
    flows = flows.filter(pc.greater_equal(flows["window_ns"], upkeep.rebuilds_from_ns))
    is_built = pc.equal(flows["lane"], UPKEEP_LANE)
    built, others = (
        set(flows["window_ns"].filter(own).to_pylist()) for own in (is_built, pc.invert(is_built))
    )
    return built & others
