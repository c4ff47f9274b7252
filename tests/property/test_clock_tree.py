"""Corrections of hosts along the maximum spanning tree of their calls, against networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analyze.refine.clocks import _along_tree


@st.composite
def calls_of_hosts(draw: st.DrawFn) -> tuple[np.ndarray, dict[tuple[int, int], np.ndarray]]:
    """Different numbers of calls between some pairs of hosts, and the corrections of some of these pairs."""
    n_hosts = draw(st.integers(1, 9))
    pairs = [(a, b) for a in range(n_hosts) for b in range(a + 1, n_hosts)]
    calling = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    n_calls = np.zeros((n_hosts, n_hosts), dtype=np.int64)
    for pair, n in zip(calling, draw(st.permutations(range(1, len(calling) + 1))), strict=True):
        n_calls[pair] = n
    slices = st.lists(st.integers(-(10**12), 10**12), min_size=2, max_size=2)
    return n_calls, {pair: np.array(draw(slices)) for pair in calling if draw(st.integers(0, 4))}


@given(calls_of_hosts())
def test_corrections_add_up_along_the_tree(
    drawn: tuple[np.ndarray, dict[tuple[int, int], np.ndarray]],
) -> None:
    """From the host with the most calls of each part, which keeps its clock."""
    n_calls, theta = drawn
    degree = n_calls.sum(axis=0) + n_calls.sum(axis=1)
    expected = np.zeros((len(n_calls), 2), dtype=np.int64)
    tree = nx.maximum_spanning_tree(nx.from_numpy_array(n_calls + n_calls.T))
    for part in nx.connected_components(tree):
        anchor = max(sorted(part), key=lambda host: degree[host])
        for host in part:
            for a, b in nx.utils.pairwise(nx.shortest_path(tree, anchor, host)):
                step = theta.get((min(a, b), max(a, b)), 0)
                expected[host] += step if b > a else -step
    assert np.array_equal(_along_tree(theta, n_calls, 2), expected)
