"""Check a lake against its commits: invariants I1 to I6 (docs/operations.md), statistics, reports.

For live lanes: offsets are contiguous (I4, I6), open events are carried over (I1), and segments exist (I3).
Files that upkeep has hidden may be missing; a rewritten window must have as many rows as before.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.commits import CommitRecord, PartitionRange, Publish, Upkeep
from schemas.errors import LakeError
from stitch.lake import kept_files
from stitch.lake.calibration_files import CALIBRATION, calibration_files
from stitch.lake.chain import FILES_SCHEMA, KEPT, files_table, lanes, read_chain, read_tail, read_verified
from stitch.lake.encoding import META_ROWS, META_TABLE, META_VERSION, META_WINDOW, decode
from stitch.lake.event_log import lost_segments, named_segments, read_segment
from stitch.lake.flow_counts import COUNTED_COLUMNS, count_flows
from stitch.lake.layout import (
    ASIDE,
    COMMITS,
    LAKE_FILE,
    REPORT_END,
    REPORTS,
    WINDOW_TABLES,
    data_files,
    lane_folder,
    read_info,
    report_folders,
    segment_folder,
    segment_seq,
    stage_lane_folder,
    staged_seq,
)
from stitch.lake.stats_files import STATS, stats_files
from stitch.lake.store import Store, map_concurrently
from stitch.lake.sums import SUMS, read_sums, sums_among
from stitch.lake.upkeep.hidden import UPKEEP_LANE, Hidden, hidden_by
from stitch.lake.watch_files import WATCH, watch_faults

_NAMED_REQUESTS: Final = 10
"""Maximum number of duplicate requests that are listed by id."""
_LATE: Final = "late"
_REPAIRED: Final = "repaired"
_COUNTED = [table for table in WINDOW_TABLES if table != "structures"]
"""Tables whose number of rows stays the same when a window is rewritten. That of `structures` does not:
several files have the same structures, and rewriting merges them."""


class Violation(NamedTuple):
    """A broken invariant of a lake."""

    invariant: str
    """Name of the invariant: I1 … I6, `layout`, `stats`, `calibration`, `watch` or `report`."""
    detail: str
    """Sentence for the operator: what is wrong, and where."""


def check(store: Store, lake: str = "LAKE") -> list[Violation]:
    """Find all violations in a lake; empty if it is intact. Reads each data file once.

    An OSError on a file is reported as a violation, and the check continues. Nobody should write to the lake
    meanwhile: files of a commit that is being published are reported under I3. Memory: the request ids of the
    whole lake, about 100 bytes each. Raises LakeError for a lake of another layout version.
    """
    findings: list[Violation] = []
    info = None
    try:
        info = read_info(store, lake)
    except OSError as error:
        findings.append(_refused(error, LAKE_FILE, "layout"))
    else:
        if info is None:
            return [Violation("layout", f"{LAKE_FILE} is missing")]
    try:
        there = lanes(store)
    except OSError as error:
        return [*findings, _refused(error, COMMITS, "I6"), *_caches(store), *_reports(store)]
    commits: list[CommitRecord] = []
    for lane in there:
        findings += _guarded(_chain(store, lane, commits), lane_folder(lane), "I6")
    whole = not findings
    if info is not None and any(r.window_length_ns != info.window_length_ns for r in commits):
        findings.append(Violation("layout", f"{LAKE_FILE} and commits differ on the window length"))
    findings += _ledger(commits)
    findings += _broken_positions(commits)
    findings += _broken_carry(commits)
    findings += _broken_segments(store, commits)
    findings += _broken_builds(commits)
    hidden = _hidden_in(commits)
    if whole:  # else the files of a lane that cannot be read would all be in no commit
        findings += _guarded(_unnamed_files(store, commits, hidden), "the folders of data", "I2")
    findings += _broken_generations(commits)
    findings += _broken_repairs(commits)
    published = [item for record in commits for item in record.publish]

    def of_file(item: Publish) -> list[Violation]:
        return [*_guarded(_file(store, item, hidden), item.final, "I3")]

    findings += chain.from_iterable(map_concurrently(store, of_file, published))
    if not findings:
        findings += _request_ids(store, (item for item in published if not hidden.hides(item)))
    return [*findings, *_caches(store), *_reports(store)]


def _refused(error: OSError, name: str, invariant: str) -> Violation:
    """Violation for an OSError on the file or folder `name`, or on a file in that folder."""
    shown = name if str(error.filename or name).endswith(name) else error.filename
    why = error.strerror or str(error)
    return Violation(invariant, f"'{shown}' cannot be read: {why[:1].lower()}{why[1:]}")


def _guarded(found: Iterator[Violation], name: str, invariant: str) -> Iterator[Violation]:
    """Yield the violations `found`; if this raises an OSError, yield a violation for `name` and stop."""
    try:
        yield from found
    except OSError as error:
        yield _refused(error, name, invariant)


def _chain(store: Store, lane: int, commits: list[CommitRecord]) -> Iterator[Violation]:
    """Yield violations of a lane's chain; append its commits to `commits` if the chain is intact."""
    try:
        own = [link.record for link in read_chain(store, lane)]
        read_tail(store, lane)
    except LakeError as error:
        yield Violation("I6", error.message)
        return
    commits += own
    yield from _checkpoints(store, own)
    yield from _past_the_end(store, lane, len(own))


