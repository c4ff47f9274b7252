"""Few calls far beyond any ordinary one: compared with the plain count, size, power."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from oracles.far_calls import SiteCalls, far_of, together

from analyze.methods.robust.measures.far_calls import FarCalls, far_calls
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.view import VisitSums
from analyze.stats.histograms import Histograms, bin_of

BLOCKS = 8


def far_of_sites(sites: list[SiteCalls], *alike: list[int]) -> FarCalls:
    """Slot 0 is the reference, slots 1 to 8 are blocks of the problem."""
    rows = [
        (site, slot, place)
        for site, calls in enumerate(sites)
        for slot, place in [*((0, place) for place in calls.ordinary), *calls.problem]
    ]
    site, slot, place = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    side = (np.arange(BLOCKS + 1) > 0).astype(np.int64)
    w = np.array([float(len(calls.problem)) for calls in sites])
    response_ns = w * np.array([calls.response_ns for calls in sites])
    after = VisitSums(w.sum(), n=w, w=w, calls=w, critical_ns=w, response_ns=response_ns, failing=0 * w)
    groups = [np.array(numbers, dtype=np.int64) for numbers in alike or (list(range(len(sites))),)]
    values = Histograms.of(site, slot, place, np.ones(len(site)))

    def by_block(chosen: npt.NDArray[np.bool_]) -> Histograms:
        return values.where(chosen[values.place] & (values.column > 0))

    return far_calls(values.pooled(side), by_block, groups, after, RobustSettings())


def drawn(rng: np.random.Generator) -> SiteCalls:
    n0, n1, far = int(rng.integers(2, 160)), int(rng.integers(1, 160)), int(rng.integers(0, 6))
    ordinary = bin_of(np.exp(rng.normal(10, 0.5, n0))).tolist()
    calls = bin_of(np.exp(np.append(rng.normal(10, 0.5, n1), rng.normal(14.5, 1.0, far)))).tolist()
    slots = rng.integers(1, BLOCKS + 1, len(calls)).tolist()
    # Of a response that takes a thousand times as long a hundredth is more than any ordinary call.
    response_ns = float(np.exp(rng.normal(10.5, 0.5)) * rng.choice([1, 1_000], p=[0.8, 0.2]))
    return SiteCalls(ordinary, list(zip(slots, calls, strict=True)), response_ns)


@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_plain_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sites = [drawn(rng) for _ in range(5)]
    by_one, by_two = [0, 0, 1, 2, 2], [0, 1, 1, 2, 3]
    found = far_of_sites(sites, by_one, by_two)
    for number, site in enumerate(sites):
        sets = [[s for s, at in zip(sites, by, strict=True) if at == by[number]] for by in (by_one, by_two)]
        expected = [together(group) for group in sets]
        assert found.n[number] == len(far_of(site))
        assert found.passes[number] == (any(passes for _, passes in expected) and bool(far_of(site)))
        assert found.p[number] == pytest.approx(min(1.0, 2 * min(p for p, _ in expected)), abs=1e-9)


def hits(far: int, sigma: float, seeds: int = 200) -> int:
    """Of so many pairs of 300 calls, with some that take a second more at times drawn."""
    count = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        ordinary, problem = np.exp(rng.normal(13, sigma, (2, 300)))
        problem[rng.choice(300, far, replace=False)] += 1e9
        slots = rng.integers(1, BLOCKS + 1, 300).tolist()
        calls = list(zip(slots, bin_of(problem).tolist(), strict=True))
        site = SiteCalls(bin_of(ordinary).tolist(), calls, 2.0 * float(problem.mean()))
        found = far_of_sites([site])
        count += bool(found.passes[0] and found.p[0] < 1e-5)
    return count


def test_a_second_in_one_call_of_sixty_is_found() -> None:
    assert hits(5, 0.5) >= 190
    assert hits(2, 0.5) == 0, "two are no more than an accident"


@pytest.mark.parametrize("sigma", [0.5, 1.5, 2.5])
def test_heavy_tails_are_no_change(sigma: float) -> None:
    assert hits(0, sigma) <= 1
