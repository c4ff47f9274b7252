"""Live lanes: offsets join up (I4, I6), what stays open is carried over (I1), segments are there (I3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schemas.commits import CommitRecord
from schemas.errors import LakeError
from stitch.lake.segment_files import read_segment
from stitch.lake.store import Store

Broken = tuple[str, str]
"""Invariant, and what is wrong."""


def broken_positions(commits: Iterable[CommitRecord]) -> Iterator[Broken]:
    """Offset ranges of a stream join up; a gap that was passed over lies inside its commit's range."""
    ends: dict[tuple[int, str, str | None, int], int] = {}
    for record in commits:
        told_of = {}
        for told in record.standing.positions:
            key = (record.lane, told.topic, told.topic_id, told.partition)
            told_of[key[1:]] = told
            if ends.get(key, told.start) != told.start or told.end < told.start:
                detail = f"commit {record.seq} of lane {record.lane} starts '{told.topic}' at {told.start}"
                yield "I6", f"{detail}, the one before ended at {ends.get(key)}"
            ends[key] = told.end
        for gap in record.gaps:
            within = told_of.get((gap.topic, gap.topic_id, gap.partition))
            if within is None or not within.start <= gap.start <= gap.end <= within.end:
                yield "I4", f"commit {record.seq} of lane {record.lane} has a gap outside of what it took"


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
    """What the last commit of every lane needs to go on is there, and holds what is open."""
    last = {record.lane: record for record in commits}
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
