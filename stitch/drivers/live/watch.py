"""Status of live ingestion (LiveStatus), and callbacks that report its events (Watch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from schemas.commits import CommitRecord
from stitch.drivers.live.build_status import BuildStatus


class LaneState(StrEnum):
    """State of a lane that is assigned to this process and is not halted."""

    RUNNING = "running"
    WAITING = "waiting"
    """The last commit or takeover of the lane failed and is retried; nothing is read meanwhile."""


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """Progress of reading one stream of a lane."""

    name: str
    """Name of the stream, `topic/partition`."""
    position: int
    """Offset of the next message to be read."""
    end: int | None
    """End offset of the partition, which the next message written to it will have; None: not known yet."""
    idle: bool
    """True if the stream is silent, so that the lane's watermark follows the clock instead of this stream's
    events."""

    @property
    def lag(self) -> int:
        """Number of messages that are still to be read; 0 if the end offset is not known."""
        return 0 if self.end is None else max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """Status of one lane assigned to this process."""

    lane: int
    state: LaneState
    why: str
    """Reason, in one line, why the lane is not running; empty if it is running."""
    streams: tuple[StreamStatus, ...] = ()
    """Streams of the lane. Empty if the lane is not taken over yet; all later fields then have their
    defaults."""
    watermark_ns: int | None = None
    """Watermark of the lane, ns since the epoch; None: not known yet."""
    bytes: int = 0
    """Bytes of events that the lane has buffered since its last commit."""
    commit: int = 0
    """Number of the lane's last commit."""
    committed_at_ns: int | None = None
    """Time of this process's last commit of the lane, ns, on the clock of `LiveStatus.now_ns`; None: it has
    not committed the lane."""


@dataclass(frozen=True, slots=True)
class LiveStatus:
    """Status of a live process as of its last turn."""

    now_ns: int
    """Time of the last iteration, ns (`Moment.now_ns`); compare it only with other times of this clock."""
    lanes: tuple[LaneStatus, ...]
    """Lanes assigned to this process that are not halted, ascending."""
    paused: bool
    """True if reading is paused, because lanes use too much memory or commits fail."""
    trouble: str | None
    """Reason why the log cannot be read; None: it can be read."""
    stopping: bool
    """True once the process was asked to stop."""
    halted: tuple[tuple[int, str], ...] = ()
    """(lane number, reason) of each halted lane, which only an operator can resume."""
    build: BuildStatus = BuildStatus()  # noqa: RUF009 - frozen

    @property
    def ready(self) -> bool:
        """True if the process is working: the log can be read, no stop was requested, and every lane runs."""
        return (
            self.trouble is None
            and not self.stopping
            and not self.halted
            and all(lane.state is LaneState.RUNNING for lane in self.lanes)
        )


class Watch:
    """Callbacks of live ingestion, which do nothing; override the ones of interest.

    Each is called in the thread in which the event happens, so it must be quick and must not raise.
    """

    def decoded(self, stream: str, messages: int, size: int, events: int, refused: Mapping[str, int]) -> None:
        """Called when messages of a stream (`topic/partition`) were decoded. size: bytes of the messages;
        events: number of decoded events; refused: reason -> number of rejected items."""

    def committed(self, record: CommitRecord, took_s: float) -> None:
        """Called after a commit of a lane or of the builder. took_s: duration of the commit, s."""

    def lane(self, lane: int, state: str, why: str) -> None:
        """Called when a lane's state changes. state: `gained`, `released`, `lost`, `waiting`, `running`,
        `halted` or `set otherwise` (its settings or format changed); why: reason, may be empty."""

    def building(self, why: str | None) -> None:
        """Called with the reason when this process can no longer build windows, and with None when it can
        again."""

    def trouble(self, why: str | None) -> None:
        """Called with the reason when the log can no longer be read, and with None when it can be again."""
