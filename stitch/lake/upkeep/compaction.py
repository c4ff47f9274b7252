"""Write windows anew as a new generation: many files become one a table, rows are taken out or put in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.commits import Counters, Generation
from schemas.errors import LakeError
from schemas.lake import FLOWS_SCHEMA, PARAMS_SCHEMA, STRUCTURES_SCHEMA
from schemas.windows import Window
from stitch.lake.chain import lanes, read_tail
from stitch.lake.encoding import decode
from stitch.lake.layout import WINDOW_TABLES, WindowTable
from stitch.lake.manifest import LakeFile, Manifest, open_manifest
from stitch.lake.staging import Staging
from stitch.lake.store import Store
from stitch.lake.upkeep.upkeep_lane import UpkeepLane, UpkeepRun
from stitch.lake.windowing import flow_names, merged_flows, merged_params, merged_structures, same_rows


@dataclass(frozen=True, slots=True)
class Edit:
    """What changes in a window."""

    gone: pa.Table
    """`request_id`, `kind`, `lane` of the flows that leave it."""
    flows: pa.Table
    """FLOWS_SCHEMA: that come."""
    structures: pa.Table
    """STRUCTURES_SCHEMA: of these at least, each category once."""
    params: pa.Table
    """PARAMS_SCHEMA: of these."""


_NO_EDIT = Edit(
    gone=FLOWS_SCHEMA.empty_table().select(["request_id", "kind", "lane"]),
    flows=FLOWS_SCHEMA.empty_table(),
    structures=STRUCTURES_SCHEMA.empty_table(),
    params=PARAMS_SCHEMA.empty_table(),
)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What became of a window."""

    flows: int
    """Rows it has now."""
    flows_more: int
    """More than before; less than zero: fewer."""
    params_more: int


def behind_pending(manifest: Manifest) -> set[int | None]:
    """Starts of windows with files of a commit behind one that cannot be seen yet: no generation may say
    that it replaces them.
    """
    listing = manifest.listing
    heads = dict(manifest.heads)
    head = np.array([heads[lane] for lane in listing["lane"].to_pylist()], dtype=np.int64)
    return set(listing["window_ns"].filter(pa.array(listing["seq"].to_numpy() > head)).to_pylist())


def settle_published(store: Store) -> None:
    """Make durable what can be seen of every lane's last commit; all before it is.

    A reader sees a file that was renamed before the rename is durable; what replaces it must not outlive it.
    """
    folders: set[str] = set()
    for lane in lanes(store):
        last = read_tail(store, lane).last_files
        folders.update(item.final.rpartition("/")[0] for item in last)
    for folder in sorted(folders):
        if store.names(folder):
            store.settle(folder)


def rewrite(
    store: Store,
    manifest: Manifest,
    staging: Staging,
    window: Window,
    files: Sequence[LakeFile],
    edit: Edit = _NO_EDIT,
) -> Rewritten:
    """Stage the window's rows as one file a table; nothing is staged of a window that is left empty.

    What was written is read back and compared with what it was made of. Memory: the files of the window.
    Raises LakeError where a file cannot be read, or a flow that should go is not there once; OSError.
    """
    before = {
        table: [manifest.decoded(file) for file in files if file.table == table] for table in WINDOW_TABLES
    }
    n_before = {table: sum(part.num_rows for part in parts) for table, parts in before.items()}
    kept = _without(before, edit.gone, window)
    tables = {
        "flows": [*kept["flows"], edit.flows],
        "params": [*kept["params"], edit.params],
        "structures": [*kept["structures"], edit.structures],
    }
    flows = merged_flows(tables["flows"])
    after: dict[WindowTable, pa.Table] = {"flows": flows}
    if flows.num_rows:
        structures = merged_structures(tables["structures"])
        if edit is not _NO_EDIT:
            used = pc.unique(flows["category"].cast(pa.string()))
            structures = structures.filter(pc.is_in(structures["category"], value_set=used))
            tables["structures"] = [structures]
        after["structures"] = structures
        after["params"] = merged_params(tables["params"], flows)
    for table, rows in after.items():
        staging.add_window(table, window, 0, rows)
    _verify(store, staging, window, tables)
    n_params = after["params"].num_rows if flows.num_rows else 0
    return Rewritten(flows.num_rows, flows.num_rows - n_before["flows"], n_params - n_before["params"])


