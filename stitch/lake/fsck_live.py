"""Live lanes: offsets join up (I4, I6), what stays open is carried over (I1), segments are there (I3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schemas.commits import CommitRecord, PartitionRange
from schemas.errors import LakeError
from stitch.lake.segment_files import read_segment
from stitch.lake.store import Store

Broken = tuple[str, str]
"""Invariant, and what is wrong."""


def broken_positions(commits: Iterable[CommitRecord]) -> Iterator[Broken]:
    """Offset ranges of a stream join up, or go back to where a gap says that the log was cut back; any other
    gap lies inside the range of its commit, or before it where a segment was lost.
    """
    ends: dict[tuple[int, str, str | None, int], int] = {}
    for record in commits:
        gaps = {(*_stream(record.lane, gap), gap.start, gap.end) for gap in record.gaps}
        for told in record.standing.positions:
            stream = _stream(record.lane, told)
            before = ends.get(stream, told.start)
            cut = (*stream, told.start, before)
            if (before != told.start and cut not in gaps) or told.end < told.start:
                detail = f"commit {record.seq} of lane {record.lane} starts '{told.topic}' at {told.start}"
                yield "I6", f"{detail}, the one before ended at {before}"
            first = 0 if record.counters.events_lost else told.start
            within = {gap for gap in gaps if gap[:4] == stream and first <= gap[4] <= gap[5] <= told.end}
            gaps -= {cut, *within}
            ends[stream] = told.end
        for _ in gaps:
            yield "I4", f"commit {record.seq} of lane {record.lane} has a gap outside of what it took"


def _stream(lane: int, told: PartitionRange) -> tuple[int, str, str | None, int]:
    return lane, told.topic, told.topic_id, told.partition


def broken_carry(commits: Iterable[CommitRecord]) -> Iterator[Broken]:
    """Every live commit of a lane begins with the open events that the one before ended with."""
    still_open: dict[int, int] = {}
    for record in commits:
        if record.kind != "live":
            continue
        before = still_open.get(record.lane, 0)
        if record.counters.events_carried != before:
            yield (
                "I1",
                f"commit {record.seq} of lane {record.lane} carries {record.counters.events_carried} events, "
                f"the one before left {before} open",
            )
        still_open[record.lane] = record.counters.events_open


def broken_segments(store: Store, commits: Iterable[CommitRecord]) -> Iterator[Broken]:
    """What the last commit of every lane needs to go on is there, and holds what is open; what is left of
    earlier ones, for a repair, is whole.
    """
    last = {record.lane: record for record in commits}
    needed = {segment.name for record in last.values() for segment in record.standing.segments}
    kept = {
        segment.name: (record.lane, segment)
        for record in commits
        for segment in record.standing.segments
        if segment.name not in needed
    }
    for name, (lane, segment) in kept.items():
        try:
            if store.size(name) is not None:
                read_segment(store, segment)
        except (LakeError, OSError) as error:
            yield "I3", f"lane {lane}: {error}"
    for lane, record in sorted(last.items()):
        rows = 0
        for segment in record.standing.segments:
            try:
                rows += read_segment(store, segment).num_rows
            except (LakeError, OSError) as error:
                yield "I3", f"lane {lane}: {error}"
        still_open = record.counters.events_open if record.kind == "live" else 0
        if rows < still_open:
            yield "I1", f"lane {lane} has {still_open} open events, its segments hold {rows}"
