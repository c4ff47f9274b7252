"""Moments and histograms."""

from itertools import pairwise

import numpy as np
import pytest
from oracles.populations import category, chain, graph

from analyze.stats.histograms import log_histogram
from analyze.stats.moments import category_moments, pooled


def test_moments_of_both_periods():
    c = chain(["r", "s"], [[1000], [3000]], [[10_000]])
    got = category_moments([c], 2)
    assert got.count[:, 0].tolist() == [2, 1]
    np.testing.assert_allclose(got.mean_us[:, 0], [2.0, 10.0])
    np.testing.assert_allclose(got.variance_us2[0, 0], 1.0)
    assert np.isnan(got.variance_us2[1, 0])


def test_moments_are_weighted_and_counts_are_not():
    offsets = np.array([[0, 1000], [0, 4000], [0, 4000]])
    c = category(graph(["r", "s"]), offsets, np.array([0, 0, 1]), np.array([3.0, 1.0, 2.0]))
    got = category_moments([c], 2)
    assert got.count[:, 0].tolist() == [2, 1]
    assert got.weighted[:, 0].tolist() == [4.0, 2.0]
    assert got.mean_us[0, 0] == pytest.approx((3 * 1 + 4) / 4)
    assert got.variance_us2[0, 0] == pytest.approx((3 * 0.75**2 + 2.25**2) / 4)


def test_empty_period_takes_the_other_mean():
    got = category_moments([chain(["r", "s"], [[2000]], [])], 2)
    assert np.isnan(got.mean_us[1, 0])
    assert got.filled_mean_us()[1, 0] == 2.0
    assert got.total_us[:, 0].tolist() == [2.0, 0.0]


def test_any_number_of_samples():
    offsets = np.array([[0, 1000], [0, 3000], [0, 9000]])
    c = category(graph(["r", "s"]), offsets, np.array([0, 0, 3]))
    got = category_moments([c], 4)
    assert got.count[:, 0].tolist() == [2, 0, 0, 1]
    assert got.total_us[:, 0].tolist() == [4.0, 0.0, 0.0, 9.0]
    assert pooled(got, np.arange(1)).count[:, 0].tolist() == [2, 0, 0, 1]
    assert got.filled_mean_us()[:, 0].tolist() == [2.0, 2.0]


def test_pooled_is_the_union():
    rng = np.random.default_rng(1)
    parts = [rng.integers(1, 10**6, (n, 1)).tolist() for n in (5, 1, 9)]
    split = category_moments([chain(["r", f"s{i}"], p, []) for i, p in enumerate(parts)], 2)
    whole = category_moments([chain(["r", "s"], [row for p in parts for row in p], [])], 2)
    together = pooled(split, np.arange(3))
    for name in ("count", "weighted", "mean_us", "variance_us2"):
        np.testing.assert_allclose(getattr(together, name)[0, 0], getattr(whole, name)[0, 0])
    assert np.isnan(together.mean_us[1, 0])


def test_histogram_holds_every_value_once():
    rng = np.random.default_rng(2)
    a, b = rng.lognormal(3, 1, 500), rng.lognormal(4, 1, 300)
    got = log_histogram("T", a, b, 48)
    assert (sum(got.counts0), sum(got.counts1)) == (500, 300)
    assert len(got.counts0) == len(got.counts1) == len(got.edges_us) - 1
    assert got.edges_us[0] == min(a.min(), b.min())
    assert got.edges_us[-1] >= max(a.max(), b.max())
    ratios = np.diff(np.log(got.edges_us))
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-6)
    inside = (a >= got.edges_us[10]) & (a < got.edges_us[11])
    assert got.counts0[10] == inside.sum()


@pytest.mark.parametrize(
    ("a", "b", "counts"),
    [
        ([], [], ((), ())),
        ([5.0, 5.0], [5.0], ((2,), (1,))),
        ([0.0, 0.0], [0.0], ((2,), (1,))),
    ],
)
def test_histogram_of_little(a: list[float], b: list[float], counts: tuple):
    got = log_histogram("T", np.array(a), np.array(b), 48)
    assert (got.counts0, got.counts1) == counts
    assert all(low < high for low, high in pairwise(got.edges_us))


def test_histogram_puts_zeros_in_the_first_bin():
    got = log_histogram("T", np.array([0.0, 1.0, 100.0]), np.array([]), 48)
    assert got.edges_us[0] == 0
    assert got.counts0[0] == 2
    assert got.counts0[-1] == 1
