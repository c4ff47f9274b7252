"""Status of live ingestion (LiveStatus), and callbacks for what it does (Watch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from schemas.commits import CommitRecord
from stitch.drivers.live.build_status import BuildStatus


class LaneState(StrEnum):
    """State of a lane that is assigned to this process and not halted."""

    RUNNING = "running"
    WAITING = "waiting"
    """The lane's last commit or takeover failed and is retried; nothing is read meanwhile."""


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """Progress of reading one stream of a lane."""

    name: str
    """Name of the stream, `topic/partition`."""
    position: int
    """Offset of the next message."""
    end: int | None
    """End of the partition: offset of the next message to be written to it; None: not known yet."""
    idle: bool
    """True if the stream is silent, so that the lane's watermark follows the clock for it."""

    @property
    def lag(self) -> int:
        """Number of messages still to be read; 0 if the end is not known."""
        return 0 if self.end is None else max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """Status of one lane of this process."""

    lane: int
    state: LaneState
    why: str
    """Reason, in one line, why the lane is not running; empty if it is."""
    streams: tuple[StreamStatus, ...] = ()
    """Streams of the lane; empty if it could not be taken over yet: all fields below are then defaults."""
    watermark_ns: int | None = None
    """Watermark of the lane, ns since the epoch; None: not known yet."""
    bytes: int = 0
    """Bytes of events that the lane buffers since its last commit."""
    commit: int = 0
    """Number of the lane's last commit."""
    committed_at_ns: int | None = None
    """Time of this process's last commit of the lane, ns, on the clock of `LiveStatus.now_ns`; None: none
    yet."""


@dataclass(frozen=True, slots=True)
class LiveStatus:
    """Status of a live process as of its last turn."""

    now_ns: int
    """Time of the last turn, ns (`Moment.now_ns`); compare it with times of that clock only."""
    lanes: tuple[LaneStatus, ...]
    """Lanes assigned to this process that are not halted, ascending."""
    paused: bool
    """True if reading is paused, as memory is used up or commits fail."""
    trouble: str | None
    """Reason why the log cannot be read; None: it can."""
    stopping: bool
    """True from the request to stop on."""
    halted: tuple[tuple[int, str], ...] = ()
    """(lane, reason) of each lane that halted and needs an operator."""
    build: BuildStatus = BuildStatus()  # noqa: RUF009 - frozen

    @property
    def ready(self) -> bool:
        """True if the process does its work: the log can be read, it is not stopping, every lane runs."""
        return (
            self.trouble is None
            and not self.stopping
            and not self.halted
            and all(lane.state is LaneState.RUNNING for lane in self.lanes)
        )


class Watch:
    """Callbacks of a live run; override the ones of interest.

    Called in the thread in which the event happens: they must be quick and must not raise.
    """

    def decoded(self, stream: str, messages: int, size: int, events: int, refused: Mapping[str, int]) -> None:
        """Called when messages of a stream (`topic/partition`) were decoded. size: bytes of the messages;
        events: number of decoded events; refused: reason -> number of rejected items."""

    def committed(self, record: CommitRecord, took_s: float) -> None:
        """Called after a commit of a lane or of the builder. took_s: its duration, s."""

    def lane(self, lane: int, state: str, why: str) -> None:
        """Called when a lane's state changes. state: `gained`, `released`, `lost`, `waiting`, `running`,
        `halted` or `set otherwise` (its settings or format changed); why: reason, may be empty."""

    def building(self, why: str | None) -> None:
        """Called when this process cannot build windows, with the reason; None: it can again."""

    def trouble(self, why: str | None) -> None:
        """Called when the log cannot be read, with the reason; None: it can again."""
