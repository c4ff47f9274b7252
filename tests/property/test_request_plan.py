"""A plan that grows, shrinks and changes its mind is that of the segments that are there."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.plain_plan import At, Entry, plain_plan

from schemas.commits import Segment
from stitch.closing import NEVER
from stitch.drivers.build.log_follower import LogSegment
from stitch.drivers.build.request_plan import Planned, RequestPlan, requests_of
from stitch.lake.event_log import INDEX_TYPE
from stitch.scratch import Scratch

LENGTH = 10
TIMES = st.one_of(
    st.tuples(st.integers(0, 45), st.integers(0, 20)).map(lambda at: (at[0], at[0] + at[1])),
    st.just((int(NEVER), -int(NEVER))),
)
ENTRIES = st.dictionaries(st.integers(0, 12), st.tuples(TIMES, st.integers(1, 9)), max_size=6)
STEP = st.one_of(
    st.tuples(st.just("add"), st.lists(ENTRIES, min_size=1, max_size=3)),
    st.tuples(st.just("remove"), st.integers(0, 9)),
    st.tuples(st.just("replace"), st.tuples(st.integers(0, 9), ENTRIES)),
    st.tuples(st.just("move"), st.tuples(st.integers(0, 12), st.integers(0, 4))),
    st.tuples(st.just("bind"), st.dictionaries(st.integers(0, 12), st.integers(0, 4), max_size=4)),
    st.tuples(st.just("reset"), st.none()),
)


def index_of(entries: list[Entry]) -> np.ndarray:
    return np.array(sorted(entries), INDEX_TYPE)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=12), on_disk=st.booleans())
def test_a_plan_is_that_of_its_segments(steps: list[tuple[str, object]], on_disk: bool) -> None:
    there: dict[At, tuple[LogSegment, list[Entry]]] = {}
    seq, moved, bound = 0, {}, {}

    def entries_of(segment: LogSegment) -> Planned:
        return requests_of(segment, index_of(there[segment.lane, segment.seq][1]))

    def made(at: At, entries: dict[int, tuple[tuple[int, int], int]]) -> LogSegment:
        own = [(key, *times, rows) for key, (times, rows) in entries.items()]
        segment = LogSegment(*at, Segment(name="s", sha256="", size=0, rows=len(own)), 0)
        there[at] = segment, own
        return segment

    plan = RequestPlan(LENGTH, entries_of, Scratch() if on_disk else None)
    for kind, what in steps:
        if kind == "add":
            fresh = []
            for entries in what:
                seq += 1
                fresh.append(made((1 + seq % 2, seq), entries))
            plan.add(fresh)
        elif kind == "remove" and there:
            at = sorted(there)[what % len(there)]
            plan.remove([there.pop(at)[0]], lambda _: False)
        elif kind == "replace" and there:
            at = sorted(there)[what[0] % len(there)]
            plan.remove([there.pop(at)[0]], lambda _: False)
            plan.add([made(at, what[1])])
        elif kind == "move":
            moved[what[0]] = what[1] * LENGTH
            plan.move({what[0]: what[1] * LENGTH})
        elif kind == "bind":
            bound = {key: start * LENGTH for key, start in what.items()}
            keys = np.array(sorted(bound), np.uint64)
            plan.bind(keys, np.array([bound[key] for key in sorted(bound)], np.int64))
        elif kind == "reset":
            plan.reset([segment for segment, _ in there.values()])
        segments = {at: entries for at, (_, entries) in there.items()}
        windows, rows_of, digests = plain_plan(segments, LENGTH, {**moved, **bound})
        found = {window.start_ns: window for window in plan.windows()}
        if (timeless := plan.window(int(NEVER))) is not None:
            found[int(NEVER)] = timeless
        assert {
            start: {
                int(r["key"]): (int(r["first_ns"]), int(r["last_ns"]), int(r["rows"])) for r in own.requests
            }
            for start, own in found.items()
        } == windows
        assert all((np.diff(own.keys.astype(np.int64)) > 0).all() for own in found.values())
        assert {start: own.digest for start, own in found.items()} == digests
        assert {at: segment.rows_of for at, (segment, _) in there.items()} == rows_of


def test_requests_of_a_frozen_window_stay_known_while_a_segment_has_some() -> None:
    index = {1: [(1, 5, 6, 1), (2, 7, 8, 1)], 2: [(2, 12, 13, 1)]}
    segments = {at: LogSegment(1, at, Segment(name="s", sha256="", size=0, rows=2), 0) for at in index}
    plan = RequestPlan(LENGTH, lambda segment: requests_of(segment, index_of(index[segment.seq])))
    plan.add(segments.values())
    plan.remove([segments[1]], lambda _: True)
    assert [(window.start_ns, window.keys.tolist()) for window in plan.windows()] == [(0, [1, 2])]
    plan.remove([segments[2]], lambda _: True)
    assert plan.windows() == []
