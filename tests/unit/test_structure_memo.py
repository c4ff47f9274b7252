"""Structures already described (stitch.structures)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from oracles.described import Structure
from oracles.described import describe as describe_template
from oracles.structure_rows import structures_table

from stitch.graph.template import Template
from stitch.structures import StructureMemo

KEYS = [(i, i) for i in range(40)]


def chain(length: int) -> Structure:
    names = [("service", f"step-{i}", None) for i in range(length + 1)]
    return describe_template(Template.of_graph(names, [(i, i + 1) for i in range(length)], [length]))


def test_threads_that_share_a_memo_describe_each_structure_once() -> None:
    memo = StructureMemo()
    asked: list[int] = []

    def count_and_describe(places: list[int]) -> pa.Table:
        asked.extend(places)
        return structures_table(map(chain, places))

    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda _: memo.rows(KEYS, count_and_describe), range(8)))
    assert sorted(asked) == list(range(len(KEYS)))
    assert all(table.equals(tables[0]) for table in tables)
    assert tables[0]["n_nodes"].to_pylist() == [i + 1 for i in range(len(KEYS))]


@pytest.mark.parametrize("capacity", [1, 10, 1_000])
def test_a_full_memo_forgets_but_answers_the_same(capacity: int) -> None:
    memo, ample = StructureMemo(capacity), StructureMemo()
    for start in (0, 5, 0, 20, 3):
        wanted = KEYS[start : start + 8]
        places = [key[0] for key in wanted]

        def describe(asked: list[int], places: list[int] = places) -> pa.Table:
            return structures_table(chain(places[i]) for i in asked)

        rows = memo.rows(wanted, describe)
        assert rows.equals(ample.rows(wanted, describe))
        assert rows["n_nodes"].to_pylist() == [place + 1 for place in places]
