"""What a score of the recordings says about another."""

from __future__ import annotations

from evaluation.recordings.score import changes


def test_a_case_that_is_lost_new_or_other_is_named() -> None:
    same = {"results": 1, "rank": 1, "first": "slow"}
    known = {"kept": same, "lost": same, "other": same}
    cases = {"kept": same, "other": {"results": 0, "rank": None}, "new": {"results": 0}}
    assert changes(known, cases) == [
        "lost: results 1 → None, rank 1 → None, first slow → None",
        "other: results 1 → 0, rank 1 → None, first slow → None",
        "new: results None → 0",
        "3 of 3 cases differ",
    ]
