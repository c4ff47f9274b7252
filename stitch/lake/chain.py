"""Chain the commits of a lane, each with its own hash and that of the one before, and its checkpoints.

A record is stored as `{"sha256": "…", "record": {…}}`: the hash is over the bytes of the inner object, so
that it can be checked without knowing what they mean.

A checkpoint holds what a lane published and imported so far. The commit after it names it, so a reader
verifies that record, the tables and the few records behind it, and not a life's history. A checkpoint can
always be made again from the chain: where its tables are missing or damaged, readers go back to the one
before, or to the first commit.
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
from stitch.lake.store import Move, Store, ahead

_HEAD: Final = b'{"sha256": "'
_BODY: Final = b'", "record": '
_TAIL: Final = b"}\n"
_HASH_LENGTH: Final = 64
_PROBED: Final = 64
"""Numbers looked for at once, 3 µs each."""


@dataclass(frozen=True, slots=True)
class Chained:
    """A record as stored, with its own hash."""

    record: CommitRecord
    sha256: str
    size: int
    """Bytes."""


class CommitTakenError(LakeError):
    """Another writer committed under the number this one wanted: begun anew it may go well."""

    slug = "commit-taken"
    exit_code = TRY_AGAIN


def lanes(store: Store) -> list[int]:
    """Numbers of the lanes that have a commit folder, ascending."""
    found = [name.removeprefix("lane=") for name in store.names(COMMITS) if name.startswith("lane=")]
    return sorted(int(name) for name in found if name.isdecimal())


def encode_record(record: CommitRecord) -> tuple[bytes, str]:
    """Bytes of a record, and its own hash."""
    body = record.model_dump_json(indent=1).encode()
    sha256 = hashlib.sha256(body).hexdigest()
    return _HEAD + sha256.encode() + _BODY + body + _TAIL, sha256


def read_record(store: Store, lane: int, seq: int) -> Chained:
    """Read one record, checked against its own hash and its name. Raises LakeError."""
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
    """Number of the last record, `above` where none has a higher one. Raises LakeError at a gap.

    On a disk O(records above); a gap of more than _PROBED is then for `fsck`, which lists all names.
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
    """`last_number` of a disk, which lists a folder in O(names), whatever is asked for."""
    while True:
        wanted = range(above + 1, above + 1 + _PROBED)
        # The last first: of two that are committed meanwhile the later one is not seen alone.
        sizes = store.sizes([commit_name(lane, seq) for seq in reversed(wanted)])[::-1]
        n_there = next((n for n, size in enumerate(sizes) if size is None), _PROBED)
        for seq, size in zip(wanted[n_there:], sizes[n_there:], strict=True):
            if size is not None:
                raise broken(commit_name(lane, seq), f"number {above + n_there + 1} is missing")
        above += n_there
        if n_there < _PROBED:
            return above


def read_records(store: Store, lane: int, seqs: Sequence[int]) -> Iterator[Chained]:
    """Records in the order of `seqs`, read ahead as far as the store likes. Raises as `read_record`."""
    return ahead(store, lambda seq: read_record(store, lane, seq), seqs)


def read_chain(store: Store, lane: int) -> Iterator[Chained]:
    """Read every commit of a lane in order, verified: no gap, each naming the hash of the one before.

    Raises LakeError at the first that does not. O(records of the lane's life).
    """
    previous = NO_COMMIT
    for link in read_records(store, lane, range(1, last_number(store, lane) + 1)):
        verify_links([link], previous)
        previous = link.sha256
        yield link


def verify_links(chain: Sequence[Chained], previous: str) -> None:
    """Raises LakeError unless each record names the hash of the one before; the first names `previous`."""
    for link in chain:
        if link.record.previous != previous:
            name = commit_name(link.record.lane, link.record.seq)
            raise broken(name, "it does not follow the record before it")
        previous = link.sha256


def broken(name: str, why: str) -> LakeError:
    """Make the error where a chain is not whole."""
    return LakeError(
        f"The commit chain is broken at '{name}': {why}.", remedy="Restore control/commits from a backup."
    )


def put_record(store: Store, record: CommitRecord, stage: str) -> Chained:
    """Step 3 of the protocol, the commit: the record under its number, unless that is taken.

    `stage` is the writer's own folder, for drafts. Raises CommitTakenError: the caller's staged files are
    then garbage. OSError as `Store.put_if_absent`.
    """
    data, sha256 = encode_record(record)
    name = commit_name(record.lane, record.seq)
    try:
        store.put_if_absent(name, data, stage)
    except FileExistsError as error:
        # Ours, where a client repeated a put whose answer was lost; else another writer's.
        if store.read(name).to_pybytes() != data:
            raise taken(record.lane, record.seq) from error
        store.settle(lane_folder(record.lane))
    except FileNotFoundError as error:  # taken, and our draft swept
        raise taken(record.lane, record.seq) from error
    return Chained(record=record, sha256=sha256, size=len(data))


