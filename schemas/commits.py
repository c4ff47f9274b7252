"""Commit record of a lane, version 2: work done, files published, and state of the lane.

A record is authoritative once it exists: its files belong to the lake even before they are moved to their
final names. `stitch.lake.chain` describes how records are chained and hashed.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from schemas.closed import Closed
from schemas.visible import readable_name

RECORD_VERSION: Final = 2
NO_COMMIT: Final = "0" * 64
"""`previous` of the first record of a lane."""


class InputFile(Closed):
    """Imported file, or imported range of a topic, identified by `sha256`; `name` is only for display."""

    name: Annotated[str, BeforeValidator(lambda name: readable_name(name) if isinstance(name, str) else name)]
    sha256: str
    size: int
    """Size of the file, bytes; 0 for a range of a topic."""
    format: str | None = None
    """Format given by the user; None: recognised by content."""
    columns: str = ""
    """Configured column mapping of a table of spans (`SpanColumns.told`); empty for other formats."""
    events: int | None = None
    """Number of events read from the file; None: not recorded, but at least one."""
    quarantined: int = 0
    """Number of the file's events that were rejected for an absurd time."""

    def is_settled(self, format_: str | None, columns: str, *, any_time: bool = False) -> bool:
        """True if importing the file again, as `format_` with `columns`, would change nothing.

        False for a file without events that is imported in another format or with other columns, and for one
        with quarantined events that is imported without quarantine (`any_time`).
        """
        if any_time and self.quarantined:
            return False
        return self.events != 0 or (self.format, self.columns) == (format_, columns)


class FlowCounts(Closed):
    """Aggregates over the flows of one file, by which windows are listed without reading the file."""

    weight: float
    """Sum of the flows' weights."""
    weighted_ns: float
    """Sum over flows of weight times response time, ns."""
    errors: int
    """Number of flows with a failed root."""
    failed_weight: float
    """Sum of the weights of flows with a failed root."""
    flagged: int
    """Number of flows with at least one quality flag."""
    flags: tuple[int, ...]
    """Number of flows with each quality flag, in the order of `Quality`; flags after the last one that occurs
    are left out."""
    categories: tuple[int, ...]
    """Sketch for the number of distinct categories: the smallest category hashes, ascending
    (`stitch.lake.flow_counts`)."""


class Publish(Closed):
    """One Parquet file that a commit publishes, by moving it from its staged to its final name."""

    table: str
    """Name of the table, such as `flows` or `late`."""
    window: str | None
    """Name of the window; None for tables without windows, such as late events and dead letters."""
    stage: str
    """Path of the staged file in the lake."""
    final: str
    """Path of the published file in the lake."""
    sha256: str
    """Hash of the file, hex."""
    size: int
    """Size of the file, bytes."""
    rows: int
    """Number of rows in the file."""
    footer_size: int
    """Size, bytes, of the Parquet footer, which locates all other data and has no page checksum."""
    footer_sha256: str
    """Hash of the footer, hex."""
    last_ns: int | None = None
    """Latest time in the file, ns since the epoch: end of a response in `flows`, event time in `late`; None
    for other tables."""
    counts: FlowCounts | None = None
    """Aggregates over the file's flows; None for other tables than `flows`."""


class Segment(Closed):
    """A file of a lane's log: the events that one commit read (`stitch.lake.event_log`)."""

    name: str
    """Path of the file in the lake."""
    sha256: str
    """Hash of the file, hex."""
    size: int
    """Size of the file, bytes."""
    rows: int
    """Number of events in the file."""


class PartitionRange(Closed):
    """Range of offsets of one topic partition: from `start` to before `end`."""

    topic: str
    topic_id: str | None = None
    """Kafka's id of the topic, which differs if the topic was deleted and created again; None: unknown."""
    partition: int = Field(ge=0)
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    epoch: int | None = None
    """Leader epoch of the last message before `end`, or a later one: distinguishes the log from its state
    before a truncation. None: the log has no epochs."""


