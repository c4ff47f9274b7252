"""Response-time tests in both variants of paper mode."""

import numpy as np
import pytest
from oracles.populations import category, graph

from analyze.methods.paper.settings import PaperSettings
from analyze.methods.paper.timing import (
    released_tests,
    response_time_tests,
    text_tests,
)
from analyze.paths.critical_path import critical_path, edge_latency_ns

TEXT, RELEASED = PaperSettings(), PaperSettings(variant="released")
US, MS = 1000, 1_000_000


def _run(
    reference: list[int], problem: list[int], settings: PaperSettings, critical: np.ndarray | None = None
):
    values = np.array([*reference, *problem], dtype=np.int64)[:, None]
    mine = np.repeat([False, True], [len(reference), len(problem)])
    if settings.variant == "released":
        return released_tests(values, mine, settings)
    return text_tests(values, mine, settings, critical)


def _around(us: int, n: int) -> list[int]:
    return [us * US + i for i in range(n)]


def test_text_needs_more_than_ten_in_both_periods():
    assert not _run(_around(100, 10), _around(900, 30), TEXT).changed[0]
    assert np.isnan(_run(_around(100, 10), _around(900, 30), TEXT).p[0])
    assert _run(_around(100, 11), _around(900, 11), TEXT).changed[0]


def test_text_is_two_sided():
    assert _run(_around(100, 40), _around(900, 40), TEXT).changed[0]
    assert _run(_around(900, 40), _around(100, 40), TEXT).changed[0]


def test_released_sees_slower_only():
    assert _run(_around(1000, 40), _around(9000, 40), RELEASED).changed[0]
    assert not _run(_around(9000, 40), _around(1000, 40), RELEASED).changed[0]


def test_released_runs_from_an_effective_size_of_four():
    # 8·9/17.0001 = 4.2 runs; 8·8/16.0001 is a little less than 4; the papers' "large" rule does not hold.
    assert _run(_around(1000, 8), _around(9000, 9), RELEASED).changed[0]
    assert np.isnan(_run(_around(1000, 8), _around(9000, 8), RELEASED).p[0])


def test_released_rounding_hides_100_us_and_shows_500_us():
    assert _run(_around(100, 500), _around(200, 500), TEXT).changed[0]
    assert not _run(_around(100, 500), _around(200, 500), RELEASED).changed[0]
    assert _run(_around(100, 500), _around(600, 500), RELEASED).changed[0]


def test_released_rounds_half_up():
    below, at = [499_999] * 20, [500_000] * 20
    assert _run(below, at, RELEASED).d[0] == 1.0
    assert _run([2 * MS + 500_000] * 20, [3 * MS] * 20, RELEASED).d[0] == 0.0


def test_released_drops_zero_latencies_before_the_test():
    got = _run([0] * 50 + _around(1000, 20), [0] * 5 + _around(1000, 20), RELEASED)
    assert (got.n0[0], got.n1[0]) == (20, 20)
    assert got.d[0] == 0


def test_edge_of_one_period_only_is_never_significant():
    critical = np.repeat([[True], [False]], [40, 40], axis=0)
    got = _run(_around(1000, 40), _around(9000, 40), TEXT, critical)
    assert not got.changed[0]
    assert got.n1[0] == 0


def test_critical_edges_of_a_category_are_tested_period_by_period():
    # r → a → end and r → b → end: a is later in every reference request, b in 15 of 20 of the problem period.
    g = graph(("r", "a", "b", "end"), [(0, 1), (0, 2), (1, 3), (2, 3)])
    times = np.array([[0, 20, 10, 30]] * 12 + [[0, 20, 25, 30]] * 15 + [[0, 20, 10, 30]] * 5) * MS
    c = category(g, times, np.repeat([0, 1], [12, 20]))
    got = text_tests(edge_latency_ns(c), c.sample == 1, TEXT, critical_path(c))
    assert got.n0.tolist() == [12, 0, 12, 0]
    assert got.n1.tolist() == [5, 15, 5, 15]


def test_only_critical_latencies_are_tested():
    values = _around(1000, 20) + _around(8000, 20)
    critical = np.repeat([[True], [False]], [20, 20], axis=0)
    both = np.concatenate([critical, critical])
    got = _run(values, values[:20] + _around(1, 20), TEXT, both)
    assert got.d[0] == 0


def test_alpha_is_a_setting():
    rng = np.random.default_rng(0)
    a, b = (rng.lognormal(mu, 0.5, 60) * MS for mu in (0.0, 0.25))
    loose, strict = PaperSettings(alpha=0.5), PaperSettings(alpha=1e-9)
    p = _run(a.astype(int).tolist(), b.astype(int).tolist(), TEXT).p[0]
    assert 1e-9 < p < 0.5
    assert _run(a.astype(int).tolist(), b.astype(int).tolist(), loose).changed[0]
    assert not _run(a.astype(int).tolist(), b.astype(int).tolist(), strict).changed[0]


@pytest.mark.parametrize("variant", ["text", "released"])
def test_p_must_be_below_alpha(variant: str):
    values = _around(1000, 30), _around(1000, 20) + _around(5000, 10)
    p = float(_run(*values, PaperSettings.model_validate({"variant": variant})).p[0])
    assert 0 < p < 1
    at, above = (PaperSettings.model_validate({"variant": variant, "alpha": a}) for a in (p, p * (1 + 1e-9)))
    assert not _run(*values, at).changed[0]
    assert _run(*values, above).changed[0]


def test_no_category_gives_no_test():
    assert response_time_tests((), TEXT).p.shape == (0,)


@pytest.mark.parametrize("settings", [TEXT, RELEASED])
def test_same_sample_twice_is_no_mutation(settings: PaperSettings):
    values = _around(3000, 300)
    assert not _run(values, values, settings).changed[0]
