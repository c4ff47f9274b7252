"""Flows cut to windows: half open, the edge belongs to the next one."""

from __future__ import annotations

import random

import pyarrow as pa
from oracles.lake_script import WINDOW_NS, flows_table, structures_table

from schemas.lake import PARAMS_SCHEMA
from stitch.lake.windowing import cut, starts_of


def test_a_flow_that_starts_on_the_edge_belongs_to_the_next_window() -> None:
    starts = [-1, 0, WINDOW_NS - 1, WINDOW_NS, 2 * WINDOW_NS - 1]
    names = ["before", "first", "last", "edge", "end"]
    parts = [*cut(flows_table(names, starts), structures_table(), PARAMS_SCHEMA.empty_table(), WINDOW_NS)]
    assert [(part.window.start_ns, part.flows["request_id"].to_pylist()) for part in parts] == [
        (-WINDOW_NS, ["before"]),
        (0, ["first", "last"]),
        (WINDOW_NS, ["edge", "end"]),
    ]
    assert all(
        part.window.start_ns <= start < part.window.end_ns
        for part in parts
        for start in part.flows["start_ns"].to_pylist()
    )
    assert starts_of(pa.chunked_array([[*starts, None]], pa.int64()), WINDOW_NS).tolist() == [
        part.window.start_ns for part in parts
    ]


def test_a_window_stands_alone() -> None:
    flows = pa.concat_tables(
        [
            flows_table(["a"], [0], category="a" * 32),
            flows_table(["b", "c"], [1, WINDOW_NS], category="b" * 32),
        ]
    )
    structures = pa.concat_tables([structures_table("a" * 32), structures_table("b" * 32)])
    rows = [
        {"request_id": name, "kind": "spans", "position": 0, "key": "k", "num": 1.0, "text": None}
        for name in ("a", "b", "b", "c")
    ]
    params = pa.Table.from_pylist(rows, schema=PARAMS_SCHEMA)
    one, two = cut(flows.unify_dictionaries().combine_chunks(), structures, params, WINDOW_NS)
    assert one.structures["category"].to_pylist() == ["a" * 32, "b" * 32]
    assert two.structures["category"].to_pylist() == ["b" * 32]
    assert one.params["request_id"].to_pylist() == ["a", "b", "b"]
    assert two.params["request_id"].to_pylist() == ["c"]


def test_every_window_has_the_structures_of_its_flows_in_their_order() -> None:
    draw = random.Random(7)
    names = [f"{number:032x}" for number in draw.sample(range(10**6), 40)]
    tables = [
        flows_table([f"r{at}"], [draw.randrange(30) * WINDOW_NS], category=draw.choice(names))
        for at in range(300)
    ]
    flows = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    structures = pa.concat_tables([structures_table(name) for name in names])
    parts = [*cut(flows, structures, PARAMS_SCHEMA.empty_table(), WINDOW_NS)]
    assert len(parts) > 20
    for part in parts:
        seen = {*part.flows["category"].to_pylist()}
        expected = structures.filter(pa.array([name in seen for name in names]))
        assert part.structures.to_pylist() == expected.to_pylist()
