"""Commit record of a lane, version 2: work done, files published, and state of the lane.

An existing record is authoritative: its files belong to the lake even before they are moved there.
`stitch.lake.chain` describes how records are chained and hashed.
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
    """One imported file, or part of a topic, identified by `sha256`; the name is for people."""

    name: Annotated[str, BeforeValidator(lambda name: readable_name(name) if isinstance(name, str) else name)]
    sha256: str
    size: int
    """Bytes; 0 for a part of a topic."""
    format: str | None = None
    """Requested format; None: recognised by content."""
    columns: str = ""
    """Configured columns of a table of spans (`SpanColumns.told`)."""
    events: int | None = None
    """Events read from it; None: not recorded, at least one."""
    quarantined: int = 0
    """Number of these events that were refused for an absurd time."""

    def is_settled(self, format_: str | None, columns: str, *, any_time: bool = False) -> bool:
        """True if importing the file again, as `format_` with `columns`, would only repeat the import.

        A file without events may be imported again in another format or with other columns, and one with
        quarantined events once more without quarantine (`any_time`).
        """
        if any_time and self.quarantined:
            return False
        return self.events != 0 or (self.format, self.columns) == (format_, columns)


class FlowCounts(Closed):
    """Counts of a file of flows, so that windows are listed without reading it."""

    weight: float
    """Sum of the flows' weights."""
    weighted_ns: float
    """Sum of weight times response time."""
    errors: int
    """Number of flows with a failed root."""
    failed_weight: float
    """Sum of these flows' weights."""
    flagged: int
    """Number of flows with a quality flag."""
    flags: tuple[int, ...]
    """Number of flows by quality flag, in the order of `Quality`, up to the last one that occurs."""
    categories: tuple[int, ...]
    """Smallest hashes of their categories, ascending: see `stitch.lake.flow_counts`."""


class Publish(Closed):
    """One file to be moved from the stage to its final name."""

    table: str
    window: str | None
    """Name of the window; None for late and dead letters."""
    stage: str
    final: str
    sha256: str
    size: int
    rows: int
    footer_size: int
    """Bytes of the footer, which locates all other data and has no page checksum."""
    footer_sha256: str
    last_ns: int | None = None
    """`flows`: last end of a response in the file; `late`: its latest time; else None."""
    counts: FlowCounts | None = None
    """Counts of `flows`; None for other tables."""


class Segment(Closed):
    """A file of a lane's log: events that one commit read (`stitch.lake.event_log`)."""

    name: str
    sha256: str
    size: int
    rows: int


class PartitionRange(Closed):
    """Offsets `[start, end)` of one topic partition."""

    topic: str
    topic_id: str | None = None
    """Distinguishes a topic from another one made under the same name."""
    partition: int = Field(ge=0)
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    epoch: int | None = None
    """Largest leader epoch before `end`, or larger: distinguishes a log from its state before a truncation.
    None: the log has none.
    """


class Counters(Closed):
    """The ledger of one commit (I1 of `flowdiff fsck`); events are rows of batches that codecs made."""

    events_read: int = 0
    events_published: int = 0
    """Events in flows of this commit, or dropped by the kernel with a quality flag (CAPPED)."""
    events_duplicate: int = 0
    """Exact copies inside this import, and events of requests that are in the lake already, unchanged."""
    events_rejected: int = 0
    """Events that became dead letters: the same id with other content, no time to go by, an absurd time."""
    events_late: int = 0
    """Events of requests that are in the lake already with other content, or that came after their window was
    sealed: stored under `late/`.
    """
    events_carried: int = 0
    """Events read by earlier commits of the lane and open when this one began; 0 for an import."""
    events_lost: int = 0
    """Carried events that were in a damaged segment and will not be read again."""
    events_unlogged: int = 0
    """Events read that the lane's log does not hold, refused ones aside: settled by the commit that read
    them, and older than `live.keep_events`.
    """
    events_open: int = 0
    """Events open after this commit, in the lane's segments: of requests or windows that are not complete; 0
    for a lane that logs.
    """
    events_logged: int = 0
    """Events in the segment of this commit, from which builders make windows."""
    messages: int = 0
    """Messages read from a log, whatever their fate. `positions` covers them and gaps between them."""
    flows: int = 0
    flows_duplicate: int = 0
    flows_late: int = 0
    rejects: dict[str, int] = Field(default_factory=dict)
    """Dead letters by reason: items that codecs refused (never counted as events), and `events_rejected`."""
    rejects_not_kept: int = 0
    """Number of `rejects` that were counted but not stored: beyond the bound on the dead letters of one file
    or commit, or stored by an earlier build of their window.
    """
    oddities: dict[str, int] = Field(default_factory=dict)
    quality: dict[str, int] = Field(default_factory=dict)
    """Number of published flows by quality flag, counted by the lane from the commit's files."""

    @property
    def balanced(self) -> bool:
        """True if every event that was read is accounted for, exactly once."""
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
    """Reference to a checkpoint: the lane's commits up to and including `through`."""

    through: int
    files: str
    """Name of the table of published files."""
    files_sha256: str
    inputs: str
    """Name of the table of imported files."""
    inputs_sha256: str


