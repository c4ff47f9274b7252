"""A live run that nobody watches, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.commits import CommitRecord
from stitch.drivers.live.watch import LiveStatus


class Unwatched:
    """A Watch that does nothing."""

    def decoded(self, stream: str, messages: int, size: int, events: int, refused: Mapping[str, int]) -> None:
        """See Watch."""

    def committed(self, record: CommitRecord, took_s: float) -> None:
        """See Watch."""

    def lane(self, lane: int, state: str, why: str) -> None:
        """See Watch."""

    def trouble(self, why: str | None) -> None:
        """See Watch."""


def is_read(status: LiveStatus) -> bool:
    """Whether every stream was taken to its end, as far as that is known."""
    streams = [stream for lane in status.lanes for stream in lane.streams]
    return bool(streams) and all(s.end is not None and s.position >= s.end for s in streams)