def of_no_commit(name: str, lane: int, head: int) -> LakeError:
    """Make the error for where a data file is of a commit that its lane's chain, up to `head`, does not
    have."""
    return LakeError(
        f"'{name}' belongs to a commit that the chain does not have: lane {lane} ends at {head}.",
        remedy="Restore control/commits from a backup; `flowdiff fsck` lists all such files.",
    )


def taken(lane: int, seq: int) -> CommitTakenError:
    """Make the error for when another writer turns out to have gone on without us."""
    return CommitTakenError(
        f"Another writer took commit {seq} of lane {lane}.", remedy="Run the command again."
    )


CHECKPOINT_EVERY: Final = 64
"""Commits behind a checkpoint, at most."""
BEHIND_BYTES: Final = 128 * 2**10
"""What records behind a small checkpoint may cost a reader, 0.5 ms at 4 µs a KB: ten small ones, or four of a
live lane that names 120 segments."""
RECORD_BYTES: Final = 10 * 2**10
"""What a record costs besides its length, as bytes: 0.04 ms."""
BEHIND_SHARE: Final = 4
"""Records behind a large one may cost a quarter of the size of its tables: what is rewritten stays a share of
what is written."""
KEPT: Final = 4
"""Checkpoints that stay: a reader who listed one has the time of two more to read it."""


@lru_cache(maxsize=4096)
def _start_ns(window: str | None, length_ns: int) -> int | None:
    """Parsed once a window, not once a file."""
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
"""One row a published file; `window_ns` is the start of its window, null for late and dead letters."""
_ROW_GROUP: Final = 8192
"""Files of a checkpoint that are read together: those of a day and more."""

INPUTS_SCHEMA: Final = pa.schema(arrow_types(InputFile))
"""One row an imported file, in the order of commits."""
_OF_FEW: Final = ("name", "sha256", "footer_size", "footer_sha256", "counts")
"""Columns that are asked for of few files and take most room: until then they stay in the checkpoint."""
_OF_ALL: Final = [name for name in FILES_SCHEMA.names if name not in _OF_FEW]
_NO_FILES: Final = FILES_SCHEMA.empty_table()
PLACE: Final = "place"
"""Column of `Listing.table`: the row of a file, by which the rest of it is found."""


class Listing:
    """Files that commits list, of several checkpoints and of records behind them, in their order.

    Of 100,000 windows that is 14 MB, not 57: names and hashes are read once they are asked for.
    """

    def __init__(self, parts: Sequence[pa.Table | pa.Buffer]) -> None:
        """`parts`: FILES_SCHEMA, or a checkpoint's file of it."""
        tables = [
            part.select(_OF_ALL) if isinstance(part, pa.Table) else _opened(part).read(_OF_ALL)
            for part in parts
        ]
        self.parts = tuple(parts)
        self._begins = np.cumsum([0, *(table.num_rows for table in tables)])
        whole = pa.concat_tables([_NO_FILES.select(_OF_ALL), *tables])
        self.table = whole.append_column(PLACE, pa.array(np.arange(whole.num_rows)))
        """FILES_SCHEMA without names and hashes, and PLACE."""

    def whole(self, some: pa.Table, columns: Sequence[str] = FILES_SCHEMA.names) -> pa.Table:
        """Columns of FILES_SCHEMA of some rows of `table`, in their order there."""
        of_few = [name for name in columns if name in _OF_FEW]
        places = some[PLACE].to_numpy()
        found = [_NO_FILES.select(of_few)]
        for part, begin, end in zip(self.parts, self._begins[:-1], self._begins[1:], strict=True):
            first, last = np.searchsorted(places, [begin, end])
            if last > first:
                found.append(_rest(part, places[first:last] - begin, of_few))
        rest = pa.concat_tables(found)
        return pa.table({name: (rest if name in of_few else some)[name] for name in columns})


def _rest(part: pa.Table | pa.Buffer, rows: I8, columns: Sequence[str]) -> pa.Table:
    """Some of _OF_FEW of some rows, ascending: of a checkpoint only the row groups are read that have one of
    them.
    """
    if isinstance(part, pa.Table):
        return part.select(columns).take(rows)
    file = _opened(part)
    sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    begins = np.cumsum([0, *sizes])
    groups = np.unique(np.searchsorted(begins, rows, side="right") - 1)
    kept = np.concatenate([np.arange(begins[group], begins[group + 1]) for group in groups])
    return file.read_row_groups(groups.tolist(), [*columns]).take(np.searchsorted(kept, rows))


