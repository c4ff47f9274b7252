"""Segments: counts equal those of a plain loop; what never changed is seldom called a change, a real one is
seen."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.segment_counts import plain_counts

from analyze.methods.robust.segments.segment_tests import (
    Cells,
    Outcome,
    alike_weight,
    chance_p,
    compared,
    compared_each,
    dispersion,
    widened,
)
from analyze.methods.robust.settings import SegmentSettings
from schemas.arrays import I8

OWN = SegmentSettings()
ALIKE = np.array([1 / OWN.spread])
"""Weight, in hits, of the assumption that a segment is hit as the others, where nothing shows it."""


def outcome_of(rng: np.random.Generator, n: int, hit: float, n_strata: int) -> Outcome:
    inside, hits = rng.random(n) < 0.9, rng.random(n) < hit
    return Outcome(0, False, inside, hits, rng.integers(0, n_strata, n), n_strata)


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    hit=st.sampled_from([0.0, 0.03, 0.3, 1.0]),
    n_blocks=st.integers(1, 4),
    n_strata=st.integers(1, 3),
)
def test_counts_are_those_of_a_loop(seed: int, n: int, hit: float, n_blocks: int, n_strata: int) -> None:
    rng = np.random.default_rng(seed)
    outcome = outcome_of(rng, n, hit, n_strata)
    rows = [np.flatnonzero(rng.random(n) < share) for share in (0.0, 0.2, 1.0)]
    block = rng.integers(-1, n_blocks, n)
    for found, plain in zip(
        Cells(outcome, block, n_blocks).counts(rows),
        plain_counts(rows, outcome, block, n_blocks),
        strict=True,
    ):
        assert found.tolist() == plain.tolist()


def test_values_of_many_requests_are_counted_in_parts() -> None:
    """Of two million rows, 16 MB, no copies are made as a whole; the parts are those of each value alone."""
    rng, n = np.random.default_rng(1), 50_000
    outcome, block = outcome_of(rng, n, 0.1, 5), rng.integers(0, 2, n)
    rows = [np.flatnonzero(rng.random(n) < 0.5) for _ in range(80)]
    tracemalloc.start()
    try:
        found = compared(rows, outcome, block, np.zeros(len(rows)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6
    for at in (0, 17, 79):
        alone = compared(rows[at : at + 1], outcome, block, np.zeros(1))
        one = found.one(at)
        assert all((getattr(one, name) == getattr(alone, name)).all() for name in ("n", "x", "y", "e", "f"))


def test_root_types_are_counted_as_each_alone() -> None:
    rng, n = np.random.default_rng(2), 400
    whole, block = outcome_of(rng, n, 0.2, 7), rng.integers(-1, 2, n)
    rows = [np.flatnonzero(rng.random(n) < share) for share in (0.0, 0.3, 0.6)]
    of_roots = []
    for strata in (np.array([0, 3, 6]), np.array([2])):
        inside = whole.inside & np.isin(whole.stratum, strata)
        mine = np.where(inside, strata.searchsorted(whole.stratum).clip(max=len(strata) - 1), 0)
        of_roots.append(Outcome(0, True, inside, whole.hit, mine, len(strata), strata))
    for outcome, found in zip(
        (whole, *of_roots), compared_each(rows, [whole, *of_roots], block), strict=True
    ):
        alone = compared(rows, outcome, block, np.zeros(len(rows)))
        assert all((getattr(found, name) == getattr(alone, name)).all() for name in ("n", "x", "y", "e", "f"))


def two_periods(rng: np.random.Generator, share: float, usual: float, now: float) -> tuple[float, float]:
    """p of a segment in `share` of 12,000 requests of two periods, with all that ordinary times tell."""
    n = 12_000
    mine = rng.random(n) < share
    period: I8 = (np.arange(n) >= n // 2).astype(np.int64)
    chance = np.where(mine & (period == 1), now, usual)
    outcome = Outcome(0, False, np.ones(n, dtype=np.bool_), rng.random(n) < chance, rng.integers(0, 4, n), 4)
    rows = np.flatnonzero(mine)
    alone = chance_p(compared([rows], outcome, period, ALIKE), OWN)[0]
    blocks = [np.where(period == side, np.arange(n) * 8 // n, -1) for side in (0, 1)]
    phi = dispersion([Cells(outcome, block, 8).counts([rows]) for block in blocks], OWN)
    wide = widened(np.nan_to_num(alone, nan=1.0), np.array([phi]))[0]
    return float(np.nan_to_num(alone[0], nan=1.0)), float(wide[0])


@pytest.mark.parametrize("usual", [0.005, 0.05, 0.3])
@pytest.mark.parametrize("share", [0.05, 0.4])
def test_size(usual: float, share: float) -> None:
    """At most 5 % and 1 % of segments of ordinary times have a p below that, before and after widening."""
    rng = np.random.default_rng([3, int(usual * 1000), int(share * 100)])
    found = np.array([two_periods(rng, share, usual, usual) for _ in range(400)])
    for level, most in ((0.05, 34), (0.01, 12)):  # 400 · level + 3.3 standard deviations
        assert ((found < level).sum(axis=0) <= most).all(), (level, (found < level).sum(axis=0))


@pytest.mark.parametrize(("usual", "now"), [(0.005, 0.05), (0.05, 0.12), (0.3, 0.45)])
def test_power(usual: float, now: float) -> None:
    """A plain test of two shares would see these in 99 of 100; both conditions and dispersion cost some."""
    rng = np.random.default_rng([4, int(usual * 1000)])
    found = np.array([two_periods(rng, 0.2, usual, now)[1] for _ in range(40)])
    assert (found < 1e-4).mean() > 0.7


def test_what_fails_more_for_all_is_of_no_segment() -> None:
    rng = np.random.default_rng(5)
    n = 12_000
    period = (np.arange(n) >= n // 2).astype(np.int64)
    small = 0
    for _ in range(200):
        rows = np.flatnonzero(rng.random(n) < 0.2)
        hit = rng.random(n) < np.where(period == 1, 0.2, 0.02)
        outcome = Outcome(0, False, np.ones(n, dtype=np.bool_), hit, np.zeros(n, dtype=np.int64), 1)
        small += bool(chance_p(compared([rows], outcome, period, ALIKE), OWN)[0][0] < 0.01)
    assert small <= 7


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_size_where_values_are_hit_unlike(spread: float) -> None:
    """40 values of one attribute differ in how often they are hit, others do not; nothing changes."""
    rng = np.random.default_rng([6, int(spread)])
    n, usual, small, tested = 12_000, 0.005, 0, 0
    period = (np.arange(n) >= n // 2).astype(np.int64)
    for _ in range(40):
        tenant = np.minimum(rng.zipf(1.3, n) - 1, 39)
        times = rng.gamma(1 / spread, spread, 40) if spread else np.ones(40)
        parted = [tenant, *(rng.integers(0, 4, n) for _ in range(9))]
        rows = [np.flatnonzero(value == which) for value in parted for which in np.unique(value)]
        key = np.repeat(np.arange(10), [len(np.unique(value)) for value in parted])
        hit = rng.random(n) < usual * times[tenant]
        outcome = Outcome(0, False, np.ones(n, dtype=np.bool_), hit, np.zeros(n, dtype=np.int64), 1)
        c = compared(rows, outcome, period, np.zeros(len(rows)))
        p = chance_p(replace(c, alike=alike_weight(c, key, OWN)), OWN)[0]
        small, tested = small + int((p < 0.01).sum()), tested + int((~np.isnan(p)).sum())
    assert tested > 500
    assert small <= 0.01 * tested + 3.3 * (0.01 * tested) ** 0.5
