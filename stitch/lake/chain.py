"""Chain of a lane's commits, in which each contains its own hash and that of the previous commit; and
checkpoints of the chain.

A commit record is stored as `{"sha256": "…", "record": {…}}`: the hash covers the bytes of the inner object,
so that it can be checked without interpreting them.

A checkpoint has tables of all files that a lane has published and imported so far. The next commit refers to
it, so a reader verifies that commit, the tables and the few commits after it instead of the whole chain. A
checkpoint can always be rebuilt from the chain: if its tables are missing or damaged, readers use the
previous checkpoint, or start at the first commit.
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
"""Number of commit records whose existence is checked in one batch, at 3 µs each on a disk."""


@dataclass(frozen=True, slots=True)
class Chained:
    """A commit record as stored, with its hash."""

    record: CommitRecord
    sha256: str
    size: int
    """Size of the stored commit record, bytes."""


class CommitTakenError(LakeError):
    """Another writer committed first under the same number: the operation may succeed if it is started
    again."""

    slug = "commit-taken"
    exit_code = TRY_AGAIN


def lanes(store: Store) -> list[int]:
    """Numbers of the lanes that have a commit folder, ascending."""
    found = [name.removeprefix("lane=") for name in store.names(COMMITS) if name.startswith("lane=")]
    return sorted(int(name) for name in found if name.isdecimal())


def encode_record(record: CommitRecord) -> tuple[bytes, str]:
    """(Stored bytes of a commit record, SHA-256 of the record in hex)."""
    body = record.model_dump_json(indent=1).encode()
    sha256 = hashlib.sha256(body).hexdigest()
    return _HEAD + sha256.encode() + _BODY + body + _TAIL, sha256


def read_record(store: Store, lane: int, seq: int) -> Chained:
    """Read a commit record; verify its hash, and that its lane and number are those in its name. Raises
    LakeError."""
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
    """Number of the last commit record, given that record `above` exists; `above` if it is the last. Raises
    LakeError at a gap.

    On a disk O(records after `above`); there a gap of more than _PROBED numbers is found only by `fsck`,
    which lists all names.
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
    """Number of the last commit record after `above`, found by checking successive names, as a listing on a
    disk takes O(all names)."""
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
    """Yield commit records in the order of `seqs`, prefetched within the store's concurrency.

    Raises as `read_record`.
    """
    return prefetch(store, lambda seq: read_record(store, lane, seq), seqs)


def read_chain(store: Store, lane: int) -> Iterator[Chained]:
    """Yield every commit of a lane in order, verified: no number is missing, and each contains the hash of
    the previous commit.

    Raises LakeError at the first violation. O(all commit records of the lane).
    """
    previous = NO_COMMIT
    for link in read_records(store, lane, range(1, last_number(store, lane) + 1)):
        verify_links([link], previous)
        previous = link.sha256
        yield link


def verify_links(chain: Sequence[Chained], previous: str) -> None:
    """Raise LakeError unless each commit record contains the hash of the previous one, and the first record
    the hash `previous`."""
    for link in chain:
        if link.record.previous != previous:
            name = commit_name(link.record.lane, link.record.seq)
            raise broken(name, "it does not follow the record before it")
        previous = link.sha256


def broken(name: str, why: str) -> LakeError:
    """Error for a commit chain in which the commit record `name` is missing or damaged; why: the defect."""
    return LakeError(
        f"The commit chain is broken at '{name}': {why}.", remedy="Restore control/commits from a backup."
    )


