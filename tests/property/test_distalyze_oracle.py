"""DISTALYZER against its slow readings: features, networks without refits, the score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.diverging import component_score, event_features, refitted, state_features
from oracles.examples import examples

from analyze.methods.distalyze.attention import NO_PARENT, component_of
from analyze.methods.distalyze.dependency_network import Network, TreeRules, coded, split_sizes
from analyze.methods.distalyze.features import TYPES, FeatureMaker
from analyze.methods.distalyze.instance_logs import Instances, LogBook, VariableName

# Times of a coarse grid meet; values do not, so that their order at one time never matters.
TIME = st.integers(0, 12).map(float)


@st.composite
def logs(draw: st.DrawFn, states: bool):
    """(entries by variable and instance, durations): an entry is a time, of states (time, value)."""
    n = draw(st.integers(2, 6))
    durations = draw(st.lists(st.sampled_from([0.0, 4.0, 10.0]), min_size=n, max_size=n))
    value = st.floats(-100, 100)
    entry = st.tuples(TIME, value) if states else TIME
    unique = (lambda e: e[0]) if states else None
    cell = st.lists(entry, max_size=5, unique_by=unique) if unique else st.lists(entry, max_size=5)
    cells = draw(
        st.dictionaries(
            st.tuples(st.sampled_from("abc"), st.integers(0, n - 1)), cell, min_size=1, max_size=9
        )
    )
    return cells, durations


def maker_of(cells, durations, states: bool, rng: np.random.Generator) -> FeatureMaker:
    book = LogBook(states=states)
    entries = [
        (book.names[VariableName("x", name, "reached")], instance, entry)
        for (name, instance), listed in cells.items()
        for entry in listed
    ]
    order = rng.permutation(len(entries))
    for place in order.tolist():
        variable, instance, entry = entries[place]
        time, value = entry if states else (entry, None)
        book.add(
            variable,
            np.array([instance], np.int32),
            np.array([time]),
            None if value is None else np.array([value]),
        )
    n = len(durations)
    instances = Instances(np.arange(n) % 2 == 1, np.array(durations), np.array(durations), np.ones(n))
    return FeatureMaker.of(book.series(), instances)


@pytest.mark.parametrize("states", [False, True])
@examples(80)
@given(data=st.data())
def test_features_are_those_of_the_slow_reading(states: bool, data: st.DataObject) -> None:
    cells, durations = data.draw(logs(states))
    maker = maker_of(cells, durations, states, np.random.default_rng(0))
    slow = state_features if states else event_features
    for type_ in TYPES[maker.series.log_type]:
        found = maker.matrix(type_)
        for row, name in enumerate(maker.series.names):
            for instance, duration in enumerate(durations):
                told = slow(cells.get((name.what, instance), []), duration).get(type_.value, np.nan)
                assert found[row, instance] == pytest.approx(told, nan_ok=True, abs=1e-9)


@pytest.mark.parametrize("seed", range(120))
def test_networks_are_those_of_refits(seed: int) -> None:
    """For every m the edges are those of trees fitted anew with that m, by the library."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(40, 110)), int(rng.integers(3, 7))
    mixing = rng.normal(0, 1, (k, k)) * (rng.random((k, k)) < 0.4) + np.eye(k)
    values = mixing @ rng.normal(0, 1, (k, n)) + rng.normal(0, 0.3, (k, n))
    leaf, gain = int(rng.integers(1, 6)), float(rng.choice([0.0, 0.01, 0.05]))
    codes = coded(values)
    smallest = max(2, n // 3)
    nested = split_sizes(values, np.ones(n), TreeRules(smallest, leaf, gain))
    for m in (smallest, n // 2, (3 * n) // 4, n):
        for target in range(k):
            others = [j for j in range(k) if j != target]
            told = {others[j] for j in refitted(codes[others], values[target], m, leaf, gain)}
            assert set(np.flatnonzero(nested[:, target] >= m).tolist()) == told, (m, target)


def test_a_larger_m_cuts_the_tree_with_all_rules_on() -> None:
    """The rule against chance, weights and gaps are no matter of m either."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, k = 200, 8
        values = np.cumsum(rng.exponential(1, (k, n)), axis=0)
        values[rng.random((k, n)) < 0.1] = np.nan
        weight = rng.choice([1.0, 3.0], n)
        whole = split_sizes(values, weight, TreeRules(30, 5, 0.01, 0.05))
        for m in (60, 100, 180):
            cut = split_sizes(values, weight, TreeRules(m, 5, 0.01, 0.05))
            assert np.array_equal(cut, np.where(whole >= m, whole, 0))


def test_noise_has_no_dependencies() -> None:
    rng = np.random.default_rng(5)
    lines = 0
    for _ in range(20):
        values = rng.lognormal(0, 1, (30, 300))
        lines += int((split_sizes(values, np.ones(300), TreeRules(100, 5, 0.01, 0.05)) > 0).sum())
    # 600 trees at the level 0.05 each.
    assert lines <= 45


@examples(150)
@given(st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_component_and_score_are_those_of_algorithm_1(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.4), 1)
    weight += weight.T
    divergence = rng.random(n) * (rng.random(n) < 0.7)
    found = component_of(Network(weight, 10), divergence, 0.5)
    nodes, score = component_score(weight, divergence)
    assert set(found.node.tolist()) == nodes
    assert found.score == pytest.approx(score)
    assert found.parent[0] == NO_PARENT
    for place, parent in enumerate(found.parent.tolist()):
        if parent != NO_PARENT:
            assert found.weight[place] == weight[found.node[place], found.node[parent]] > 0
