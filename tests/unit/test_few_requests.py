"""Four requests that take ninety times as long are no chance, whatever ranks can say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.refined import Call, call, population
from oracles.span_events import T0

from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample

HOUR_NS = 3_600 * 10**9


def requests(n: int, times: float, seed: int, others: int = 60) -> list[Call]:
    """A few orders among many pages, at a shop of their own."""
    rng = np.random.default_rng(seed)

    def one(root: str, place: str, us: float) -> Call:
        return call(root, 0, us + 40, call(place, 20, us + 20))

    every = [one("web/page", "shop/list", 800 * rng.lognormal(0, 0.3)) for _ in range(others)]
    every += [one("web/order", "bank/pay", 1_000 * times * rng.lognormal(0, 0.5)) for _ in range(n)]
    return [every[at] for at in rng.permutation(len(every)).tolist()]


def run(before: list[Call], after: list[Call], **changed: object) -> RobustRun:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 100 * 10**9)
        for at, name in enumerate(("reference", "problem"))
    )
    settings = RobustSettings(paths=False).model_copy(update=changed)
    return robust_run(replace(population(before, after), samples=samples), None, settings)


def found_at(run: RobustRun) -> str:
    """Component of the first cause."""
    return run.profile.names.operation(run.causes[0].lead.site).component


@pytest.mark.parametrize("n", [(9, 4), (4, 4)])
def test_ninety_times_as_slow_is_found_in_four_requests(n: tuple[int, int]) -> None:
    before, after = requests(n[0], 1, 1), requests(n[1], 90, 2)
    found = run(before, after)
    assert len(found.causes) == 1
    assert found_at(found) == "bank"
    assert run(before, after, few_times=1_000.0).causes == (), "ranks cannot tell"


@pytest.mark.parametrize("seed", range(4))
def test_four_requests_that_take_what_they_take_are_no_finding(seed: int) -> None:
    assert run(requests(4, 1, seed), requests(4, 1.5, seed + 100)).causes == ()