class Retirement(Closed):
    """Removal of windows that end at or before `to_ns`."""

    to_ns: int
    at_ns: int
    """Time of the commit, by the writer's clock."""


class Generation(Closed):
    """Windows rewritten by one commit of the upkeep lane, which replaces their earlier files."""

    seq: int
    """Number of the commit."""
    at_ns: int
    """Time of the commit, by the writer's clock."""
    through: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: in these windows, the lane's files up to that commit are replaced."""
    emptied: tuple[str, ...] = ()
    """Names of rewritten windows without any flow left, which no file represents."""


class Replaced(Closed):
    """Removal of files of a table outside windows (`late`, …)."""

    seq: int
    """Number of the removing commit. Files of the table that it publishes itself stay."""
    at_ns: int
    """Time of the commit, by the writer's clock."""
    table: str
    through: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: the lane's files up to that commit are removed."""


class BuiltCommits(Closed):
    """Commits of the upkeep lane that published versions of windows built from a log: in each window the
    files of the last of them replace all that the lane published there before.
    """

    first: int
    last: int
    at_ns: int
    """Time of the last commit, by the writer's clock."""


class Upkeep(Closed):
    """Tombstones: files removed from the manifest but not yet deleted."""

    retired: tuple[Retirement, ...] = ()
    """Ascending; the last one applies to readers, the times of earlier ones determine what a sweep may
    delete.
    """
    generations: tuple[Generation, ...] = ()
    """Ascending; for each window the last one with a file in it applies."""
    replaced: tuple[Replaced, ...] = ()
    """Ascending; for each table the last one applies to readers and includes all earlier ones."""
    built: tuple[BuiltCommits, ...] = ()
    """Ascending; entries older than the grace period are merged."""
    emptied: tuple[tuple[int, int], ...] = ()
    """(start of a window, commit): built again without any flow left, which no file represents."""
    built_to: tuple[tuple[int, int], ...] = ()
    """(lane, commit), ascending: up to there no segment of the lane has anything of a window to be built, so
    the lane may remove it.
    """
    rebuilds_from_ns: int | None = None
    """Start of the first window that may be built again, as its log is kept; None: none may."""
    late_to_ns: int | None = None
    """Late events up to this time that the next repair cannot fold in are dropped by it; None: none. Needed
    because a repair rewrites waiting events, which makes the age of their file meaningless.
    """


class Standing(Closed):
    """State of a live lane: the point a takeover resumes from, and the time up to which readers may trust
    it.
    """

    cluster_id: str | None = None
    positions: tuple[PartitionRange, ...] = ()
    """Position in every partition of the lane; empty for a lane of files."""
    watermark_ns: int | None = None
    """Event time up to which the lane expects nothing more."""
    sealed_to_ns: int | None = None
    """Every window that ends at or before this is published completely; None: none yet."""
    ended_to_ns: int | None = None
    """Set when the lane was ended by order: it has no open events and does not block seals until it is taken
    over and commits again. All its data is in windows that end at or before this; 0: it had none.
    """
    idle: tuple[str, ...] = ()
    """Idle streams (`topic/partition`), for which the watermark followed the clock."""
    segments: tuple[Segment, ...] = ()
    """All segments that a takeover must load, old ones included."""
    kept_from: int | None = None
    """Number of the first commit whose segment is retained for a repair, with those of all later commits;
    None: none need be.
    """
    logs: bool = False
    """True if the lane only logs events: windows are built from its log, and sealed, by the upkeep lane."""
    upkeep: Upkeep | None = None
    """State of the upkeep lane; None for other lanes."""

    def kept(self) -> Standing:
        """Same state after a commit that read nothing from the partitions."""
        still = tuple(p.model_copy(update={"start": p.end}) for p in self.positions)
        return self.model_copy(update={"positions": still})


