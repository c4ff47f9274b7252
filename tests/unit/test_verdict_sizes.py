"""What may be called unchanged: the largest change that is possible, against the user's bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analyze.methods.robust.verdict.load import Arrivals, ExternalCause
from analyze.methods.robust.verdict.outcome import Outcome, outcome
from analyze.methods.robust.verdict.period_tests import Equivalence, PeriodTest, RootEquivalence
from analyze.methods.robust.verdict.sizes import Bounds, LargestChange, largest_change, size_for
from schemas.report.accounts import VisibleRow

OPEN = Equivalence((RootEquivalence("a/x", 1.0, 0.8, 1.2, False, 1.0, 9.0),), 0.05)
MEAN = PeriodTest("mean", None, 100.0, 104.0, -30.0, 38.0, 0.5, 5.0, False, False, 300.0, 300.0, 25.0, 30.0)
TAIL = PeriodTest("tail", 9.0, 0.05, 0.06, -0.03, 0.05, 0.5, 0.05, False, True, 300.0, 300.0, 0.05, 0.04)
ERRORS = PeriodTest("errors", None, 0.0, 0.0, -0.01, 0.01, 1.0, 0.001, False, True, 300.0, 300.0, 0.01, 0.01)
TESTS = (MEAN, TAIL, ERRORS)
ROOTS = (VisibleRow(root="a/x", requests0=290, requests1=290, ratio=1.5, share=0.03),)
OUTSIDE = ExternalCause(Arrivals(9, 1, 1), Arrivals(6, 1, 2), 0.0, True, True, "Clients sent less.")


def decide(tests: tuple[PeriodTest, ...] = TESTS, place: float | None = 0.4, **fields: object) -> Outcome:
    base: dict[str, object] = {
        "findings": 0,
        "explained": None,
        "tests": tests,
        "mix_changed": False,
        "equivalent": OPEN,
        "largest": largest_change(tests, ROOTS, place),
    }
    return outcome(**(base | fields))  # type: ignore[arg-type]


def test_the_sizes_are_the_far_ends_of_the_intervals() -> None:
    found = largest_change(TESTS, ROOTS, 0.4)
    assert found == LargestChange(mean=0.38, place=0.4, slow=0.05, errors=0.01, path=0.03)
    assert largest_change(TESTS, ROOTS, 0.4, hidden_paths=0.045).path == 0.045


@pytest.mark.parametrize(
    ("bounds", "word"),
    [
        (Bounds(), "unchanged"),
        (Bounds(time=0.4), "unchanged"),
        (Bounds(time=0.39), "cannot-tell"),
        (Bounds(share=0.05), "unchanged"),
        (Bounds(share=0.04), "cannot-tell"),
    ],
)
def test_the_users_bounds_decide(bounds: Bounds, word: str) -> None:
    assert decide(bounds=bounds).outcome == word


@pytest.mark.parametrize(
    "tests",
    [
        (replace(MEAN, after=130.0), TAIL, ERRORS),
        (MEAN, replace(TAIL, after=0.11), ERRORS),
        (MEAN, TAIL, replace(ERRORS, after=0.02)),
        (replace(MEAN, high=np.inf), TAIL, ERRORS),
    ],
    ids=["mean", "slow", "failing", "one request"],
)
def test_what_is_not_ordinary_is_not_called_unchanged(tests: tuple[PeriodTest, ...]) -> None:
    """However wide the bounds are."""
    assert decide(tests, bounds=Bounds(time=50, share=1)).outcome == "cannot-tell"


def test_places_that_nothing_tested_are_not_called_unchanged() -> None:
    assert decide(place=None).outcome == "cannot-tell"


def test_what_changed_by_test_never_passes() -> None:
    changed = replace(MEAN, after=120.0, changed=True)
    for more in ({}, {"by_load": "Load."}, {"torn": "Lost."}, {"places_share": 1.0}):
        assert decide((changed, TAIL, ERRORS), bounds=Bounds(50, 1), **more).outcome != "unchanged"


def test_load_is_said_to_be_load() -> None:
    found = decide(by_load="Requests meet twice the load.")
    assert found.outcome == "not-explained"
    assert found.by_load
    assert found.reasons[0] == "Requests meet twice the load."


def test_what_is_missing_may_be_what_changed() -> None:
    changed = replace(MEAN, after=120.0, changed=True)
    found = decide((changed, TAIL, ERRORS), torn="Events of the problem are missing.")
    assert found.outcome == "cannot-tell"
    assert found.reasons[0] == "Events of the problem are missing."


def test_steady_places_settle_a_mean_that_few_slow_requests_blur() -> None:
    unknown = largest_change(TESTS, (), None)
    found = decide(places_share=0.95, largest=unknown, external=OUTSIDE)
    assert found.outcome == "unchanged"
    assert found.external
    assert decide(places_share=0.85, largest=unknown, external=OUTSIDE).outcome == "cannot-tell"
    more_slow = replace(TAIL, settled=False)
    assert decide((MEAN, more_slow, ERRORS), places_share=0.95, largest=unknown).outcome == "cannot-tell"


def test_a_size_is_enough_for_nearly_all() -> None:
    assert size_for([1.0, 2.0, 9.0], [50, 40, 10]) == 2.0
    assert size_for([1.0, np.inf], [80, 20]) is None
    assert size_for([], []) is None


def test_clients_that_pause_are_told_where_no_change_that_matters_is_possible() -> None:
    found = decide(external=OUTSIDE)
    assert (found.outcome, found.external, found.reasons[0]) == ("unchanged", True, "Clients sent less.")
    assert not decide(external=replace(OUTSIDE, external=False, text="")).external
    # What may have changed unseen is no clients' matter.
    assert not decide(external=OUTSIDE, bounds=Bounds(time=0.1)).external
