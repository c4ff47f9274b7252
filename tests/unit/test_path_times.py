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

LABELS = ["web/get", "db/read", "web/done"]


def times_of(category: Category) -> TimeTests:
    return time_tests(path_table(population(category), None, PathSettings()))


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
    assert abs(seen.estimate.z[0]) < 1
    assert meant.estimate.z[0] > 2
    assert meant.estimate.p[0] < seen.estimate.p[0]


@pytest.mark.parametrize("counts", [(60, 50), (12, 9)])
@pytest.mark.parametrize("weight", [0.1, 3.0, 4.0])
def test_equal_weights_are_no_evidence(counts: tuple[int, int], weight: float) -> None:
    one, other = (times_of(path(LABELS, counts, (1_000, 1_500), weight=w)) for w in (1.0, weight))
    assert other.changed.tolist() == one.changed.tolist()
    for figure in ("p", "z"):
        assert getattr(other.estimate, figure) == pytest.approx(getattr(one.estimate, figure), rel=1e-9), (
            figure
        )
