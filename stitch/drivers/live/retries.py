"""Decide what follows when a lane's commit or takeover fails: try again, take back, or halt."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

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
    """Whether the lane is to be taken over again at `retry_at_ns`."""


class RetryStates:
    """By lane. `clock` tells the time in ns."""

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
        """Whether it is time for another try of a commit."""
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
    """Whether waiting helps: a disk that is full, a quota, a store that does not answer."""
    return error.errno in _WAITS or isinstance(error, TimeoutError | ConnectionError)
