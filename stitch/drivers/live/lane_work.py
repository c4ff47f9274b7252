"""Lanes at work in threads of their own, beside the thread that reads the log.

A lane does one piece of work after another: it takes what was decoded of its streams, moves event time on,
and commits where that is due. Lanes share nothing, so several work at once, and what one of them publishes
does not depend on the others, nor on when a piece of work was begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final

from ingest.codecs.port import Decoded
from ingest.source import Payloads, StreamId
from schemas.commits import CommitRecord
from stitch.drivers.live.live_lane import LiveLane
from stitch.drivers.live.steady_clock import Clock, Moment

LANES_AT_ONCE: Final = 2
"""One a core: numpy, Arrow, zstd and the disk let go of the interpreter."""

Committed = tuple[CommitRecord, float]
"""A record, and the seconds it took."""


class Commit(Enum):
    """Whether a piece of work ends with a commit."""

    NEVER = 0
    DUE = 1
    """Where the lane says so."""
    NOW = 2


@dataclass(frozen=True, slots=True)
class Taken:
    """Decoded payloads of one stream."""

    stream: StreamId
    payloads: Payloads
    decoded: Decoded


class LaneWork:
    """What lanes have to do, and do. Used by one thread; while a lane works nobody else may touch it.

    `lanes_at_once` 0: all is done in the caller's thread.
    """

    def __init__(self, clock: Clock, lanes_at_once: int = LANES_AT_ONCE) -> None:
        self._clock = clock
        self._pool: Executor = (
            ThreadPoolExecutor(lanes_at_once, thread_name_prefix="lane") if lanes_at_once else _InPlace()
        )
        self._waiting: dict[int, list[Taken]] = {}
        self._working: dict[int, Future[Committed | None]] = {}
        self.bytes = 0
        """Of decoded events that wait until their lane has done what it does."""

    def give(self, taken: Taken) -> None:
        """Something for the lane of a stream."""
        self._waiting.setdefault(taken.stream.lane, []).append(taken)
        self.bytes += taken.decoded.events.nbytes

    def begin(
        self, lane: LiveLane, ends: Mapping[StreamId, int] | None, commit: Commit = Commit.NEVER
    ) -> None:
        """Let a lane go on, unless it is at work. `ends` None: it takes what there is, and no more."""
        if lane.number not in self._working:
            taken = self._taken(lane.number)
            self._working[lane.number] = self._pool.submit(_step, lane, taken, ends, self._clock(), commit)

    def commit(self, lane: LiveLane, **how: bool) -> None:
        """Let a lane that rests commit; `how` as `LiveLane.commit`."""
        self._working[lane.number] = self._pool.submit(lambda: lane.commit(self._clock().now_ns, **how))

    def finished(self) -> Iterator[tuple[int, Callable[[], Committed | None]]]:
        """Lanes that have done their work: number, and what gives the commit, or raises what went wrong."""
        for number in sorted(self._working):
            work = self._working.get(number)  # what is seen to in between may have ended it
            if work is not None and work.done():
                del self._working[number]
                yield number, work.result

    def rest(self, number: int | None = None) -> None:
        """Wait until a lane is done with its work, or all are."""
        wait([work for n, work in self._working.items() if number in (None, n)])

    def pause(self, seconds: float) -> None:
        """Wait until some lane is done, so long at the most."""
        wait(self._working.values(), seconds, FIRST_COMPLETED)

    def forget(self, number: int) -> None:
        """A lane is no longer ours: what waits for it must not be taken."""
        self._taken(number)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _taken(self, number: int) -> list[Taken]:
        taken = self._waiting.pop(number, [])
        self.bytes -= sum(one.decoded.events.nbytes for one in taken)
        return taken


def _step(
    lane: LiveLane,
    taken: list[Taken],
    ends: Mapping[StreamId, int] | None,
    now: Moment,
    commit: Commit,
) -> Committed | None:
    """`now` is when `ends` were asked for: a stream that was read to its end then, and silent, may have got
    more since."""
    for one in taken:
        if one.stream in lane.streams:
            lane.take(one.stream, one.payloads, one.decoded, now)
    if ends is None:
        return None
    lane.advance(ends, now)
    if commit is Commit.NOW or (commit is Commit.DUE and lane.is_due(now.now_ns)):
        return lane.commit(now.now_ns)
    return None


class _InPlace(Executor):
    """For schedules that repeat exactly: work is done where its result is asked for."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """See Executor."""
        return _Later(partial(work, *args, **named))


class _Later(Future[Any]):
    """Counts as done, and is done when it is asked for."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._do = work
        self.set_result(None)

    def result(self, timeout: float | None = None) -> Any:
        """See Future."""
        del timeout
        return self._do()