class WindowChange(Closed):
    """Change of a repaired window's row counts; negative: fewer."""

    window: str
    flows: int
    params: int


class Repair(Closed):
    """Effect of an upkeep commit on late events."""

    changed: tuple[WindowChange, ...] = ()
    """Windows whose row counts changed, by name."""
    late: int
    """Number of late events considered: those still waiting, and those removed from `late/` by this
    commit.
    """
    expired: int = 0
    """Late events dropped: older than all windows of the lake, or past the age of late events."""
    events: int
    """Number of these handled: in flows now, dropped as copies, or refused as conflicts."""
    requests: int
    """Number of requests stitched again."""


class BuiltWindow(Closed):
    """Version of a window, as built from the log of a lake."""

    start_ns: int
    version: int
    """Changes of its files, 1 the first."""
    digest: str
    """Hash over the requests that begin in the window and the segments that hold them, hex: the version is
    that of the log where it is the log's.
    """
    through: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: the log it was built from; of a frozen window the log whose events are
    accounted for, in it or as late.
    """
    since: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: the first segment of each lane that it was built from."""
    events: int
    """Events it was built from."""
    duplicates: int = 0
    """Number of these dropped as exact copies."""
    rejected: int = 0
    """Number of these refused: the same id with other content, or no time to go by."""
    late: int = 0
    """Events that came after a segment it was built from was gone; stored under `late/`, not in `events`."""
    late_to_ns: int | None = None
    """Latest time of these: its requests may still go on."""
    moved: tuple[tuple[str, int], ...] = ()
    """(request hash, hex; window start): requests with first event here, whose flow begins there."""
    running_to_ns: int | None = None
    """Latest event of the requests that had not ended when it was built, flagged INCOMPLETE; None: all had.
    The window is built again once they are quiet.
    """
    letters: tuple[int, ...] = ()
    """Commits of the upkeep lane, ascending, with dead letters of its refused events."""


class Build(Closed):
    """Versions that a commit publishes, built from the log of a lake."""

    through: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: the log that was read."""
    watermark_ns: int | None
    """Least watermark of the log's lanes; None: all were over."""
    missing: int = 0
    """Events lost since the last build: their commits were read, no segment holds them."""
    waiting: int | None = None
    """Events of the log that was read which neither a version has nor `late/`; None: not recorded. A builder
    that starts later counts those that are gone from the log by then as missing.
    """
    windows: tuple[BuiltWindow, ...]
    """Ascending; of each window the last commit that names it counts."""


class CommitBody(Closed):
    """Part of a record that the writer provides; the lane adds owner, number and predecessor."""

    kind: Literal["import", "live", "takeover", "upkeep", "build"]
    inputs: tuple[InputFile, ...] = ()
    counters: Counters = Counters()
    config: dict[str, Any] = Field(default_factory=dict)
    """Configuration of decoder and stitcher, for reference."""
    gaps: tuple[PartitionRange, ...] = ()
    """Parts of a log that are missing: offsets skipped inside `positions` on the operator's order because
    they are unreadable; offsets read and then truncated from the log, so that `positions` restart at their
    start; or offsets read earlier and lost with a damaged segment.
    """
    standing: Standing = Standing()
    """State of the lane after the commit; unchanged by an import or a takeover."""
    repair: Repair | None = None
    """Late events that became part of flows; upkeep lane only."""
    build: Build | None = None
    """Versions of windows; upkeep lane only."""


class CommitRecord(CommitBody):
    """One commit of a lane."""

    version: Literal[2] = RECORD_VERSION
    lane: int
    seq: int
    previous: str
    """Own hash of the preceding record."""
    owner: str
    """Name of the writing process; informative only."""
    created_by: str
    """Version of the stitcher."""
    generation: int = 0
    """Number of times the windows were rewritten by a repair."""
    window_length_ns: int
    publish: tuple[Publish, ...] = ()
    carried: tuple[Publish, ...] = ()
    """Files of earlier commits that may be unpublished: to be published again with this one."""
    checkpoint: CheckpointRef | None = None
    """Checkpoint made just before this record, covering all records before it."""
