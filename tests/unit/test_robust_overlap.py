"""Calls that run one after the other, and calls of which one merely takes longer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluation.made_cases import three_calls as pages
from oracles.refined import Call, population
from oracles.span_events import T0

from analyze.methods.robust.robust_run import robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from schemas.report.findings import ChangeKind

SECOND_NS = 10**9
HOUR_NS = 3_600 * SECOND_NS
N = 60
OVERLAP = {ChangeKind.SERIAL, ChangeKind.PARALLEL}


def overlap_kinds(before: list[Call], after: list[Call]) -> set[ChangeKind]:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + N * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    found = replace(population(before, after), samples=samples)
    # What an hour of ordinary times would have taught: that these times hardly drift.
    settings = RobustSettings(assumed_tau=0.05)
    return {change.kind for change in robust_run(found, None, settings).tested.changes} & OVERLAP


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [(False, True, ChangeKind.SERIAL), (True, False, ChangeKind.PARALLEL)],
)
def test_calls_that_no_longer_overlap_are_told(before: bool, after: bool, kind: ChangeKind) -> None:
    rng = np.random.default_rng(1)
    times = (1_000.0, 1_000.0, 1_000.0)
    assert overlap_kinds(pages(times, rng, serial=before), pages(times, rng, serial=after)) == {kind}


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_a_call_that_takes_another_time_runs_beside_the_others_as_before(serial: bool, factor: float) -> None:
    """How many run at a time changes with one call's time, and is no change of order."""
    rng = np.random.default_rng(2)
    times = (1_000.0, 1_000.0, 600.0)
    moved = (factor * 1_000.0, 1_000.0, 600.0)
    assert not overlap_kinds(pages(times, rng, serial=serial), pages(moved, rng, serial=serial))
