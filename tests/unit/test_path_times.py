"""Times of whole paths count requests by their weight, and as many of them as weights are worth (A.7)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.paths import path
from oracles.populations import chain, population

from analyze.paths.changes import TimeTests, time_tests
from analyze.paths.path_table import path_table
from analyze.paths.settings import PathSettings
from analyze.population import Category
from analyze.stats.noise import log_medians
from analyze.stats.rank import rank_tests

LABELS = ["web/get", "db/read", "web/done"]


def times_of(category: Category) -> TimeTests:
    return time_tests(path_table(population(category), None), PathSettings())


def slow_ones_sampled(ordinary: int, fast: int, slow: int, weight: float) -> Category:
    """Requests of a millisecond, but for some of three after; of those one in `weight` was kept."""
    rng = np.random.default_rng(1)

    def rows(n: int, us: float) -> list[list[int]]:
        return (rng.lognormal(0, 0.1, (n, 2)) * 500 * us).astype(np.int64).tolist()

    made = chain(LABELS, rows(ordinary, 1_000), [*rows(fast, 1_000), *rows(slow, 3_000)])
    return replace(made, weight=np.concatenate([np.ones(ordinary + fast), np.full(slow, weight)]))


@pytest.mark.parametrize(("ordinary", "fast", "slow"), [(60, 40, 20), (12, 8, 4)])
def test_a_sampled_request_stands_for_several(ordinary: int, fast: int, slow: int) -> None:
    """Of the problem's requests most were slow, though few of these were kept."""
    seen = times_of(slow_ones_sampled(ordinary, fast, slow, 1.0))
    meant = times_of(slow_ones_sampled(ordinary, fast, slow, 9.0))
    assert abs(seen.z[0]) < 1
    assert meant.z[0] > 2
    assert meant.p[0] < seen.p[0]


@pytest.mark.parametrize("counts", [(60, 50), (12, 9)])
@pytest.mark.parametrize("weight", [0.1, 3.0, 4.0])
def test_equal_weights_are_no_evidence(counts: tuple[int, int], weight: float) -> None:
    one, other = (times_of(path(LABELS, counts, (1_000, 1_500), weight=w)) for w in (1.0, weight))
    for figure in ("p", "q", "z", "changed"):
        assert getattr(other, figure) == pytest.approx(getattr(one, figure), rel=1e-9), figure


def slow_median(values: list[float], weight: list[float]) -> tuple[float, float]:
    """(log-median, requests that the weights are worth): each value in the middle of its stretch."""
    worth = sum(weight) ** 2 / sum(w * w for w in weight)
    scale, past, places = worth / sum(weight), 0.0, []
    for value, w in sorted(zip(values, weight, strict=True)):
        places.append((past + w * scale / 2, np.log(value)))
        past += w * scale
    return float(np.interp(worth / 2, *zip(*places, strict=True))), worth


def test_weighted_medians_are_those_counted_one_by_one() -> None:
    rng = np.random.default_rng(3)
    group = np.sort(rng.integers(0, 12, 150))
    values, weight = rng.lognormal(3, 1, 150), rng.choice([1.0, 2.0, 10.0], 150)
    found = log_medians(values, group, 13, least=1e-3, weight=weight)
    for number in range(12):
        mine = group == number
        assert found.value[number] == pytest.approx(
            slow_median(values[mine].tolist(), weight[mine].tolist())[0]
        )
    assert np.isnan(found.value[12])


def test_without_weights_nothing_is_another() -> None:
    rng = np.random.default_rng(4)
    group = np.sort(rng.integers(0, 40, 300))
    values = rng.lognormal(3, 1, 300)
    plain = log_medians(values, group, 40, least=1e-3)
    ones = log_medians(values, group, 40, least=1e-3, weight=np.ones(300))
    assert plain.value.tolist() == ones.value.tolist()
    assert plain.variance.tolist() == ones.variance.tolist()
    for number in range(40):
        assert plain.value[number] == pytest.approx(np.quantile(np.log(values[group == number]), 0.5))
    late = rng.random(300) < 0.4
    tests = [
        rank_tests(values, late, group, 40, weight) for weight in (None, np.ones(300), np.full(300, 5.0))
    ]
    assert tests[0].p.tolist() == tests[1].p.tolist() == pytest.approx(tests[2].p.tolist())
    assert tests[0].exact.tolist() == tests[2].exact.tolist()
