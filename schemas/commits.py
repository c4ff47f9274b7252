"""The commit record of a lane, version 2: what a lane did, what it published, and where it stands.

A record that exists is the truth: its files are in the lake even where they still have to be moved there. How
records are chained and hashed is in `stitch.lake.chain`.
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
    """One imported file, or part of a topic; `sha256` decides, the name is for people."""

    name: Annotated[str, BeforeValidator(lambda name: readable_name(name) if isinstance(name, str) else name)]
    sha256: str
    size: int
    """Bytes; 0: of a part of a topic."""
    format: str | None = None
    """Format that was asked for; None: recognised by content."""
    columns: str = ""
    """Columns of a table of spans that were named for it (`SpanColumns.told`)."""
    events: int | None = None
    """Events read from it; None: not noted, then there were some."""
    quarantined: int = 0
    """Times of these that were absurd, so that the events were refused."""

    def is_settled(self, format_: str | None, columns: str, *, any_time: bool = False) -> bool:
        """Whether to import the file again, as `format_` with `columns`, would be to repeat it.

        A file of which nothing came may be tried in another format or by other columns, and one of which
        something was quarantined once more without quarantine (`any_time`).
        """
        if any_time and self.quarantined:
            return False
        return self.events != 0 or (self.format, self.columns) == (format_, columns)


class FlowCounts(Closed):
    """What a file of flows holds, for whoever lists windows without reading it."""

    weight: float
    """Sum of the weights."""
    weighted_ns: float
    """Sum of weight times response time."""
    errors: int
    """Flows whose root did not end ok."""
    failed_weight: float
    """Sum of their weights."""
    flagged: int
    """Flows with a quality flag."""
    flags: tuple[int, ...]
    """Flows by quality flag, in the order of `Quality`, up to the last one that occurs."""
    categories: tuple[int, ...]
    """The smallest hashes of their categories, ascending: see `stitch.lake.flow_counts`."""


class Publish(Closed):
    """One file to be moved from the stage to where readers look."""

    table: str
    window: str | None
    """Name of the window; None for late and dead letters."""
    stage: str
    final: str
    sha256: str
    size: int
    rows: int
    footer_size: int
    """Bytes at the end of the file that say where all else is, which checksums of pages do not guard."""
    footer_sha256: str
    last_ns: int | None = None
    """`flows`: when the last response of the file was over; `late`: its latest time; else None."""
    counts: FlowCounts | None = None
    """Of `flows`; else None."""


class Segment(Closed):
    """A file of raw events that are still open, kept for whoever takes the lane over."""

    name: str
    sha256: str
    size: int
    rows: int


class PartitionRange(Closed):
    """What was taken from one topic partition: offsets `[start, end)`."""

    topic: str
    topic_id: str | None = None
    """Distinguishes a topic from another one made under the same name."""
    partition: int = Field(ge=0)
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    epoch: int | None = None
    """Largest epoch of a leader among what is before `end`, or larger: distinguishes a log from the one that
    it was before it was cut back. None: the log has none."""


class Counters(Closed):
    """The ledger of one commit (I1 of `flowdiff fsck`); events are rows of batches that codecs made."""

    events_read: int = 0
    events_published: int = 0
    """In flows of this commit, or dropped by the kernel with a quality flag (CAPPED)."""
    events_duplicate: int = 0
    """Exact copies inside this import, and events of requests that are in the lake already, unchanged."""
    events_rejected: int = 0
    """Events that became dead letters: the same id with other content, no time to go by, an absurd time."""
    events_late: int = 0
    """Of requests that are in the lake already with other content, or that came after their window was
    sealed: kept under `late/`."""
    events_carried: int = 0
    """Read by earlier commits of the lane and open when this one began; 0 for an import."""
    events_lost: int = 0
    """Of those, gone with a damaged segment, and not to be read again."""
    events_open: int = 0
    """Open after this commit, in the lane's segments: of requests that go on, or whose window does."""
    messages: int = 0
    """Of a log: read, whatever became of them. `positions` covers them and gaps between them."""
    flows: int = 0
    flows_duplicate: int = 0
    flows_late: int = 0
    rejects: dict[str, int] = Field(default_factory=dict)
    """Dead letters by reason, all of them: items that codecs refused (never events), and
    `events_rejected`."""
    rejects_not_kept: int = 0
    """Of `rejects`, those that were counted only: past the bound on the dead letters of one file."""
    oddities: dict[str, int] = Field(default_factory=dict)
    quality: dict[str, int] = Field(default_factory=dict)
    """Published flows by quality flag. The lane counts them, in the files of the commit."""

    @property
    def balanced(self) -> bool:
        """Whether every event that was read is accounted for, once."""
        return self.events_carried + self.events_read == (
            self.events_published
            + self.events_duplicate
            + self.events_rejected
            + self.events_late
            + self.events_lost
            + self.events_open
        )


class CheckpointRef(Closed):
    """Names a checkpoint: everything the lane committed up to and with `through`."""

    through: int
    files: str
    """Name of the table of published files."""
    files_sha256: str
    inputs: str
    """Name of the table of imported files."""
    inputs_sha256: str


