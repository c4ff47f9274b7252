"""Whole paths: exact margins and account, swapping turns signs, weights are requests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import paths as oracle
from oracles.edit_distance import levenshtein
from oracles.examples import examples
from oracles.populations import population

from analyze.paths.changes import path_changes
from analyze.paths.moves import (
    OTHER,
    OTHER_COST,
    CandidatePairs,
    as_texts,
    candidate_pairs,
    decompose,
    path_cost,
    path_shares,
    transport,
)
from analyze.paths.settings import PathSettings

WORDS = st.lists(st.sampled_from("abcdef"), max_size=12).map(tuple)


@given(WORDS, WORDS)
def test_the_cost_of_a_pair_is_its_definition(left: tuple[str, ...], right: tuple[str, ...]) -> None:
    prefix = 0
    while prefix < min(len(left), len(right)) and left[prefix] == right[prefix]:
        prefix += 1
    longer, shorter = max(len(left), len(right)), min(len(left), len(right))
    expected = 0.0
    if longer:
        expected = 0.7 * levenshtein(left, right) / longer + 0.3 * (1 - (prefix / shorter if shorter else 0))
    found = path_cost(*as_texts([left, right]))
    assert found == pytest.approx(expected)
    assert found == pytest.approx(path_cost(*as_texts([right, left])))
    assert 0 <= found <= 1


@examples(60)
@given(st.integers(0, 100_000), st.integers(1, 7), st.integers(1, 7), st.integers(1, 4))
def test_transport_is_cheapest_and_its_margins_are_exact(
    seed: int, givers: int, takers: int, near: int
) -> None:
    rng = np.random.default_rng(seed)
    n = givers + takers
    supply, demand = np.zeros(n), np.zeros(n)
    whole = rng.integers(0, 400, givers), rng.integers(0, 400, takers)
    supply[:givers], demand[givers:] = whole[0] / 1e4, whole[1] / 1e4
    pairs = sorted(
        {
            (int(j), int(i))
            for j in range(takers)
            for i in rng.choice(givers, min(near, givers), replace=False)
        }
    )
    cost = rng.integers(1, 100, len(pairs))
    found = transport(
        supply,
        demand,
        CandidatePairs(np.array([i for _, i in pairs]), np.array([givers + j for j, _ in pairs]), cost / 100),
    )
    assert (found.amount > 0).all()
    given_, taken = found.source != OTHER, found.target != OTHER
    assert (given_ | taken).all()
    np.testing.assert_allclose(np.bincount(found.source[given_], found.amount[given_], n), supply, atol=1e-15)
    np.testing.assert_allclose(np.bincount(found.target[taken], found.amount[taken], n), demand, atol=1e-15)
    named = {(i, givers + j): c / 100 for (j, i), c in zip(pairs, cost.tolist(), strict=True)}
    spent = sum(
        amount * (OTHER_COST if source == OTHER else 0.0 if target == OTHER else named[source, target])
        for source, target, amount in zip(
            *(x.tolist() for x in (found.source, found.target, found.amount)), strict=True
        )
    )
    least = oracle.cheapest(
        whole[0].tolist(),
        whole[1].tolist(),
        {(i, j): int(c) for (j, i), c in zip(pairs, cost, strict=True)},
        120,
    )
    assert spent == pytest.approx(least / 1e6, abs=1e-8)


def random_periods(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Weights and means of categories of a few roots; categories and whole roots may be empty in a period."""
    rng = np.random.default_rng(seed)
    n_roots, n = int(rng.integers(1, 4)), int(rng.integers(3, 15))
    root = np.sort(np.concatenate([np.arange(n_roots), rng.integers(0, n_roots, n)]))
    weight = rng.gamma(1, 50, (2, len(root))) * (rng.random((2, len(root))) > 0.3)
    weight[rng.integers(2), root == 0] *= rng.random() > 0.3
    weight[:, -1] += 1  # neither period is empty
    mean = np.where(weight > 0, rng.lognormal(5, 2, weight.shape), np.nan)
    return weight, mean, root, n_roots


