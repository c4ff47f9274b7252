"""Check a lake against its own commits: invariants I1, I2, I3, I5 and I6 of the fault model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.config import Config
from schemas.errors import LakeError
from stitch.lake.commits import Chained, Publish, lanes, read_chain
from stitch.lake.encoding import META_ROWS, META_TABLE, META_VERSION, META_WINDOW
from stitch.lake.layout import LAKE_FILE, SIDE_TABLES, WINDOW_TABLES, read_info
from stitch.lake.store import Disk


class Finding(Config):
    """One broken invariant."""

    invariant: str
    """I1 … I6, or `layout`."""
    detail: str


def check(disk: Disk) -> list[Finding]:
    """All that is wrong with the lake; empty when nothing is. Reads every data file once.

    Meant for a lake at rest: files of a commit that is being published are reported under I3.
    Memory: the request ids of the whole lake, about 100 bytes each.
    """
    try:
        info = read_info(disk)
        chains = [read_chain(disk, lane) for lane in lanes(disk)]
    except LakeError as error:
        return [Finding(invariant="I6", detail=error.message)]
    if info is None:
        return [Finding(invariant="layout", detail=f"{LAKE_FILE} is missing")]
    commits = [link for chain in chains for link in chain]
    findings = [
        *_ledger(commits),
        *_unnamed_files(disk, commits),
        *(finding for link in commits for item in link.record.publish for finding in _file(disk, item)),
    ]
    if not findings:
        findings.extend(_request_ids(disk, commits))
    return findings


def _ledger(commits: list[Chained]) -> Iterator[Finding]:
    for link in commits:
        record = link.record
        flows = sum(item.rows for item in record.publish if item.table == "flows")
        if not record.counters.balanced:
            yield Finding(invariant="I1", detail=f"commit {record.seq}: {record.counters}")
        if flows != record.counters.flows:
            detail = f"commit {record.seq} counts {record.counters.flows} flows, its files hold {flows}"
            yield Finding(invariant="I1", detail=detail)


def _unnamed_files(disk: Disk, commits: list[Chained]) -> Iterator[Finding]:
    named = {item.final for link in commits for item in link.record.publish}
    for folder in [*WINDOW_TABLES, *SIDE_TABLES]:
        for name in _tree(disk, folder):
            if name not in named:
                yield Finding(invariant="I2", detail=f"'{name}' is in no commit")


def _tree(disk: Disk, folder: str) -> Iterator[str]:
    """Files up to one folder down, which is as deep as the layout goes."""
    for name in disk.names(folder):
        if name.startswith("window="):
            yield from (f"{folder}/{name}/{below}" for below in disk.names(f"{folder}/{name}"))
        else:
            yield f"{folder}/{name}"


def _file(disk: Disk, item: Publish) -> Iterator[Finding]:
    if not disk.exists(item.final):
        yield Finding(invariant="I3", detail=f"'{item.final}' was committed and is not there")
        return
    data = disk.read(item.final)
    if hashlib.sha256(data).hexdigest() != item.sha256:
        yield Finding(invariant="I2", detail=f"'{item.final}' is not what was committed (sha256)")
        return
    file = pq.ParquetFile(pa.BufferReader(data))
    metadata = file.metadata.metadata or {}
    told = {key: metadata.get(key, b"").decode() for key in (META_TABLE, META_WINDOW, META_ROWS)}
    expected = {META_TABLE: item.table, META_WINDOW: item.window or "", META_ROWS: str(item.rows)}
    if told != expected or META_VERSION not in metadata or file.metadata.num_rows != item.rows:
        yield Finding(invariant="I2", detail=f"'{item.final}' has other metadata than its commit says")


def _request_ids(disk: Disk, commits: list[Chained]) -> Iterator[Finding]:
    ids = [
        pq.read_table(pa.BufferReader(disk.read(item.final)), columns=["request_id", "kind"])
        for link in commits
        for item in link.record.publish
        if item.table == "flows"
    ]
    if not ids:
        return
    counts = pa.concat_tables(ids).group_by(["request_id", "kind"]).aggregate([([], "count_all")])
    twice = counts.filter(pa.compute.greater(counts["count_all"], 1))
    for row in twice.slice(0, 10).to_pylist():
        detail = f"request '{row['request_id']}' ({row['kind']}) is there {row['count_all']} times"
        yield Finding(invariant="I5", detail=detail)
