"""Track the streams of the log assigned to this process, by lane, and their progress in event time.

A stream's progress is its latest event time, at most the log's own time (so one clock that is ahead has no
effect), less the allowed lateness. A stream that was read to its end and has been silent follows the clock. A
lane's progress is the minimum over its streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ingest.source import StreamId
from stitch.drivers.live.steady_clock import Moment


class OwnStreams:
    """Streams assigned to this process, by lane. Lanes are assigned whole: a new owner looks up their streams
    here."""

    def __init__(self) -> None:
        self._of: dict[int, set[StreamId]] = {}

    def __getitem__(self, lane: int) -> list[StreamId]:
        """Streams of a lane, ascending; empty if the lane is not assigned here."""
        return sorted(self._of.get(lane, ()))

    def gain(self, lane: int, streams: Iterable[StreamId]) -> None:
        """Add streams of a lane that were assigned to this process."""
        self._of.setdefault(lane, set()).update(streams)

    def forgo(self, lane: int, streams: Iterable[StreamId]) -> bool:
        """Remove streams of a lane; True if the lane keeps other streams in this process."""
        ours = self._of.get(lane, set())
        ours.difference_update(streams)
        if not ours:
            self._of.pop(lane, None)
        return bool(ours)


def by_lane(streams: Iterable[StreamId]) -> Iterator[tuple[int, list[StreamId]]]:
    """Group streams by lane: (lane, its streams), ascending."""
    found: dict[int, list[StreamId]] = {}
    for stream in sorted(streams):
        found.setdefault(stream.lane, []).append(stream)
    return iter(sorted(found.items()))


@dataclass(slots=True)
class _StreamTime:
    """Latest times of one stream: of its events, and of its input."""

    latest_ns: int | None
    """Latest event time, ns, capped at the log's time; None before the first event."""
    heard_ns: int
    """Time of the last poll with messages, ns (`Moment.now_ns`)."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """Progress of a lane in event time."""

    ns: int | None
    """Time before which no more events are expected, ns; None: not yet known."""
    idle: tuple[StreamId, ...]
    """Silent streams, for which the clock replaces event time, sorted."""


class StreamTimes:
    """Progress of the streams of one lane. Times are arguments; the watermark never goes back."""

    def __init__(self, lateness_ns: int, idle_ns: int, watermark_ns: int | None) -> None:
        """lateness_ns: allowed lateness; idle_ns: silence after which a stream follows the clock;
        watermark_ns: watermark of the lane's last commit, None without one."""
        self._lateness_ns = lateness_ns
        self._idle_ns = idle_ns
        self._reached_ns = watermark_ns
        self._streams: dict[StreamId, _StreamTime] = {}

    def begin(self, stream: StreamId, now: Moment) -> None:
        """Add a stream that has given no input yet; its silence is measured from `now`."""
        self._streams.setdefault(stream, _StreamTime(None, now.now_ns))

    def end(self, stream: StreamId) -> None:
        """Remove a stream from the lane."""
        self._streams.pop(stream, None)

    def heard(self, stream: StreamId, latest_ns: int | None, log_ns: int | None, now: Moment) -> None:
        """Record that a poll of a stream gave messages.

        latest_ns: their latest event time; None: no event. log_ns: their latest time in the log; None:
        unknown.
        """
        state = self._streams[stream]
        state.heard_ns = now.now_ns
        if latest_ns is not None:
            bounded = min(latest_ns, now.earliest_ns if log_ns is None else min(log_ns, now.earliest_ns))
            state.latest_ns = bounded if state.latest_ns is None else max(state.latest_ns, bounded)

    def watermark(
        self, now: Moment, positions: Mapping[StreamId, int], ends: Mapping[StreamId, int]
    ) -> Watermark:
        """Watermark of the lane. positions: stream -> offset read to; ends: stream -> offset of its end."""
        idle = tuple(
            sorted(
                stream
                for stream, state in self._streams.items()
                if now.now_ns - state.heard_ns >= self._idle_ns
                and stream in ends
                and positions.get(stream, -1) >= ends[stream]
            )
        )
        times = [
            now.earliest_ns if stream in idle else state.latest_ns for stream, state in self._streams.items()
        ]
        known = [time for time in times if time is not None]
        if known and len(known) == len(times):
            reached = min(known) - self._lateness_ns
            self._reached_ns = reached if self._reached_ns is None else max(self._reached_ns, reached)
        return Watermark(self._reached_ns, idle)