class Retirement(Closed):
    """Windows that end at `to_ns` or before are no longer part of the lake."""

    to_ns: int
    at_ns: int
    """When that was said, by the clock of who said it."""


class Generation(Closed):
    """The windows of one commit of the upkeep lane, written anew by it: what was there before is replaced."""

    seq: int
    """The commit."""
    at_ns: int
    """When it was made, by the clock of who made it."""
    through: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: in these windows, files of the lane up to that commit are replaced."""
    emptied: tuple[str, ...] = ()
    """Windows (names) that are written anew and have no flow left, so that no file reports them."""


class Replaced(Closed):
    """Files of a table that lies in no window (`late`, …) that are no longer part of the lake."""

    seq: int
    """The commit that says so. What it publishes of the table itself stays."""
    at_ns: int
    """When it was made, by the clock of who made it."""
    table: str
    through: tuple[tuple[int, int], ...]
    """(lane, commit), ascending: files of the lane up to that commit."""


class Upkeep(Closed):
    """What upkeep took out of the lake and nobody needs to have swept yet."""

    retired: tuple[Retirement, ...] = ()
    """Ascending; the last holds for readers, earlier ones tell a sweep what was said long enough ago."""
    generations: tuple[Generation, ...] = ()
    """Ascending; of a window the last one with a file in it counts."""
    replaced: tuple[Replaced, ...] = ()
    """Ascending; of a table the last one holds for readers, it says all that earlier ones said."""
    late_to_ns: int | None = None
    """Late events of this time or before that the next repair cannot fold in leave the lake by it: what it
    writes anew looks young, so the age of its file does not say. None: nothing was said."""


class Standing(Closed):
    """Where a live lane is: what a takeover resumes from, and how far readers may trust it."""

    cluster_id: str | None = None
    positions: tuple[PartitionRange, ...] = ()
    """Of every partition of the lane; empty for a lane of files."""
    watermark_ns: int | None = None
    """Event time up to which the lane expects nothing more."""
    sealed_to_ns: int | None = None
    """Every window that ends here or before is published whole; None: not one yet."""
    ended_to_ns: int | None = None
    """The lane was ended by order: it has nothing open and holds no seal until it is taken over and commits
    again. Everything that it had is in windows that end here or before; 0: it had nothing."""
    idle: tuple[str, ...] = ()
    """Streams (`topic/partition`) that were idle, so that the watermark followed the clock for them."""
    segments: tuple[Segment, ...] = ()
    """All segments that a takeover must load, not only new ones."""
    upkeep: Upkeep | None = None
    """Of the upkeep lane only."""

    def kept(self) -> Standing:
        """The same place, after a commit that took nothing from the partitions."""
        still = tuple(p.model_copy(update={"start": p.end}) for p in self.positions)
        return self.model_copy(update={"positions": still})


class WindowChange(Closed):
    """Rows that a repaired window has more than before; less than zero: fewer."""

    window: str
    flows: int
    params: int


class Repair(Closed):
    """What a commit of the upkeep lane did with late events."""

    changed: tuple[WindowChange, ...] = ()
    """Windows of which the number of rows changed, by name."""
    late: int
    """Late events that were looked at: those that still wait, and those that leave `late/` by this commit."""
    expired: int = 0
    """Of these, dropped: older than all windows of the lake, or past the age of late events."""
    events: int
    """Of these, settled: in flows now, or dropped as a copy, or refused as a conflict."""
    requests: int
    """Requests stitched anew."""


class CommitBody(Closed):
    """What a writer says; the lane adds who, where and after what."""

    kind: Literal["import", "live", "takeover", "upkeep"]
    inputs: tuple[InputFile, ...] = ()
    counters: Counters = Counters()
    config: dict[str, Any] = Field(default_factory=dict)
    """Configuration of decoder and stitcher, for whoever asks later."""
    gaps: tuple[PartitionRange, ...] = ()
    """Of a log, by order of the operator: what was passed over as it could not be read, inside `positions`;
    what was read and then cut off the log, so that `positions` begin again where that begins; or what was
    read before and is lost with a damaged segment."""
    standing: Standing = Standing()
    """Where the lane is after the commit. An import and a takeover leave it as it was."""
    repair: Repair | None = None
    """Of the upkeep lane: late events that became part of flows."""


class CommitRecord(CommitBody):
    """One commit of a lane."""

    version: Literal[2] = RECORD_VERSION
    lane: int
    seq: int
    previous: str
    """Own hash of the record before."""
    owner: str
    """Names the writing process; nothing is decided by it."""
    created_by: str
    """Version of the stitcher."""
    generation: int = 0
    """How often the windows were written anew: by a repair."""
    window_length_ns: int
    publish: tuple[Publish, ...] = ()
    carried: tuple[Publish, ...] = ()
    """Of earlier commits, what was perhaps not published when this one was made: to be redone with it."""
    checkpoint: CheckpointRef | None = None
    """Made just before this record, and up to the record before it."""
