"""Array steps of the graph code: grouping by small integers, connected components, levels of trees."""

from __future__ import annotations

import numpy as np
import pytest

from stitch.columnar.runs import connected_components, group_stably, tree_levels


@pytest.mark.parametrize("n_groups", [1, 7, 1 << 16, (1 << 16) + 1, 200_000])
def test_grouping_is_the_stable_sort_by_code(n_groups: int) -> None:
    code = np.random.default_rng(n_groups).integers(0, n_groups, 5_000)
    rows, first = group_stably(code, n_groups)
    assert rows.tolist() == sorted(range(len(code)), key=code.tolist().__getitem__)
    assert first.tolist() == np.searchsorted(np.sort(code), np.arange(n_groups + 1)).tolist()


def test_grouping_nothing_gives_empty_groups() -> None:
    rows, first = group_stably(np.zeros(0, np.int64), 3)
    assert rows.tolist() == []
    assert first.tolist() == [0, 0, 0, 0]


def plain_components(a: list[int], b: list[int], n: int) -> list[int]:
    """Number of the component of every vertex, by walking from each vertex in turn."""
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for u, v in zip(a, b, strict=True):
        neighbours[u].append(v)
        neighbours[v].append(u)
    number = [-1] * n
    found = 0
    for start in range(n):
        if number[start] < 0:
            stack = [start]
            while stack:
                vertex = stack.pop()
                if number[vertex] < 0:
                    number[vertex] = found
                    stack.extend(neighbours[vertex])
            found += 1
    return number


@pytest.mark.parametrize("seed", range(60))
def test_components_are_those_of_a_walk(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    a, b = rng.integers(0, n, (2, int(rng.integers(0, 70))))
    expected = plain_components(a.tolist(), b.tolist(), n)
    count, number = connected_components(a, b, n)
    assert number.tolist() == expected
    assert count == max(expected) + 1


def test_a_long_path_in_any_order_is_one_component() -> None:
    path = np.random.default_rng(0).permutation(10_000)
    count, number = connected_components(path[:-1], path[1:], len(path))
    assert count == 1
    assert not number.any()


def test_no_vertex_no_component() -> None:
    none = np.zeros(0, np.int64)
    count, number = connected_components(none, none, 0)
    assert count == 0
    assert number.tolist() == []


@pytest.mark.parametrize("seed", range(20))
def test_levels_are_the_depths_of_a_walk_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    above = np.array([int(rng.integers(-1, max(vertex // 2, 1))) for vertex in range(1, seed * 3 + 1)])
    parent = np.minimum(above, np.arange(len(above)) - 1).astype(np.int64)
    depth: list[int] = []
    for vertex in range(len(parent)):
        depth.append(0 if parent[vertex] < 0 else depth[parent[vertex]] + 1)
    levels = [sorted(level.tolist()) for level in tree_levels(parent)]
    assert levels == [[v for v, d in enumerate(depth) if d == at] for at in range(max(depth, default=-1) + 1)]
