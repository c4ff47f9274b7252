"""Structures on disk: what is left out follows from what is kept, for every graph the kernel makes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from oracles.nested_structures import unfolded
from oracles.strategies import Row, record_batches, span_batches, table_of

from schemas.config import StitchConfig
from schemas.events import EventKind as K
from schemas.lake import STORED_STRUCTURES_SCHEMA, STRUCTURES_SCHEMA
from schemas.windows import Window
from stitch.kernel import stitch
from stitch.lake.encoding import decode, encode
from stitch.lake.structure_form import nested, unnested

WINDOW = Window(0, 300 * 10**9)


@examples(60)
@given(spans=span_batches(), records=record_batches())
def test_what_is_read_is_what_was_written(spans: list[Row], records: list[Row]) -> None:
    structures = stitch(table_of(spans + records), StitchConfig()).structures
    stored = nested(structures)
    assert stored.schema.equals(STORED_STRUCTURES_SCHEMA)
    assert [unfolded(row) for row in stored.to_pylist()] == structures.to_pylist()
    assert unnested(stored).equals(structures)
    assert decode("structures", encode("structures", structures, WINDOW)).equals(structures)


@examples(20)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 2**16))
def test_rows_do_not_show_in_each_other(copies: list[int], seed: int) -> None:
    made = stitch(table_of(tree(seed % 7 + 1)), StitchConfig()).structures
    order = np.random.default_rng(seed).permutation(np.repeat(0, sum(copies)))
    stored = nested(made.take(pa.array(order)))
    assert unnested(stored).equals(made.take(pa.array(order)).combine_chunks())


def tree(n: int) -> list[Row]:
    """A span that calls `n` others, every second one without waiting, each of which calls one."""
    rows: list[Row] = [span(0, None, 0, 100)]
    for i in range(1, n + 1):
        rows += [span(i, 0, i, 90, asynchronous=i % 2 == 0), span(100 + i, i, i, 50)]
    return rows


def span(number: int, parent: int | None, start: int, end: int, *, asynchronous: bool = False) -> Row:
    link = "follows" if asynchronous else "parents"
    return {
        "request_id": "r",
        "id": f"{number:016x}",
        "kind": int(K.SPAN_INTERNAL),
        "component": "shop",
        "point": f"p{number % 3}",
        "ts_ns": start,
        "end_ns": end,
        link: [] if parent is None else [f"{parent:016x}"],
    }


def test_a_chain_of_a_thousand_calls() -> None:
    rows = [span(i, i - 1 if i else None, i, 5_000 - i) for i in range(1_000)]
    structures = stitch(table_of(rows), StitchConfig()).structures
    assert structures["n_nodes"].to_pylist() == [2_000]
    assert unnested(nested(structures)).equals(structures)


def test_only_what_is_asked_for() -> None:
    structures = stitch(table_of(tree(3)), StitchConfig()).structures
    data = encode("structures", structures, WINDOW)
    assert decode("structures", data, ["responses", "category"]).equals(
        structures.select(["responses", "category"])
    )
    assert unnested(nested(STRUCTURES_SCHEMA.empty_table())).equals(STRUCTURES_SCHEMA.empty_table())
