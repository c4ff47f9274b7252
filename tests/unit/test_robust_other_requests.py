"""Below a change of paths: what only other requests bring there, and what is another change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.populations import chain, population

from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Category, Sample

HIT = ("fs/get", "cache/hit", "fs/reply")
MISS = ("fs/get", "cache/miss", "mds/call", "mds/lock", "mds/found", "fs/reply")
SIBLINGS = ("fs/get", "cache/miss", "mds/call", "mds/lock", "mds/siblings", "mds/found", "fs/reply")

LOOPED = ("fs/get", "cache/miss", "mds/call", *("mds/lock", "mds/sibling") * 20, "mds/found", "fs/reply")


def taking(labels: tuple[str, ...], counts: tuple[int, int], rng: np.random.Generator) -> Category:
    """Requests of one path, 50 µs a step, so many in each period."""
    rows = [rng.lognormal(np.log(50_000), 0.1, (n, len(labels) - 1)).astype(int).tolist() for n in counts]
    starts = [np.arange(n) * 1_000 // max(n, 1) + at for n, at in zip(counts, (0, 1_000), strict=True)]
    return replace(chain(labels, *rows), start_ns=np.concatenate(starts).astype(np.int64))


def run(**counts: tuple[int, int]) -> RobustRun:
    rng = np.random.default_rng(2)
    paths = {"hit": HIT, "miss": MISS, "siblings": SIBLINGS, "looped": LOOPED}
    samples = (Sample("reference", "", 0, 1_000), Sample("problem", "", 1_000, 2_000))
    made = [taking(paths[name], both, rng) for name, both in counts.items()]
    return robust_run(population(*made, samples=samples), None, RobustSettings())


def led_by(found: RobustRun) -> list[str]:
    """The operations that lead the findings, with those whose changes follow."""
    return [found.profile.names.operation(cause.lead.site).text for cause in found.causes]


def test_more_that_come_bring_paths_of_their_own() -> None:
    """Four times as many miss the cache; those who came before take the path that they took."""
    found = run(hit=(900, 600), miss=(100, 100), siblings=(0, 300))
    assert led_by(found) == ["fs/get"]


def test_more_that_come_take_no_path_from_those_who_came() -> None:
    """Four times as many miss the cache, and of all of them few take the path that all took."""
    found = run(hit=(900, 600), miss=(100, 12), siblings=(0, 388))
    assert led_by(found) == ["fs/get", "mds/lock"]


def test_a_loop_brings_no_more_requests() -> None:
    """A point that a request passes twenty times has one request more, not twenty that were never there."""
    found = run(hit=(750, 600), miss=(250, 60), looped=(0, 340))
    (lock,) = [g for g in found.causes if found.profile.names.operation(g.lead.site).text == "mds/lock"]
    assert lock.lead.call_ratio == pytest.approx(400 / 250)
