"""Completeness of requests against its words in plain Python, and what closing early must not change."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from oracles.completeness import is_complete
from oracles.examples import examples
from oracles.strategies import Row, record_rows, span_rows, table_of

from schemas.events import EventKind
from stitch.closing import complete_requests


def judged(requests: list[list[Row]]) -> list[bool]:
    """By the fast code, all at once, rows of all requests among each other."""
    tagged = [(number, row) for number, rows in enumerate(requests) for row in rows]
    tagged = tagged[::2] + tagged[1::2]
    request = np.array([number for number, _ in tagged], dtype=np.int64)
    events = table_of([row for _, row in tagged]).combine_chunks()
    return complete_requests(request, len(requests), events).tolist()


@st.composite
def requests(draw: st.DrawFn) -> list[list[Row]]:
    """Some tidy and some not; some of the tidy ones with a part missing; spans and records of one id."""
    found = []
    for i in range(draw(st.integers(1, 5))):
        tidy = draw(st.booleans())
        rows = []
        if draw(st.booleans()):
            rows += draw(span_rows(tidy=tidy, request_id=f"t{i}"))
        if not rows or draw(st.integers(0, 3)) == 3:
            rows += draw(record_rows(tidy=tidy, request_id=f"t{i}"))
        if draw(st.booleans()):
            for row in rows:
                if row["kind"] == EventKind.SPAN_PRODUCER:
                    row["kind"] = int(EventKind.SPAN_CLIENT)
        if draw(st.integers(0, 2)) == 2 and len(rows) > 1:
            del rows[draw(st.integers(0, len(rows) - 1))]
        found.append([{"kind": int(EventKind.EVENT)} | row for row in rows])
    return found


@examples(150)
@given(some=requests())
def test_judged_as_in_plain_python(some: list[list[Row]]) -> None:
    assert judged(some) == [is_complete(rows) for rows in some]


@examples(40)
@given(rows=span_rows(tidy=True, alike=True), data=st.data())
def test_a_tidy_trace_is_complete_and_a_lost_inner_span_shows(rows: list[Row], data: st.DataObject) -> None:
    assert judged([rows]) == [True]
    named = {name for row in rows for name in [*(row.get("parents") or []), *(row.get("follows") or [])]}
    inner = [row for row in rows if row["id"] in named]
    if inner:
        gone = data.draw(st.sampled_from(inner))
        assert judged([[row for row in rows if row is not gone]]) == [False]
