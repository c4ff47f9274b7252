"""Check a lake against its commits: invariants I1 to I6 of the fault model, statistics, reports."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.commits import CommitRecord, Publish
from schemas.config import Config
from schemas.errors import LakeError
from stitch.lake.abreast import abreast
from stitch.lake.calibration_files import CALIBRATION, damaged_records
from stitch.lake.chain import lanes, read_chain
from stitch.lake.checkpoint import KEPT, read_table, read_tail
from stitch.lake.encoding import META_ROWS, META_TABLE, META_VERSION, META_WINDOW, decode
from stitch.lake.fsck_live import broken_carry, broken_positions, broken_segments
from stitch.lake.fsck_upkeep import broken_generations, broken_repairs, hidden_in
from stitch.lake.layout import (
    ASIDE,
    COMMITS,
    LAKE_FILE,
    REPORTS,
    data_files,
    lane_folder,
    read_info,
    segment_folder,
    segment_seq,
    stage_lane_folder,
    staged_seq,
)
from stitch.lake.stats_files import STATS, damaged_stats
from stitch.lake.store import Store
from stitch.lake.sums import SUMS, read_sums
from stitch.lake.upkeep.hidden import Hidden

T = TypeVar("T")

NAMED_REQUESTS: Final = 10
"""Requests named of those that are there more than once."""


class Finding(Config):
    """One broken invariant."""

    invariant: str
    """I1 … I6, `layout`, `stats`, `calibration` or `report`."""
    detail: str


def check(store: Store, lake: str = "LAKE") -> list[Finding]:
    """All that is wrong with the lake; empty when nothing is. Reads every data file once.

    What the system will not let us read is a finding, too, and the rest is checked all the same. Meant for a
    lake at rest: files of a commit that is being published are reported under I3. Memory: the request ids of
    the whole lake, about 100 bytes each. Raises LakeError for a lake of another layout version.
    """
    info = _attempt(lambda: read_info(store, lake), LAKE_FILE, "layout")
    if info is None:
        return [Finding(invariant="layout", detail=f"{LAKE_FILE} is missing")]
    commits: list[CommitRecord] = []
    findings = [info] if isinstance(info, Finding) else []
    there = _attempt(partial(lanes, store), COMMITS, "I6")
    if isinstance(there, Finding):
        return [*findings, there, *_caches(store), *_reports(store)]
    for lane in there:
        chain = _attempt(partial(_chain, store, lane), lane_folder(lane), "I6")
        if isinstance(chain, Finding):
            findings.append(chain)
            continue
        commits += chain[0]
        findings += chain[1]
    whole = not findings
    if not isinstance(info, Finding) and any(r.window_length_ns != info.window_length_ns for r in commits):
        findings.append(
            Finding(invariant="layout", detail=f"{LAKE_FILE} and commits differ on the window length")
        )
    findings += _ledger(commits)
    for invariant, detail in (
        *broken_positions(commits),
        *broken_carry(commits),
        *broken_segments(store, commits),
    ):
        findings.append(Finding(invariant=invariant, detail=detail))
    hidden = hidden_in(commits)
    if whole:  # else the files of a lane that cannot be read would all be in no commit
        findings += _unnamed_files(store, commits, hidden)
    for broken in (broken_generations, broken_repairs):
        findings += [Finding(invariant="I1", detail=detail) for detail in broken(commits)]
    published = [item for record in commits for item in record.publish]
    findings += [
        f for found in abreast(store, lambda item: [*_file(store, item, hidden)], published) for f in found
    ]
    if not findings:
        findings += _request_ids(store, (item for item in published if not hidden.lets_go(item)))
    return [*findings, *_caches(store), *_reports(store)]


def _attempt(look: Callable[[], T], name: str, invariant: str) -> T | Finding:
    """What `look` sees; where the system refuses, a finding about `name`."""
    try:
        return look()
    except OSError as error:
        # Of a folder's files, the one it is.
        shown = name if str(error.filename or name).endswith(name) else error.filename
        why = error.strerror or str(error)
        return Finding(invariant=invariant, detail=f"'{shown}' cannot be read: {why[:1].lower()}{why[1:]}")


def _chain(store: Store, lane: int) -> tuple[list[CommitRecord], list[Finding]]:
    """Commits of a lane, none where its chain is broken, and what is wrong with them."""
    try:
        commits = [link.record for link in read_chain(store, lane)]
        read_tail(store, lane)
    except LakeError as error:
        return [], [Finding(invariant="I6", detail=error.message)]
    return commits, [*_checkpoints(store, commits), *_past_the_end(store, lane, len(commits))]


def _checkpoints(store: Store, commits: list[CommitRecord]) -> Iterator[Finding]:
    """Tables of a lane's last checkpoint, and what is left of those before: readers make do without, at a
    cost.
    """
    named = [record.checkpoint for record in commits if record.checkpoint is not None]
    for reference in named[-KEPT:]:
        tables = ((reference.files, reference.files_sha256), (reference.inputs, reference.inputs_sha256))
        for name, sha256 in tables:
            if reference is not named[-1] and store.size(name) is None:
                continue
            if read_table(store, name, sha256) is None:
                yield Finding(invariant="I6", detail=f"checkpoint '{name}' is missing or damaged")


def _past_the_end(store: Store, lane: int, head: int) -> Iterator[Finding]:
    """What a lane wrote for commits that its chain does not have. (That for the coming one is on its way, or
    was when its writer died. Data files of no commit are found among all data files.)
    """
    for folder, seq_of in ((segment_folder(lane), segment_seq), (stage_lane_folder(lane), staged_seq)):
        for name in store.names(folder):
            if (seq_of(name) or 0) > head + 1:
                detail = (
                    f"'{folder}/{name}' was written for a commit that is lost: lane {lane} ends at {head}"
                )
                yield Finding(invariant="I6", detail=detail)


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


def _unnamed_files(store: Store, commits: list[CommitRecord], hidden: Hidden) -> Iterator[Finding]:
    named = {item.final: item for record in commits for item in record.publish}
    names = _attempt(lambda: [*data_files(store)], "the folders of data", "I2")
    if isinstance(names, Finding):
        yield names
        return
    for name in names:
        item = named.get(name.removesuffix(ASIDE))
        if item is None:
            yield Finding(invariant="I2", detail=f"'{name}' is in no commit")
        elif name.endswith(ASIDE) and not hidden.lets_go(item):
            yield Finding(invariant="I2", detail=f"'{name}' was set aside, and nothing replaces it")


def _file(store: Store, item: Publish, hidden: Hidden) -> Iterator[Finding]:
    data = _attempt(
        lambda: None if store.size(item.final) is None else store.read(item.final), item.final, "I3"
    )
    if data is None and hidden.lets_go(item):
        return  # swept
    if data is None:
        yield Finding(invariant="I3", detail=f"'{item.final}' was committed and is not there")
        return
    if isinstance(data, Finding):
        yield data
        return
    if hashlib.sha256(data).hexdigest() != item.sha256:
        yield Finding(invariant="I2", detail=f"'{item.final}' is not what was committed (sha256)")
        return
    file = pq.ParquetFile(pa.BufferReader(data))
    metadata = file.metadata.metadata or {}
    told = {key: metadata.get(key, b"").decode() for key in (META_TABLE, META_WINDOW, META_ROWS)}
    expected = {META_TABLE: item.table, META_WINDOW: item.window or "", META_ROWS: str(item.rows)}
    if told != expected or META_VERSION not in metadata or file.metadata.num_rows != item.rows:
        yield Finding(invariant="I2", detail=f"'{item.final}' has other metadata than its commit says")


def _request_ids(store: Store, published: Iterable[Publish]) -> Iterator[Finding]:
    """A request is a flow of spans, of records, or one of each, in its lane. Of a log that is not keyed by
    request, parts of one come in several lanes; `flowdiff rekey` is for that.
    """
    columns = ["request_id", "kind", "lane"]
    files = [item.final for item in published if item.table == "flows"]
    tables = abreast(store, lambda name: decode("flows", store.read(name), columns), files)
    if not tables:
        return
    flows = pa.concat_tables(tables).unify_dictionaries()
    counts = flows.group_by(["request_id", "kind", "lane"]).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1)).sort_by("request_id")
    for row in twice.slice(0, NAMED_REQUESTS).to_pylist():
        detail = f"request '{row['request_id']}' ({row['kind']}) is there {row['count_all']} times"
        yield Finding(invariant="I5", detail=detail)


def _caches(store: Store) -> list[Finding]:
    """What is in no commit and told by its own names.

    Statistics of windows are a cache: what is damaged is made anew, and disk space is lost until then.
    """
    return [
        *_damaged(lambda: [*damaged_stats(store)], STATS, "stats"),
        *_damaged(lambda: [*damaged_records(store)], CALIBRATION, "calibration"),
    ]


def _damaged(look: Callable[[], list[str]], folder: str, invariant: str) -> Iterator[Finding]:
    """What `look` names is to be removed."""
    damaged = _attempt(look, folder, invariant)
    if isinstance(damaged, Finding):
        yield damaged
        return
    for name in damaged:
        yield Finding(invariant=invariant, detail=f"'{name}' is not what was written: remove it")


def _reports(store: Store) -> Iterator[Finding]:
    """Reports are in no commit: each tells in a file of its own what else belongs to it."""
    reports = _attempt(lambda: store.names(REPORTS), REPORTS, "report")
    if isinstance(reports, Finding):
        yield reports
        return
    for report in reports:
        if not report.startswith("."):  # on its way, or left by a process that died
            yield from _report(store, f"{REPORTS}/{report}")


def _report(store: Store, folder: str) -> Iterator[Finding]:
    names = _attempt(lambda: store.names(folder), folder, "report")
    if isinstance(names, Finding):
        yield names
        return
    sums = _attempt(lambda: read_sums(store.read(f"{folder}/{SUMS}")), f"{folder}/{SUMS}", "report")
    if isinstance(sums, Finding):
        yield sums
        return
    for name in sorted({*names, *sums} - {SUMS}):
        data = _attempt(partial(store.read, f"{folder}/{name}"), f"{folder}/{name}", "report")
        if isinstance(data, Finding):
            yield data
        elif hashlib.sha256(data).hexdigest() != sums.get(name):
            detail = f"'{folder}/{name}' is not what was written: repeat the comparison"
            yield Finding(invariant="report", detail=detail)