class Counters(Closed):
    """Ledger of one commit, balanced by invariant I1 of `flowdiff fsck`. An event is a row that a codec
    decoded."""

    events_read: int = 0
    """Events decoded from the input of this commit."""
    events_published: int = 0
    """Events in flows of this commit, or dropped by the kernel with a quality flag (CAPPED)."""
    events_duplicate: int = 0
    """Events dropped as duplicates: exact copies within this import, and events of requests that the lake
    already has with the same content."""
    events_rejected: int = 0
    """Number of events that became dead letters: same id with other content, no time, or an absurd time."""
    events_late: int = 0
    """Number of events stored under `late/`: the lake has their request already with other content, or their
    window was sealed before they were read."""
    events_carried: int = 0
    """Number of events that earlier commits of the lane read and that were open when this commit began; 0 for
    an import."""
    events_lost: int = 0
    """Carried events that were in a damaged segment and will not be read again."""
    events_unlogged: int = 0
    """Number of accepted events that are not in the lane's log, because the commit handled them itself and
    they are older than `live.keep_events`; builders count them as missing. Written by earlier versions only.
    """
    events_open: int = 0
    """Number of events in the lane's segments that are open after this commit, i.e. their request or window
    is not complete; 0 for a lane whose windows are built from its log."""
    events_logged: int = 0
    """Events in the log segment of this commit, from which windows are built."""
    messages: int = 0
    """Number of messages read from Kafka or the spool, rejected ones included; their offsets lie in
    `Standing.positions`."""
    flows: int = 0
    """Number of flows that this commit published."""
    flows_duplicate: int = 0
    """Number of flows dropped because the lake already has the request with the same content."""
    flows_late: int = 0
    """Number of flows not published because the lake already has the request with other content; their events
    are counted as late."""
    rejects: dict[str, int] = Field(default_factory=dict)
    """Reason -> number of dead letters: items that codecs rejected (not counted as events), and
    `events_rejected`."""
    rejects_not_kept: int = 0
    """Number of dead letters in `rejects` that were counted but not stored: beyond the maximum per file or
    commit, or stored by an earlier build of their window.
    """
    oddities: dict[str, int] = Field(default_factory=dict)
    """Kind of irregularity in decoded input -> number of occurrences."""
    quality: dict[str, int] = Field(default_factory=dict)
    """Name of a quality flag -> number of published flows with it, counted from the commit's files."""

    @property
    def balanced(self) -> bool:
        """True if events carried and read equal the sum of events published, duplicate, rejected, late, lost,
        open and logged."""
        return self.events_carried + self.events_read == (
            self.events_published
            + self.events_duplicate
            + self.events_rejected
            + self.events_late
            + self.events_lost
            + self.events_open
            + self.events_logged
        )


class CheckpointRef(Closed):
    """Reference to a checkpoint of a lane: tables that summarize the lane's commits, so that readers need not
    read each commit."""

    through: int
    """Number of the last commit that the checkpoint covers."""
    files: str
    """Path, in the lake, of the table of published files."""
    files_sha256: str
    """Hash of the table of published files, hex."""
    inputs: str
    """Path, in the lake, of the table of imported files."""
    inputs_sha256: str
    """Hash of the table of imported files, hex."""


class Retirement(Closed):
    """Retirement of all windows that end at or before a time: they are hidden from readers."""

    to_ns: int
    """Latest end of a retired window, ns since the epoch."""
    at_ns: int
    """Time of the commit, ns since the epoch, by the writer's clock."""


class Generation(Closed):
    """Commit of the upkeep lane that rewrote windows: its files replace the earlier files of these
    windows."""

    seq: int
    """Number of the commit in the upkeep lane."""
    at_ns: int
    """Time of the commit, ns since the epoch, by the writer's clock."""
    through: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: in the rewritten windows, the lane's files up to the commit are replaced."""
    emptied: tuple[str, ...] = ()
    """Names of rewritten windows without any flow left, which no file represents."""


class Replaced(Closed):
    """Removal of files of a table without windows, such as `late`, by a commit of the upkeep lane."""

    seq: int
    """Number of the removing commit. Files of the table that the commit itself publishes stay."""
    at_ns: int
    """Time of the commit, ns since the epoch, by the writer's clock."""
    table: str
    """Name of the table."""
    through: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: the lane's files of the table up to that commit are removed."""


class BuiltCommits(Closed):
    """Range of upkeep commits that published windows built from a log.

    In each window, the files of the latest such commit replace all earlier files of the upkeep lane.
    """

    first: int
    """Number of the first commit of the range."""
    last: int
    """Number of the last commit of the range, inclusive."""
    at_ns: int
    """Time of the last commit of the range, ns since the epoch, by the writer's clock."""