def _checkpoints(store: Store, commits: list[CommitRecord]) -> Iterator[Violation]:
    """Yield violations for damaged checkpoints among a lane's last KEPT ones: without them, readers must read
    every commit."""
    named = [record.checkpoint for record in commits if record.checkpoint is not None]
    for reference in named[-KEPT:]:
        tables = ((reference.files, reference.files_sha256), (reference.inputs, reference.inputs_sha256))
        for name, sha256 in tables:
            if reference is not named[-1] and store.size(name) is None:
                continue
            if read_verified(store, name, sha256) is None:
                yield Violation("I6", f"checkpoint '{name}' is missing or damaged")


def _past_the_end(store: Store, lane: int, head: int) -> Iterator[Violation]:
    """Yield violations for segments and staged files of commits beyond the end of a lane's chain.

    head: number of the lane's last commit. Files for the next number are allowed: their commit is in
    progress, or its writer died. `_unnamed_files` finds data files without a commit.
    """
    for folder, seq_of in ((segment_folder(lane), segment_seq), (stage_lane_folder(lane), staged_seq)):
        for name in store.names(folder):
            if (seq_of(name) or 0) > head + 1:
                detail = (
                    f"'{folder}/{name}' was written for a commit that is lost: lane {lane} ends at {head}"
                )
                yield Violation("I6", detail)


def _ledger(commits: list[CommitRecord]) -> Iterator[Violation]:
    """Yield violations for commits whose counters do not add up, or differ from the numbers of rows in their
    files."""
    for record in commits:
        counters = record.counters
        if not counters.balanced:
            yield Violation("I1", f"commit {record.seq}: {counters}")
        kept = sum(counters.rejects.values()) - counters.rejects_not_kept
        for table, counted in (("flows", counters.flows), ("dead_letters", kept)):
            rows = sum(item.rows for item in record.publish if item.table == table)
            if rows != counted:
                detail = f"commit {record.seq} counts {counted} {table}, its files hold {rows}"
                yield Violation("I1", detail)
        if not record.standing.logs or record.lane == UPKEEP_LANE:
            continue
        segments = record.standing.segments
        if any(segment_seq(one.name.rpartition("/")[2]) != record.seq for one in segments):
            continue  # restored by a repair
        rows = sum(one.rows for one in segments)
        if rows != counters.events_logged:
            yield Violation(
                "I1",
                f"commit {record.seq} of lane {record.lane} logged {counters.events_logged} events, its "
                f"segments hold {rows}",
            )


def _unnamed_files(store: Store, commits: list[CommitRecord], hidden: Hidden) -> Iterator[Violation]:
    """Yield violations for data files that no commit lists, and for files renamed as replaced although
    nothing replaces them."""
    named = {item.final: item for record in commits for item in record.publish}
    for name in [*data_files(store)]:
        item = named.get(name.removesuffix(ASIDE))
        if item is None:
            yield Violation("I2", f"'{name}' is in no commit")
        elif name.endswith(ASIDE) and not hidden.hides(item):
            yield Violation("I2", f"'{name}' was set aside, and nothing replaces it")


