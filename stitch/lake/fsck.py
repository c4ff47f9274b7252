"""Check a lake against its own commits: invariants I1, I2, I3, I5 and I6 of the fault model, and reports."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.commits import CommitRecord, Publish
from schemas.config import Config
from schemas.errors import LakeError
from stitch.lake.chain import lanes, read_chain
from stitch.lake.checkpoint import read_tail
from stitch.lake.encoding import META_ROWS, META_TABLE, META_VERSION, META_WINDOW, decode
from stitch.lake.layout import LAKE_FILE, REPORTS, data_files, read_info
from stitch.lake.store import Store

NAMED_REQUESTS: Final = 10
"""Requests named of those that are there more than once."""


class Finding(Config):
    """One broken invariant."""

    invariant: str
    """I1 … I6, `layout`, or `report`."""
    detail: str


def check(store: Store, lake: str = "LAKE") -> list[Finding]:
    """All that is wrong with the lake; empty when nothing is. Reads every data file once.

    Meant for a lake at rest: files of a commit that is being published are reported under I3.
    Memory: the request ids of the whole lake, about 100 bytes each. Raises LakeError for a lake of another
    layout version.
    """
    info = read_info(store, lake)
    if info is None:
        return [Finding(invariant="layout", detail=f"{LAKE_FILE} is missing")]
    commits: list[CommitRecord] = []
    findings: list[Finding] = []
    for lane in lanes(store):
        try:
            commits += [link.record for link in read_chain(store, lane)]
            tail = read_tail(store, lane)
        except LakeError as error:
            findings.append(Finding(invariant="I6", detail=error.message))
            continue
        findings += _checkpoint(commits, lane, tail.checkpoint is not None and tail.checkpoint.through)
    if findings:
        return [*findings, *_reports(store)]
    lengths = {record.window_length_ns for record in commits} - {info.window_length_ns}
    if lengths:
        findings.append(
            Finding(invariant="layout", detail=f"{LAKE_FILE} and commits differ on the window length")
        )
    findings += _ledger(commits)
    findings += _positions(commits)
    findings += _unnamed_files(store, commits)
    findings += [finding for record in commits for item in record.publish for finding in _file(store, item)]
    if not findings:
        findings += _request_ids(store, commits)
    return [*findings, *_reports(store)]


def _checkpoint(commits: list[CommitRecord], lane: int, found: int | bool) -> Iterator[Finding]:
    """A lane whose last checkpoint cannot be read: readers make do without it, at a cost."""
    named = [r.checkpoint for r in commits if r.lane == lane and r.checkpoint is not None]
    if named and found != named[-1].through:
        yield Finding(invariant="I6", detail=f"checkpoint '{named[-1].files}' is missing or damaged")


def _ledger(commits: list[CommitRecord]) -> Iterator[Finding]:
    for record in commits:
        counters = record.counters
        if not counters.balanced:
            yield Finding(invariant="I1", detail=f"commit {record.seq}: {counters}")
        kept = sum(counters.rejects.values()) - counters.rejects_not_kept
        for table, counted in (("flows", counters.flows), ("dead_letters", kept)):
            rows = sum(item.rows for item in record.publish if item.table == table)
            if rows != counted:
                detail = f"commit {record.seq} counts {counted} {table}, its files hold {rows}"
                yield Finding(invariant="I1", detail=detail)


def _positions(commits: list[CommitRecord]) -> Iterator[Finding]:
    """Offset ranges of live lanes must join up."""
    ends: dict[tuple[int, str, int], int] = {}
    for record in commits:
        for told in record.standing.positions:
            key = (record.lane, told.topic, told.partition)
            if ends.get(key, told.start) != told.start:
                detail = f"commit {record.seq} of lane {record.lane} starts '{told.topic}' at {told.start}"
                yield Finding(invariant="I6", detail=f"{detail}, the one before ended at {ends[key]}")
            ends[key] = told.end


def _unnamed_files(store: Store, commits: list[CommitRecord]) -> Iterator[Finding]:
    named = {item.final for record in commits for item in record.publish}
    for name in data_files(store):
        if name not in named:
            yield Finding(invariant="I2", detail=f"'{name}' is in no commit")


def _file(store: Store, item: Publish) -> Iterator[Finding]:
    if store.size(item.final) is None:
        yield Finding(invariant="I3", detail=f"'{item.final}' was committed and is not there")
        return
    data = store.read(item.final)
    if hashlib.sha256(data).hexdigest() != item.sha256:
        yield Finding(invariant="I2", detail=f"'{item.final}' is not what was committed (sha256)")
        return
    file = pq.ParquetFile(pa.BufferReader(data))
    metadata = file.metadata.metadata or {}
    told = {key: metadata.get(key, b"").decode() for key in (META_TABLE, META_WINDOW, META_ROWS)}
    expected = {META_TABLE: item.table, META_WINDOW: item.window or "", META_ROWS: str(item.rows)}
    if told != expected or META_VERSION not in metadata or file.metadata.num_rows != item.rows:
        yield Finding(invariant="I2", detail=f"'{item.final}' has other metadata than its commit says")


def _request_ids(store: Store, commits: Iterable[CommitRecord]) -> Iterator[Finding]:
    """A request is a flow of spans, of records, or one of each."""
    tables = [
        decode("flows", store.read(item.final), ["request_id", "kind"])
        for record in commits
        for item in record.publish
        if item.table == "flows"
    ]
    if not tables:
        return
    flows = pa.concat_tables(tables).unify_dictionaries()
    counts = flows.group_by(["request_id", "kind"]).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1)).sort_by("request_id")
    for row in twice.slice(0, NAMED_REQUESTS).to_pylist():
        detail = f"request '{row['request_id']}' ({row['kind']}) is there {row['count_all']} times"
        yield Finding(invariant="I5", detail=detail)


def _reports(store: Store) -> Iterator[Finding]:
    """Reports are in no commit; what can be told is whether each file of them can be opened."""
    for report in store.names(REPORTS):
        if report.startswith("."):  # on its way, or left by a process that died
            continue
        folder = f"{REPORTS}/{report}"
        names = store.names(folder)
        if not names:
            yield Finding(invariant="report", detail=f"'{folder}' is empty")
        for name in names:
            why = _unreadable(name, store.read(f"{folder}/{name}"))
            if why is not None:
                yield Finding(invariant="report", detail=f"'{folder}/{name}' {why}: repeat the comparison")


def _unreadable(name: str, data: pa.Buffer) -> str | None:
    """Why a file of a report cannot be what was written."""
    if data.size == 0:
        return "has no bytes"
    try:
        if name.endswith(".parquet"):
            pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
        elif name.endswith(".json"):
            json.loads(data.to_pybytes())
    except (OSError, pa.ArrowException):
        return "is no Parquet file that can be read"
    except ValueError:
        return "is no JSON"
    return None