class Upkeep(Closed):
    """State of the upkeep lane: tombstones of hidden files that are not yet deleted, and progress of
    building."""

    retired: tuple[Retirement, ...] = ()
    """Retirements (windows up to a time are hidden), ascending by time.

    Readers apply the last one; the times of earlier ones determine which files a sweep may delete.
    """
    generations: tuple[Generation, ...] = ()
    """Commits that rewrote windows, ascending; for each window, readers use the files of the last one that
    rewrote it."""
    replaced: tuple[Replaced, ...] = ()
    """Removals of files from tables without windows, such as `late`, ascending by commit; for each table only
    the last removal is applied, as it includes all earlier ones."""
    built: tuple[BuiltCommits, ...] = ()
    """Ranges of build commits, ascending; ranges older than the grace period are merged."""
    emptied: tuple[tuple[int, int], ...] = ()
    """(start of a window in ns, commit): the commit rebuilt the window without any flow, so it has no file
    there."""
    built_to: tuple[tuple[int, int], ...] = ()
    """(lane, commit), ascending: no window still to be built needs the lane's segments up to that commit, so
    the lane may delete them.
    """
    rebuilds_from_ns: int | None = None
    """Start, ns, of the first window that may be rebuilt, because its log is retained; None: none may."""
    late_to_ns: int | None = None
    """Time, ns since the epoch: the next repair drops late events up to it that cannot be added to flows;
    None: it drops none. Needed because a repair rewrites waiting events, which resets the age of their file.
    """


class Standing(Closed):
    """State of a lane after a commit: the offsets from which a takeover resumes, and the time up to which its
    windows are complete.
    """

    cluster_id: str | None = None
    """Id of the Kafka cluster that `positions` refer to; None: unknown, or not read from Kafka."""
    positions: tuple[PartitionRange, ...] = ()
    """Offset range of every partition of the lane, read by the commit; empty for a lane of imported files."""
    watermark_ns: int | None = None
    """Event time, ns since the epoch, up to which the lane expects no more events; None: not known yet."""
    sealed_to_ns: int | None = None
    """Time, ns since the epoch: every window that ends at or before it is published completely; None: none
    is."""
    ended_to_ns: int | None = None
    """End of the last window with data of the lane, ns since the epoch, if an operator ended the lane (0: it
    had no data); None: not ended. An ended lane has no open events, and no window waits for it until it is
    taken over and commits again."""
    idle: tuple[str, ...] = ()
    """Idle streams (`topic/partition`), for which the watermark followed the clock."""
    segments: tuple[Segment, ...] = ()
    """Log segments named by the commit: its own; in commits of older flowdiff versions, all segments with
    open events."""
    kept_from: int | None = None
    """Number of the first commit whose segment is retained for repairs (the segments of all later commits
    are, too); None: none is."""
    logs: bool = False
    """True if the lane only logs events: builders make windows from its log and seal them in the upkeep
    lane."""
    upkeep: Upkeep | None = None
    """State of upkeep (compaction, retention, repair, building of windows) in commits of its own lane; None
    in those of other lanes."""

    def kept(self) -> Standing:
        """Copy of the state for a commit that reads nothing: the offset range of each partition is empty."""
        still = tuple(p.model_copy(update={"start": p.end}) for p in self.positions)
        return self.model_copy(update={"positions": still})


class WindowChange(Closed):
    """Change of a repaired window's row counts."""

    window: str
    """Name of the window."""
    flows: int
    """Number of flows after the repair minus before."""
    params: int
    """Number of parameters after the repair minus before."""


class Repair(Closed):
    """Effect of an upkeep commit on late events."""

    changed: tuple[WindowChange, ...] = ()
    """Windows whose row counts changed, by name."""
    late: int
    """Number of late events that the repair considered: the ones that still wait, and the ones that this
    commit removed from `late/`."""
    expired: int = 0
    """Number of late events dropped: older than all windows of the lake, or than the maximum age of late
    events."""
    events: int
    """Number of late events handled: added to flows, dropped as copies, or rejected as conflicts."""
    requests: int
    """Number of requests stitched again."""


