"""Requests and operations that only one period has: rows, and a finding where they fail."""

from __future__ import annotations

from oracles.compared_calls import compared
from oracles.refined import Call, call

from analyze.report.gate import FailOn, Floor, GateCode, Outcome, gate
from schemas.report.findings import FindingsSection
from schemas.report.kinds import KindsSection

REQUESTS = 400


def pages(n: int = REQUESTS) -> list[Call]:
    return [call("web/page", 0, 900 + at % 50, call("db/read", 10, 400 + at % 31)) for at in range(n)]


def fetches(n: int, failing: int) -> list[Call]:
    return [
        call("cdn/cache.fetch", 0, 300 + at % 9, status="refused" if at < failing else "ok")
        for at in range(n)
    ]


def sections(outcome: Outcome) -> list[KindsSection]:
    return [section for section in outcome.report.sections if isinstance(section, KindsSection)]


def titles(outcome: Outcome) -> list[str]:
    found = outcome.report.section(FindingsSection)
    return [finding.title.replace("\u00a0", " ") for finding in found.findings]


def rows(outcome: Outcome) -> list[tuple[str, str, str, int, float]]:
    kinds = [row for section in sections(outcome) for row in section.kinds]
    return [(row.state, row.what, row.name, row.requests, row.failing) for row in kinds]


def test_a_new_kind_that_always_fails_is_a_finding() -> None:
    outcome = compared(pages(), [*pages(), *fetches(80, 80)])
    assert titles(outcome) == ["new: cdn/cache.fetch, 80 requests, all fail"]
    assert rows(outcome) == [("new", "root", "cdn/cache.fetch", 80, 1.0)]
    assert gate(outcome, FailOn(frozenset({"errors"})), Floor()).code is GateCode.CHANGED


def test_few_of_many_requests_are_enough() -> None:
    outcome = compared(pages(560), [*pages(560), *fetches(20, 15)])
    assert titles(outcome) == ["new: cdn/cache.fetch, 20 requests, 75 % of them fail"]


def test_a_new_kind_that_works_is_a_row_and_no_failure() -> None:
    outcome = compared(pages(), [*pages(), *fetches(80, 0)])
    assert not titles(outcome)
    assert rows(outcome) == [("new", "root", "cdn/cache.fetch", 80, 0.0)]


def test_what_is_gone_is_a_row_with_the_most_that_may_be_left() -> None:
    outcome = compared([*pages(), *fetches(80, 0)], pages())
    assert rows(outcome) == [("gone", "root", "cdn/cache.fetch", 80, 0.0)]
    assert sections(outcome)[0].kinds[0].most_share == 3 / REQUESTS


def test_a_new_operation_is_listed_and_not_what_it_calls() -> None:
    asked = [
        call("web/page", 0, 950 + at % 50, call("ads/pick", 10, 300, call("ads-db/get", 20, 200)))
        for at in range(60)
    ]
    assert ("new", "operation", "ads/pick -> ads-db", 60, 0.0) in rows(compared(pages(), [*pages(), *asked]))
    assert not [row for row in rows(compared(pages(), [*pages(), *asked])) if row[2] == "ads-db/get"]


def test_what_both_periods_have_is_no_kind() -> None:
    assert not rows(compared([*pages(), *fetches(5, 5)], [*pages(), *fetches(80, 80)]))