def _file(store: Store, item: Publish, hidden: Hidden) -> Iterator[Violation]:
    """Yield violations of one published file: it is missing, or its content, metadata or counts are not those
    committed."""
    if store.size(item.final) is None:
        if not hidden.hides(item):  # else it was swept
            yield Violation("I3", f"'{item.final}' was committed and is not there")
        return
    data = store.read(item.final)
    if hashlib.sha256(data).hexdigest() != item.sha256:
        yield Violation("I2", f"'{item.final}' is not what was committed (sha256)")
        return
    file = pq.ParquetFile(pa.BufferReader(data))
    metadata = file.metadata.metadata or {}
    stored = {key: metadata.get(key, b"").decode() for key in (META_TABLE, META_WINDOW, META_ROWS)}
    expected = {META_TABLE: item.table, META_WINDOW: item.window or "", META_ROWS: str(item.rows)}
    if stored != expected or META_VERSION not in metadata or file.metadata.num_rows != item.rows:
        yield Violation("I2", f"'{item.final}' has other metadata than its commit says")
    elif item.table == "flows" and item.counts != count_flows(decode("flows", data, [*COUNTED_COLUMNS])):
        yield Violation("I1", f"'{item.final}' has other counts than its commit says")


def _request_ids(store: Store, published: Iterable[Publish]) -> Iterator[Violation]:
    """Yield violations for duplicate requests: a lane may have at most one flow of spans and one flow of
    records per request id.

    A request may have parts in several lanes, if its topic is not keyed by request, which `flowdiff rekey`
    corrects.
    """
    columns = ["request_id", "kind", "lane"]
    files = [item.final for item in published if item.table == "flows"]
    tables = map_concurrently(store, lambda name: decode("flows", store.read(name), columns), files)
    if not tables:
        return
    flows = pa.concat_tables(tables).unify_dictionaries()
    counts = flows.group_by(["request_id", "kind", "lane"]).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1)).sort_by("request_id")
    for row in twice.slice(0, _NAMED_REQUESTS).to_pylist():
        detail = f"request '{row['request_id']}' ({row['kind']}) is there {row['count_all']} times"
        yield Violation("I5", detail)


def _caches(store: Store) -> list[Violation]:
    """Find violations in files that no commit lists: statistics, calibrations, and the commit chain of the
    watch.

    Statistics of windows are a cache: damaged files are ignored and computed again, but take disk space.
    """
    return [
        *_damaged(kept_files.damaged(store, stats_files(store)), STATS, "stats"),
        *_damaged(kept_files.damaged(store, calibration_files(store)), CALIBRATION, "calibration"),
        *_guarded((Violation("watch", detail) for detail in watch_faults(store)), WATCH, "watch"),
    ]


def _damaged(names: Iterator[str], folder: str, invariant: str) -> Iterator[Violation]:
    """Yield violations for the damaged files `names` in `folder`, which the operator should delete."""
    found = (Violation(invariant, f"'{name}' is not what was written: remove it") for name in names)
    yield from _guarded(found, folder, invariant)


def _reports(store: Store) -> Iterator[Violation]:
    """Yield violations in reports. Commits do not list reports; each report lists its files with their
    hashes.

    A report without its JSON file is skipped, as readers do: it is being written, or its writer died.
    """

    def of_all() -> Iterator[Violation]:
        for report in report_folders(store.names(REPORTS)):
            folder = f"{REPORTS}/{report}"
            yield from _guarded(_report(store, folder), folder, "report")

    yield from _guarded(of_all(), REPORTS, "report")


def _report(store: Store, folder: str) -> Iterator[Violation]:
    names = store.names(folder)
    if REPORT_END not in names:
        return
    found = [*_broken_report(store, folder, names)]
    if store.size(f"{folder}/{REPORT_END}") is not None:  # else it is being replaced
        yield from found


def _broken_report(store: Store, folder: str, names: Sequence[str]) -> Iterator[Violation]:
    """Yield violations for files of a report whose hash is in none of its checksum files."""
    of_sums, sums = sums_among(names), defaultdict[str, set[str]](set)
    for name in of_sums:
        try:
            whole = f"{folder}/{name}"
            data = store.read(whole) if name == SUMS else kept_files.read_whole(store, whole)
        except OSError as error:
            yield _refused(error, f"{folder}/{name}", "report")
        else:
            if data is None:
                yield _changed(folder, name)
            for file, sha256 in read_sums(data).items() if data is not None else ():
                sums[file].add(sha256)
    for name in sorted({*names, *sums} - {*of_sums}):
        try:
            data = store.read(f"{folder}/{name}")
        except OSError as error:
            yield _refused(error, f"{folder}/{name}", "report")
        else:
            if hashlib.sha256(data).hexdigest() not in sums[name]:
                yield _changed(folder, name)


def _changed(folder: str, name: str) -> Violation:
    return Violation("report", f"'{folder}/{name}' is not what was written: repeat the comparison")


