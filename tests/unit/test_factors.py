"""Host and version as factors of a change at one site."""

from __future__ import annotations

import numpy as np

from analyze.explain.factors import Attribute, FactorSettings, factors

HOSTS = tuple(f"dn-{i:03}" for i in range(8))


def drawn(
    seed: int, n: int = 400
) -> tuple[np.random.Generator, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Generator, values of two periods, which are of the problem, root types, host codes; no change anywhere.

    One host is always slower, one root type always faster.
    """
    rng = np.random.default_rng(seed)
    problem = np.repeat([False, True], n)
    strata = rng.integers(0, 3, 2 * n).astype(np.int32)
    host = rng.integers(0, 8, 2 * n).astype(np.int32)
    values = 100 * rng.lognormal(0, 0.3, 2 * n) + 150 * (host == 5) - 30 * (strata == 1)
    return rng, values, problem, strata, host


def test_no_factor_where_nothing_changed() -> None:
    named = 0
    for seed in range(60):
        rng, values, problem, strata, host = drawn(seed)
        version = Attribute("version", rng.integers(0, 2, 800).astype(np.int32), ("v1", "v2"))
        found = factors(values, problem, strata, [Attribute("host", host, HOSTS), version], unit="us")
        named += bool(found)
    assert named <= 2  # q = 0.01 over ten levels, 60 times


def test_all_of_it_on_one_host() -> None:
    for seed in range(10):
        rng, values, problem, strata, host = drawn(seed)
        values = values + 80 * (problem & (host == 2))
        version = Attribute("version", rng.integers(0, 2, 800).astype(np.int32), ("v1", "v2"))
        (found,) = factors(values, problem, strata, [version, Attribute("host", host, HOSTS)], unit="us")
        assert (found.attribute, found.value, found.unit) == ("host", "dn-002", "us")
        assert abs(found.effect_here - 80) < 30
        assert abs(found.effect_elsewhere) < 10
        assert found.p < 1e-3
        assert found.requests1 == int((problem & (host == 2)).sum())


def test_a_change_everywhere_has_no_factor() -> None:
    for seed in range(10):
        _, values, problem, strata, host = drawn(seed)
        assert (
            factors(values + 80 * problem, problem, strata, [Attribute("host", host, HOSTS)], unit="us") == ()
        )


def test_only_the_new_version_fails() -> None:
    rng = np.random.default_rng(1)
    problem = np.repeat([False, True], 60)
    version = np.where(problem & (rng.random(120) < 0.3), 1, 0).astype(np.int32)
    failed = ((version == 1) & (rng.random(120) < 0.9)).astype(np.float64)
    attribute = Attribute("version", version, ("v1", "v2"))
    (found,) = factors(failed, problem, np.zeros(120, np.int32), [attribute], unit="share")
    assert found.value == "v2"
    assert found.effect_here > 0.7
    assert found.effect_elsewhere == 0.0


def test_few_requests_need_a_clear_picture() -> None:
    problem = np.repeat([False, True], 20)
    host = np.tile([0, 0, 0, 1], 10).astype(np.int32)
    values = np.r_[np.linspace(90, 110, 20), np.linspace(90, 110, 20)]
    attribute = Attribute("host", host, ("a", "b"))
    settings = FactorSettings(least_requests=3)
    args = (problem, np.zeros(40, np.int32), [attribute])
    assert factors(values, *args, unit="us", settings=settings) == ()
    slow = values + 500.0 * (problem & (host == 1))
    (found,) = factors(slow, *args, unit="us", settings=settings)
    assert found.value == "b"


def test_sites_that_are_not_reached_and_unknown_levels_take_no_part() -> None:
    _, values, problem, strata, host = drawn(3)
    values = values + 80 * (problem & (host == 2))
    gone = np.arange(800) % 5 == 0
    whole = factors(
        values[~gone], problem[~gone], strata[~gone], [Attribute("h", host[~gone], HOSTS)], unit="us"
    )
    assert (
        factors(np.where(gone, np.nan, values), problem, strata, [Attribute("h", host, HOSTS)], unit="us")
        == whole
    )
    unknown = np.where(gone, -1, host).astype(np.int32)
    (found,) = factors(values, problem, strata, [Attribute("h", unknown, HOSTS)], unit="us")
    assert found.value == "dn-002"


def test_nothing_to_test_gives_nothing() -> None:
    none = np.zeros(0)
    empty = Attribute("host", np.zeros(0, np.int32), ())
    assert factors(none, none.astype(bool), none.astype(np.int32), [empty], unit="us") == ()
    problem = np.ones(10, bool)
    alone = Attribute("host", np.zeros(10, np.int32), ("a",))
    assert factors(np.arange(10.0), problem, np.zeros(10, np.int32), [alone], unit="us") == ()


def test_without_a_reference_levels_are_held_against_each_other() -> None:
    rng = np.random.default_rng(4)
    host = rng.integers(0, 4, 200).astype(np.int32)
    values = rng.standard_normal(200) + 5 * (host == 3)
    found = factors(
        values, np.ones(200, bool), np.zeros(200, np.int32), [Attribute("host", host, HOSTS[:4])], unit="us"
    )
    assert [factor.value for factor in found] == ["dn-003"]


def test_many_levels_and_many_requests() -> None:
    rng = np.random.default_rng(5)
    n = 20_000
    problem = rng.random(n) < 0.5
    user = rng.integers(0, 300, n).astype(np.int32)
    values = rng.lognormal(5, 0.3, n) * np.where(problem & (user == 7), 3.0, 1.0)
    (found,) = factors(
        values,
        problem,
        rng.integers(0, 5, n).astype(np.int32),
        [Attribute("user", user, tuple(map(str, range(300))))],
        unit="us",
        settings=FactorSettings(least_share=0.0),
    )
    assert (found.value, round(found.effect_here, -2)) == ("7", 300)
