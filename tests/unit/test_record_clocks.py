"""Bounds on clocks from activity records, against requests looked at one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from evaluation.made_cases import ASKED as CALL
from evaluation.made_cases import skewed
from oracles.stored_flows import lake_tables

from analyze.methods.robust.robust_run import robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from analyze.refine.clocks import NOT_BOUNDED, record_bounds
from analyze.refine.stored import FlowMatrices, group_flows

SECOND_NS = 10**9


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
        for row in part[["pair", "lower", "upper"]].tolist()
    ]
    assert sorted(made) == sorted(expected)


@pytest.mark.parametrize(("ahead_ns", "legs"), [*product((-5_000, 0, 5_000), ((60, 40), (5, 700)))])
def test_time_on_one_host_is_as_it_was(ahead_ns: int, legs: tuple[int, int]) -> None:
    category = skewed(ahead_ns, legs).categories[0]
    inside = category.node_ns[2] - category.node_ns[1]
    assert (inside == 1000).all()
    assert (category.response_ns == sum(legs) + 1000).all()
    assert (np.diff(category.node_ns, axis=0) >= 0).all()


@pytest.mark.parametrize("without", [(), ("moved-clocks",)])
def test_a_clock_that_was_set_moves_time_from_one_leg_to_the_other(without: tuple[str, ...]) -> None:
    """How long either leg took nobody knows: both together they take what they took."""
    found = skewed(0, (300, 300), 60, then_ahead_ns=5_000)
    samples = tuple(
        Sample(name, "", at * 60 * SECOND_NS, (at + 1) * 60 * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    run = robust_run(replace(found, samples=samples), None, RobustSettings(paths=False, without=without))
    assert bool(run.causes) is bool(without), "the rule pays its rent"
    assert bool(run.confounded.text("moved-clocks")) is not bool(without)
