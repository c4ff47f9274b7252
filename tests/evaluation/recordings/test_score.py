"""What a score of the recordings says about another."""

from __future__ import annotations

from evaluation.recordings.score import Case, changes


def test_a_case_that_is_lost_new_or_other_is_named() -> None:
    same: Case = {"results": 1, "rank": 1, "first": "slow"}
    known = {"kept": same, "lost": same, "worse": same, "other": same}
    cases = {
        "kept": same,
        "worse": {"results": 0, "rank": None},
        "other": same | {"first": "slower"},
        "new": {"results": 0},
    }
    assert changes(known, cases) == [
        "lost: results 1 → None, rank 1 → None, first slow → None",
        "worse: results 1 → 0, rank 1 → None, first slow → None",
        "new: results None → 0",
        "other: first slow → slower",
        "3 of 4 cases differ, 1 more in words",
    ]
