"""Loops of records: how often a request walks them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.populations import chain, population

from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Category, Sample
from schemas.report.findings import ChangeKind

CALLS = {ChangeKind.MORE_CALLS, ChangeKind.FEWER_CALLS}


def loops(turns: int, n0: int, n1: int, rng: np.random.Generator) -> Category:
    """Requests that read an entry `turns` times, 50 µs each, n0 before and n1 after."""
    labels = ["fs/list", *["fs/entry"] * turns, "fs/reply"]
    rows = [rng.lognormal(np.log(50_000), 0.1, (n, len(labels) - 1)).astype(int).tolist() for n in (n0, n1)]
    made = chain(labels, *rows)
    starts = np.concatenate([np.arange(n) * 1_000 // max(n, 1) + at for n, at in ((n0, 0), (n1, 1_000))])
    return replace(made, start_ns=starts.astype(np.int64))


def run(before: dict[int, int], after: dict[int, int]) -> RobustRun:
    rng = np.random.default_rng(1)
    turns = sorted({*before, *after})
    samples = (Sample("reference", "", 0, 1_000), Sample("problem", "", 1_000, 2_000))
    made = [loops(k, before.get(k, 0), after.get(k, 0), rng) for k in turns]
    return robust_run(population(*made, samples=samples), None, RobustSettings())


@pytest.mark.parametrize("swapped", [False, True])
def test_a_loop_that_turns_more_often_is_named_with_its_numbers(swapped: bool) -> None:
    few, many = {1: 10, 2: 20, 3: 10}, {10: 10, 12: 20, 14: 10}
    found = run(many, few) if swapped else run(few, many)
    (change,) = [change for change in found.tested.changes if change.kind in CALLS]
    assert change.kind is (ChangeKind.FEWER_CALLS if swapped else ChangeKind.MORE_CALLS)
    names = found.profile.names
    assert names.operation(change.site).text == "fs/entry"
    numbers = (change.before, change.after)
    # Steps between entries: one less than turns, of requests with any.
    assert numbers == pytest.approx((11.0, 4 / 3) if swapped else (4 / 3, 11.0))
    assert change.low < change.after - change.before < change.high
    assert (change.contribution_ns > 0) != swapped


def test_the_same_loop_is_no_change() -> None:
    turns = {1: 10, 2: 20, 3: 10}
    assert not run(turns, turns).tested.changes
