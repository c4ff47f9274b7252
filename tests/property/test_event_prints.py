"""Prints of events tell apart what a plain comparison of their rows tells apart."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.strategies import Row, record_rows, span_rows, table_of

from schemas.events import with_text_ids
from stitch.drivers.live.keys import print_events


@examples(60)
@given(rows=st.one_of(span_rows(request_id="t"), record_rows(request_id="r")))
def test_events_print_alike_where_they_say_the_same(rows: list[Row]) -> None:
    """Every row beside versions of it in which the values of one list are others."""
    lists = ("parents", "links", "marks")
    turned = [{**row, n: [*row[n][1:], row[n][0]]} for row in rows for n in lists if row.get(n)]
    versions = [*rows, *rows, *turned]
    table = table_of(versions)
    prints = print_events(table, np.zeros(table.num_rows, dtype=np.uint64)).tolist()
    said = [repr(row) for row in with_text_ids(table).to_pylist()]
    assert len(set(zip(prints, said, strict=True))) == len(set(prints)) == len(set(said))