def _broken_positions(commits: Iterable[CommitRecord]) -> Iterator[Violation]:
    """Yield violations for streams whose offset ranges in successive commits are not contiguous, and for
    recorded gaps outside the range of their commit.

    A range may restart at another offset if a recorded gap says that the log was truncated. A gap may lie
    before the range if the commit records a lost segment.
    """
    ends: dict[tuple[int, str, str | None, int], int] = {}
    for record in commits:
        gaps = {(*_stream(record.lane, gap), gap.start, gap.end) for gap in record.gaps}
        for position in record.standing.positions:
            stream = _stream(record.lane, position)
            before = ends.get(stream, position.start)
            cut = (*stream, position.start, before)
            if (before != position.start and cut not in gaps) or position.end < position.start:
                detail = (
                    f"commit {record.seq} of lane {record.lane} starts '{position.topic}' at {position.start}"
                )
                yield Violation("I6", f"{detail}, the one before ended at {before}")
            first = 0 if record.counters.events_lost else position.start
            within = {gap for gap in gaps if gap[:4] == stream and first <= gap[4] <= gap[5] <= position.end}
            gaps -= {cut, *within}
            ends[stream] = position.end
        for _ in gaps:
            detail = f"commit {record.seq} of lane {record.lane} has a gap outside of what it took"
            yield Violation("I4", detail)


def _stream(lane: int, position: PartitionRange) -> tuple[int, str, str | None, int]:
    return lane, position.topic, position.topic_id, position.partition


def _broken_carry(commits: Iterable[CommitRecord]) -> Iterator[Violation]:
    """Yield violations for live commits whose `events_carried` differs from `events_open` of the lane's
    previous live commit."""
    still_open: dict[int, int] = {}
    for record in commits:
        if record.kind != "live":
            continue
        before = still_open.get(record.lane, 0)
        # What a lane that logs lost of what it had logged is carried, too.
        if record.counters.events_carried - record.counters.events_lost * record.standing.logs != before:
            yield Violation(
                "I1",
                f"commit {record.seq} of lane {record.lane} carries {record.counters.events_carried} events, "
                f"the one before left {before} open",
            )
        still_open[record.lane] = record.counters.events_open


def _broken_segments(store: Store, commits: Iterable[CommitRecord]) -> Iterator[Violation]:
    """Yield violations for damaged segments, and for missing ones that the last commit of their lane needs or
    retains for a repair."""
    by_lane = defaultdict[int, list[CommitRecord]](list)
    for record in commits:
        by_lane[record.lane].append(record)
    last = {lane: own[-1] for lane, own in by_lane.items()}
    upkeep = last[UPKEEP_LANE].standing.upkeep if UPKEEP_LANE in last else None
    built_to = {} if upkeep is None else dict(upkeep.built_to)
    needed = {
        segment.name
        for lane, record in last.items()
        for segment in record.standing.segments
        # Of an ended lane all goes once it is built.
        if record.standing.ended_to_ns is None or record.seq > built_to.get(lane, 0)
    }
    for lane, own in by_lane.items():
        for name, segment in named_segments(own).items():
            try:
                if name not in needed and store.size(name) is not None:
                    read_segment(store, segment)
            except (LakeError, OSError) as error:
                yield Violation("I3", f"lane {lane}: {error}")
        yield from _lost_segments(store, own, needed)
    for lane, record in sorted(last.items()):
        rows = 0
        for segment in record.standing.segments:
            if segment.name not in needed:
                continue
            try:
                rows += read_segment(store, segment).num_rows
            except (LakeError, OSError) as error:
                yield Violation("I3", f"lane {lane}: {error}")
        still_open = record.counters.events_open if record.kind == "live" else 0
        if rows < still_open:
            detail = f"lane {lane} has {still_open} open events, its segments hold {rows}"
            yield Violation("I1", detail)


def _broken_builds(commits: Iterable[CommitRecord]) -> Iterator[Violation]:
    """Yield violations for built windows whose events by lane do not add up to the events that they were
    built from. Their log is compared with them elsewhere (`stitch.drivers.build.log_check`)."""
    for record in commits:
        for window in () if record.build is None else record.build.windows:
            if window.lanes is None:
                continue
            of_lanes = sum(events for _, events in window.lanes)
            if of_lanes != window.events:
                yield Violation(
                    "I1",
                    f"commit {record.seq} of the upkeep lane built the window at {window.start_ns} ns from "
                    f"{window.events} events, and names {of_lanes} events of lanes",
                )


