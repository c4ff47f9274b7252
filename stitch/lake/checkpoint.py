"""Write and read checkpoints of a lane: what it published and imported so far, hashed into the chain.

The commit after a checkpoint names it, so a reader verifies that record, the tables and the few records
behind it, and not a life's history. A checkpoint can always be made again from the chain: where its tables
are missing or damaged, readers go back to the one before, or to the first commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.commits import NO_COMMIT, CheckpointRef, CommitRecord, InputFile
from schemas.errors import LakeError
from schemas.windows import Window
from stitch.lake.chain import Chained, broken, numbers, read_chain, read_records, verify_links
from stitch.lake.layout import LAKE_FILE, checkpoint_folder, commit_name
from stitch.lake.store import Move, Store

CHECKPOINT_EVERY: Final = 64
"""Commits: a reader parses at most so many records, 0.1 ms each; a writer rewrites the tables as rarely."""
KEPT: Final = 4
"""Checkpoints that stay: a reader who listed one has 192 commits' time to read it."""

FILES_SCHEMA: Final = pa.schema(
    [
        pa.field("table", pa.dictionary(pa.int32(), pa.string())),
        pa.field("window_ns", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("sha256", pa.binary(32)),
        pa.field("size", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("footer_size", pa.int64()),
        pa.field("footer_sha256", pa.binary(32)),
        pa.field("last_ns", pa.int64()),
        pa.field("lane", pa.int32()),
        pa.field("seq", pa.int64()),
    ]
)
"""One row a published file; `window_ns` is the start of its window, null for late and dead letters."""

INPUTS_SCHEMA: Final = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("sha256", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("format", pa.string()),
        pa.field("events", pa.int64()),
        pa.field("quarantined", pa.int64()),
    ]
)
"""One row an imported file, in the order of commits: the fields of InputFile."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a lane's chain: a checkpoint, where there is one, and every record behind it."""

    lane: int
    checkpoint: CheckpointRef | None
    records: tuple[Chained, ...]
    """Ascending; empty for a lane without commits."""
    published: pa.Table
    """FILES_SCHEMA: of the checkpoint alone."""

    @property
    def head(self) -> int:
        """Number of the last commit, 0 where there is none."""
        return self.records[-1].record.seq if self.records else 0

    @property
    def sha256(self) -> str:
        """Own hash of the last commit."""
        return self.records[-1].sha256 if self.records else NO_COMMIT

    def files(self) -> pa.Table:
        """FILES_SCHEMA: everything the lane published."""
        return pa.concat_tables([self.published, files_table(link.record for link in self.records)])


def read_tail(store: Store, lane: int) -> Tail:
    """The end of a lane's chain, verified. Raises LakeError.

    O(CHECKPOINT_EVERY records + files of the checkpoint), and a listing of names.
    """
    floor = _floor(store, lane)
    found = numbers(store, lane, above=floor)
    if floor and not found:
        raise broken(commit_name(lane, floor + 1), "it is missing, and a checkpoint says it was there")
    newest_first: list[Chained] = []
    for link in read_records(store, lane, range(found[-1] if found else 0, 0, -1)):
        newest_first.append(link)
        reference = link.record.checkpoint
        published = None if reference is None else read_table(store, reference.files, reference.files_sha256)
        if published is not None:
            verify_links(newest_first[-2::-1], link.sha256)
            return Tail(lane, reference, tuple(reversed(newest_first)), published)
    verify_links(newest_first[::-1], NO_COMMIT)
    return Tail(lane, None, tuple(reversed(newest_first)), FILES_SCHEMA.empty_table())


def _floor(store: Store, lane: int) -> int:
    """A commit so that the last checkpoint's is above it: that of the checkpoint before the last."""
    throughs = sorted({name.partition("-")[0] for name in store.names(checkpoint_folder(lane))})
    known = [int(name) for name in throughs if name.isdecimal()]
    return known[-2] if len(known) > 1 else 0


def read_table(store: Store, name: str, sha256: str) -> pa.Table | None:
    """A table of a checkpoint; None where it is missing or not what the chain says."""
    try:
        data = store.read(name)
    except FileNotFoundError:
        return None
    if hashlib.sha256(data).hexdigest() != sha256:
        return None
    # Not pq.read_table: it loads Arrow's datasets, 3 MB that a live process else never needs.
    return pq.ParquetFile(pa.BufferReader(data)).read()


def verify_window_length(tail: Tail, window_length_ns: int) -> None:
    """Raises LakeError where commits were made with windows of another length than LAKE_FILE tells."""
    others = {link.record.window_length_ns for link in tail.records} - {window_length_ns}
    if others:
        raise LakeError(
            f"{LAKE_FILE} tells a window length of {window_length_ns // 10**9} s, "
            f"the commits of lane {tail.lane} {max(others) // 10**9} s.",
            remedy=f"Restore {LAKE_FILE} from a backup.",
        )


def read_inputs(store: Store, tail: Tail) -> dict[str, InputFile]:
    """Every file a lane imported, by sha256 of its bytes; of several times the last."""
    records: Iterable[Chained] = tail.records
    known: dict[str, InputFile] = {}
    reference = tail.checkpoint
    if reference is not None:
        table = read_table(store, reference.inputs, reference.inputs_sha256)
        if table is None:
            records = read_chain(store, tail.lane)
        else:
            known = {row["sha256"]: InputFile.model_validate(row) for row in table.to_pylist()}
    known.update({file.sha256: file for link in records for file in link.record.inputs})
    return known


def files_table(records: Iterable[CommitRecord]) -> pa.Table:
    """FILES_SCHEMA of what records publish."""
    rows = [
        (item, record.lane, record.seq, record.window_length_ns)
        for record in records
        for item in record.publish
    ]
    return pa.table(
        {
            "table": pa.array([item.table for item, *_ in rows], pa.string()).dictionary_encode(),
            "window_ns": pa.array(
                [_start_ns(item.window, length) for item, _, _, length in rows], pa.int64()
            ),
            "name": pa.array([item.final for item, *_ in rows], pa.string()),
            "sha256": pa.array([bytes.fromhex(item.sha256) for item, *_ in rows], pa.binary(32)),
            "size": pa.array([item.size for item, *_ in rows], pa.int64()),
            "rows": pa.array([item.rows for item, *_ in rows], pa.int64()),
            "footer_size": pa.array([item.footer_size for item, *_ in rows], pa.int64()),
            "footer_sha256": pa.array(
                [bytes.fromhex(item.footer_sha256) for item, *_ in rows], pa.binary(32)
            ),
            "last_ns": pa.array([item.last_ns for item, *_ in rows], pa.int64()),
            "lane": pa.array([lane for _, lane, _, _ in rows], pa.int32()),
            "seq": pa.array([seq for _, _, seq, _ in rows], pa.int64()),
        },
        schema=FILES_SCHEMA,
    )


@lru_cache(maxsize=4096)
def _start_ns(window: str | None, length_ns: int) -> int | None:
    """Parsed once a window, not once a file."""
    return None if window is None else Window.from_name(window, length_ns).start_ns


def is_due(tail: Tail) -> bool:
    """Whether the coming commit should name a new checkpoint."""
    return len(tail.records) >= CHECKPOINT_EVERY


def write_checkpoint(
    store: Store, tail: Tail, files: pa.Table, inputs: Iterable[InputFile], stage: str
) -> CheckpointRef:
    """Write what the lane published and imported up to its last commit, durably; nobody reads it before a
    commit names it. `files` is what is still part of the lake of `tail.files()`; `stage` the writer's own
    folder.

    The same chain gives the same bytes, so a checkpoint that a dead writer left is as good as ours.
    """
    listed = pa.Table.from_pylist([file.model_dump() for file in inputs], schema=INPUTS_SCHEMA)
    moves, hashes = [], []
    for part, table in (("files", files.unify_dictionaries()), ("inputs", listed)):
        data = _encoded(table)
        hashes.append(hashlib.sha256(data).hexdigest())
        # The hash in the name: what another version of pyarrow wrote is another file.
        final = f"{checkpoint_folder(tail.lane)}/{tail.head:012d}-{part}-{hashes[-1][:16]}.parquet"
        moves.append(Move(f"{stage}/checkpoint-{part}.parquet", final))
        store.put(moves[-1].stage, data)
    store.persist([move.stage for move in moves])
    store.publish(moves)
    return CheckpointRef(
        through=tail.head,
        files=moves[0].final,
        files_sha256=hashes[0],
        inputs=moves[1].final,
        inputs_sha256=hashes[1],
    )


def _encoded(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=["table"], write_statistics=False)
    return sink.getvalue()


def sweep_checkpoints(store: Store, lane: int) -> None:
    """Remove all but the last KEPT checkpoints."""
    names = store.names(checkpoint_folder(lane))
    kept = sorted({name.partition("-")[0] for name in names})[-KEPT:]
    for name in names:
        if name.partition("-")[0] not in kept:
            store.remove(f"{checkpoint_folder(lane)}/{name}")


def trimmed(tail: Tail, link: Chained, reference: CheckpointRef | None, files: pa.Table | None) -> Tail:
    """The tail after one more commit, which may name a checkpoint, of these files."""
    if reference is None or files is None:
        return Tail(tail.lane, tail.checkpoint, (*tail.records, link), tail.published)
    # A chunk a checkpoint would take 16 KB where its rows take 3, for as long as the process lives.
    return Tail(tail.lane, reference, (link,), files.unify_dictionaries().combine_chunks())
