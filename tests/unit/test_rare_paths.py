"""What no single call pattern shows: numbers of calls, children in many patterns, patterns never seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluation.made_cases import page
from oracles.refined import T0, Call, call, population

from analyze.methods.robust.changes import Change
from analyze.methods.robust.robust_run import RobustRun, robust_run
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from schemas.report.findings import ChangeKind

HOUR_NS = 3_600 * 10**9


def run(before: list[Call], after: list[Call], *without: str) -> RobustRun:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 10**12)
        for at, name in enumerate(("reference", "problem"))
    )
    return robust_run(
        replace(population(before, after), samples=samples), None, RobustSettings(without=without)
    )


def only(found: RobustRun) -> Change:
    (group,) = found.causes
    return group.lead


@pytest.mark.parametrize(("before", "after"), [(5, 8), (8, 5)])
def test_more_calls_within_a_power_of_two_are_found(before: int, after: int) -> None:
    found = run([page(*["item"] * before)] * 40, [page(*["item"] * after)] * 40)
    lead = only(found)
    assert lead.kind is (ChangeKind.MORE_CALLS if after > before else ChangeKind.FEWER_CALLS)
    assert (lead.before, lead.after) == pytest.approx((before, after))
    assert found.profile.names.operation(lead.site).text == "shop/item"


def test_calls_over_a_power_of_two_are_told_by_the_pattern_alone() -> None:
    found = run([page(*["item"] * 4)] * 40, [page(*["item"] * 8)] * 40)
    assert only(found).kind in (ChangeKind.NEW_PATH, ChangeKind.PATH)
    assert all(change.kind is not ChangeKind.MORE_CALLS for change in found.tested.changes)


def page_of_lists(lists: int) -> Call:
    """A page that asks for lists, one after the other; each asks a store three times."""
    found = []
    for at in range(lists):
        start = 10 + 500 * at
        stored = [call("store/get", start + 10 + 120 * n, start + 110 + 120 * n) for n in range(3)]
        found.append(call("shop/list", start, start + 400, *stored))
    return call("web/page", 0, 20 + 500 * lists, *found)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (5, 8), (3, 1)])
def test_what_is_called_from_a_loop_that_turns_more_often_is_no_finding_of_its_own(
    before: int, after: int
) -> None:
    found = run([page_of_lists(before)] * 40, [page_of_lists(after)] * 40)
    lead = only(found)
    assert lead.pattern >= 0 or found.profile.names.operation(lead.site).text == "shop/list"
    told = {found.profile.names.operation(change.site).text for change in found.tested.changes}
    assert "store/get" not in told


@pytest.mark.parametrize("points", [("shop/item",), ("shop/item", "shop/part")])
def test_operations_that_call_themselves_or_each_other_do_not_explain_themselves_away(
    points: tuple[str, ...],
) -> None:
    """A chain of calls gets longer: of every second or every call of it there are more."""

    def chain(left: int, start: int) -> list[Call]:
        if not left:
            return []
        name = points[left % len(points)]
        return [call(name, start, start + 40 * left, *chain(left - 1, start + 10))]

    before, after = ([call("web/page", 0, 2_000, *chain(n, 10))] * 40 for n in (10, 16))
    changes = run(before, after).tested.changes
    assert any(change.kind is ChangeKind.MORE_CALLS for change in changes)


def test_a_loop_within_a_loop_is_told_where_it_turns_more_often() -> None:
    """The outer by a fifth, the inner three times: the inner is not what the outer explains."""

    def pages(lists: int, gets: int) -> list[Call]:
        found = []
        for at in range(lists):
            start = 10 + 900 * at
            stored = [call("store/get", start + 10 + 50 * n, start + 40 + 50 * n) for n in range(gets)]
            found.append(call("shop/list", start, start + 850, *stored))
        return [call("web/page", 0, 20 + 900 * lists, *found)] * 40

    found = run(pages(5, 5), pages(6, 7))
    calls = [c for c in found.tested.changes if found.profile.names.operation(c.site).text == "store/get"]
    assert [(change.before, change.after) for change in calls] == [pytest.approx((25, 42))]


@pytest.mark.parametrize("alike", [True, False])
def test_three_new_patterns_of_forty_are_found(alike: bool) -> None:
    """Where each is of its own, the path that all took before is taken by fewer."""
    new = [page("item", "fallback")] * 3 if alike else [page("item", f"fallback-{at}") for at in range(3)]
    found = run([page("item")] * 1_000, [*[page("item")] * 37, *new])
    lead = only(found)
    assert lead.kind is (ChangeKind.NEW_PATH if alike else ChangeKind.PATH)
    assert abs(lead.after - lead.before) == pytest.approx(3 / 40)


def test_where_patterns_are_many_some_unseen_ones_are_nothing() -> None:
    """Size: every request may be of a pattern of its own, in both periods."""
    rng = np.random.default_rng(2)

    def pages() -> list[Call]:
        return [page("head", *[f"part-{rng.integers(2_000)}"]) for _ in range(100)]

    found = run(pages(), pages())
    assert not found.causes


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_found_where_nothing_changed(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def pages() -> list[Call]:
        return [page("head", *["item"] * int(rng.integers(1, 9))) for _ in range(120)]

    assert not run(pages(), pages()).causes


def test_what_cannot_differ_is_no_test_among_the_others() -> None:
    """Each test raises what the others must show: where there is one path, or no failure, there is none."""
    found = run([page("item")] * 40, [page("item", "cart")] * 40)
    tested = found.tested.seen.observed
    names = found.profile.names
    paths = tested["call-pattern"]
    operations = {names.operation(at).text for at in paths.site[paths.tested].tolist()}
    assert operations == {"web/page"}
    assert not tested["failing-calls"].tested.any()
