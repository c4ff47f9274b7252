"""Random event batches for properties of the stitch kernel: span forests and programs of activity records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from schemas.events import EVENT_SCHEMA
from schemas.events import EventKind as K

Row = dict[str, Any]

SPAN_KINDS = [
    K.SPAN_UNSPECIFIED,
    K.SPAN_INTERNAL,
    K.SPAN_SERVER,
    K.SPAN_CLIENT,
    K.SPAN_PRODUCER,
    K.SPAN_CONSUMER,
]


def table_of(rows: list[Row]) -> pa.Table:
    """Rows, absent columns null, as an event batch."""
    blank: Row = dict.fromkeys(EVENT_SCHEMA.names)
    defaults: Row = {"kind": int(K.EVENT), "component": "?", "point": "p", "shared": False, "status": "ok"}
    return pa.Table.from_pylist([blank | defaults | row for row in rows], schema=EVENT_SCHEMA)


def sometimes(draw: st.DrawFn, one_in: int) -> bool:
    """True once in so many draws; shrinks to False."""
    return draw(st.integers(0, one_in - 1)) == one_in - 1


@st.composite
def span_rows(
    draw: st.DrawFn, *, tidy: bool = False, alike: bool = False, request_id: str = "t0"
) -> list[Row]:
    """Spans of one trace. tidy: a proper tree with all times, as a correct tracer writes it. alike: all spans
    have one name, so that only shape, marks and asynchrony tell branches apart.

    Otherwise with missing and several parents, cycles, shared and duplicate ids, contradictions, spans
    without times, clock skew, several roots, marks: everything, on small numbers, so that ties occur.
    """
    n = draw(st.integers(1, 10))
    rows: list[Row] = []
    for i in range(n):
        above = draw(st.integers(max(0, i - 3), i - 1)) if i else -1
        low, high = (0, 40) if above < 0 else (rows[above]["ts_ns"] or 0, rows[above]["end_ns"] or 40)
        start = draw(st.integers(low, max(low, high)))
        row: Row = {
            "request_id": request_id,
            "id": f"{i:016x}",
            "kind": int(K.SPAN_INTERNAL if alike else draw(st.sampled_from(SPAN_KINDS))),
            "component": "a" if alike else draw(st.sampled_from("ab")),
            "point": "x" if alike else draw(st.sampled_from("xy")),
            "ts_ns": start,
            "end_ns": draw(st.integers(start, max(start, high))),
            "host": draw(st.sampled_from([None, "h1", "h2"])),
            "parents": [] if above < 0 else [rows[above]["id"]],
        }
        if sometimes(draw, 2 if alike else 8) and above >= 0:
            row["follows"], row["parents"] = row["parents"], []
        if sometimes(draw, 6):
            names = draw(st.lists(st.sampled_from("mn"), min_size=1, max_size=3))
            row["marks"] = [{"ts_ns": start + k, "name": name} for k, name in enumerate(names)]
        rows.append(row)
    return rows if tidy else _disturb_spans(draw, rows)


def _disturb_spans(draw: st.DrawFn, rows: list[Row]) -> list[Row]:
    n = len(rows)
    for row in rows:
        if sometimes(draw, 5):
            other = draw(st.integers(0, n + 1))
            row[draw(st.sampled_from(["parents", "follows"]))] = [f"{other:016x}"]
        if sometimes(draw, 12):
            row["parents"] = [*(row["parents"] or []), f"{draw(st.integers(0, n + 1)):016x}"]
        if sometimes(draw, 8):
            row["ts_ns"] = None
        if sometimes(draw, 8):
            row["end_ns"] = None
        if sometimes(draw, 10) and row["ts_ns"] is not None:
            row["ts_ns"] += draw(st.integers(-30, 30))
        if sometimes(draw, 10):
            row["status"] = draw(st.sampled_from(["error", "timeout"]))
        if sometimes(draw, 4):
            row["sample_rate"] = draw(st.sampled_from([0.5, 0.25]))
        if sometimes(draw, 5):
            row["peer"] = draw(st.sampled_from("abz"))
        if sometimes(draw, 10):
            row["label"] = draw(st.sampled_from(["hit", ""]))
    for _ in range(draw(st.integers(0, 3))):
        copy = dict(draw(st.sampled_from(rows)))
        change = draw(
            st.sampled_from(["nothing", "kind", "end_ns", "params", "no time", "parents", "component"])
        )
        if change == "kind":
            copy["kind"] = int(draw(st.sampled_from(SPAN_KINDS)))
        elif change == "end_ns":
            copy["end_ns"] = draw(st.integers(0, 60))
        elif change == "params":
            copy["params"] = [{"key": "k", "num": 1.0, "text": None}]
        elif change == "no time":
            left, lost = draw(st.permutations(["ts_ns", "end_ns"]))
            copy[lost] = None
            if copy[left] is not None:
                copy[left] += draw(st.integers(-5, 0))
            copy["kind"] = int(draw(st.sampled_from([copy["kind"], K.SPAN_UNSPECIFIED])))
        elif change == "parents":
            copy["parents"] = [f"{draw(st.integers(0, n + 1)):016x}"]
        elif change == "component":
            copy["component"], copy["kind"] = "b", int(draw(st.sampled_from(SPAN_KINDS)))
        rows.append(copy)
    return rows


@st.composite
def span_batches(draw: st.DrawFn, *, tidy: bool = False) -> list[Row]:
    """Rows of one to three traces, shuffled."""
    rows = []
    for i in range(draw(st.integers(1, 3))):
        rows += draw(span_rows(tidy=tidy, request_id=f"t{i}"))
    return draw(st.permutations(rows))


class Program:
    """Runs a random program of forks, joins, loops and deferred work, and writes native records."""

    def __init__(self, draw: st.DrawFn, request_id: str | None, prefix: str) -> None:
        self.draw = draw
        self.request_id = request_id
        self.prefix = prefix
        self.rows: list[Row] = []
        self.n_crumbs = 0
        self.seq: dict[str, int] = {}

    def crumb(self) -> str:
        self.n_crumbs += 1
        return f"{self.prefix}{self.n_crumbs}"

    def write(self, crumb: str, at: int, point: str, **more: Any) -> None:
        seq = self.seq[crumb] = self.seq.get(crumb, -1) + 1
        row = {"request_id": self.request_id, "breadcrumb": crumb, "ts_ns": at, "seq": seq, "point": point}
        self.rows.append(row | {"component": "c", "kind": int(K.EVENT)} | more)

    def run(self, crumb: str, at: int, depth: int) -> int:
        """A few steps on a strand; the time after them."""
        for _ in range(self.draw(st.integers(1, 3))):
            at += self.draw(st.integers(0, 5))
            step = self.draw(st.sampled_from(["event", "event", "fork", "loop", "defer"]))
            if step == "fork" and depth:
                crumbs = [self.crumb() for _ in range(self.draw(st.integers(1, 3)))]
                self.write(crumb, at, "fork", kind=int(K.SPLIT), links=crumbs)
                ends = [self.run(child, at, depth - 1) for child in crumbs]
                at = max(at, *ends)
                self.write(crumb, at, "join", kind=int(K.JOIN), links=crumbs)
            elif step == "defer" and depth:
                child = self.crumb()
                self.write(crumb, at, "spawn", kind=int(K.SPLIT), links=[child])
                end = self.run(child, at, depth - 1)
                if self.draw(st.booleans()):
                    self.write(child, end, "done", kind=int(K.END))
            elif step == "loop":
                for _ in range(self.draw(st.integers(1, 4))):
                    self.write(crumb, at, "read")
                    at += 1
            else:
                self.write(crumb, at, self.draw(st.sampled_from("xy")))
        return at


@st.composite
def record_rows(draw: st.DrawFn, *, tidy: bool = False, request_id: str | None = "r0") -> list[Row]:
    """Records of one request: a program's run. tidy: complete and consistent.

    Otherwise with lost and repeated records, contradictions, ids and parents (also missing and cyclic ones),
    strands without `seq`, dangling links.
    """
    program = Program(draw, request_id, f"{request_id}.")
    entry = program.crumb()
    at = program.run(entry, 0, depth=2)
    program.write(entry, at + 1, "reply", kind=int(K.END))
    return program.rows if tidy else _disturb_records(draw, program.rows)


def _disturb_records(draw: st.DrawFn, rows: list[Row]) -> list[Row]:
    crumbs = sorted({row["breadcrumb"] for row in rows})
    with_ids = draw(st.booleans())
    for i, row in enumerate(rows):
        if with_ids and not sometimes(draw, 3):
            row["id"] = f"e{i}"
        if with_ids and sometimes(draw, 6):
            row["parents"] = [
                f"e{j}" for j in draw(st.lists(st.integers(0, len(rows)), min_size=1, max_size=2))
            ]
        if sometimes(draw, 25):
            row["seq"] = None
        if sometimes(draw, 25):
            row["breadcrumb"] = draw(st.sampled_from([*crumbs, None]))
        if sometimes(draw, 25):
            row["links"] = [draw(st.sampled_from([*crumbs, "gone"]))]
        if sometimes(draw, 25):
            row["kind"] = draw(st.integers(0, 3))
        if sometimes(draw, 25):
            row["ts_ns"] += draw(st.integers(-20, 20))
        if sometimes(draw, 25):
            row["host"] = draw(st.sampled_from(["h1", "h2"]))
        if sometimes(draw, 25):
            row["status"] = "error"
        if sometimes(draw, 25):
            row["sample_rate"] = draw(st.sampled_from([0.5, 0.25]))
    rows = [row for row in rows if not sometimes(draw, 20)] or rows
    for _ in range(draw(st.integers(0, 2))):
        copy = dict(draw(st.sampled_from(rows)))
        if draw(st.booleans()):
            copy["ts_ns"] += draw(st.integers(0, 1))
            copy["host"] = draw(st.sampled_from([None, "h1"]))
        rows.append(copy)
    return rows


@st.composite
def record_batches(draw: st.DrawFn, *, tidy: bool = False) -> list[Row]:
    """Rows of one to three requests, with or without request ids, shuffled."""
    rows = []
    for i in range(draw(st.integers(1, 3))):
        request = draw(record_rows(tidy=tidy, request_id=f"r{i}"))
        hidden = draw(st.sampled_from(["none", "none", "some", "all"]))
        for row in request:
            if hidden == "all" or (hidden == "some" and sometimes(draw, 3)):
                row["request_id"] = None
        rows += request
    return draw(st.permutations(rows))
