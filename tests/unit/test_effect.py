"""A change without effect on time, failures or work fails no gate, and one that only seems better is none."""

from __future__ import annotations

from typing import Any

import pytest
from oracles.causes import context_of

from analyze.methods.robust.causes.resolve import has_effect, is_better
from analyze.methods.robust.causes.symptoms import Cause
from analyze.methods.robust.changes import NO_PATTERN, Change
from analyze.profile.names import NO_CALLER, Child, Names, OperationName, PathName, SiteKind, SiteName
from schemas.report.findings import ChangeKind

LOOKUP, CREATE = Child(1, 1, True), Child(2, 1, True)
OPERATIONS = (
    OperationName("shop", "get"),
    OperationName("index", "lookup"),
    OperationName("db", "create"),
)
SHAPES = ((LOOKUP,), (CREATE,), (LOOKUP, CREATE))
NAMES = Names(OPERATIONS, (SiteName(NO_CALLER, 0, SiteKind.CALL),), (PathName(NO_CALLER, 0),), SHAPES)
ASKS, MAKES, BOTH = range(3)


def change(pattern: int, before: float, after: float, kind: ChangeKind = ChangeKind.PATH) -> Change:
    values: dict[str, Any] = {
        "p": 0.0,
        "z": 9.0,
        "unit": "share",
        "low": 0.1,
        "high": 0.3,
        "n0": 99,
        "n1": 99,
    }
    return Change(
        kind=kind, site=0, before=before, after=after, contribution_ns=0.0, pattern=pattern, **values
    )


@pytest.mark.parametrize(
    ("changes", "part_ns", "expected"),
    [
        ([change(ASKS, 0.5, 0.8), change(MAKES, 0.5, 0.2)], -211.0, False),
        ([change(ASKS, 0.5, 0.8), change(MAKES, 0.5, 0.2)], 2_000.0, True),  # of a mean of 1 ms
        ([change(ASKS, 0.5, 0.8), change(BOTH, 0.5, 0.2)], 0.0, True),  # fewer calls
        ([change(ASKS, 0.5, 0.8)], 0.0, True),  # nobody knows what came instead
        ([change(MAKES, 0.0, 0.2, ChangeKind.NEW_PATH), change(ASKS, 1.0, 0.8)], 0.0, True),
        ([change(ASKS, 0.0, 0.2, ChangeKind.ERRORS)], 0.0, True),
    ],
)
def test_paths_with_as_many_calls_that_take_no_time_have_none(
    changes: list[Change], part_ns: float, expected: bool
) -> None:
    cause = Cause(changes[0], 0, "shop", tuple(changes), 0.1)
    assert has_effect(cause, part_ns, context_of(NAMES, mean_ns=1e6)) is expected


@pytest.mark.parametrize(("suspect", "better"), [("", True), ("db", False)])
def test_what_is_cut_short_by_a_callee_is_no_improvement(suspect: str, better: bool) -> None:
    faster = change(NO_PATTERN, 0.5, 0.2, ChangeKind.FASTER)
    cause = Cause(faster, 0, "shop", (faster,), 0.1, suspect=suspect)
    assert is_better(cause, -2_000.0, NAMES) is better