def put_record(store: Store, record: CommitRecord, stage: str) -> Chained:
    """Commit: store a record under its number, unless that number is taken.

    stage: the writer's stage folder, for drafts. Raises CommitTakenError if the number is taken, so that the
    caller's staged files are garbage; OSError as `Store.put_if_absent`.
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
    except FileNotFoundError:
        refuse_taken(store, record.lane, record.seq)
        raise
    return Chained(record=record, sha256=sha256, size=len(data))


def unknown_commit(name: str, lane: int, head: int) -> LakeError:
    """Error for the data file `name`, whose commit is not in its lane's chain, which ends at commit
    `head`."""
    return LakeError(
        f"'{name}' belongs to a commit that the chain does not have: lane {lane} ends at {head}.",
        remedy="Restore control/commits from a backup; `flowdiff fsck` lists all such files.",
    )


def taken(lane: int, seq: int) -> CommitTakenError:
    """Error for a commit number that another writer took first."""
    return CommitTakenError(
        f"Another writer took commit {seq} of lane {lane}.", remedy="Run the command again."
    )


def refuse_taken(store: Store, lane: int, seq: int) -> None:
    """Raise CommitTakenError if commit `seq` exists.

    Called when a staged file of that commit is missing: another writer deletes it only after it took the
    number; otherwise the file was lost.
    """
    if store.size(commit_name(lane, seq)) is not None:
        raise taken(lane, seq)


CHECKPOINT_EVERY: Final = 64
"""Maximum number of commits of a lane between two checkpoints."""
BEHIND_BYTES: Final = 128 * 2**10
"""Maximum bytes of commit records after a small checkpoint. Reading them takes 0.5 ms at 4 µs per KB: ten
small records, or four of a live lane that names 120 segments."""
RECORD_BYTES: Final = 10 * 2**10
"""Fixed cost of reading one commit record, expressed in bytes: 0.04 ms."""
BEHIND_SHARE: Final = 4
"""The size of a large checkpoint divided by this is the maximum of bytes of commit records after it: so
rewriting checkpoints is a fixed share of all writing."""
KEPT: Final = 4
"""Number of checkpoints that are kept: a checkpoint listed by a reader stays readable until two newer ones
are written."""


@lru_cache(maxsize=4096)
def _start_ns(window: str | None, length_ns: int) -> int | None:
    """Start of the window with this name, ns since the epoch; None for None. Cached, as many files share a
    window."""
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
"""Schema of a list of published files, one row per file; `window_ns`: start of the file's window, null for
late events and dead letters."""
_ROW_GROUP: Final = 8192
"""Maximum number of files (rows) in a row group of a checkpoint: more than a day's files."""

INPUTS_SCHEMA: Final = pa.schema(arrow_types(InputFile))
"""Schema of a list of imported files, one row per file, in the order of commits."""
_LAZY_COLUMNS: Final = ("name", "sha256", "footer_size", "footer_sha256", "counts")
"""Names of large columns that are needed for few files, and are read from the checkpoint only then."""
_EAGER_COLUMNS: Final = [name for name in FILES_SCHEMA.names if name not in _LAZY_COLUMNS]
_NO_FILES: Final = FILES_SCHEMA.empty_table()
PLACE: Final = "place"
"""Name of a column of `Listing.table`: row number of a file, by which its `_LAZY_COLUMNS` are found."""


class Listing:
    """Files that the commits of several lanes list, from checkpoints and later commit records, in order.

    For 100,000 windows it takes 14 MB of memory instead of 57, as names and hashes are read on demand.
    """

    def __init__(self, parts: Sequence[pa.Table | pa.Buffer]) -> None:
        """parts: tables with FILES_SCHEMA, or the content of checkpoint files with such a table."""
        tables = [
            part.select(_EAGER_COLUMNS) if isinstance(part, pa.Table) else _opened(part).read(_EAGER_COLUMNS)
            for part in parts
        ]
        self.parts = tuple(parts)
        self._begins = np.cumsum([0, *(table.num_rows for table in tables)])
        whole = pa.concat_tables([_NO_FILES.select(_EAGER_COLUMNS), *tables])
        self.table = whole.append_column(PLACE, pa.array(np.arange(whole.num_rows)))
        """Table with the columns of FILES_SCHEMA except the large `_LAZY_COLUMNS`, and PLACE."""

    def whole(self, some: pa.Table, columns: Sequence[str] = FILES_SCHEMA.names) -> pa.Table:
        """Rows of `table` completed with the large columns, which are read from the checkpoints. some: rows
        to complete, in any order; columns: names of the resulting columns."""
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
    """Read the lazy columns of the given rows (ascending) of a part; reads only row groups that contain
    them."""
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
    """End of a lane's chain: the last checkpoint, if there is one, and every commit record after it."""

    lane: int
    checkpoint: CheckpointRef | None
    records: tuple[Chained, ...]
    """Commit records after the checkpoint, ascending; empty if the lane has no commits."""
    published: pa.Buffer | None
    """The checkpoint's table of published files, as Parquet; None without a checkpoint."""

    @property
    def head(self) -> int:
        """Number of the last commit; 0 if there is none."""
        return self.records[-1].record.seq if self.records else 0

    @property
    def sha256(self) -> str:
        """SHA-256 of the last commit's record, hex; NO_COMMIT if there is none."""
        return self.records[-1].sha256 if self.records else NO_COMMIT

    @property
    def standing(self) -> Standing:
        """State of the lane after its last commit."""
        return self.records[-1].record.standing if self.records else Standing()

    @property
    def last_files(self) -> tuple[Publish, ...]:
        """Files of the last commit, and files that it carries over from the previous one; all other files are
        certainly published."""
        if not self.records:
            return ()
        last = self.records[-1].record
        return (*last.carried, *last.publish)

    def parts(self) -> list[pa.Table | pa.Buffer]:
        """Parts from which `Listing` lists all files that the lane has published: the checkpoint's table, and
        a table of the later commits' files."""
        behind = files_table(link.record for link in self.records)
        return [behind] if self.published is None else [self.published, behind]


