"""Run steps of lanes in a thread pool, beside the thread that reads the log, and decide when a failed lane is
retried.

A step of a lane consumes the decoded payloads of the lane's streams, advances the watermark, and commits if a
commit is due. A lane runs one step at a time; different lanes run in parallel, as they share no state, and
the commits of a lane depend neither on other lanes nor on timing. After a failed commit or takeover the lane
is retried or halted.
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
"""Delay, ns, before a failed commit or takeover is retried."""
MAX_FAILURES: Final = 3
"""Number of consecutive failed commits after which a lane is halted, unless the error is transient
(`passes_by_itself`)."""
MAX_LOSSES: Final = 3
"""Number of times that another process may take over a lane assigned to this process before this process
halts the lane."""
SETTLED_COMMITS: Final = 10
"""Number of consecutive commits of a lane after which earlier losses of the lane to other processes no longer
count."""
_WAITS: Final = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.ETIMEDOUT, errno.ECONNREFUSED),
        *(errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH, errno.EHOSTDOWN),
    }
)


@dataclass(slots=True)
class _RetryState:
    failures: int = 0
    """Number of consecutive failed commits of the lane."""
    retry_at_ns: int = 0
    """Time, ns on the clock of RetryStates, before which neither a commit nor a takeover of the lane is
    retried."""
    losses: int = 0
    """Number of times another process took the lane, reset after SETTLED_COMMITS commits."""
    commits: int = 0
    """Number of the lane's commits since another process last took it."""
    is_away: bool = False
    """True if this process does not hold the lane and must take it over at `retry_at_ns`."""


class RetryStates:
    """Retry state of each lane: failed commits, losses to other processes, and the time of the next retry.

    clock: function that returns the current time, ns.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._of: dict[int, _RetryState] = {}

    def failed(self, lane: int, error: OSError) -> bool:
        """Record a failed commit of a lane; return True if the commit should be retried."""
        state = self._of.setdefault(lane, _RetryState())
        state.failures += 1
        state.retry_at_ns = self._clock() + RETRY_NS
        return state.failures < MAX_FAILURES or passes_by_itself(error)

    def may_retry(self, lane: int) -> bool:
        """True if the retry delay after the lane's last failed commit is over."""
        state = self._of.get(lane)
        return state is None or self._clock() >= state.retry_at_ns

    def lost(self, lane: int) -> bool:
        """Record that another process took a lane assigned to this one; return True if this process should
        take it over again after RETRY_NS.

        The other process may have stalled during a takeover that it began before the lane was reassigned.
        Repeated losses mean that two consumer groups write to one lake: after MAX_LOSSES the result is False.
        """
        state = self._of.setdefault(lane, _RetryState())
        state.losses, state.commits = state.losses + 1, 0
        if state.losses >= MAX_LOSSES:
            return False
        self.put_off(lane)
        return True

    def put_off(self, lane: int) -> None:
        """Schedule another takeover of a lane after RETRY_NS, as the last one failed for a transient
        reason."""
        state = self._of.setdefault(lane, _RetryState())
        state.is_away, state.retry_at_ns = True, self._clock() + RETRY_NS

    def to_take_over(self) -> list[int]:
        """Numbers of the lanes whose next takeover is due."""
        return [
            lane for lane, state in self._of.items() if state.is_away and self._clock() >= state.retry_at_ns
        ]

    def tried(self, lane: int) -> None:
        """Record that a takeover of a lane starts: the lane leaves `to_take_over` unless `put_off` schedules
        another one."""
        state = self._of.get(lane)
        if state is not None:
            state.is_away = False

    def committed(self, lane: int) -> None:
        """Record a successful commit of a lane, which resets its count of failures."""
        state = self._of.get(lane)
        if state is not None:
            state.failures, state.commits = 0, state.commits + 1
            if state.losses == 0 or state.commits >= SETTLED_COMMITS:
                del self._of[lane]

    def forget(self, lane: int) -> None:
        """Discard the state of a lane that was released or halted."""
        self._of.pop(lane, None)


