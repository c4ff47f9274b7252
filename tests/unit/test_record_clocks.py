"""Bounds on clocks from activity records, against requests looked at one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from oracles.stored_flows import lake_tables

from analyze.population import Population
from analyze.refine.clocks import NOT_BOUNDED, record_bounds
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.refine.stored import FlowMatrices, group_flows
from stitch.graph.template import Template

CALL = Template.of_graph(
    [("web", "ask", None), ("db", "asked", None), ("db", "done", None), ("web", "told", None)],
    [(0, 1), (1, 2), (2, 3)],
    [3],
)
"""There and back, between two components; hosts are set below."""


def matrices(times: np.ndarray, seed: int = 0) -> FlowMatrices:
    tables = lake_tables(np.random.default_rng(seed), [(CALL, times)])
    return group_flows(*tables, 1)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_are_those_of_every_edge_between_two_hosts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.integers(0, 50, (40, 4)), axis=1)
    times[:, 0] = 0
    found = matrices(times, seed)
    category = found.categories[0]
    n_hosts = len(found.hosts)
    codes = np.append(np.arange(n_hosts), -1)
    expected = []
    for row in range(category.n_requests):
        bounds: dict[tuple[int, int], list[int]] = {}
        for src, dst in CALL.edges:
            one, other = int(category.host[src, row]), int(category.host[dst, row])
            if one == other or min(one, other) < 0:
                continue
            gap = int(category.node_ns[src, row] - category.node_ns[dst, row])
            low, high = sorted((one, other))
            limits = bounds.setdefault((low, high), [-int(NOT_BOUNDED), int(NOT_BOUNDED)])
            if one < other:
                limits[0] = max(limits[0], gap)
            else:
                limits[1] = min(limits[1], -gap)
        expected += [
            (low * n_hosts + high, *limits)
            for (low, high), limits in bounds.items()
            if -NOT_BOUNDED < limits[0] <= limits[1] < NOT_BOUNDED
        ]
    made = [
        row
        for part in record_bounds(category, codes, n_hosts)
        for row in zip(part.pair.tolist(), part.lower.tolist(), part.upper.tolist(), strict=True)
    ]
    assert sorted(made) == sorted(expected)


def skewed(ahead_ns: int, legs: tuple[int, int] = (60, 40), n: int = 60) -> Population:
    """A call that takes 1000 ns on the other host, whose clock is ahead."""
    forth, back = legs
    times = np.array(
        [[0, forth + ahead_ns, forth + 1000 + ahead_ns, forth + 1000 + back]] * n, dtype=np.int64
    )
    flows, structures = lake_tables(np.random.default_rng(1), [(CALL, times)])
    hosts = np.array([["w", "d", "d", "w"]] * n)
    column = flows.schema.get_field_index("host")
    kind = flows.schema.field("host").type
    flows = flows.set_column(column, flows.schema.field("host"), pa.array(hosts.tolist()).cast(kind))
    return refine(flows, structures, RefineSettings())


@pytest.mark.parametrize(("ahead_ns", "legs"), [*product((-5_000, 0, 5_000), ((60, 40), (5, 700)))])
def test_time_on_one_host_is_as_it_was(ahead_ns: int, legs: tuple[int, int]) -> None:
    category = skewed(ahead_ns, legs).categories[0]
    inside = category.node_ns[2] - category.node_ns[1]
    assert (inside == 1000).all()
    assert (category.response_ns == sum(legs) + 1000).all()
    assert (np.diff(category.node_ns, axis=0) >= 0).all()
