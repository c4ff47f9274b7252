"""A few cases at a small size: no row may fall below its recorded floor (floors.json)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from evaluation.floors import FLOORS as RECORDED
from evaluation.tiers import CI_TRIALS
from evaluation.trials import Trial, perform

pytestmark = pytest.mark.evaluation

FLOORS: dict[str, dict[str, dict[str, float]]] = json.loads(RECORDED.read_text(encoding="utf-8"))
"""Trial -> "mode SM" -> bound. `top10_pct_min`, `coverage_pct_min`, `relevant_min`; `results_max`,
`false_positive_pct_max`, `first_rank_max`."""


def broken(row: dict[str, Any], bounds: dict[str, float]) -> list[str]:
    """The bounds that a row breaks, in words."""
    found = []
    for name, bound in bounds.items():
        metric, _, side = name.rpartition("_")
        value = row[metric]
        if value is None or (value < bound if side == "min" else value > bound):
            found.append(f"{metric} is {value}, bound {bound}")
    return found


@pytest.mark.parametrize("trial", CI_TRIALS, ids=lambda t: t.name)
def test_no_row_falls_below_its_floor(trial: Trial) -> None:
    rows = {f"{row['mode']} {row['sm']}": row for row in perform(trial, brief=True)["rows"]}
    floors = FLOORS[trial.name]
    assert set(floors) <= set(rows)
    failures = {name: said for name, bounds in floors.items() if (said := broken(rows[name], bounds))}
    assert failures == {}


def test_every_row_has_a_floor() -> None:
    assert set(FLOORS) == {trial.name for trial in CI_TRIALS}
    assert all(bounds for rows in FLOORS.values() for bounds in rows.values())


def test_a_fallen_row_is_noticed() -> None:
    row = {"top10_pct": 40.0, "false_positive_pct": 60.0, "first_rank": None}
    bounds = {"top10_pct_min": 50.0, "false_positive_pct_max": 60.0, "first_rank_max": 3.0}
    assert broken(row, bounds) == ["top10_pct is 40.0, bound 50.0", "first_rank is None, bound 3.0"]
