"""Several watches as one."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.commits import CommitRecord
from stitch.drivers.live.watch import Watch


class Watches:
    """A `Watch` that tells others, in order."""

    def __init__(self, *watches: Watch) -> None:
        self._watches = watches

    def decoded(self, stream: str, messages: int, size: int, events: int, refused: Mapping[str, int]) -> None:
        """See Watch."""
        for watch in self._watches:
            watch.decoded(stream, messages, size, events, refused)

    def committed(self, record: CommitRecord, took_s: float) -> None:
        """See Watch."""
        for watch in self._watches:
            watch.committed(record, took_s)

    def lane(self, lane: int, state: str, why: str) -> None:
        """See Watch."""
        for watch in self._watches:
            watch.lane(lane, state, why)

    def trouble(self, why: str | None) -> None:
        """See Watch."""
        for watch in self._watches:
            watch.trouble(why)
