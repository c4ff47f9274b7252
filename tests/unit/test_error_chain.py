"""An error deep down that is passed on and tried again: one finding, where it began first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evaluation.made_cases import failing_calls, order, remote, timed_out
from oracles.refined import Call, call, population
from oracles.span_events import T0

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.settings import RobustSettings
from analyze.population import Sample
from schemas.events import EventKind
from schemas.report.findings import ChangeKind, Finding, FindingsSection

N = 60


def request(at: int, failing: bool) -> Call:
    """Four components; where the store fails, the catalogue passes it on and the shop tries once more."""
    status = "timeout" if failing else "ok"
    tries = []
    for start in (20, 1_400) if failing else (20,):
        read = remote("catalogue/send", "store/read", start + 10, start + 1_100, status=status)
        tries.append(remote("shop/send", "catalogue/find", start, start + 1_200, read, status=status))
    end = tries[-1].end + 50
    listed = remote("web/send", "shop/list", 10, end, *tries, status=status)
    return call("web/get", 0, end + 20 + at % 9, listed, kind=EventKind.SPAN_SERVER, status=status)


def findings(reference: list[Call], problem: list[Call]) -> tuple[Finding, ...]:
    hour, second = 3_600 * 10**9, 10**9
    samples = tuple(
        Sample(name, "", T0 + at * hour, T0 + at * hour + N * second)
        for at, name in enumerate(("reference", "problem"))
    )
    found = replace(population(reference, problem), samples=samples)
    section = compare(found, [Chosen(METHOD, RobustSettings(paths=False))]).report.section(FindingsSection)
    assert section is not None
    return section.findings


@pytest.mark.parametrize("swapped", [False, True])
def test_an_error_passed_on_and_tried_again_is_one_finding(swapped: bool) -> None:
    fine = [request(at, failing=False) for at in range(N)]
    broken = [request(at, failing=at % 3 == 0) for at in range(N)]
    (finding,) = findings(*((broken, fine) if swapped else (fine, broken)))
    assert finding.kind is (ChangeKind.FEWER_ERRORS if swapped else ChangeKind.ERRORS)
    assert finding.site.component == "store"
    failing = {row.site.component for row in finding.evidence if row.kind is finding.kind}
    assert failing == {"store", "catalogue", "shop", "web"}
    assert any("shop" in text for text in finding.chain)
    assert (finding.affected0, finding.affected1) == ((20, 0) if swapped else (0, 20))


def test_who_makes_several_calls_fails_where_any_of_them_does() -> None:
    """None of the calls has the same requests as the caller; together they have all of them."""
    fine = [order(at, ()) for at in range(N)]
    found = findings(fine, [order(at, failing_calls(at, 4)) for at in range(N)])
    assert [finding.site.component for finding in found] == ["store"]
    assert found[0].title.replace("\xa0", " ").endswith("; the same at 2 other operations")
    assert any("shop/order fails" in text for text in found[0].chain)


def test_who_mostly_fails_by_its_own_fault_is_named_beside_a_call_that_fails() -> None:
    fine = [order(at, ()) for at in range(N)]
    broken = [order(at, ("price",) if at % 4 == 0 else (), own=at % 4 in (1, 2)) for at in range(N)]
    assert {finding.site.component for finding in findings(fine, broken)} == {"shop", "store"}


def test_what_is_done_after_a_failure_follows_from_it() -> None:
    fine = [order(at, ()) for at in range(N)]
    broken = [order(at, ("price",) if at % 5 else (), page_us=900.0) for at in range(N)]
    found = findings(fine, broken)
    assert found[0].site.component == "store"
    assert found[0].kind is ChangeKind.ERRORS


def test_of_few_failures_the_account_says_who_failed() -> None:
    """Only the caller's failures are enough for a test; each call's are too few."""
    fine = [order(at, ()) for at in range(N)]
    few = [order(at, failing_calls(at, 14)) for at in range(N)]
    found = findings(fine, few)
    assert found[0].kind is ChangeKind.ERRORS
    assert "store" in (found[0].site.component, found[0].suspect)


@pytest.mark.parametrize("share", [25, 60])
def test_a_call_that_times_out_fails_before_it_is_slow_and_before_others_are_called_less(share: int) -> None:
    """The slow requests are those that fail, and the cart is asked once, not three times, where they do."""

    fine = [timed_out(at, failing=False) for at in range(N)]
    broken = [timed_out(at, failing=at * 7 % 100 < share) for at in range(N)]
    (finding,) = findings(fine, broken)
    assert (finding.kind, finding.site.text) == (ChangeKind.ERRORS, "auth/check")
    assert {e.kind for e in finding.evidence} & {ChangeKind.TAIL, ChangeKind.SLOWER}
