"""Canonical tree order against a recursive one, and the index of ids against a dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stitch.columnar.hashing import mix
from stitch.graph.order.tree import levels_of, order_trees
from stitch.spans.span_columns import SpanIndex


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[int], list[int], list[bool], list[int]]:
    """Parents (-1: root), labels, asynchronous flags, numbers of marks."""
    n = draw(st.integers(1, 25))
    parent = [draw(st.integers(-1, i - 1)) for i in range(n)]
    label = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    later = [draw(st.booleans()) and p >= 0 for p in parent]
    marks = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    return parent, label, later, marks


def place(parent: list[int], label: list[int], later: list[bool], marks: list[int]):  # type: ignore[no-untyped-def]
    n = len(parent)
    above = np.array([n if p < 0 else p for p in parent])
    return order_trees(
        above,
        mix(np.array(label, dtype=np.uint64)),
        np.array(later),
        np.array(marks),
        mix(np.array(marks, dtype=np.uint64) + np.uint64(1000)),
        levels_of(above),
    )


def shape(parent: list[int], label: list[int], later: list[bool], marks: list[int], v: int) -> tuple:  # type: ignore[type-arg]
    below = sorted(shape(parent, label, later, marks, c) for c, p in enumerate(parent) if p == v)
    return (later[v], label[v], marks[v], tuple(below))


@given(forests())
def test_positions_nest_and_fill_each_tree(
    forest: tuple[list[int], list[int], list[bool], list[int]],
) -> None:
    parent, _, later, marks = forest
    tree = place(*forest)
    for root in [v for v, p in enumerate(parent) if p < 0]:
        members = [v for v in range(len(parent)) if _top(parent, v) == root]
        taken = [x for v in members for x in (tree.start[v], tree.start[v] + tree.size[v] - 1)]
        inner = [tree.start[v] + 1 + i for v in members for i in range(marks[v])]
        assert sorted(taken + inner) == list(range(2 * len(members) + sum(marks[v] for v in members)))
    for v, p in enumerate(parent):
        if p >= 0:
            assert tree.start[p] < tree.start[v]
            assert tree.start[v] + tree.size[v] < tree.start[p] + tree.size[p]
            assert tree.deferred[v] == (later[v] or tree.deferred[p])
        below = [c for c, q in enumerate(parent) if q == v and not later[c]]
        assert tree.n_sync[v] == len(below)
        assert sorted(tree.sync_rank[c] for c in below) == list(range(len(below)))
        assert all(
            tree.start[c] < tree.start[d]
            for c in below
            for d in below
            if tree.sync_rank[c] < tree.sync_rank[d]
        )


@given(forests(), st.randoms(use_true_random=False))
def test_order_depends_on_the_tree_alone(forest, random) -> None:  # type: ignore[no-untyped-def]
    parent, label, later, marks = forest
    n = len(parent)
    new = list(range(n))
    random.shuffle(new)  # row v becomes row new[v]
    old = sorted(range(n), key=new.__getitem__)
    moved = (
        [new[parent[v]] if parent[v] >= 0 else -1 for v in old],
        [label[v] for v in old],
        [later[v] for v in old],
        [marks[v] for v in old],
    )
    a, b = place(*forest), place(*moved)
    for root in [v for v, p in enumerate(parent) if p < 0]:
        members = [v for v in range(n) if _top(parent, v) == root]
        placed_a = sorted((a.start[v], a.size[v], a.deferred[v], *shape(*forest, v)) for v in members)
        placed_b = sorted(
            (b.start[new[v]], b.size[new[v]], b.deferred[new[v]], *shape(*moved, new[v])) for v in members
        )
        assert placed_a == placed_b


def _top(parent: list[int], v: int) -> int:
    while parent[v] >= 0:
        v = parent[v]
    return v


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=60),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60)), max_size=30),
    st.sampled_from([1, 2**40, 2**58]),
)
def test_span_index_is_a_dictionary(
    held: list[tuple[int, int]], asked: list[tuple[int, int]], stride: int
) -> None:
    held.sort(key=lambda pair: pair[0])
    flow = np.array([f for f, _ in held], dtype=np.int64)
    key = np.array([k * stride % 2**64 for _, k in held], dtype=np.uint64)
    index = SpanIndex(flow, key, 4)
    queries = asked + held
    found = index.find(
        np.array([f for f, _ in queries], dtype=np.int64),
        np.array([k * stride % 2**64 for _, k in queries], dtype=np.uint64),
    )
    for (f, k), row in zip(queries, found.tolist(), strict=True):
        present = any(f == g and k * stride % 2**64 == j * stride % 2**64 for g, j in held)
        assert (row >= 0) == present
        if present:
            assert (flow[row], key[row]) == (f, k * stride % 2**64)
    distinct = len({(f, k * stride % 2**64) for f, k in held})
    assert len(index.repeated) == len(held) - distinct
