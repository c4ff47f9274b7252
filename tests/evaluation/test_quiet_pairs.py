"""The plan of quiet pairs: enough of them, each a plain run against another, no run against itself."""

from __future__ import annotations

from collections import Counter

import pytest
from evaluation.quiet_pairs import (
    CHANGED,
    SAME,
    WORKLOADS,
    Plan,
    pairs_of_workload,
    quiet_totals,
    runs_of_workload,
)

pytestmark = pytest.mark.evaluation


@pytest.mark.parametrize("wanted", [1, 9, 50, 200, 1_000])
def test_there_are_as_many_pairs_as_asked_for(wanted: int) -> None:
    plan = Plan.of(wanted)
    pairs = [pair for workload in WORKLOADS for pair in pairs_of_workload(workload, plan)]
    assert len(pairs) >= wanted
    assert len(set(pairs)) == len(pairs)
    scenarios = Counter(pair.scenario for pair in pairs)
    if wanted >= 200:
        assert set(scenarios) == {SAME, *CHANGED}
        assert scenarios[SAME] >= wanted / 3


def test_every_pair_holds_two_runs_of_its_scenario() -> None:
    plan = Plan.of(200)
    runs = runs_of_workload("sfs97", plan)
    assert len({run.seed for run in runs}) == len(runs)
    for pair in pairs_of_workload("sfs97", plan):
        reference, problem = runs[pair.reference], runs[pair.problem]
        assert reference.fault == "N1-same"
        assert (problem.fault, problem.severity) == CHANGED.get(pair.scenario, ("N1-same", None))
        assert reference.seed != problem.seed


def test_totals_are_by_scenario_and_over_all() -> None:
    common = {"method": "robust", "mode": "a"}
    rows = [
        {**common, "scenario": SAME, "results": 2, "exit_code": 1},
        {**common, "scenario": SAME, "results": 0, "exit_code": 0},
        {**common, "scenario": "load +30 %", "results": 0, "exit_code": 3},
    ]
    found = {t["scenario"]: (t["pairs"], t["results_a_pair"], t["with_any"]) for t in quiet_totals(rows)}
    assert found == {SAME: (2, 1.0, 1), "load +30 %": (1, 0.0, 0), "all": (3, 0.667, 1)}
