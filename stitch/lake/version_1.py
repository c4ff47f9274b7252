"""Lakes of layout version 1, for `stitch.lake.upgrade` alone: commits, checks, and rows in today's columns.

Version 1 had no `kind`: a flow of records whose request id also came with spans was called `<id>~records`.
And no `inner_status`: the error class of an inner node stood in `status`, as `~<class>`. It did
not say which node that was: the errors of an upgraded flow are its root's alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field, ValidationError

from schemas.commits import NO_COMMIT, Counters, InputFile
from schemas.config import Config
from schemas.errors import LakeError
from schemas.lake import RECORDS, SPANS
from stitch.lake.chain import broken
from stitch.lake.layout import commit_name, data_files, lane_folder
from stitch.lake.store import Store

_SUFFIX = "~records"
_INNER = "~"


class File(Config):
    """One published file, version 1."""

    table: str
    window: str | None
    stage: str
    final: str
    sha256: str
    size: int
    rows: int


class Record(Config):
    """One commit of a lane, version 1."""

    version: Literal[1]
    kind: Literal["import", "takeover"]
    lane: int
    seq: int
    previous: str
    owner: str
    created_by: str
    window_length_ns: int
    inputs: tuple[InputFile, ...] = ()
    publish: tuple[File, ...] = ()
    counters: Counters = Counters()
    config: dict[str, Any] = Field(default_factory=dict)


def read_records(store: Store, lane: int) -> list[Record]:
    """Every commit of a lane in order, verified: no gap, each naming the sha256 of the one before."""
    records: list[Record] = []
    previous = NO_COMMIT
    names = [name for name in store.names(lane_folder(lane)) if name.endswith(".json")]
    for expected, name in enumerate(names, start=1):
        full = f"{lane_folder(lane)}/{name}"
        if full != commit_name(lane, expected):
            raise broken(full, f"number {expected} is missing")
        data = store.read(full).to_pybytes()
        try:
            record = Record.model_validate_json(data)
        except ValidationError as error:
            raise broken(full, f"it does not parse ({error.error_count()} errors)") from error
        if (record.lane, record.seq, record.previous) != (lane, expected, previous):
            raise broken(full, "it does not follow the record before it")
        previous = hashlib.sha256(data).hexdigest()
        records.append(record)
    return records


def verify_files(store: Store, records: Iterable[Record]) -> None:
    """Raises LakeError unless the data files are those of the commits, bit by bit."""
    items = {item.final: item for record in records for item in record.publish}
    for name in data_files(store):
        if name not in items:
            raise _wrong(f"'{name}' is in no commit")
    for name, item in items.items():
        if store.size(name) is None:
            raise _wrong(f"'{name}' was committed and is not there")
        if hashlib.sha256(store.read(name)).hexdigest() != item.sha256:
            raise _wrong(f"'{name}' is not what was committed (sha256)")


def _wrong(what: str) -> LakeError:
    return LakeError(
        f"The lake is not upgraded, as something is wrong with it: {what}.",
        remedy="Restore it from a backup, or import into a new lake; nothing was changed.",
    )


@dataclass(frozen=True, slots=True)
class Kinds:
    """What version 1 told by structures and names."""

    of_category: dict[str, str]
    """`spans` or `records`."""
    renamed: frozenset[str]
    """Ids `<id>~records` that stand for the records of `<id>`."""


def find_kinds(store: Store, records: Iterable[Record]) -> Kinds:
    """Look through structures and ids of a lake. Memory: its categories, and ids that end like a suffix."""
    items = [item for record in records for item in record.publish]
    of_category: dict[str, str] = {}
    for item in items:
        if item.table == "structures":
            structures = _read(store, item, ["category", "nodes"])
            of_category |= dict(zip(structures["category"].to_pylist(), _kinds_of(structures), strict=True))
    candidates: set[str] = set()
    for item in items:
        if item.table == "flows":
            ids = _read(store, item, ["request_id"])["request_id"]
            candidates |= {*ids.filter(pc.ends_with(ids, _SUFFIX)).to_pylist()}
    wanted = pa.array([name.removesuffix(_SUFFIX) for name in candidates], pa.string())
    twins: set[str] = set()
    for item in items if candidates else ():
        if item.table == "flows":
            ids = _read(store, item, ["request_id"])["request_id"]
            twins |= {*ids.filter(pc.is_in(ids, value_set=wanted)).to_pylist()}
    renamed = frozenset(name for name in candidates if name.removesuffix(_SUFFIX) in twins)
    return Kinds(of_category, renamed)


def _kinds_of(structures: pa.Table) -> Iterator[str]:
    """A structure with a side of a span is one of spans."""
    for nodes in structures["nodes"].to_pylist():
        yield SPANS if any(node["side"] for node in nodes) else RECORDS


def converted(store: Store, item: File, kinds: Kinds, flows: Iterable[File]) -> pa.Table:
    """Rows of one file in today's columns; `flows` are the flow files of its window."""
    table = _read(store, item)
    if item.table == "flows":
        return _flows(table, kinds)
    if item.table == "params":
        return _params(table, kinds, [_read(store, file, ["request_id", "category"]) for file in flows])
    return table


