"""Track which streams of the log are assigned to this process, by lane, and how far each has progressed in
event time.

The progress of a stream is its latest event time, capped at the time the log received the message (so that
one sender's clock that is ahead has no effect), minus the allowed lateness. For a silent stream that was read
to its end, the current time replaces the latest event time. The progress of a lane is the minimum over its
streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ingest.source import StreamId
from stitch.drivers.live.steady_clock import Moment


class OwnStreams:
    """Streams assigned to this process, by lane. A lane is taken over as a whole, and its new owner looks up
    the lane's streams here."""

    def __init__(self) -> None:
        self._of: dict[int, set[StreamId]] = {}

    def __getitem__(self, lane: int) -> list[StreamId]:
        """Streams of a lane, ascending; empty if the lane is not assigned to this process."""
        return sorted(self._of.get(lane, ()))

    def gain(self, lane: int, streams: Iterable[StreamId]) -> None:
        """Add streams of a lane that were assigned to this process."""
        self._of.setdefault(lane, set()).update(streams)

    def forgo(self, lane: int, streams: Iterable[StreamId]) -> bool:
        """Remove streams of a lane; return True if other streams of the lane stay assigned to this
        process."""
        ours = self._of.get(lane, set())
        ours.difference_update(streams)
        if not ours:
            self._of.pop(lane, None)
        return bool(ours)


def by_lane(streams: Iterable[StreamId]) -> Iterator[tuple[int, list[StreamId]]]:
    """Group streams by lane: yield (lane number, streams of that lane), ascending."""
    found: dict[int, list[StreamId]] = {}
    for stream in sorted(streams):
        found.setdefault(stream.lane, []).append(stream)
    return iter(sorted(found.items()))


@dataclass(slots=True)
class _StreamTime:
    """Latest event time of one stream, and when the stream last had messages."""

    latest_ns: int | None
    """Latest event time, ns, capped at the time the log received the message; None before the first event."""
    heard_ns: int
    """Time of the last poll that returned messages of the stream, ns (`Moment.now_ns`)."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """Progress of a lane in event time, and the streams for which it follows the clock."""

    ns: int | None
    """Time before which no more events are expected, ns; None: not yet known."""
    idle: tuple[StreamId, ...]
    """Silent streams, sorted: for these the current time replaces the event time."""


class StreamTimes:
    """Progress of the streams of one lane in event time. The current time is an argument; the watermark never
    goes back."""

    def __init__(self, lateness_ns: int, idle_ns: int, watermark_ns: int | None) -> None:
        """lateness_ns: allowed lateness, ns. idle_ns: duration of silence after which a stream follows the
        clock, ns. watermark_ns: watermark recorded by the lane's last commit, None without one."""
        self._lateness_ns = lateness_ns
        self._idle_ns = idle_ns
        self._reached_ns = watermark_ns
        self._streams: dict[StreamId, _StreamTime] = {}

    def begin(self, stream: StreamId, now: Moment) -> None:
        """Add a stream that has had no messages yet; its silence is measured from `now`."""
        self._streams.setdefault(stream, _StreamTime(None, now.now_ns))

    def end(self, stream: StreamId) -> None:
        """Remove a stream from the lane."""
        self._streams.pop(stream, None)

    def heard(self, stream: StreamId, latest_ns: int | None, log_ns: int | None, now: Moment) -> None:
        """Record that a poll of a stream returned messages.

        latest_ns: latest event time of the messages, ns; None: they have no event. log_ns: latest time at
        which the log received one of the messages, ns; None: unknown.
        """
        state = self._streams[stream]
        state.heard_ns = now.now_ns
        if latest_ns is not None:
            bounded = min(latest_ns, now.earliest_ns if log_ns is None else min(log_ns, now.earliest_ns))
            state.latest_ns = bounded if state.latest_ns is None else max(state.latest_ns, bounded)

    def watermark(
        self, now: Moment, positions: Mapping[StreamId, int], ends: Mapping[StreamId, int]
    ) -> Watermark:
        """Compute the lane's watermark. positions: stream -> offset of the next message to read; ends: stream
        -> end offset of its partition."""
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