def _lost_segments(store: Store, commits: Sequence[CommitRecord], needed: set[str]) -> Iterator[Violation]:
    """Yield violations for missing segments that a lane's last commit retains, except those in `needed`,
    which `_broken_segments` reports. commits: those of the lane, ascending."""
    lane = commits[-1].lane
    try:
        for segment in lost_segments(store, lane, commits):
            if segment.name not in needed:
                detail = f"lane {lane}: segment '{segment.name}', kept for a repair, is missing"
                yield Violation("I3", detail)
    except LakeError as error:
        yield Violation("I6", error.message)
    except OSError as error:
        yield _refused(error, segment_folder(lane), "I3")


def _hidden_in(commits: Sequence[CommitRecord]) -> Hidden:
    """Rules that say which files the upkeep lane hides. commits: those of all lanes, each lane in order."""
    own = [record for record in commits if record.lane == UPKEEP_LANE]
    upkeep = own[-1].standing.upkeep if own else None
    listing = files_table(own) if own else FILES_SCHEMA.empty_table()
    return hidden_by(upkeep or Upkeep(), listing, commits[-1].window_length_ns if commits else 1)


def _broken_generations(commits: Iterable[CommitRecord]) -> Iterator[Violation]:
    """Yield violations for rewritten windows whose number of flows or parameters differs from that of the
    replaced files (deleted or not), unless a repair records the difference."""
    rows: defaultdict[tuple[str, str], Counter[tuple[int, int]]] = defaultdict(Counter)
    own = []
    for record in commits:
        if record.lane == UPKEEP_LANE and (record.publish or record.repair):
            own.append(record)
        for item in record.publish:
            if item.window is not None and item.table in _COUNTED:
                rows[item.table, item.window][record.lane, record.seq] += item.rows
    effective: dict[str, tuple[int, dict[int, int]]] = {}
    for record in own:  # ascending
        standing = record.standing.upkeep or Upkeep()
        changed = {change.window: change for change in record.repair.changed} if record.repair else {}
        windows = {*changed, *(item.window for item in record.publish if item.window is not None)}
        if record.build is not None:  # as many rows as the log gives
            effective |= dict.fromkeys(windows, (record.seq, {}))
            continue
        through = dict(next((at.through for at in standing.generations if at.seq == record.seq), ()))
        if windows and not through:
            detail = f"commit {record.seq} of the upkeep lane does not say what it replaces"
            yield Violation("I1", detail)
            continue
        for window in sorted(windows):
            seq_before, through_before = effective.get(window, (0, {}))
            for table in _COUNTED:
                recorded = rows[table, window]
                before = recorded[UPKEEP_LANE, seq_before] + sum(
                    n
                    for (lane, seq), n in recorded.items()
                    if lane != UPKEEP_LANE and through_before.get(lane, 0) < seq <= through.get(lane, 0)
                )
                more = getattr(changed[window], table) if window in changed else 0
                if recorded[UPKEEP_LANE, record.seq] != before + more:
                    yield Violation(
                        "I1",
                        f"commit {record.seq} of the upkeep lane replaces {before} {table} of window "
                        f"{window} by {recorded[UPKEEP_LANE, record.seq]}, {more} more by its own account",
                    )
            effective[window] = (record.seq, through)


def _broken_repairs(commits: Iterable[CommitRecord]) -> Iterator[Violation]:
    """Yield violations for repairs that lost late events: every event removed from `late/` must be written to
    `late/` again, be in `repaired/`, or be counted as expired."""
    rows: Counter[tuple[int, int]] = Counter()
    own = []
    for record in commits:
        if record.lane == UPKEEP_LANE:
            own.append(record)
        rows[record.lane, record.seq] += sum(i.rows for i in record.publish if i.table == _LATE)
    gone: dict[int, int] = {}
    for record in own:  # ascending
        standing = record.standing.upkeep or Upkeep()
        replaced = [at for at in standing.replaced if at.table == _LATE and at.seq == record.seq]
        through = dict(replaced[-1].through) if replaced else gone
        if record.repair is not None:
            taken = sum(
                n for (lane, seq), n in rows.items() if gone.get(lane, 0) < seq <= through.get(lane, 0)
            )
            kept = sum(i.rows for i in record.publish if i.table in (_LATE, _REPAIRED))
            if not taken == kept + record.repair.expired == record.repair.late:
                yield Violation(
                    "I1",
                    f"commit {record.seq} of the upkeep lane took {taken} late events, says "
                    f"{record.repair.late}, and has {kept}",
                )
        gone = through