def passes_by_itself(error: OSError) -> bool:
    """True if an error is transient and retried without limit: disk full, quota exceeded, store
    unreachable."""
    return error.errno in _WAITS or isinstance(error, TimeoutError | ConnectionError)


Committed = tuple[CommitRecord, float]
"""(record of a commit, duration of the commit in s)."""


class Commit(Enum):
    """Condition under which a step of a lane ends with a commit."""

    NEVER = 0
    DUE = 1
    """Commit if `LiveLane.is_due` returns True."""
    NOW = 2


@dataclass(frozen=True, slots=True)
class Taken:
    """Polled payloads of one stream with the events decoded from them."""

    stream: StreamId
    payloads: Payloads
    decoded: Decoded


class LaneWork:
    """Scheduler of lane steps in a thread pool, with a queue of decoded payloads per lane.

    Used by one thread. While a step of a lane runs, only the pool's thread may access that lane.
    """

    def __init__(self, clock: Clock, pool: Executor) -> None:
        self._clock = clock
        self._pool = pool
        self._waiting: dict[int, list[Taken]] = {}
        self._working: dict[int, Future[Committed | None]] = {}
        self.bytes = 0
        """Bytes of decoded events queued for lanes whose next step has not begun."""

    def give(self, taken: Taken) -> None:
        """Queue decoded payloads for the lane to which their stream belongs."""
        self._waiting.setdefault(taken.stream.lane, []).append(taken)
        self.bytes += taken.decoded.events.nbytes

    def begin(
        self, lane: LiveLane, ends: Mapping[StreamId, int] | None, commit: Commit = Commit.NEVER
    ) -> None:
        """Start a step of a lane on its queued payloads, unless a step of this lane is running.

        ends: stream -> end offset, used to advance the watermark; None: only consume the payloads, without
        advancing or committing. commit: condition under which the step ends with a commit.
        """
        if lane.number not in self._working:
            taken = self._taken(lane.number)
            self._working[lane.number] = self._pool.submit(_step, lane, taken, ends, self._clock(), commit)

    def commit(self, lane: LiveLane, *, whole: bool = False, latest_ns: int | None = None) -> None:
        """Start a commit of a lane that has no running step. whole, latest_ns: passed to
        `LiveLane.commit`."""
        self._working[lane.number] = self._pool.submit(
            lambda: lane.commit(self._clock().now_ns, whole=whole, latest_ns=latest_ns)
        )

    def finished(self) -> Iterator[tuple[int, Callable[[], Committed | None]]]:
        """Yield (lane number, result) of each finished step, ascending. Calling `result` returns the step's
        commit, or None if it made none, or raises the step's error."""
        for number in sorted(self._working):
            work = self._working.get(number)  # what is seen to in between may have ended it
            if work is not None and work.done():
                del self._working[number]
                yield number, work.result

    def rest(self, number: int | None = None) -> None:
        """Wait for the running step of the lane with this number; None: for the running steps of all
        lanes."""
        wait([work for n, work in self._working.items() if number in (None, n)])

    def pause(self, seconds: float) -> None:
        """Wait until any running step finishes, for at most `seconds`."""
        wait(self._working.values(), seconds, FIRST_COMPLETED)

    def forget(self, number: int) -> None:
        """Discard the queued payloads of a lane that this process no longer owns."""
        self._taken(number)

    def close(self) -> None:
        """Shut down the thread pool."""
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
    """Run one step of a lane: consume payloads, advance the watermark, and commit if `commit` requires it;
    return the commit or None.

    now: time at which `ends` were read: a stream read to its end then may have received messages since.
    """
    for one in taken:
        if one.stream in lane.streams:
            lane.take(one.stream, one.payloads, one.decoded, now)
    if ends is None:
        return None
    lane.advance(ends, now)
    if commit is Commit.NOW or (commit is Commit.DUE and lane.is_due(now.now_ns)):
        return lane.commit(now.now_ns)
    return None
