"""False discovery rate, flat and in the tree, against their definitions and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import statistics as oracle
from scipy import stats

from analyze.stats.multiple import q_values, rejected, simes, tree_rejected

P = st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=30)


@given(P, st.sampled_from([0.01, 0.05, 0.3]))
def test_rejected_is_the_step_up_procedure(p: list[float], level: float) -> None:
    assert rejected(np.array(p), level).tolist() == oracle.bh_rejected(p, level)


@given(P)
def test_q_values_are_scipys(p: list[float]) -> None:
    np.testing.assert_allclose(q_values(np.array(p)), stats.false_discovery_control(p), rtol=1e-12)


@given(P, st.integers(1, 5))
def test_simes_of_groups(p: list[float], n: int) -> None:
    group = np.arange(len(p)) % n
    found = simes(np.array(p), group, n + 1)
    for g in range(n):
        mine = [x for i, x in enumerate(p) if i % n == g]
        assert np.isnan(found[g]) if not mine else found[g] == pytest.approx(min(1, oracle.simes(mine)))
    assert np.isnan(found[n])


def test_tests_that_were_not_run_do_not_count() -> None:
    p = np.array([0.04, np.nan, np.nan, np.nan])
    assert rejected(p, 0.05).tolist() == [True, False, False, False]
    assert np.isnan(q_values(p)[1])
    assert len(q_values(np.zeros(0))) == 0


@given(st.integers(0, 10_000))
def test_tree_is_the_tree_of_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = np.sort(np.concatenate([np.arange(3), rng.integers(0, 3, 5)]))
    site = np.concatenate([np.arange(8), rng.integers(0, 8, 30)])
    p = rng.random(38) ** rng.choice([1, 6], 38)
    leaves, _, _ = tree_rejected(p, (site, root), 0.1)
    assert leaves.tolist() == oracle.tree_rejected(p.tolist(), site.tolist(), root.tolist(), 0.1)


def test_tree_says_what_it_selected_on_every_level() -> None:
    site = np.array([0, 0, 1, 1])
    leaves, sites, roots = tree_rejected(np.array([1e-9, 0.9, 0.8, np.nan]), (site, np.array([0, 0])), 0.05)
    assert leaves.tolist() == [True, False, False, False]
    assert sites.tolist() == [True, False]
    assert roots.tolist() == [True]
    flat = tree_rejected(np.array([0.01, 0.5]), (), 0.05)
    assert [level.tolist() for level in flat] == [[True, False]]


def test_false_discoveries_stay_below_the_level() -> None:
    rng = np.random.default_rng(7)
    root = np.repeat(np.arange(5), 6)
    site = np.repeat(np.arange(30), 10)
    any_false, shares, power = 0, [], []
    for _ in range(300):
        quiet = rng.random(300)
        any_false += tree_rejected(quiet, (site, root), 0.05)[0].any()
        real = np.zeros(300, bool)
        real[:20] = True
        p = np.where(real, rng.random(300) * 1e-4, rng.random(300))
        found = tree_rejected(p, (site, root), 0.05)[0]
        shares.append((found & ~real).sum() / max(1, found.sum()))
        power.append(found[real].mean())
    assert any_false / 300 <= 0.08
    assert np.mean(shares) <= 0.06
    assert np.mean(power) > 0.95
