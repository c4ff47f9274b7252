"""Chain of a lane's commits, each with its own hash and the previous one's, and checkpoints of the chain.

A record is stored as `{"sha256": "…", "record": {…}}`: the hash is over the bytes of the inner object, so
that it can be checked without knowing what they mean.

A checkpoint has tables of all files that a lane published and imported so far. The next commit refers to it,
so a reader verifies that record, the tables and the few records behind it instead of the whole chain. A
checkpoint can always be rebuilt from the chain: where its tables are missing or damaged, readers go back to
the checkpoint before, or to the first commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from schemas.arrays import I8
from schemas.arrow_rows import arrow_types
from schemas.commits import NO_COMMIT, CheckpointRef, CommitRecord, InputFile, Publish, Standing
from schemas.errors import TRY_AGAIN, LakeError
from schemas.windows import Window
from stitch.lake.flow_counts import COUNTS_TYPE
from stitch.lake.layout import (
    COMMITS,
    LAKE_FILE,
    SUFFIX,
    checkpoint_folder,
    commit_name,
    lane_folder,
    record_file,
)
from stitch.lake.store import Move, Store, prefetch

_HEAD: Final = b'{"sha256": "'
_BODY: Final = b'", "record": '
_TAIL: Final = b"}\n"
_HASH_LENGTH: Final = 64
_PROBED: Final = 64
"""Number of commit records whose existence is checked at once, 3 µs each on a disk."""


@dataclass(frozen=True, slots=True)
class Chained:
    """A commit record as stored, with its hash."""

    record: CommitRecord
    sha256: str
    size: int
    """Size of the stored record, bytes."""


class CommitTakenError(LakeError):
    """Another writer committed under this number first: starting over may succeed."""

    slug = "commit-taken"
    exit_code = TRY_AGAIN


def lanes(store: Store) -> list[int]:
    """Numbers of the lanes that have a commit folder, ascending."""
    found = [name.removeprefix("lane=") for name in store.names(COMMITS) if name.startswith("lane=")]
    return sorted(int(name) for name in found if name.isdecimal())


def encode_record(record: CommitRecord) -> tuple[bytes, str]:
    """(Stored bytes of a record, SHA-256 of the record in hex)."""
    body = record.model_dump_json(indent=1).encode()
    sha256 = hashlib.sha256(body).hexdigest()
    return _HEAD + sha256.encode() + _BODY + body + _TAIL, sha256


def read_record(store: Store, lane: int, seq: int) -> Chained:
    """Read a record, and check it against its hash and its name. Raises LakeError."""
    name = commit_name(lane, seq)
    try:
        data = store.read(name).to_pybytes()
    except FileNotFoundError as error:
        raise broken(name, "it is missing") from error
    start = len(_HEAD) + _HASH_LENGTH
    body = data[start + len(_BODY) : -len(_TAIL)]
    stated = data[len(_HEAD) : start].decode("ascii", "replace")
    if (
        data[: len(_HEAD)] != _HEAD
        or data[start : start + len(_BODY)] != _BODY
        or data[-len(_TAIL) :] != _TAIL
        or hashlib.sha256(body).hexdigest() != stated
    ):
        raise broken(name, "it is not what was written (its own hash)")
    try:
        record = CommitRecord.model_validate_json(body)
    except ValidationError as error:
        raise broken(name, f"it does not parse ({error.error_count()} errors)") from error
    if (record.lane, record.seq) != (lane, seq):
        raise broken(name, "its lane or number is not that of its name")
    return Chained(record=record, sha256=stated, size=len(data))


def last_number(store: Store, lane: int, above: int = 0) -> int:
    """Number of the last record above `above`; `above` if there is none. Raises LakeError at a gap.

    On a disk O(records above); a gap of more than _PROBED is then left to `fsck`, which lists all names.
    """
    if above and store.concurrency == 1:
        return _probed(store, lane, above)
    found = [
        name for name in store.names(lane_folder(lane), after=record_file(above)) if name.endswith(SUFFIX)
    ]
    for expected, name in enumerate(found, start=above + 1):
        if name != record_file(expected):
            raise broken(f"{lane_folder(lane)}/{name}", f"number {expected} is missing")
    return above + len(found)


def _probed(store: Store, lane: int, above: int) -> int:
    """Number of the last record above `above`, by probing: on a disk a listing takes O(all names)."""
    while True:
        wanted = range(above + 1, above + 1 + _PROBED)
        # In descending order: a commit made meanwhile is never seen without the one before it.
        sizes = store.sizes([commit_name(lane, seq) for seq in reversed(wanted)])[::-1]
        n_there = next((n for n, size in enumerate(sizes) if size is None), _PROBED)
        for seq, size in zip(wanted[n_there:], sizes[n_there:], strict=True):
            if size is not None:
                raise broken(commit_name(lane, seq), f"number {above + n_there + 1} is missing")
        above += n_there
        if n_there < _PROBED:
            return above


def read_records(store: Store, lane: int, seqs: Sequence[int]) -> Iterator[Chained]:
    """Yield records in the order of `seqs`, prefetched within the store's concurrency.

    Raises as `read_record`.
    """
    return prefetch(store, lambda seq: read_record(store, lane, seq), seqs)


def read_chain(store: Store, lane: int) -> Iterator[Chained]:
    """Yield every commit of a lane in order, verified: no gap, each naming the hash of the one before.

    Raises LakeError at the first violation. O(records of the lane's life).
    """
    previous = NO_COMMIT
    for link in read_records(store, lane, range(1, last_number(store, lane) + 1)):
        verify_links([link], previous)
        previous = link.sha256
        yield link


def verify_links(chain: Sequence[Chained], previous: str) -> None:
    """Raise LakeError unless each record names the hash of the previous one, the first one `previous`."""
    for link in chain:
        if link.record.previous != previous:
            name = commit_name(link.record.lane, link.record.seq)
            raise broken(name, "it does not follow the record before it")
        previous = link.sha256


def broken(name: str, why: str) -> LakeError:
    """Error for a commit chain with a missing or damaged record; name: the record, why: its defect."""
    return LakeError(
        f"The commit chain is broken at '{name}': {why}.", remedy="Restore control/commits from a backup."
    )


def put_record(store: Store, record: CommitRecord, stage: str) -> Chained:
    """Commit a record: store it under its number, unless that number is taken.

    `stage` is the writer's own folder, for drafts. Raises CommitTakenError: the caller's staged files are
    then garbage. OSError as `Store.put_if_absent`.
    """
    data, sha256 = encode_record(record)
    name = commit_name(record.lane, record.seq)
    try:
        store.put_if_absent(name, data, stage)
    except FileExistsError as error:
        # It is our own if a client repeated a put whose answer was lost; else another writer's.
        if store.read(name).to_pybytes() != data:
            raise taken(record.lane, record.seq) from error
        store.settle(lane_folder(record.lane))
    except FileNotFoundError as error:  # taken, and our draft swept
        raise taken(record.lane, record.seq) from error
    return Chained(record=record, sha256=sha256, size=len(data))


def unknown_commit(name: str, lane: int, head: int) -> LakeError:
    """Error for a data file whose commit is not in its lane's chain up to `head`."""
    return LakeError(
        f"'{name}' belongs to a commit that the chain does not have: lane {lane} ends at {head}.",
        remedy="Restore control/commits from a backup; `flowdiff fsck` lists all such files.",
    )


def taken(lane: int, seq: int) -> CommitTakenError:
    """Error for a commit number taken by another writer."""
    return CommitTakenError(
        f"Another writer took commit {seq} of lane {lane}.", remedy="Run the command again."
    )


CHECKPOINT_EVERY: Final = 64
"""Maximum commits of a lane from one checkpoint to the next."""
BEHIND_BYTES: Final = 128 * 2**10
"""Maximum bytes of records after a checkpoint that is small itself. Reading them costs 0.5 ms at 4 µs a KB:
ten small records, or four of a live lane that names 120 segments.
"""
RECORD_BYTES: Final = 10 * 2**10
"""Fixed cost of reading a record, in equivalent bytes: 0.04 ms."""
BEHIND_SHARE: Final = 4
"""Divisor of a large checkpoint's size: records after it may cost that many bytes to read, so that rewriting
stays a fixed share of all writing.
"""
KEPT: Final = 4
"""Number of checkpoints kept: a reader that listed one can read it until two more are made."""


@lru_cache(maxsize=4096)
def _start_ns(window: str | None, length_ns: int) -> int | None:
    """Start of the window with this name, ns since the epoch; cached, as many files share one."""
    return None if window is None else Window.from_name(window, length_ns).start_ns


_FILE_COLUMNS: Final[dict[str, tuple[pa.DataType, Callable[[Publish, CommitRecord], Any]]]] = {
    "table": (pa.dictionary(pa.int32(), pa.string()), lambda file, _: file.table),
    "window_ns": (pa.int64(), lambda file, commit: _start_ns(file.window, commit.window_length_ns)),
    "name": (pa.string(), lambda file, _: file.final),
    "sha256": (pa.binary(32), lambda file, _: bytes.fromhex(file.sha256)),
    "size": (pa.int64(), lambda file, _: file.size),
    "rows": (pa.int64(), lambda file, _: file.rows),
    "footer_size": (pa.int64(), lambda file, _: file.footer_size),
    "footer_sha256": (pa.binary(32), lambda file, _: bytes.fromhex(file.footer_sha256)),
    "last_ns": (pa.int64(), lambda file, _: file.last_ns),
    "counts": (COUNTS_TYPE, lambda file, _: file.counts and file.counts.model_dump()),
    "lane": (pa.int32(), lambda _, commit: commit.lane),
    "seq": (pa.int64(), lambda _, commit: commit.seq),
}
FILES_SCHEMA: Final = pa.schema([(name, type_) for name, (type_, _) in _FILE_COLUMNS.items()])
"""Schema of published files, one row each; `window_ns` is the start of the file's window, null for late
events and dead letters.
"""
_ROW_GROUP: Final = 8192
"""Files (rows) in a row group of a checkpoint: more than those of a day."""

INPUTS_SCHEMA: Final = pa.schema(arrow_types(InputFile))
"""Schema of imported files, one row each, in the order of commits."""
_LAZY_COLUMNS: Final = ("name", "sha256", "footer_size", "footer_sha256", "counts")
"""Names of large columns that are read for few files only, and stay in the checkpoint until then."""
_EAGER_COLUMNS: Final = [name for name in FILES_SCHEMA.names if name not in _LAZY_COLUMNS]
_NO_FILES: Final = FILES_SCHEMA.empty_table()
PLACE: Final = "place"
"""Column of `Listing.table`: row number of a file, by which its lazy columns are looked up."""


class Listing:
    """Files listed by the commits of several lanes, from checkpoints and later records, in order.

    For 100,000 windows it takes 14 MB, not 57: names and hashes are read on demand.
    """

    def __init__(self, parts: Sequence[pa.Table | pa.Buffer]) -> None:
        """parts: tables of FILES_SCHEMA, or checkpoint files with one."""
        tables = [
            part.select(_EAGER_COLUMNS) if isinstance(part, pa.Table) else _opened(part).read(_EAGER_COLUMNS)
            for part in parts
        ]
        self.parts = tuple(parts)
        self._begins = np.cumsum([0, *(table.num_rows for table in tables)])
        whole = pa.concat_tables([_NO_FILES.select(_EAGER_COLUMNS), *tables])
        self.table = whole.append_column(PLACE, pa.array(np.arange(whole.num_rows)))
        """FILES_SCHEMA without the large `_LAZY_COLUMNS`, and PLACE."""

    def whole(self, some: pa.Table, columns: Sequence[str] = FILES_SCHEMA.names) -> pa.Table:
        """Columns of FILES_SCHEMA for the rows `some` of `table`, in the same order."""
        of_few = [name for name in columns if name in _LAZY_COLUMNS]
        places = some[PLACE].to_numpy()
        found = [_NO_FILES.select(of_few)]
        for part, begin, end in zip(self.parts, self._begins[:-1], self._begins[1:], strict=True):
            first, last = np.searchsorted(places, [begin, end])
            if last > first:
                found.append(_rest(part, places[first:last] - begin, of_few))
        rest = pa.concat_tables(found)
        return pa.table({name: (rest if name in of_few else some)[name] for name in columns})


def _rest(part: pa.Table | pa.Buffer, rows: I8, columns: Sequence[str]) -> pa.Table:
    """Lazy columns of the given rows (ascending); reads only the row groups that contain them."""
    if isinstance(part, pa.Table):
        return part.select(columns).take(rows)
    file = _opened(part)
    sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    begins = np.cumsum([0, *sizes])
    groups = np.unique(np.searchsorted(begins, rows, side="right") - 1)
    kept = np.concatenate([np.arange(begins[group], begins[group + 1]) for group in groups])
    return file.read_row_groups(groups.tolist(), [*columns]).take(np.searchsorted(kept, rows))


def _opened(data: pa.Buffer) -> pq.ParquetFile:
    # Not pq.read_table: it loads Arrow's datasets, 3 MB that a live process does not need otherwise.
    return pq.ParquetFile(pa.BufferReader(data))


@dataclass(frozen=True, slots=True)
class Tail:
    """End of a lane's chain: the last checkpoint, if any, and every record after it."""

    lane: int
    checkpoint: CheckpointRef | None
    records: tuple[Chained, ...]
    """Records after the checkpoint, ascending; empty for a lane without commits."""
    published: pa.Buffer | None
    """The checkpoint's table of published files, in Parquet; None without a checkpoint."""

    @property
    def head(self) -> int:
        """Number of the last commit, 0 without commits."""
        return self.records[-1].record.seq if self.records else 0

    @property
    def sha256(self) -> str:
        """SHA-256 of the last commit's record, hex; NO_COMMIT without commits."""
        return self.records[-1].sha256 if self.records else NO_COMMIT

    @property
    def standing(self) -> Standing:
        """State of the lane after its last commit."""
        return self.records[-1].record.standing if self.records else Standing()

    @property
    def last_files(self) -> tuple[Publish, ...]:
        """Files of the last commit and files carried over by it; files of earlier commits are surely
        published.
        """
        if not self.records:
            return ()
        last = self.records[-1].record
        return (*last.carried, *last.publish)

    def parts(self) -> list[pa.Table | pa.Buffer]:
        """Parts of a `Listing` with every file that the lane published."""
        behind = files_table(link.record for link in self.records)
        return [behind] if self.published is None else [self.published, behind]


def read_tail(store: Store, lane: int) -> Tail:
    """Read and verify the end of a lane's chain. Raises LakeError.

    O(records that `is_due` allows + files of the checkpoint).
    """
    floor = _floor(store, lane)
    head = last_number(store, lane, above=floor)
    if floor and head == floor:
        raise broken(commit_name(lane, floor + 1), "it is missing, and a checkpoint says it was there")
    newest_first: list[Chained] = []
    for link in read_records(store, lane, range(head, 0, -1)):
        newest_first.append(link)
        reference = link.record.checkpoint
        published = (
            None if reference is None else read_verified(store, reference.files, reference.files_sha256)
        )
        if published is not None:
            verify_links(newest_first[-2::-1], link.sha256)
            return Tail(lane, reference, tuple(reversed(newest_first)), published)
    verify_links(newest_first[::-1], NO_COMMIT)
    return Tail(lane, None, tuple(reversed(newest_first)), None)


def _floor(store: Store, lane: int) -> int:
    """Commit number of the last checkpoint but one, so that the last one's commit is above it; 0 without."""
    throughs = sorted({name.partition("-")[0] for name in store.names(checkpoint_folder(lane))})
    known = [int(name) for name in throughs if name.isdecimal()]
    return known[-2] if len(known) > 1 else 0


def read_verified(store: Store, name: str, sha256: str) -> pa.Buffer | None:
    """Content of a checkpoint's table; None where it is missing or its hash differs from the chain's."""
    try:
        data = store.read(name)
        if hashlib.sha256(data).hexdigest() != sha256:
            return None
        if store.concurrency == 1:  # a mapped file: map it anew to release the pages touched by hashing
            data = store.read(name)
    except FileNotFoundError:
        return None
    return data


def verify_window_length(tail: Tail, window_length_ns: int) -> None:
    """Raise LakeError if commits have another window length than LAKE_FILE."""
    others = {link.record.window_length_ns for link in tail.records} - {window_length_ns}
    if others:
        raise LakeError(
            f"{LAKE_FILE} gives a window length of {window_length_ns // 10**9} s, "
            f"the commits of lane {tail.lane} {max(others) // 10**9} s.",
            remedy=f"Restore {LAKE_FILE} from a backup.",
        )


def read_inputs(store: Store, tail: Tail) -> dict[str, InputFile]:
    """SHA-256 of a file's bytes -> last entry of that file, for every file that a lane imported."""
    records: Iterable[Chained] = tail.records
    known: dict[str, InputFile] = {}
    reference = tail.checkpoint
    if reference is not None:
        data = read_verified(store, reference.inputs, reference.inputs_sha256)
        if data is None:
            records = read_chain(store, tail.lane)
        else:
            rows = _opened(data).read().to_pylist()
            known = {row["sha256"]: InputFile.model_validate(row) for row in rows}
    known.update({file.sha256: file for link in records for file in link.record.inputs})
    return known


def files_table(records: Iterable[CommitRecord]) -> pa.Table:
    """Table of FILES_SCHEMA with the files that `records` publish, in order."""
    rows = [(item, record) for record in records for item in record.publish]
    columns = [pa.array([of(*row) for row in rows], type_) for type_, of in _FILE_COLUMNS.values()]
    return pa.table(columns, schema=FILES_SCHEMA)


def is_due(store: Store, tail: Tail) -> bool:
    """True if the next commit should refer to a new checkpoint: the records since the last one are many or
    large.
    """
    most, cost = BEHIND_BYTES, sum(RECORD_BYTES + link.size for link in tail.records)
    if cost >= most and tail.checkpoint is not None and tail.published is not None:
        both = tail.published.size + (store.size(tail.checkpoint.inputs) or 0)
        most = max(most, both // BEHIND_SHARE)
    return len(tail.records) >= CHECKPOINT_EVERY or cost >= most


def write_checkpoint(
    store: Store, tail: Tail, files: pa.Table, inputs: Iterable[InputFile], stage: str
) -> tuple[CheckpointRef, pa.Buffer]:
    """Write a checkpoint of the files published and imported up to the tail's last commit, durably.

    It is not read before a commit refers to it. `files` (FILES_SCHEMA): those of the tail's files that are
    still part of the lake; `stage`: the writer's own folder. Returns the reference and the table of files as
    written. The same chain gives the same bytes, so a checkpoint left by a writer that died is reused.
    """
    listed = pa.Table.from_pylist([file.model_dump() for file in inputs], schema=INPUTS_SCHEMA)
    moves, hashes = [], []
    encoded = {"files": _encoded(files.unify_dictionaries()), "inputs": _encoded(listed)}
    for part, data in encoded.items():
        hashes.append(hashlib.sha256(data).hexdigest())
        # The hash is part of the name: another version of pyarrow may write other bytes.
        final = f"{checkpoint_folder(tail.lane)}/{tail.head:012d}-{part}-{hashes[-1][:16]}.parquet"
        moves.append(Move(f"{stage}/checkpoint-{part}.parquet", final))
        store.put(moves[-1].stage, data)
    store.persist([move.stage for move in moves])
    store.publish(moves)
    reference = CheckpointRef(
        through=tail.head,
        files=moves[0].final,
        files_sha256=hashes[0],
        inputs=moves[1].final,
        inputs_sha256=hashes[1],
    )
    return reference, encoded["files"]


def _encoded(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=["table", "counts.categories.list.element"],
        write_statistics=False,
        row_group_size=_ROW_GROUP,
    )
    return sink.getvalue()


def sweep_checkpoints(store: Store, lane: int) -> None:
    """Remove all but the last KEPT checkpoints."""
    names = store.names(checkpoint_folder(lane))
    kept = sorted({name.partition("-")[0] for name in names})[-KEPT:]
    for name in names:
        if name.partition("-")[0] not in kept:
            store.remove(f"{checkpoint_folder(lane)}/{name}")


def tail_after(tail: Tail, link: Chained, made: tuple[CheckpointRef, pa.Buffer] | None = None) -> Tail:
    """Tail after one more commit, which may refer to a new checkpoint."""
    if made is None:
        return Tail(tail.lane, tail.checkpoint, (*tail.records, link), tail.published)
    return Tail(tail.lane, made[0], (link,), made[1])
