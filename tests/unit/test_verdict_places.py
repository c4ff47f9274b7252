"""How much slower requests that pass a place may be: held against plain loops, and against the truth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from oracles.refined import Call, call, population
from oracles.span_events import T0

from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.verdict.places import largest_at_places, mean_sizes
from analyze.population import Sample

SETTINGS = RobustSettings(explained=0, paths=False)
HOUR_NS = 3_600 * 10**9


def requests(n: int, seed: int, scale: float = 1.0) -> list[Call]:
    """Half of the reads wait ten times as long: two modes."""
    rng = np.random.default_rng(seed)
    took = 200 * scale * np.where(rng.random(n) < 0.5, 10, 1) * np.exp(rng.normal(0, 0.2, n))
    return [call("web/get", 0, 400 + t, call("db/read", 100, 100 + t)) for t in took.tolist()]


def run(before: list[Call], after: list[Call]) -> RobustRun:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + len(made) * 10**9)
        for at, (name, made) in enumerate((("reference", before), ("problem", after)))
    )
    return robust_run(replace(population(before, after), samples=samples), None, SETTINGS)


def plainly(found: RobustRun, site: int) -> float:
    """`mean_sizes` of a site, a row at a time."""
    windows: dict[int, list[float]] = {}
    before, after = [0.0] * 4, [0.0] * 4
    for row in found.profile.visits.to_pylist():
        if row["site"] != site:
            continue
        values = [row["n"], row["w"], row["critical_ns"], row["response_ns"]]
        slot = row["slot"]
        for side, inside in ((before, found.roles.ordinary[slot]), (after, found.roles.problem[slot])):
            if inside:
                side[:] = [a + b for a, b in zip(side, values, strict=True)]
        if (number := int(found.roles.noise[slot])) >= 0:
            known = windows.setdefault(number, [0.0] * 4)
            known[:] = [a + b for a, b in zip(known, values, strict=True)]
    told = [window for window in windows.values() if window[0] >= 5]
    if len(told) < 5 or after[0] < 4:
        return math.nan
    mean = before[2] / before[1]
    variance = sum((ns / w - mean) ** 2 for _, w, ns, _ in told) / (len(told) - 1)
    variance *= max(sum(n for n, *_ in told) / len(told) / after[0], 1.0) * (1 + 1 / len(told))
    return (abs(after[2] / after[1] - mean) + 1.96 * math.sqrt(variance)) / (before[3] / before[1])


@pytest.mark.parametrize("n", [20, 90])
def test_sizes_are_those_of_plain_loops(n: int) -> None:
    found = run(requests(90, 1), requests(n, 2))
    sizes = mean_sizes(found.tested.view)
    assert np.isfinite(sizes).any()
    for site, size in enumerate(sizes.tolist()):
        assert size == pytest.approx(plainly(found, site), nan_ok=True)


def largest(found: RobustRun) -> float:
    size = largest_at_places(found.tested.view)
    assert size is not None
    return size


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_the_true_change_is_seldom_larger(scale: float) -> None:
    """Requests take 400 us and the read, 1,120 us on average."""
    true = (scale - 1) * 1_120 / 1_520
    sizes = [largest(run(requests(300, 2 * seed), requests(60, 2 * seed + 1, scale))) for seed in range(20)]
    assert sum(size < true for size in sizes) <= 3
    assert np.median(sizes) < true + 0.8, "two modes hide no more than that"