def _flows(table: pa.Table, kinds: Kinds) -> pa.Table:
    status = table["status"].cast(pa.string())
    inner = pc.starts_with(status, _INNER).combine_chunks()
    at_root = (
        pc.and_(pc.invert(inner), pc.not_equal(status, "ok")).combine_chunks().to_numpy(zero_copy_only=False)
    )
    bounds = pa.array(np.concatenate(([0], np.cumsum(at_root))).astype(np.int32))
    return (
        table.drop_columns(["request_id", "status"])
        .append_column("request_id", _plain_ids(table["request_id"], kinds))
        .append_column("kind", _kind(table["category"], kinds))
        .append_column("status", pc.if_else(inner, "ok", status))
        .append_column(
            "inner_status",
            pc.if_else(inner, pc.utf8_slice_codeunits(status, len(_INNER)), pa.scalar(None, pa.string())),
        )
        .append_column(
            "error_position", pa.ListArray.from_arrays(bounds, pa.array(np.zeros(at_root.sum(), np.int32)))
        )
        .append_column(
            "error_class",
            pa.ListArray.from_arrays(bounds, status.filter(pa.array(at_root)).combine_chunks()),
        )
    )


def _params(table: pa.Table, kinds: Kinds, flows: list[pa.Table]) -> pa.Table:
    told = pa.concat_tables([part.select(["request_id"]) for part in flows])["request_id"].combine_chunks()
    kind = pa.concat_arrays([_kind(part["category"], kinds) for part in flows])
    place = pc.index_in(table["request_id"], value_set=told)
    if place.null_count:
        raise _wrong("there are parameters of a request that has no flow in their window")
    return (
        table.drop_columns(["request_id"])
        .append_column("request_id", _plain_ids(table["request_id"], kinds))
        .append_column("kind", kind.take(place.combine_chunks()))
    )


def _plain_ids(ids: pa.ChunkedArray, kinds: Kinds) -> pa.ChunkedArray:
    renamed = pc.is_in(ids, value_set=pa.array(sorted(kinds.renamed), pa.string()))
    return pc.if_else(renamed, pc.utf8_slice_codeunits(ids, 0, -len(_SUFFIX)), ids)


def _kind(category: pa.ChunkedArray, kinds: Kinds) -> pa.Array:
    words = category.cast(pa.string()).combine_chunks().dictionary_encode()
    of_word = np.array([kinds.of_category[word] for word in words.dictionary.to_pylist()], dtype=object)
    return pa.array(of_word, pa.string()).take(words.indices)


def _read(store: Store, item: File, columns: list[str] | None = None) -> pa.Table:
    """Rows as version 1 wrote them; the file was verified before."""
    return pq.read_table(pa.BufferReader(store.read(item.final)), columns=columns)