def _verify(store: Store, staging: Staging, window: Window, tables: Mapping[str, list[pa.Table]]) -> None:
    staged = [item for item in staging.items() if item.window == window.name]
    store.persist([item.stage for item in staged])
    for item in staged:
        written = decode(item.table, store.read(item.stage))
        if not same_rows(tables[item.table], written, distinct=item.table == "structures"):
            raise LakeError(
                f"Writing {item.table} of window {window.name} anew would change rows.",
                remedy="Nothing was changed; run `flowdiff fsck`, and report it if that finds nothing.",
            )


def _without(
    before: Mapping[WindowTable, list[pa.Table]], gone: pa.Table, window: Window
) -> Mapping[WindowTable, list[pa.Table]]:
    """Rows of all flows but some. Parameters go with the flow of their name, of whatever lane."""
    if not gone.num_rows:
        return before
    names = flow_names(gone, with_lane=True)
    flows = [
        part.filter(pc.invert(pc.is_in(flow_names(part, with_lane=True), names))) for part in before["flows"]
    ]
    n_gone = sum(part.num_rows for part in before["flows"]) - sum(part.num_rows for part in flows)
    if n_gone != gone.num_rows:
        raise LakeError(
            f"Window {window.name} has changed meanwhile: {n_gone:,} of {gone.num_rows:,} flows are there.",
            remedy="Nothing was changed; run the same command again.",
        )
    names = flow_names(gone)
    params = [part.filter(pc.invert(pc.is_in(flow_names(part), names))) for part in before["params"]]
    return {**before, "flows": flows, "params": params}


WINDOWS_A_COMMIT: Final = 128
"""Written anew: bounds the record, about 1 KB a window, and what is lost by an interruption."""


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


def compact(run: UpkeepRun, *, least_files: int, dry_run: bool = False) -> Compacted:
    """Write sealed windows anew that have `least_files` files of flows or more, and sweep what went before.

    What was written is read back and compared with what it replaces before the commit. Memory: the files of
    one window. Raises LakeError, CommitTakenError (another upkeep ran: run it again), OSError: windows of
    commits made before stay compacted.
    """
    store, manifest = run.store, open_manifest(run.store, run.lake)
    if dry_run:
        files = manifest.by_window(_candidates(manifest, least_files))
        sizes = [file.size for own in files.values() for file in own]
        return Compacted(len(files), len(sizes), 0, sum(sizes), 0, 0)
    lane = UpkeepLane(run, manifest.info)
    manifest = open_manifest(store, run.lake)  # after opening: what another upkeep does now takes our number
    settle_published(store)
    windows = _candidates(manifest, least_files)
    before: list[int] = []
    after: list[int] = []
    for start in range(0, len(windows), WINDOWS_A_COMMIT):
        group = manifest.by_window(windows[start : start + WINDOWS_A_COMMIT])
        with lane.stage() as staging:
            parts = [rewrite(store, manifest, staging, window, own) for window, own in group.items()]
            generation = Generation(seq=lane.seq, at_ns=run.now_ns, through=lane.all_of(manifest))
            counters = Counters(flows=sum(part.flows for part in parts))
            record = lane.commit(staging, counters=counters, generation=generation)
        lane.set_aside(file for own in group.values() for file in own)
        before += [file.size for own in group.values() for file in own]
        after += [item.size for item in record.publish]
    removed = lane.sweep(run.sweep_ns)
    return Compacted(len(windows), len(before), len(after), sum(before), sum(after), removed)


def _candidates(manifest: Manifest, least_files: int) -> list[Window]:
    """Sealed windows with so many files of flows, all of commits that a generation can replace."""
    flows = manifest.of_table("flows")
    starts, counts = np.unique(flows["window_ns"].to_numpy(), return_counts=True)
    many = set(starts[counts >= max(2, least_files)].tolist()) - behind_pending(manifest)
    return [e.window for e in manifest.windows() if e.sealed and e.window.start_ns in many]