class BuiltWindow(Closed):
    """Version of a window that was built from the log of a lake."""

    start_ns: int
    """Start of the window, ns since the epoch."""
    version: int
    """Version number; 1 for the first build, incremented when the window's files change."""
    digest: str
    """Hash, hex, over the requests that begin in the window and the segments that hold them; the version is
    outdated if the current log gives another digest."""
    through: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: end of the log that the window was built from, inclusive. For a frozen
    window (one whose log is partly deleted): end of the log whose events are in the window or stored as late.
    """
    since: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: first segment of each lane that the window was built from."""
    events: int
    """Number of events that the window was built from."""
    lanes: tuple[tuple[int, int], ...] | None = None
    """(lane, number of the lane's events in `events`), ascending; None: not recorded."""
    duplicates: int = 0
    """Number of the window's events dropped as exact copies."""
    rejected: int = 0
    """Number of the window's events that were rejected: same id with other content, or no time."""
    late: int = 0
    """Number of events stored under `late/` because a segment from which the window was built had been
    deleted before they came; not included in `events`."""
    late_to_ns: int | None = None
    """Latest time, ns, of the window's late events: their requests may still receive more; None: no late
    event."""
    moved: tuple[tuple[str, int], ...] = ()
    """(request hash in hex, window start in ns): requests whose first event is in this window, but whose flow
    begins in the window that starts then."""
    running_to_ns: int | None = None
    """Latest event time, ns, of requests that had not ended at the build and are flagged INCOMPLETE; None:
    all had ended. The window is rebuilt once these requests are idle.
    """
    letters: tuple[int, ...] = ()
    """Numbers of upkeep commits, ascending, that stored dead letters of the window's rejected events."""


class Build(Closed):
    """Part of an upkeep commit that publishes windows built from the log of a lake."""

    through: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: end of the log that was read, inclusive."""
    watermark_ns: int | None
    """Minimum watermark of the log's lanes, ns; None: all lanes had ended."""
    missing: int = 0
    """Number of events lost since the previous build: commits count them, but no segment holds them."""
    waiting: int | None = None
    """Number of events in the log read that are neither in a built window nor in `late/`; None: not recorded.
    A builder that starts later counts the waiting events that have left the log by then as missing.
    """
    windows: tuple[BuiltWindow, ...]
    """Versions of windows, ascending by start; for each window the last commit that contains it applies."""


class CommitBody(Closed):
    """Part of a commit record that the writer provides; `Lane` adds owner, number and predecessor."""

    kind: Literal["import", "live", "takeover", "upkeep", "build"]
    """Kind of commit: files were imported; a live lane read its streams; a live lane was taken over; upkeep
    hid or rewrote files; windows were built from a log."""
    inputs: tuple[InputFile, ...] = ()
    """Files imported by the commit; empty for other kinds."""
    counters: Counters = Counters()
    """Ledger of the commit."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Settings of decoder and stitcher at the commit, as JSON values."""
    gaps: tuple[PartitionRange, ...] = ()
    """Parts of a log that are missing: offsets skipped inside `positions` on the operator's order because
    they are unreadable; offsets read and then truncated from the log, so that `positions` restart at their
    start; or offsets read earlier and lost with a damaged segment.
    """
    standing: Standing = Standing()
    """State of the lane after the commit; unchanged by an import or a takeover."""
    repair: Repair | None = None
    """Effect on late events; None unless an upkeep commit repaired windows."""
    build: Build | None = None
    """Windows built from a log; None unless `kind` is `build`."""


class CommitRecord(CommitBody):
    """Record of one commit: the files that it publishes, its ledger, and the state of its lane afterwards.

    A lane is a numbered chain of commits with one writer at a time, such as live ingestion of a share of the
    partitions, or upkeep.
    """

    version: Literal[2] = RECORD_VERSION
    lane: int
    """Number of the lane."""
    seq: int
    """Number of the commit in its lane; 1 for the first."""
    previous: str
    """Hash, hex, of the lane's preceding record; NO_COMMIT for the first."""
    owner: str
    """Name of the writing process; informative only."""
    created_by: str
    """Program and version that wrote the record."""
    generation: int = 0
    """Number of times the windows were rewritten by a repair."""
    window_length_ns: int
    """Length of the lake's windows, ns."""
    publish: tuple[Publish, ...] = ()
    """Files that the commit publishes."""
    carried: tuple[Publish, ...] = ()
    """Files of earlier commits that may not be published yet: they are published again with this commit."""
    checkpoint: CheckpointRef | None = None
    """Checkpoint made just before this record, covering all records before it."""
