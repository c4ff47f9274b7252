"""Which streams the log gave to us, by lane: whether at work, put off or halted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ingest.source import StreamId


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
