"""Names with ids: when a reader is told of them."""

from __future__ import annotations

from analyze.methods.robust.settings import VerdictSettings
from analyze.methods.robust.verdict.data_quality import hold_ids


def test_names_that_are_nearly_as_many_as_traces_hold_ids() -> None:
    assert hold_ids([f"dir_{at}" for at in range(300)], 400, VerdictSettings())
    assert hold_ids([f"dir_{at}" for at in range(20)], 40, VerdictSettings())
    assert not hold_ids([f"op{at}" for at in range(19)], 20, VerdictSettings())
    assert not hold_ids([f"op{at}" for at in range(100)], 1_000, VerdictSettings())
    assert not hold_ids([], 0, VerdictSettings())
