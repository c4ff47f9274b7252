"""Keep which streams of the log are ours, by lane, and how far event time is along each.

A stream is as far as its latest event, no further than the log's own time (one clock that is ahead moves
nothing), less the lateness allowed. A stream that was read to its end and then silent goes by the clock. A
lane is as far as the least of its streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ingest.source import StreamId
from stitch.drivers.live.steady_clock import Moment


class OwnStreams:
    """Lanes are taken over whole: whoever takes one over asks here what it is made of."""

    def __init__(self) -> None:
        self._of: dict[int, set[StreamId]] = {}

    def __getitem__(self, lane: int) -> list[StreamId]:
        """Ascending; none where the lane is not ours."""
        return sorted(self._of.get(lane, ()))

    def gain(self, lane: int, streams: Iterable[StreamId]) -> None:
        """They are ours from now on."""
        self._of.setdefault(lane, set()).update(streams)

    def forgo(self, lane: int, streams: Iterable[StreamId]) -> bool:
        """They no longer are; whether some of the lane is left."""
        ours = self._of.get(lane, set())
        ours.difference_update(streams)
        if not ours:
            self._of.pop(lane, None)
        return bool(ours)


def by_lane(streams: Iterable[StreamId]) -> Iterator[tuple[int, list[StreamId]]]:
    """Lanes, ascending, each with its streams."""
    found: dict[int, list[StreamId]] = {}
    for stream in sorted(streams):
        found.setdefault(stream.lane, []).append(stream)
    return iter(sorted(found.items()))


@dataclass(slots=True)
class _StreamTime:
    """Times of one stream."""

    latest_ns: int | None
    """Latest event time that counts; None before the first."""
    heard_ns: int
    """`Moment.now_ns` when something came last."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """Progress of a lane in time."""

    ns: int | None
    """No event before it is expected; None: nobody can tell yet."""
    idle: tuple[StreamId, ...]
    """Streams that go by the clock, sorted."""


class StreamTimes:
    """The streams of one lane. Time comes as an argument; nothing goes back."""

    def __init__(self, lateness_ns: int, idle_ns: int, watermark_ns: int | None) -> None:
        """`watermark_ns` is what the lane had reached before."""
        self._lateness_ns = lateness_ns
        self._idle_ns = idle_ns
        self._reached_ns = watermark_ns
        self._streams: dict[StreamId, _StreamTime] = {}

    def begin(self, stream: StreamId, now: Moment) -> None:
        """Add a stream of which nothing came yet."""
        self._streams.setdefault(stream, _StreamTime(None, now.now_ns))

    def end(self, stream: StreamId) -> None:
        """A stream that is no longer part of the lane."""
        self._streams.pop(stream, None)

    def heard(self, stream: StreamId, latest_ns: int | None, log_ns: int | None, now: Moment) -> None:
        """Note input: its latest event time (None: no event), and its time in the log (None: unknown)."""
        state = self._streams[stream]
        state.heard_ns = now.now_ns
        if latest_ns is not None:
            bounded = min(latest_ns, now.earliest_ns if log_ns is None else min(log_ns, now.earliest_ns))
            state.latest_ns = bounded if state.latest_ns is None else max(state.latest_ns, bounded)

    def watermark(
        self, now: Moment, positions: Mapping[StreamId, int], ends: Mapping[StreamId, int]
    ) -> Watermark:
        """Return how far the lane is. `positions` and `ends` say which streams were read to their end."""
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
