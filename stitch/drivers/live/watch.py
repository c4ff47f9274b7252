"""Watch what live ingestion does, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from schemas.commits import CommitRecord
from stitch.drivers.live.build_status import BuildStatus


class LaneState(StrEnum):
    """State of a lane."""

    RUNNING = "running"
    WAITING = "waiting"
    """Its last commit, or taking it over, failed and is tried again; nothing is read meanwhile."""


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """One stream of a lane."""

    name: str
    """`topic/partition`."""
    position: int
    """Offset of the next message."""
    end: int | None
    """Offset of the message to be written next; None: not known yet."""
    idle: bool

    @property
    def lag(self) -> int:
        """Messages still to be read."""
        return 0 if self.end is None else max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """One lane of this process."""

    lane: int
    state: LaneState
    why: str
    """One line where it is not running; else empty."""
    streams: tuple[StreamStatus, ...] = ()
    """None of a lane that could not be taken over yet; of it nothing else is known."""
    watermark_ns: int | None = None
    bytes: int = 0
    """Bytes that the lane holds: what came since its last commit."""
    commit: int = 0
    """Number of its last commit."""
    committed_at_ns: int | None = None
    """When this process last committed it, as `LiveStatus.now_ns`."""


@dataclass(frozen=True, slots=True)
class LiveStatus:
    """All that a live process is doing."""

    now_ns: int
    """`Moment.now_ns`: says how long something takes, not what time it is."""
    lanes: tuple[LaneStatus, ...]
    paused: bool
    """True if reading waits for memory or the disk."""
    trouble: str | None
    """Reason why the log cannot be read; None: it can."""
    stopping: bool
    halted: tuple[tuple[int, str], ...] = ()
    """Lanes that need a person, and why."""
    build: BuildStatus = BuildStatus()  # noqa: RUF009 - frozen

    @property
    def ready(self) -> bool:
        """True if it does its work: the log answers, no lane is halted or waits."""
        return (
            self.trouble is None
            and not self.stopping
            and not self.halted
            and all(lane.state is LaneState.RUNNING for lane in self.lanes)
        )


class Watch:
    """What is reported as it happens, in the thread that does it: quick, and nothing it does may fail. Who
    watches takes what it is interested in.
    """

    def decoded(self, stream: str, messages: int, size: int, events: int, refused: Mapping[str, int]) -> None:
        """Messages of a stream were decoded: their bytes, events, and refused items by reason."""

    def committed(self, record: CommitRecord, took_s: float) -> None:
        """A lane committed and published."""

    def lane(self, lane: int, state: str, why: str) -> None:
        """A lane was `gained`, `released`, `lost`, `waiting`, `running`, `halted` or `set otherwise`."""

    def building(self, why: str | None) -> None:
        """Windows cannot be built by this process, or can again (None)."""

    def trouble(self, why: str | None) -> None:
        """The log cannot be read, or can again (None)."""
