"""Record the floors of the CI tier: what it reaches now, less a margin for other numeric libraries.

`python tests/evaluation/run.py --floors` after a change that is meant to move the figures; review the diff.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evaluation.tiers import CI_TRIALS
from evaluation.trials import CEILING, FLOORED, perform

FLOORS = Path(__file__).with_name("floors.json")
MARGIN_POINTS = 3.0
RESULTS_SLACK = 2
NOTHING_TO_FIND = "nothing"


def bounds_of(row: dict[str, Any], rule: str) -> dict[str, float]:
    """The bounds that a later run must keep: lower ones on what is found, upper ones on what is not."""
    if not row["threshold"]:
        return _bounds_of_findings(row)
    if rule == NOTHING_TO_FIND:
        return {"results_max": float(row["results"] + RESULTS_SLACK)}
    bounds = {
        "relevant_min": float(max(0, row["relevant"] - RESULTS_SLACK)),
        "top10_pct_min": max(0.0, round(row["top10_pct"] - 10.0, 1)),
        "false_positive_pct_max": min(100.0, round(row["false_positive_pct"] + MARGIN_POINTS, 1)),
        "coverage_pct_min": max(0.0, round(row["coverage_pct"] - MARGIN_POINTS, 1)),
    }
    if row["first_rank"] is not None:
        bounds["first_rank_max"] = float(row["first_rank"] + 1)
    return bounds


def _bounds_of_findings(row: dict[str, Any]) -> dict[str, float]:
    """Findings are few: one more is many, and the one that names the cause stays where it is."""
    bounds = {"results_max": float(row["results"] + (1 if row["results"] else 0))}
    if row["first_rank"] is not None:
        bounds["first_rank_max"] = float(row["first_rank"])
        bounds["coverage_pct_min"] = max(0.0, round(row["coverage_pct"] - MARGIN_POINTS, 1))
    return bounds


def record() -> None:
    """Run the CI tier and write floors.json. The ceiling, a matter of definition, has next to no margin."""
    floors: dict[str, dict[str, dict[str, float]]] = {}
    for trial in CI_TRIALS:
        done = perform(trial, brief=True)
        rows = floors[trial.name] = {}
        for row in done["rows"]:
            if row["mode"] == CEILING:
                if done["concerned"]:
                    rows[f"{CEILING} scaled"] = {
                        "top10_pct_min": 100.0,
                        "coverage_pct_min": round(row["coverage_pct"] - 0.1, 1),
                    }
            elif row["sm"] == "scaled" or (row["threshold"] and row["sm"] in FLOORED):
                rows[f"{row['mode']} {row['sm']}"] = bounds_of(row, done["rule"])
    FLOORS.write_text(json.dumps(floors, indent=1) + "\n", encoding="utf-8")