def account(seed: int, *, swap: bool = False):
    weight, mean, root, n_roots = random_periods(seed)
    if swap:
        weight, mean = weight[::-1], mean[::-1]
    shares = path_shares(weight, mean, root, n_roots)
    noticed = np.random.default_rng(seed + 1).random((2, len(root))) > 0.4
    supply = np.where(noticed[0], np.maximum(-shares.change, 0), 0)
    demand = np.where(noticed[0], np.maximum(shares.change, 0), 0)
    tokens = [tuple(str(i % 5) for i in range(k % 4 + 1)) for k in range(len(root))]
    pairs = candidate_pairs(dict(enumerate(tokens)), root, np.flatnonzero(supply), np.flatnonzero(demand), 20)
    flows = transport(supply, demand, pairs)
    return decompose(shares, flows, noticed[1]), shares, weight, mean


@examples(80)
@given(st.integers(0, 100_000))
def test_the_account_adds_up_to_the_change_of_the_mean(seed: int) -> None:
    found, _, weight, mean = account(seed)
    before, after = (np.nansum(w * m) / w.sum() for w, m in zip(weight, mean, strict=True))
    assert found.before_us == pytest.approx(before)
    assert found.after_us == pytest.approx(after)
    assert sum(found.sums_us) == pytest.approx(after - before, abs=1e-9 * max(before, after))


@examples(80)
@given(st.integers(0, 100_000))
def test_swapping_the_periods_turns_the_signs(seed: int) -> None:
    there, back = account(seed)[0], account(seed, swap=True)[0]
    scale = max(there.before_us, there.after_us)
    np.testing.assert_allclose(back.mix_us, -there.mix_us, atol=1e-9 * scale)
    np.testing.assert_allclose(back.timing_us, -there.timing_us, atol=1e-9 * scale)
    np.testing.assert_allclose(back.sums_us, [-x for x in there.sums_us], atol=1e-9 * scale)


def test_an_account_that_does_not_add_up_is_a_bug() -> None:
    _, shares, weight, _ = account(3)
    empty = np.zeros(0, np.int64)
    flows = transport(
        np.zeros(weight.shape[1]), np.zeros(weight.shape[1]), CandidatePairs(empty, empty, np.zeros(0))
    )
    half = flows.__class__(np.array([0]), np.array([OTHER]), np.array([0.123]))
    with pytest.raises(ArithmeticError, match="is off by"):
        decompose(shares, half, np.zeros(weight.shape[1], bool))


def some_population(seed: int, *, weight: float = 1.0):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 300, (6, 2))
    counts[0] = (600, 500)
    names = [
        ["r", "a", "b", "z"],
        ["r", "a", "c", "z"],
        ["r", "d", "z"],
        ["s", "a", "z"],
        ["s", "b", "b", "z"],
        ["s", "q", "z"],
    ]
    return population(
        *(
            oracle.path(labels, (int(c[0]), int(c[1])), (400, 500 + 80 * i), seed=i, weight=weight)
            for i, (labels, c) in enumerate(zip(names, counts, strict=True))
            if c.sum()
        )
    )


@examples(10)
@given(st.integers(0, 1_000))
def test_two_rows_are_one_row_of_twice_the_weight(seed: int) -> None:
    heavy = some_population(seed, weight=2.0)
    double = population(*(oracle.duplicated(c) for c in heavy.categories))
    one, two = (path_changes(p, None, PathSettings()) for p in (heavy, double))
    np.testing.assert_allclose(one.shares.of_root, two.shares.of_root)
    np.testing.assert_allclose(one.shares.mean_us, two.shares.mean_us)
    np.testing.assert_allclose(one.account.timing_us, two.account.timing_us, atol=1e-9)
    np.testing.assert_allclose(one.account.mix_us, two.account.mix_us, atol=1e-9)


@examples(10)
@given(st.integers(0, 1_000))
def test_a_swapped_comparison_has_the_parts_with_other_signs(seed: int) -> None:
    there = some_population(seed)
    one, two = (path_changes(p, None, PathSettings()).account for p in (there, oracle.swapped(there)))
    np.testing.assert_allclose(one.mix_us, -two.mix_us, atol=1e-9)
    np.testing.assert_allclose(one.timing_us, -two.timing_us, atol=1e-9)
    assert one.sums_us[1] + one.structure_rest_us.sum() == pytest.approx(
        -(two.sums_us[1] + two.structure_rest_us.sum()), abs=1e-7
    )
