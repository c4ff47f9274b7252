"""The examples worked in docstrings of `stitch.graph` come out as told there."""

from __future__ import annotations

from oracles.described import describe
from oracles.record_events import place, record

from stitch.graph.series_parallel import PARALLEL, SPAWN, Block, decompose
from stitch.graph.template import Template


def test_an_n_is_taken_apart() -> None:
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (2, 4), (3, 5), (4, 5)]
    tree = decompose(6, edges, [-1] * 6, [False] * 6)
    assert tree.items == [0, Block(PARALLEL, [[1, 3], [2, Block(SPAWN, [[~3]]), 4]]), 5]
    assert tree.referenced == {3: 1}
    names = [("s", letter, None) for letter in "rabcde"]
    canonical = describe(Template.of_graph(names, edges, [5])).canonical
    assert canonical.replace("s/", "") == "r { a c | b &{ ^3 } d } e"


def test_loops_are_folded_level_by_level() -> None:
    names = [("s", letter, None) for letter in "abbbabbbb"]
    structure = describe(Template.of_graph(names, [(i, i + 1) for i in range(8)], [8]))
    texts = (structure.canonical, structure.canonical_l1, structure.canonical_l2)
    assert [text.replace("s/", "") for text in texts] == [
        "a ( b )*3 a ( b )*4",
        "( a ( b )*4 )*2",
        "( a ( b )*2+ )*2+",
    ]
    assert structure.fold_position == (0, 1, 1, 1, 0, 1, 1, 1, 1)
    assert [loop.count for loop in structure.loops] == [2, 3, 4]


def test_tied_branches_follow_one_decision() -> None:
    (flow,) = place(
        record("A", "r", 0, "split", "X1 X2"),
        record("X1", "x", 5, "split", "Y1 Z1"),
        record("X2", "x", 3, "split", "Y2 Z2"),
        record("Y1", "y", 6),
        record("Y2", "y", 9),
        record("Z1", "z", 8),
        record("Z2", "z", 7),
        record("A", "j", 20, "join", "Y1 Z1 Y2 Z2"),
    ).values()
    assert flow.order == ["r", "x", "x", "y", "y", "z", "z", "j"]
    assert flow.times == [0, 3, 5, 9, 6, 7, 8, 20]
