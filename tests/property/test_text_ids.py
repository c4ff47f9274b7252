"""Ids as text, by columns, against row by row."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.strategies import Row, record_batches, span_batches, table_of

from schemas.events import SPAN_KIND_BASE, TEXT_EVENT_SCHEMA, with_text_ids


def spelled(row: dict[str, Any]) -> dict[str, Any]:
    def text(value: bytes | None) -> str | None:
        if value is None:
            return None
        return value.hex() if row["kind"] >= SPAN_KIND_BASE else value.decode()

    lists = {name: None if row[name] is None else [*map(text, row[name])] for name in ("parents", "follows")}
    return row | {"id": text(row["id"])} | lists


@examples(60)
@given(
    rows=st.one_of(
        span_batches(),
        record_batches(),
        st.tuples(span_batches(), record_batches()).map(lambda two: [*two[0], *two[1]]),
    ),
    begin=st.integers(0, 5),
    nameless=st.booleans(),
)
def test_ids_are_spelled_as_one_by_one(rows: list[Row], begin: int, nameless: bool) -> None:
    if nameless:
        rows[-1]["id"] = None
    events = table_of(rows).slice(begin)
    shown = with_text_ids(events)
    shown.validate(full=True)
    assert shown.schema.equals(TEXT_EVENT_SCHEMA)
    assert shown.to_pylist() == [spelled(row) for row in events.to_pylist()]