def read_tail(store: Store, lane: int) -> Tail:
    """Read and verify the end of a lane's chain. Raises LakeError.

    O(commit records that `is_due` allows + files of the checkpoint).
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
    """Number of the commit before which a search for the last checkpoint's commit can start: that of the last
    checkpoint but one; 0 if there is none."""
    throughs = sorted({name.partition("-")[0] for name in store.names(checkpoint_folder(lane))})
    known = [int(name) for name in throughs if name.isdecimal()]
    return known[-2] if len(known) > 1 else 0


def read_verified(store: Store, name: str, sha256: str) -> pa.Buffer | None:
    """Content of a checkpoint's table; None if it is missing or its hash is not the one in the chain."""
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
    """Raise LakeError if commits have another window length than `flowdiff.json`."""
    others = {link.record.window_length_ns for link in tail.records} - {window_length_ns}
    if others:
        raise LakeError(
            f"{LAKE_FILE} gives a window length of {window_length_ns // 10**9} s, "
            f"the commits of lane {tail.lane} {max(others) // 10**9} s.",
            remedy=f"Restore {LAKE_FILE} from a backup.",
        )


def read_inputs(store: Store, tail: Tail) -> dict[str, InputFile]:
    """Files that a lane imported: SHA-256 of the file's bytes -> last entry of the file."""
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
    """Table with FILES_SCHEMA of the files that commit records publish, in order."""
    rows = [(item, record) for record in records for item in record.publish]
    columns = [pa.array([of(*row) for row in rows], type_) for type_, of in _FILE_COLUMNS.values()]
    return pa.table(columns, schema=FILES_SCHEMA)


def is_due(store: Store, tail: Tail) -> bool:
    """True if the next commit should refer to a new checkpoint, because many or large commit records follow
    the last one."""
    most, cost = BEHIND_BYTES, sum(RECORD_BYTES + link.size for link in tail.records)
    if cost >= most and tail.checkpoint is not None and tail.published is not None:
        both = tail.published.size + (store.size(tail.checkpoint.inputs) or 0)
        most = max(most, both // BEHIND_SHARE)
    return len(tail.records) >= CHECKPOINT_EVERY or cost >= most


def write_checkpoint(
    store: Store, tail: Tail, files: pa.Table, inputs: Iterable[InputFile], stage: str
) -> tuple[CheckpointRef, pa.Buffer]:
    """Write a checkpoint of the files published and imported up to the tail's last commit, durably.

    Readers ignore it until a commit refers to it. files: the lane's files (FILES_SCHEMA) that are still part
    of the lake. stage: the writer's stage folder. Returns (reference for the next commit, table of files as
    written). The same chain gives the same bytes, so a checkpoint left by a writer that died is reused.
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
    """Delete all checkpoints of a lane except the last KEPT."""
    names = store.names(checkpoint_folder(lane))
    kept = sorted({name.partition("-")[0] for name in names})[-KEPT:]
    for name in names:
        if name.partition("-")[0] not in kept:
            store.remove(f"{checkpoint_folder(lane)}/{name}")


def tail_after(tail: Tail, link: Chained, made: tuple[CheckpointRef, pa.Buffer] | None = None) -> Tail:
    """Tail of the chain after one more commit, `link`. made: checkpoint to which this commit refers, from
    `write_checkpoint`; None: none."""
    if made is None:
        return Tail(tail.lane, tail.checkpoint, (*tail.records, link), tail.published)
    return Tail(tail.lane, made[0], (link,), made[1])