def _opened(data: pa.Buffer) -> pq.ParquetFile:
    # Not pq.read_table: it loads Arrow's datasets, 3 MB that a live process else never needs.
    return pq.ParquetFile(pa.BufferReader(data))


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a lane's chain: a checkpoint, where there is one, and every record behind it."""

    lane: int
    checkpoint: CheckpointRef | None
    records: tuple[Chained, ...]
    """Ascending; empty for a lane without commits."""
    published: pa.Buffer | None
    """The checkpoint's table of files."""

    @property
    def head(self) -> int:
        """Number of the last commit, 0 where there is none."""
        return self.records[-1].record.seq if self.records else 0

    @property
    def sha256(self) -> str:
        """Own hash of the last commit."""
        return self.records[-1].sha256 if self.records else NO_COMMIT

    @property
    def standing(self) -> Standing:
        """Where the last commit left the lane."""
        return self.records[-1].record.standing if self.records else Standing()

    @property
    def last_files(self) -> tuple[Publish, ...]:
        """Files of the last commit, and what it carries: all others are surely published."""
        if not self.records:
            return ()
        last = self.records[-1].record
        return (*last.carried, *last.publish)

    def parts(self) -> list[pa.Table | pa.Buffer]:
        """Return everything, as of `Listing`, that the lane published."""
        behind = files_table(link.record for link in self.records)
        return [behind] if self.published is None else [self.published, behind]


def read_tail(store: Store, lane: int) -> Tail:
    """The end of a lane's chain, verified. Raises LakeError.

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
    """A commit so that the last checkpoint's is above it: that of the checkpoint before the last."""
    throughs = sorted({name.partition("-")[0] for name in store.names(checkpoint_folder(lane))})
    known = [int(name) for name in throughs if name.isdecimal()]
    return known[-2] if len(known) > 1 else 0


def read_verified(store: Store, name: str, sha256: str) -> pa.Buffer | None:
    """A table of a checkpoint; None where it is missing or not what the chain says."""
    try:
        data = store.read(name)
        if hashlib.sha256(data).hexdigest() != sha256:
            return None
        if store.concurrency == 1:  # a file that is mapped: what was touched to hash it need not stay
            data = store.read(name)
    except FileNotFoundError:
        return None
    return data


def verify_window_length(tail: Tail, window_length_ns: int) -> None:
    """Raises LakeError where commits were made with windows of another length than LAKE_FILE says."""
    others = {link.record.window_length_ns for link in tail.records} - {window_length_ns}
    if others:
        raise LakeError(
            f"{LAKE_FILE} gives a window length of {window_length_ns // 10**9} s, "
            f"the commits of lane {tail.lane} {max(others) // 10**9} s.",
            remedy=f"Restore {LAKE_FILE} from a backup.",
        )


def read_inputs(store: Store, tail: Tail) -> dict[str, InputFile]:
    """Read every file that a lane imported, by sha256 of its bytes; of several times the last."""
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
    """FILES_SCHEMA of what records publish."""
    rows = [(item, record) for record in records for item in record.publish]
    columns = [pa.array([of(*row) for row in rows], type_) for type_, of in _FILE_COLUMNS.values()]
    return pa.table(columns, schema=FILES_SCHEMA)


def is_due(store: Store, tail: Tail) -> bool:
    """Whether the coming commit should name a new checkpoint: records behind the last one are many, or
    long."""
    most, cost = BEHIND_BYTES, sum(RECORD_BYTES + link.size for link in tail.records)
    if cost >= most and tail.checkpoint is not None and tail.published is not None:
        both = tail.published.size + (store.size(tail.checkpoint.inputs) or 0)
        most = max(most, both // BEHIND_SHARE)
    return len(tail.records) >= CHECKPOINT_EVERY or cost >= most


def write_checkpoint(
    store: Store, tail: Tail, files: pa.Table, inputs: Iterable[InputFile], stage: str
) -> tuple[CheckpointRef, pa.Buffer]:
    """Write what the lane published and imported up to its last commit, durably; nobody reads it before a
    commit names it. `files` (FILES_SCHEMA) is what is still part of the lake of what the tail lists; `stage`
    the writer's own folder. Gives the table of files as written, too.

    The same chain gives the same bytes, so a checkpoint that a dead writer left is as good as ours.
    """
    listed = pa.Table.from_pylist([file.model_dump() for file in inputs], schema=INPUTS_SCHEMA)
    moves, hashes = [], []
    encoded = {"files": _encoded(files.unify_dictionaries()), "inputs": _encoded(listed)}
    for part, data in encoded.items():
        hashes.append(hashlib.sha256(data).hexdigest())
        # The hash in the name: what another version of pyarrow wrote is another file.
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


def trimmed(tail: Tail, link: Chained, made: tuple[CheckpointRef, pa.Buffer] | None = None) -> Tail:
    """The tail after one more commit, which may name a checkpoint that was made."""
    if made is None:
        return Tail(tail.lane, tail.checkpoint, (*tail.records, link), tail.published)
    return Tail(tail.lane, made[0], (link,), made[1])
