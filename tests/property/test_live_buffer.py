"""A live lane, whatever the cuts, restarts and repeats: each event booked once, each flow as in one batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from oracles.agreement import disagreements
from oracles.examples import examples
from oracles.stitcher import read_events, stitch_plainly
from oracles.strategies import Row, record_rows, span_rows, table_of

from schemas.config import StitchConfig
from schemas.events import empty_events, with_text_ids
from schemas.quality import Quality
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.live.closed_memory import ClosedMemory
from stitch.drivers.live.due import Due
from stitch.drivers.live.lane_buffer import LaneBuffer
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import Moment
from stitch.kernel import stitch

LENGTH_NS = NS_PER_MINUTE
APART_NS = 20 * NS_PER_SECOND
"""Between the starts of two requests: three to a window, each over long before the next."""
SETTINGS = LiveSettings(
    lateness_ns=0,
    linger_ns=1,
    stitch=StitchConfig(idle_ns=10 * NS_PER_SECOND, max_age_ns=30 * NS_PER_SECOND),
)
START_NS = 10 * NS_PER_MINUTE
FAR_NS = 10**15


@dataclass
class SlowLane:
    """A lane in plain sight: what its commits published, and its segments, as a store would keep them."""

    lane_settings: LiveSettings = SETTINGS
    flows: list[pa.Table] = field(default_factory=list)
    structures: list[pa.Table] = field(default_factory=list)
    late: list[pa.Table] = field(default_factory=list)
    letters: list[dict[str, Any]] = field(default_factory=list)
    segments: list[pa.Table] = field(default_factory=list)
    log: list[pa.Table] = field(default_factory=list)
    """Events of all segments, those aside included."""
    counts: Counter[str] = field(default_factory=Counter)
    sealed_to_ns: int | None = None
    n_open: int = 0

    def __post_init__(self) -> None:
        self.buffer = LaneBuffer(self.lane_settings, LENGTH_NS, 3, ClosedMemory(), None)

    def commit(self, due: Due) -> None:
        counters = due.counters
        assert counters.balanced, counters
        assert counters.events_carried == self.n_open
        assert counters.flows == sum(part.flows.num_rows for part in due.parts())
        self.n_open = counters.events_open
        if due.has_segment:
            self.segments.append(due.new_events)
            self.log += [due.new_events.replace_schema_metadata(None), due.aside]
        else:
            assert due.new_events.num_rows == due.aside.num_rows == 0
        self.segments = self.segments[len(self.segments) - due.segments_needed :]
        for part in due.parts():
            starts = part.flows["start_ns"].to_pylist()
            assert all(part.window.start_ns <= start < part.window.end_ns for start in starts)
            assert self.sealed_to_ns is None or part.window.end_ns > self.sealed_to_ns
            keys = [
                (r["root"], r["category"], r["start_ns"], r["request_id"]) for r in part.flows.to_pylist()
            ]
            assert keys == sorted(keys)
            assert set(part.structures["category"].to_pylist()) == {key[1] for key in keys}
            self.flows.append(part.flows)
            self.structures.append(part.structures)
        self.late.append(due.late)
        self.letters += due.dead_letters.to_pylist()
        for name in ("read", "published", "duplicate", "rejected", "late"):
            self.counts[name] += getattr(counters, f"events_{name}")
        if due.sealed_to_ns is not None:
            assert self.sealed_to_ns is None or due.sealed_to_ns >= self.sealed_to_ns
        self.sealed_to_ns = due.sealed_to_ns
        self.buffer.committed(due)

    def restart(self) -> None:
        """Another process takes over: nothing is left but what was committed."""
        memory = ClosedMemory()
        for flows in self.flows:
            memory.remember_flows(flows, LENGTH_NS)
        self.buffer = LaneBuffer(self.lane_settings, LENGTH_NS, 3, memory, self.sealed_to_ns)
        self.buffer.load(self.segments)
        assert self.buffer.open_events == self.n_open

    @property
    def published(self) -> pa.Table:
        return pa.concat_tables(self.flows) if self.flows else stitch(empty_events(), StitchConfig()).flows


@st.composite
def requests_apart(draw: st.DrawFn, *, spans: bool = True, records: bool = True) -> list[list[Row]]:
    """Requests one after another; some records without request ids, tied by breadcrumbs of their own."""
    requests = []
    for i in range(draw(st.integers(1, 5))):
        if spans and (not records or draw(st.booleans())):
            rows = draw(span_rows(request_id=f"t{i}"))
        else:
            rows = draw(record_rows(request_id=f"r{i}"))
            hidden = draw(st.sampled_from(["none", "none", "some", "all"]))
            for row in rows:
                if row.get("breadcrumb") is None:
                    row["breadcrumb"] = f"r{i}.lost"
                if row.get("links") is not None:
                    row["links"] = [f"r{i}.gone" if link == "gone" else link for link in row["links"]]
                for name in ("id", "parents"):
                    if row.get(name) is not None:
                        row[name] = f"r{i}{row[name]}" if name == "id" else [f"r{i}{p}" for p in row[name]]
                if hidden == "all" or (hidden == "some" and draw(st.integers(0, 2)) == 0):
                    row["request_id"] = None
        for row in rows:
            for column in ("ts_ns", "end_ns"):
                if row.get(column) is not None:
                    row[column] += START_NS + i * APART_NS
        requests.append(rows)
    return requests


def run(data: st.DataObject, lane: SlowLane, requests: list[list[Row]], *, repeats: bool = True) -> list[Row]:
    """Bring the requests to a lane in some order that keeps to the watermark; returns what was given.

    Between batches the lane moves on, commits, or is taken over; what a crash loses is read again.
    """
    tagged = [(number, row) for number, rows in enumerate(requests) for row in rows]
    if repeats:
        tagged += data.draw(st.lists(st.sampled_from(tagged), max_size=4))
    tagged = data.draw(st.permutations(tagged))
    at = committed = 0
    while at < len(tagged):
        step = data.draw(st.integers(1, 12))
        rows = [row for _, row in tagged[at : at + step]]
        at += len(rows)
        lane.buffer.add(table_of(rows), Moment.exactly(FAR_NS))
        to_come = [number for number, _ in tagged[at:]]
        if to_come and data.draw(st.booleans()):
            lane.buffer.advance(START_NS + min(to_come) * APART_NS - 1000)
        what = data.draw(st.sampled_from(["nothing", "nothing", "commit", "early", "pass", "crash"]))
        if what in ("commit", "early"):
            lane.commit(lane.buffer.due(early=what == "early"))
            committed = at
        elif what == "pass":
            lane.buffer.due()
        elif what == "crash":
            lane.restart()
            at = committed
    lane.commit(lane.buffer.everything())
    return [row for _, row in tagged]


def as_rows(table: pa.Table, *without: str) -> list[str]:
    return sorted(repr(row) for row in table.drop_columns(list(without)).to_pylist())


def check(lane: SlowLane, rows: list[Row]) -> None:
    """Everything that was read is in the lake as if it had come in one batch."""
    assert lane.n_open == 0
    lane.restart()
    expected = stitch(table_of(rows), SETTINGS.stitch, lane=3)
    assert as_rows(lane.published) == as_rows(expected.flows)
    structures = {row["category"]: row for table in lane.structures for row in table.to_pylist()}
    assert structures == {row["category"]: row for row in expected.structures.to_pylist()}
    assert lane.counts["read"] == len(rows)
    assert lane.counts["late"] == 0
    assert lane.counts["duplicate"] == expected.counts["duplicates"]
    assert lane.counts["rejected"] == expected.counts["rejected"] == len(lane.letters)
    assert sorted(r["raw"] for r in lane.letters) == sorted(r.raw for r in expected.rejects if r.raw)


@examples(40)
@given(data=st.data(), requests=requests_apart())
def test_cuts_and_restarts_do_not_show(data: st.DataObject, requests: list[list[Row]]) -> None:
    lane = SlowLane()
    rows = run(data, lane, requests)
    check(lane, rows)
    oracle = stitch_plainly(read_events(table_of(rows)), SETTINGS.stitch)
    structures = pa.concat_tables(lane.structures)
    assert list(disagreements(lane.published, structures, oracle)) == []


@st.composite
def stragglers(draw: st.DrawFn) -> list[list[Row]]:
    """Requests some of whose events lie far from the others, no further than the memory reaches. Each has a
    time: what has none cannot be late, and is refused where its request is published and forgotten.

    All records of a request name it, or none does: records without an id that tie themselves to a request
    which comes only after they were published cannot join it.
    """
    requests = draw(requests_apart())
    for rows in requests:
        if rows[0].get("request_id") is None or any(row.get("request_id") is None for row in rows):
            for row in rows:
                row["request_id"] = None
        for row in rows:
            if row.get("ts_ns") is None and row.get("end_ns") is None:
                row["ts_ns"] = START_NS
            if draw(st.integers(0, 5)) == 5:
                shift = draw(st.integers(-25, 25)) * NS_PER_SECOND
                for column in ("ts_ns", "end_ns"):
                    if row.get(column) is not None:
                        row[column] += shift
    return requests


def published_as_accepted(lane: SlowLane, rows: list[Row]) -> None:
    """What is in the lake is what the kernel makes of all that was not late; flags of age aside."""
    read, late = (as_rows(with_text_ids(table)) for table in (table_of(rows), pa.concat_tables(lane.late)))
    accepted_rows = Counter(read)
    accepted_rows.subtract(Counter(late))
    assert min(accepted_rows.values()) >= 0
    chosen = []
    for row, spelled in zip(rows, map(repr, with_text_ids(table_of(rows)).to_pylist()), strict=True):
        if accepted_rows[spelled] > 0:
            accepted_rows[spelled] -= 1
            chosen.append(row)
    expected = stitch(table_of(chosen), SETTINGS.stitch, lane=3)
    ours = lane.published
    assert as_rows(ours, "quality") == as_rows(expected.flows, "quality")
    aged = {(r["request_id"], r["kind"]): r["quality"] for r in ours.to_pylist()}
    for row in expected.flows.to_pylist():
        assert (
            aged[row["request_id"], row["kind"]] | Quality.INCOMPLETE == row["quality"] | Quality.INCOMPLETE
        )
    counts = lane.counts
    assert counts["read"] == len(rows)
    assert counts["late"] == len(late)
    assert counts["duplicate"] >= expected.counts["duplicates"]
    assert counts["rejected"] == expected.counts["rejected"] == len(lane.letters)


@examples(40)
@given(data=st.data(), requests=stragglers())
def test_what_is_late_is_told_and_the_rest_is_published(
    data: st.DataObject, requests: list[list[Row]]
) -> None:
    """Any watermark at any time: whatever is late, the ledger balances and no request is published twice."""
    keeps = data.draw(st.sampled_from([SETTINGS.keep_events_ns, 2 * FAR_NS]))
    memory_bytes = data.draw(st.sampled_from([2**30, 2]))
    lane = SlowLane(SETTINGS.model_copy(update={"memory_bytes": memory_bytes, "keep_events_ns": keeps}))
    rows = [row for part in requests for row in part]
    rows = data.draw(st.permutations(rows + data.draw(st.lists(st.sampled_from(rows), max_size=4))))
    at = committed = 0
    watermark = START_NS - 30 * NS_PER_SECOND
    while at < len(rows):
        step = data.draw(st.integers(1, 12))
        lane.buffer.add(table_of(rows[at : at + step]), Moment.exactly(FAR_NS))
        at += step
        watermark += data.draw(st.sampled_from([0, 1, 11, 31, 70])) * NS_PER_SECOND
        lane.buffer.advance(watermark)
        what = data.draw(st.sampled_from(["nothing", "commit", "early", "relieve", "pass", "crash"]))
        if what in ("commit", "early"):
            lane.commit(lane.buffer.due(early=what == "early"))
            committed = min(at, len(rows))
        elif what == "relieve":
            lane.buffer.relieve(lane.lane_settings.memory_bytes // 2)
        elif what == "pass":
            lane.buffer.due()
        elif what == "crash":
            lane.restart()
            at = committed
    lane.commit(lane.buffer.everything())
    published_as_accepted(lane, rows)
    if keeps > FAR_NS:
        log_is_whole(lane, rows)


def log_is_whole(lane: SlowLane, rows: list[Row]) -> None:
    """Each event that came is in the log once, or a dead letter that never was open."""
    logged = Counter(as_rows(with_text_ids(pa.concat_tables(lane.log).unify_dictionaries())))
    missing = Counter(as_rows(with_text_ids(table_of(rows))))
    missing.subtract(logged)
    assert min(missing.values()) >= 0
    assert (+missing).total() <= lane.counts["rejected"]
    refused = {letter["reason"] for letter in lane.letters}
    if not refused & {"bad-time", "bad-id", "absurd-time"}:
        assert not +missing
