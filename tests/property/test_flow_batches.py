"""Batches of requests as matrices: each request of each structure is in one batch, with its times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from oracles.stored_flows import stored_spans

from analyze.refine.consensus import Asked, ask, disordered, flow_batches
from analyze.refine.stored import group_flows

CELLS = st.sampled_from([1, 7, 40, 1 << 18])
N_SAMPLES = 3


@st.composite
def categories(draw: st.DrawFn) -> list[Any]:
    """Structures with 1 to 3 nodes and 1 to 30 requests."""
    found = []
    for n_nodes, n in draw(
        st.lists(st.tuples(st.integers(1, 3), st.integers(1, 30)), min_size=1, max_size=8)
    ):
        rng = np.random.default_rng(draw(st.integers(0, 9)))
        times = rng.integers(-3, 9, (n_nodes, n))
        sample = np.sort(rng.integers(0, N_SAMPLES, n)).astype(np.uint8)
        weight = rng.choice([1.0, 2.5], n)
        found.append(SimpleNamespace(node_ns=times, sample=sample, weight=weight, n_requests=n))
    return found


@given(categories(), CELLS)
def test_each_request_of_an_asked_structure_is_in_one_batch(found: list[Any], cells: int) -> None:
    seen = [np.zeros(one.n_requests, np.int64) for one in found]
    asked = np.repeat(np.arange(0, len(found), 2), 3)
    for batch in flow_batches(found, asked, cells):
        for place, (number, rows) in enumerate(zip(batch.structures.tolist(), batch.rows, strict=True)):
            one, n = found[number], rows.stop - rows.start
            seen[number][rows] += 1
            for column, expected in enumerate(one.node_ns[:, rows]):
                times = batch.at(np.array([number]), np.array([column]))[0]
                assert times[:n].tolist() == expected.tolist()
                assert not times[n:].any()
            assert batch.sample[place, :n].tolist() == one.sample[rows].tolist()
            assert batch.weight[place].sum() == one.weight[rows].sum()
    assert all((times == (number + 1) % 2).all() for number, times in enumerate(seen))


@given(categories(), CELLS, st.integers(1, N_SAMPLES))
def test_votes_are_those_of_a_loop_over_requests(found: list[Any], cells: int, n_apart: int) -> None:
    """Each structure is asked whether its first node comes before its last, and after."""
    last = np.array([len(one.node_ns) - 1 for one in found])
    structure = np.arange(len(found))

    def answer(batch: Any, mine: Any) -> Any:
        first, second = batch.at(structure[mine], 0 * mine), batch.at(structure[mine], last[mine])
        return first < second, first > second

    votes = ask(found, Asked(structure, structure[:, None]), n_apart, 2, answer, cells)
    requests, weight = np.zeros((n_apart + 1, len(found))), np.zeros((3, n_apart + 1, len(found)))
    for number, one in enumerate(found):
        for row in range(one.n_requests):
            sample, w = min(int(one.sample[row]), n_apart), one.weight[row]
            first, second = one.node_ns[0, row], one.node_ns[-1, row]
            requests[sample, number] += 1
            weight[:, sample, number] += [w, w * (first < second), w * (first > second)]
    assert np.array_equal(votes.requests, requests)
    assert np.array_equal(votes.weight, weight)
    backwards = [bool((one.node_ns[0] > one.node_ns[-1]).any()) for one in found]
    assert disordered(found, structure, 0 * last, last).tolist() == backwards


@given(st.integers(30, 150), st.integers(1, 9), st.integers(0, 9))
def test_flows_in_the_order_of_categories_make_the_matrices_of_any_order(
    n: int, n_categories: int, seed: int
) -> None:
    """Long runs of a category are copied as matrices, and rows in any order cell by cell."""
    flows, structures = stored_spans(seed, n, n_categories, 4)
    mixed = flows.take(pa.array(np.random.default_rng(seed).permutation(flows.num_rows)))
    category = np.array(flows["category"].to_pylist())
    sorted_rows = np.lexsort((flows["start_ns"].to_numpy(), category))
    by_category = flows.take(pa.array(sorted_rows))
    one, other = (group_flows(table, structures, 2) for table in (by_category, mixed))
    assert one.hosts == other.hosts
    for mine, its in zip(one.categories, other.categories, strict=True):
        assert np.array_equal(mine.node_ns, its.node_ns)
        assert np.array_equal(mine.host, its.host)
        assert mine.request_id.to_pylist() == its.request_id.to_pylist()
