"""Lanes at work in threads of their own, beside the thread that reads the log.

A lane does one piece of work after another: it takes what was decoded of its streams, moves event time on,
and commits where that is due. Lanes share nothing, so several work at once, and what one of them publishes
does not depend on the others, nor on when a piece of work was begun. When a
commit or a takeover fails, it is tried again, taken back, or the lane halts.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ingest.codecs.port import Decoded
from ingest.source import Payloads, StreamId
from schemas.commits import CommitRecord
from stitch.drivers.live.live_lane import LiveLane
from stitch.drivers.live.steady_clock import Clock, Moment

RETRY_NS: Final = 2_000_000_000
"""Until a commit that failed, or a takeover, is tried again."""
MAX_FAILURES: Final = 3
"""Tries of a commit before a lane halts, where the cause is not one that passes by itself."""
MAX_LOSSES: Final = 3
"""Times that a lane of ours is taken by another before it is left to them."""
SETTLED_COMMITS: Final = 10
"""Commits in a row after which a lane counts as undisputed."""
_WAITS: Final = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.ETIMEDOUT, errno.ECONNREFUSED),
        *(errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH, errno.EHOSTDOWN),
    }
)


@dataclass(slots=True)
class _RetryState:
    failures: int = 0
    """Commits that failed, one after the other."""
    retry_at_ns: int = 0
    losses: int = 0
    """Times the lane was taken from us."""
    commits: int = 0
    """Since the last loss."""
    is_away: bool = False
    """True if the lane is to be taken over again at `retry_at_ns`."""


class RetryStates:
    """By lane. `clock` says the time in ns."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._of: dict[int, _RetryState] = {}

    def failed(self, lane: int, error: OSError) -> bool:
        """A commit failed; whether it is worth another try."""
        state = self._of.setdefault(lane, _RetryState())
        state.failures += 1
        state.retry_at_ns = self._clock() + RETRY_NS
        return state.failures < MAX_FAILURES or passes_by_itself(error)

    def may_retry(self, lane: int) -> bool:
        """Tell whether it is time for another try of a commit."""
        state = self._of.get(lane)
        return state is None or self._clock() >= state.retry_at_ns

    def lost(self, lane: int) -> bool:
        """Another process took a lane that the log gave to us; whether to take it back, later.

        It may have slept in the middle of taking over, before it was declared dead. Where it happens again
        and again, two groups write to one lake: the one that lost the lane last gives in.
        """
        state = self._of.setdefault(lane, _RetryState())
        state.losses, state.commits = state.losses + 1, 0
        if state.losses >= MAX_LOSSES:
            return False
        self.put_off(lane)
        return True

    def put_off(self, lane: int) -> None:
        """A lane cannot be taken over now, for a cause that may pass."""
        state = self._of.setdefault(lane, _RetryState())
        state.is_away, state.retry_at_ns = True, self._clock() + RETRY_NS

    def to_take_over(self) -> list[int]:
        """Lanes that are away and whose time has come."""
        return [
            lane for lane, state in self._of.items() if state.is_away and self._clock() >= state.retry_at_ns
        ]

    def tried(self, lane: int) -> None:
        """A lane is being taken over: it is not away, unless it is put off again."""
        state = self._of.get(lane)
        if state is not None:
            state.is_away = False

    def committed(self, lane: int) -> None:
        """A commit of ours stands."""
        state = self._of.get(lane)
        if state is not None:
            state.failures, state.commits = 0, state.commits + 1
            if state.losses == 0 or state.commits >= SETTLED_COMMITS:
                del self._of[lane]

    def forget(self, lane: int) -> None:
        """The lane is no longer ours, or waits for a person: what was, does not count."""
        self._of.pop(lane, None)


def passes_by_itself(error: OSError) -> bool:
    """Tell whether waiting helps: a disk that is full, a quota, a store that does not answer."""
    return error.errno in _WAITS or isinstance(error, TimeoutError | ConnectionError)


Committed = tuple[CommitRecord, float]
"""A record, and the seconds it took."""


class Commit(Enum):
    """End of a piece of work: with a commit or without."""

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
    """Queue of the work of lanes. Used by one thread; while a lane works nobody else may touch it."""

    def __init__(self, clock: Clock, pool: Executor) -> None:
        self._clock = clock
        self._pool = pool
        self._waiting: dict[int, list[Taken]] = {}
        self._working: dict[int, Future[Committed | None]] = {}
        self.bytes = 0
        """Bytes of decoded events that wait for the current work of their lane."""

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

    def commit(self, lane: LiveLane, *, whole: bool = False, latest_ns: int | None = None) -> None:
        """Let a lane that rests commit; whole, latest_ns: as `LiveLane.commit`."""
        self._working[lane.number] = self._pool.submit(
            lambda: lane.commit(self._clock().now_ns, whole=whole, latest_ns=latest_ns)
        )

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
