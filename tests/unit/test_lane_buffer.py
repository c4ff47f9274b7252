"""A live lane's buffer, case by case: what closes, what is late, what a takeover finds, what is sealed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracles.record_events import record, table
from oracles.span_events import T0, batch, span

from schemas.config import StitchConfig
from schemas.events import concat_events
from schemas.quality import Quality
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.live.closed_memory import ClosedMemory, KeySet, window_ends
from stitch.drivers.live.due import Due
from stitch.drivers.live.lane_buffer import LaneBuffer
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.provisional import provisional_flows
from stitch.drivers.live.steady_clock import Moment
from stitch.kernel import stitch
from stitch.lake.windowing import WindowPart, cut

S = NS_PER_SECOND
SETTINGS = LiveSettings(lateness_ns=0, linger_ns=S, stitch=StitchConfig(idle_ns=10 * S, max_age_ns=60 * S))
START = T0 - T0 % NS_PER_MINUTE + NS_PER_MINUTE
AT = START - T0
"""Of the first window, as `span` counts."""


def lane(settings: LiveSettings = SETTINGS, sealed_to_ns: int | None = None) -> LaneBuffer:
    return LaneBuffer(settings, NS_PER_MINUTE, 1, ClosedMemory(), sealed_to_ns)


def trace(name: str, at_s: float = 0, **more: Any) -> list[dict[str, Any]]:
    """A root of one second and a child."""
    begin = AT + int(at_s * S)
    return [
        span("a", at=(begin, begin + S), trace=name, **more),
        span("b", "a", (begin + 10, begin + 20), trace=name),
    ]


def records(at: int, crumb: str, request: str | None) -> list[dict[str, Any]]:
    return [
        record(crumb, "in", START + at, request=request),
        record(crumb, "out", START + at + 5, "end", request=request),
    ]


def add(buffer: LaneBuffer, *rows: dict[str, Any], now_ns: int = START + 3600 * S) -> None:
    buffer.add(batch(*rows), Moment.exactly(now_ns))


def quality_of(due: Due) -> dict[str, int]:
    """Flows by flag, as their commit will say."""
    masks = [mask for part in windows(due) for mask in part.flows["quality"].to_pylist()]
    counts = {str(flag.name): sum(mask & flag != 0 for mask in masks) for flag in Quality}
    return {flag: n for flag, n in counts.items() if n}


def commit(buffer: LaneBuffer, due: Due | None = None) -> Due:
    due = buffer.due() if due is None else due
    assert due.counters.balanced
    buffer.committed(due)
    return due


def windows(due: Due) -> list[WindowPart]:
    return [*due.parts()]


def ids(due: Due) -> list[str]:
    return sorted(name for part in windows(due) for name in part.flows["request_id"].to_pylist())


def test_an_empty_lane_has_nothing_due() -> None:
    due = commit(lane())
    assert (windows(due), due.sealed_to_ns, due.has_segment, due.segments_needed) == ([], None, False, 0)


def test_a_complete_request_closes_after_the_linger_and_is_published_with_its_window() -> None:
    buffer = lane()
    add(buffer, *trace("t"))
    buffer.advance(START + 2 * S - 1)
    assert commit(buffer).new_events.num_rows == 2
    assert (buffer.open_flows, buffer.pending_flows) == (1, 0)
    buffer.advance(START + 2 * S)
    due = commit(buffer)
    assert (buffer.open_flows, buffer.pending_flows, buffer.open_events) == (0, 1, 0)
    assert (due.counters.events_open, due.has_segment, due.segments_needed) == (2, False, 1)
    assert not buffer.seals
    buffer.advance(START + 60 * S)
    assert buffer.seals
    due = commit(buffer)
    assert ids(due) == ["t"]
    assert (due.sealed_to_ns, due.segments_needed) == (START + 60 * S, 0)
    assert windows(due)[0].flows["quality"].to_pylist() == [0]


def test_an_incomplete_request_waits_for_the_gap_and_its_window_with_it() -> None:
    buffer = lane()
    add(buffer, *trace("t", 58)[1:], *trace("u", 3))
    buffer.advance(START + 67 * S)
    due = commit(buffer)
    assert (ids(due), due.sealed_to_ns) == ([], START)
    assert (buffer.oldest_open_ns, buffer.pending_flows) == (START + 58 * S + 10, 1)
    buffer.advance(START + 68 * S + 20)
    due = commit(buffer)
    assert (ids(due), due.sealed_to_ns) == (["t", "u"], START + 60 * S)


def test_a_request_past_its_age_is_incomplete() -> None:
    buffer = lane()
    add(buffer, span("b", "a", (AT, AT + 55 * S), trace="t"))
    buffer.advance(START + 60 * S)
    due = commit(buffer)
    assert ids(due) == ["t"]
    assert windows(due)[0].flows["quality"].to_pylist() == [Quality.INCOMPLETE | Quality.ORPHAN]
    assert quality_of(due) == {"INCOMPLETE": 1, "ORPHAN": 1}


def test_after_closing_a_copy_is_a_duplicate_and_anything_else_is_late() -> None:
    buffer = lane()
    add(buffer, *trace("t"))
    buffer.advance(START + 30 * S)
    commit(buffer)
    add(buffer, *trace("t"), span("c", "a", (AT + 29 * S, AT + 30 * S), trace="t"))
    due = commit(buffer)
    assert (due.counters.events_duplicate, due.counters.events_late) == (2, 1)
    assert [row["point"] for row in due.late.to_pylist()] == ["c"]
    assert due.counters.events_open == 2
    add(buffer, *trace("t"))
    counters = commit(buffer, buffer.everything()).counters
    assert (counters.events_published, counters.events_duplicate, counters.events_open) == (2, 2, 0)


def test_after_closing_another_version_is_late_though_only_a_list_differs() -> None:
    buffer = lane()
    at = (AT + 1 * S, AT + 2 * S)
    add(buffer, *trace("t"), span("c", "a", at, trace="t"))
    buffer.advance(START + 60 * S)
    commit(buffer)
    add(buffer, span("c", "a", at, trace="t"), span("c", "b", at, trace="t"))
    due = commit(buffer)
    assert (due.counters.events_duplicate, due.counters.events_late) == (1, 1)


def test_before_the_seal_everything_is_late_even_of_an_open_request() -> None:
    buffer = lane(sealed_to_ns=START)
    add(buffer, *trace("t", 1), span("c", "a", (AT - 1, AT + 5), trace="t"), *trace("u", -5))
    due = commit(buffer)
    assert (due.counters.events_late, due.counters.events_open) == (3, 2)


def test_a_clock_that_is_far_ahead_or_a_day_behind() -> None:
    buffer = lane()
    add(buffer, *trace("t"), *trace("x", 10**9), *trace("y", 3600 + 4 * 60), now_ns=START + 3600 * S)
    buffer.advance(START + S)
    add(buffer, *trace("z", -86_400))
    due = commit(buffer)
    assert due.counters.rejects == {"absurd-time": 2}
    assert {row["reason"] for row in due.dead_letters.to_pylist()} == {"absurd-time"}
    assert (due.counters.events_late, due.counters.events_open) == (2, 4)


def test_what_cannot_be_placed_is_refused_at_once() -> None:
    buffer = lane()
    nameless = [span("a", trace=None), span("b") | {"id": None}]
    add(buffer, *nameless, record("c", "p", None))
    due = commit(buffer)
    assert due.counters.rejects == {"bad-id": 2, "bad-time": 1}
    assert due.dead_letters.num_rows == due.counters.events_rejected == 3
    assert (due.counters.rejects_not_kept, due.counters.events_open) == (0, 0)


def test_dead_letters_of_a_commit_are_bounded_and_all_are_counted() -> None:
    buffer = lane(SETTINGS.model_copy(update={"max_dead_letters_per_commit": 3}))
    add(buffer, *(row for i in range(9) for row in trace(f"x{i}", 10**9)))
    due = commit(buffer)
    assert (due.dead_letters.num_rows, due.counters.events_rejected) == (3, 18)
    assert due.counters.rejects_not_kept == 15


def test_a_trace_without_any_time_is_refused_once_whatever_is_taken_over() -> None:
    buffer = lane()
    timeless = span("a", at=(None, None), trace="x")
    buffer.advance(START)
    add(buffer, timeless, *trace("t", 20)[1:])
    buffer.advance(START + 10 * S - 1)
    first = commit(buffer)
    assert first.counters.events_open == 2
    buffer.advance(START + 10 * S)
    second = commit(buffer)
    assert (second.counters.rejects, second.counters.events_open) == ({"bad-time": 1}, 1)
    assert (second.has_segment, second.segments_needed) == (True, 2)
    after = lane()
    after.load([first.new_events, second.new_events])
    assert after.open_events == 1


def test_a_span_without_any_time_is_refused_where_its_request_is_forgotten() -> None:
    """Nothing says that it is late."""
    buffer = lane()
    add(buffer, *trace("t"))
    for seconds in (60, 10_000):  # published, then forgotten
        buffer.advance(START + seconds * S)
        commit(buffer)
    add(buffer, span("a", at=(None, None), trace="t"))
    counters = commit(buffer, buffer.everything()).counters
    assert (counters.rejects, counters.events_late, counters.flows) == ({"bad-time": 1}, 0, 0)


@pytest.mark.parametrize("request_name", ["r", None])
def test_a_takeover_finds_what_was_open_and_not_what_was_published(request_name: str | None) -> None:
    """The first segment is still needed, and holds a request that was published."""
    buffer = lane()
    buffer.add(table(*records(0, "x", request_name), *records(50, "y", "s")[:1]), Moment.exactly(START))
    first = commit(buffer)
    buffer.add(table(*records(61 * S, "y", "s")[1:]), Moment.exactly(START + 70 * S))
    buffer.advance(START + 9 * S)
    early = commit(buffer, buffer.due(early=True))
    assert ids(early) == ["r" if request_name else "~x"]
    assert early.segments_needed == 2
    segments = [first.new_events, early.new_events]

    after = lane(sealed_to_ns=early.sealed_to_ns)
    after.load(segments)
    assert after.open_events == early.counters.events_open == 2
    late = records(70 * S, "x", None)
    if request_name is None:
        after.add(table(*late), Moment.exactly(START + 70 * S))
        assert commit(after).counters.events_late == 2
    due = after.everything()
    assert (ids(due), due.counters.events_carried) == (["s"], 2)


def test_what_ties_published_records_outlives_their_segments() -> None:
    buffer = lane()
    buffer.add(table(*records(0, "x", None)), Moment.exactly(START))
    buffer.advance(START + 60 * S)
    due = commit(buffer)
    assert (ids(due), due.has_segment, due.segments_needed) == (["~x"], True, 1)
    after = lane(sealed_to_ns=due.sealed_to_ns)
    after.load([due.new_events])
    after.add(table(*records(61 * S, "x", None)), Moment.exactly(START + 70 * S))
    later = commit(after)
    assert (later.counters.events_late, later.segments_needed) == (2, 1)
    after.advance(START + 600 * S)
    assert commit(after).segments_needed == 0


def test_records_without_ids_close_with_the_request_that_they_touch() -> None:
    buffer = lane()
    loose = record("a", "loose", START + 1, request=None)
    buffer.add(table(record("a", "in", START, request="r"), loose), Moment.exactly(START))
    buffer.add(table(record("a", "out", START + 12 * S, "end", request="r")), Moment.exactly(START))
    buffer.advance(START + 12 * S)
    due = commit(buffer, buffer.due(early=True))
    assert (ids(due), buffer.open_events) == ([], 3)
    buffer.advance(START + 13 * S)
    due = commit(buffer, buffer.due(early=True))
    assert ids(due) == ["r"]
    assert windows(due)[0].flows["n_nodes"].to_pylist() == [3]


def test_windows_are_put_together_as_if_they_had_come_at_once() -> None:
    buffer = lane(SETTINGS.model_copy(update={"params_share": 0.5}))
    rows = []
    for i in range(60):
        more = {"params": {"k": i, "m": "x"}} | ({"label": "hit"} if i % 3 else {})
        rows += trace(f"t{i * 7919 % 100}", 50 + i % 20, host=f"h{i % 4}", **more)
    for begin in range(0, len(rows), 10):
        add(buffer, *rows[begin : begin + 10])
        buffer.advance(START + 40 * S)
        buffer.due()
    at_once = lane(SETTINGS.model_copy(update={"params_share": 0.5}))
    add(at_once, *rows)
    due, expected = buffer.everything(), at_once.everything()
    assert len(windows(due)) == len(windows(expected)) == 2
    for ours, theirs in zip(windows(due), windows(expected), strict=True):
        assert ours.window == theirs.window
        for name in ("flows", "structures", "params"):
            assert getattr(ours, name).to_pylist() == getattr(theirs, name).to_pylist()
    whole = lane()
    add(whole, *rows)
    made = stitch(batch(*rows), SETTINGS.stitch, lane=1)
    for ours, theirs in zip(
        windows(whole.everything()),
        cut(made.flows, made.structures, made.params, NS_PER_MINUTE),
        strict=True,
    ):
        for name in ("flows", "structures", "params"):
            assert getattr(ours, name).to_pylist() == getattr(theirs, name).to_pylist()
    kept = set(windows(expected)[0].params["request_id"].to_pylist())
    assert 0 < len(kept) < windows(expected)[0].flows.num_rows


def test_pieces_that_closed_one_by_one_are_sorted_as_one() -> None:
    buffer, at_once = lane(), lane()
    rows = [trace(f"t{i * 7 % 10}", i % 5, host=f"h{i}", params={"k": i}) for i in range(10)]
    for part in rows:
        add(buffer, *part)
        buffer.advance(START + 4 * S)
        buffer.relieve(SETTINGS.memory_bytes // 2)
        buffer.due()
        add(at_once, *part)
    buffer.advance(START + 60 * S)
    at_once.advance(START + 60 * S)
    ours, theirs = windows(commit(buffer))[0], windows(commit(at_once))[0]
    for name in ("flows", "structures", "params"):
        assert getattr(ours, name).to_pylist() == getattr(theirs, name).to_pylist()


def test_under_pressure_the_oldest_requests_are_closed_as_incomplete() -> None:
    budget = 2 * concat_events([batch(*trace("t"))]).nbytes
    buffer = lane(SETTINGS.model_copy(update={"memory_bytes": budget}))
    for i in range(20):
        add(buffer, *trace(f"t{i:02d}", 50 - i)[1:])
    buffer.advance(START)
    held = buffer.bytes
    buffer.relieve(budget // 2)
    assert 0 < buffer.open_flows < 10
    due = commit(buffer, buffer.due(early=True))
    assert ids(due) == [f"t{i:02d}" for i in range(buffer.open_flows, 20)]
    assert quality_of(due)["INCOMPLETE"] == due.counters.flows
    assert buffer.bytes < held / 2
    add(buffer, *trace("t19", 31)[:1])
    assert commit(buffer).counters.events_late == 1


def test_bytes_come_back_to_nothing() -> None:
    buffer = lane()
    for i in range(30):
        add(buffer, *trace(f"t{i}", i, params={"k": "v" * 50}))
        buffer.advance(START + i * S)
        commit(buffer, buffer.due(early=i % 7 == 0))
    commit(buffer, buffer.everything())
    assert (buffer.open_events, buffer.open_flows, buffer.pending_flows) == (0, 0, 0)
    assert buffer.bytes == 0
    assert buffer._memory.bytes > 0
    buffer.advance(START + 1200 * S)
    commit(buffer)
    assert buffer._memory.bytes == 0


def test_memory_forgets_the_oldest_windows_first() -> None:
    known = KeySet(100)
    for i in range(50):
        keys = np.arange(10 * i, 10 * i + 10, dtype=np.uint64)
        known.add(keys, np.full(10, (i // 5) * NS_PER_MINUTE))
    assert len(known) <= 100
    found = known.has(np.array([0, 349, 450, 499, 500], dtype=np.uint64))
    assert found.tolist() == [False, False, True, True, False]
    known.forget(8 * NS_PER_MINUTE)
    assert known.has(np.array([499], dtype=np.uint64)).tolist() == [True]
    known.forget(9 * NS_PER_MINUTE)
    assert len(known) == 0
    assert window_ends(np.array([0, 59, 60]), 60).tolist() == [60, 60, 120]


def test_an_event_in_pieces_of_a_table_is_taken() -> None:
    buffer = lane()
    buffer.add(pa.concat_tables([batch(*trace("t")), batch(*trace("u"))]), Moment.exactly(START))
    assert ids(buffer.everything()) == ["t", "u"]


def test_a_flow_that_waits_keeps_every_segment_that_it_came_in() -> None:
    buffer = lane()
    add(buffer, *trace("t")[1:])
    first = commit(buffer)
    add(buffer, *trace("t")[:1])
    buffer.advance(START + 20 * S)
    second = commit(buffer)
    assert (buffer.pending_flows, second.segments_needed) == (1, 2)
    after = lane()
    after.load([first.new_events, second.new_events])
    assert windows(after.everything())[0].flows["quality"].to_pylist() == [0]


def test_a_provisional_reading_has_what_was_not_published_yet() -> None:
    buffer = lane()
    add(buffer, *trace("t"), *trace("u", 30))
    segments = [commit(buffer).new_events]
    buffer.advance(START + 20 * S)
    due = commit(buffer, buffer.due(early=True))
    segments.append(due.new_events)
    add(buffer, span("c", "b", (AT + 31 * S, AT + 32 * S), trace="u"))
    segments.append(commit(buffer).new_events)
    assert ids(due) == ["t"]
    made = provisional_flows(segments, SETTINGS.stitch)
    rows = [*trace("u", 30), span("c", "b", (AT + 31 * S, AT + 32 * S), trace="u")]
    assert made.flows.to_pylist() == stitch(batch(*rows), SETTINGS.stitch).flows.to_pylist()


def test_what_is_settled_says_nothing_of_segments_to_come() -> None:
    """An id that comes again after it was forgotten is another request."""
    buffer = lane()
    add(buffer, *trace("t"), *trace("u", 30))
    segments = [commit(buffer).new_events]
    buffer.advance(START + 20 * S)
    segments.append(commit(buffer, buffer.due(early=True)).new_events)
    buffer._memory.requests.forget(START + 3600 * S)
    add(buffer, *trace("t", 70))
    due = commit(buffer)
    segments.append(due.new_events)
    assert due.counters.events_open == 4
    after = lane()
    after.load(segments)
    assert after.open_events == 4
    flows = provisional_flows(segments, SETTINGS.stitch).flows
    assert sorted(flows["start_ns"].to_pylist()) == [START + 30 * S, START + 70 * S]


def test_under_pressure_the_complete_requests_are_closed_first_and_are_not_incomplete() -> None:
    budget = 4 * concat_events([batch(*trace("t"))]).nbytes
    buffer = lane(SETTINGS.model_copy(update={"memory_bytes": budget}))
    for i in range(10):
        add(buffer, *trace(f"cut{i}", i)[1:])
        add(buffer, *trace(f"whole{i}", 20 + i))
    buffer.advance(START)
    buffer.relieve(budget // 2)
    due = commit(buffer, buffer.due(early=True))
    closed = ids(due)
    assert [name for name in closed if name.startswith("whole")] == [f"whole{i}" for i in range(10)]
    cut = [name for name in closed if name.startswith("cut")]
    assert cut == [f"cut{i}" for i in range(len(cut))]
    assert quality_of(due).get("INCOMPLETE", 0) == len(cut)


def test_a_large_window_is_put_together_in_parts_that_stand_alone() -> None:
    rows = [row for i in range(40) for row in trace(f"t{i:02d}", i % 5)]
    buffer = lane(SETTINGS.model_copy(update={"memory_bytes": 1}))
    for first in range(0, len(rows), 8):
        add(buffer, *rows[first : first + 8])
        buffer.relieve(0)
    due = commit(buffer, buffer.everything())
    assert len(windows(due)) > 1
    assert len({part.window for part in windows(due)}) == 1
    assert sorted(ids(due)) == [f"t{i:02d}" for i in range(40)]
    for part in windows(due):
        assert set(part.structures["category"].to_pylist()) == set(part.flows["category"].to_pylist())
