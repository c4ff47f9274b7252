"""Robust mode on fourteen requests: what must be found, and what nobody can tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.refined import Call, call, population
from oracles.robust_report import account_section
from oracles.span_events import T0

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.method import METHOD
from analyze.methods.robust.sections import breakdown
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.verdict.reasons import ExplainedShare, largest_rest, likely_place
from analyze.population import Sample
from analyze.report import wording
from schemas.events import EventKind
from schemas.report.accounts import AccountSection, VerdictSection
from schemas.report.findings import FindingsSection
from schemas.report.report import Report

SECOND_NS = 10**9
HOUR_NS = 3_600 * SECOND_NS


def requests(n: int, failing: int) -> list[Call]:
    """A page that reads; the read of the first `failing` times out, and the page with it."""
    words = ["timeout" if at < failing else "ok" for at in range(n)]
    return [
        call("web/get", 0, 1_000 + at % 7, call("db/read", 10, 900, status=word), status=word)
        for at, word in enumerate(words)
    ]


@pytest.mark.parametrize(("failing", "outcome"), [(12, "changed"), (1, "cannot-tell"), (0, "cannot-tell")])
def test_failing_requests_of_fourteen(failing: int, outcome: str) -> None:
    """None of fourteen may still be one of five: 0 to 22 points."""
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 14 * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    found = replace(population(requests(14, 0), requests(14, failing)), samples=samples)
    report = compare(found, [Chosen(METHOD, RobustSettings())]).report
    verdict, findings = report.section(VerdictSection), report.section(FindingsSection)
    assert verdict is not None
    assert findings is not None
    assert verdict.outcome == outcome
    assert bool(findings.findings) == (outcome == "changed")
    assert (verdict.missing_requests is not None) == (outcome == "cannot-tell")
    if findings.findings:
        assert findings.findings[0].site.text == "db/read"


def test_a_request_in_ten_years_is_compared() -> None:
    """A block of fifty such requests would be longer than times are."""
    ten_years_ns = 10 * 365 * 24 * HOUR_NS
    samples = tuple(
        Sample(name, "", start, start + ten_years_ns, ranges=((start, start + ten_years_ns),))
        for name, start in (("reference", T0 + HOUR_NS - ten_years_ns), ("problem", T0 + HOUR_NS))
    )
    found = replace(population(requests(1, 0), requests(1, 0)), samples=samples)
    report = compare(found, [Chosen(METHOD, RobustSettings())]).report
    verdict = report.section(VerdictSection)
    assert verdict is not None
    assert verdict.outcome == "cannot-tell"


def test_operations_of_one_component_that_fail_are_one_finding() -> None:
    """A shop whose pages each ask the stock for something else; all of it fails in half of the requests."""
    kinds = ("find", "book", "cancel")

    def pages(failing: bool) -> list[Call]:
        words = ["error" if failing and at % 2 else "ok" for at in range(120)]
        return [
            call(
                f"web/{kinds[at % 3]}",
                0,
                1_000 + at % 7,
                call(f"stock/{kinds[at % 3]}", 10, 900, status=word),
                status=word,
            )
            for at, word in enumerate(words)
        ]

    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 120 * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    found = replace(population(pages(False), pages(True)), samples=samples)
    findings = compare(found, [Chosen(METHOD, RobustSettings())]).report.section(FindingsSection)
    assert findings is not None
    (only,) = findings.findings
    assert only.site.component == "stock"
    assert only.affected1 == 60
    assert only.title.endswith("; the same at 2 other operations")


@pytest.mark.parametrize("is_new", [True, False])
def test_operations_of_one_component_that_call_the_same_besides_or_no_longer_are_one_finding(
    is_new: bool,
) -> None:
    """Every page of a shop asks for an audit in one of two periods; one operation also sends a mail."""
    kinds = ("find", "book", "cancel", "mail")

    def pages(audited: bool) -> list[Call]:
        made = []
        for at in range(160):
            kind = kinds[at % 4]
            more = [call("mailer/send", 500, 700)] if audited and kind == "mail" else []
            calls = [call("audit/log", 10, 20), *more] if audited else []
            shop = call(
                f"shop/{kind}", 5, 900, call("stock/get", 30, 400), *calls, kind=EventKind.SPAN_SERVER
            )
            made.append(call(f"web/{kind}", 0, 1_000 + at % 7, shop))
        return made

    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 160 * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    found = replace(population(pages(not is_new), pages(is_new)), samples=samples)
    findings = compare(found, [Chosen(METHOD, RobustSettings())]).report.section(FindingsSection)
    assert findings is not None
    titles = [finding.title.replace("\xa0", " ") for finding in findings.findings]
    assert len(titles) == 2
    (joined,) = [title for title in titles if title.endswith("; the same at 2 other operations")]
    assert ("also calls audit/log" in joined) == is_new
    assert ("stopped calling audit/log" in joined) == (not is_new)
    assert all("mailer" in title for title in titles if title != joined)


def made(n: int, seed: int, *, failing: int = 0) -> list[Call]:
    """Pages that read, for times that scatter; reads inside that fail make no page fail."""
    rng = np.random.default_rng(seed)
    took = 1_000 * np.exp(rng.normal(0, 0.2, n))
    return [
        call("web/get", 0, t + 10, call("db/read", 5, t, status="timeout" if at % 20 < failing else "ok"))
        for at, t in enumerate(took.tolist())
    ]


def compared(before: list[Call], after: list[Call], settings: RobustSettings) -> Report:
    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 600 * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    found = replace(population(before, after), samples=samples)
    return compare(found, [Chosen(METHOD, settings)]).report


@pytest.mark.parametrize(
    ("floors", "outcome"),
    [
        ({}, "unchanged"),
        ({"new_floor": 0.5, "pattern_floor": 0.6, "time_floor": 5.0}, "cannot-tell"),
        ({"new_floor": 0.5}, "cannot-tell"),
        ({"pattern_floor": 0.6}, "cannot-tell"),
        ({"min_z": 30.0}, "cannot-tell"),
    ],
)
def test_a_report_promises_no_more_than_its_tests_look_for(floors: dict[str, float], outcome: str) -> None:
    settings = RobustSettings(explained=0, paths=False, **floors)  # type: ignore[arg-type]
    verdict = compared(made(600, 1), made(600, 2), settings).section(VerdictSection)
    assert verdict is not None
    assert verdict.outcome == outcome
    (row,) = verdict.visible
    assert row.share is None or row.share >= settings.new_floor
    assert row.ratio is None or row.ratio >= 1 + settings.time_floor


def test_calls_that_fail_inside_of_requests_that_succeed_are_not_unchanged() -> None:
    """98 of 1,847 such requests stood in the breakdown beside "unchanged", exit 0."""
    lax = RobustSettings(explained=0, paths=False, new_floor=0.5, pattern_floor=0.6)
    report = compared(made(600, 1), made(600, 2, failing=1), lax)
    verdict, accounts = report.section(VerdictSection), report.section(AccountSection)
    assert verdict is not None
    assert accounts is not None
    assert [account.measure for account in accounts.accounts if account.changed] == ["errors"]
    assert verdict.outcome == "not-explained"
    assert "The share of requests with a failing call changed significantly" in verdict.reasons[0].text
    assert (verdict.reasons[0].kind, verdict.reasons[0].measure) == ("changed", "failing")


def test_a_component_that_waits_for_everybody_is_named_and_no_callee() -> None:
    """Each of its three calls takes longer, and who is called answers as before."""

    def pages(wait_us: float, seed: int) -> list[Call]:
        rng, found = np.random.default_rng(seed), []
        for _ in range(200):
            at, calls = 20.0, []
            for took, name in zip(
                rng.lognormal(np.log((400, 300, 500)), 0.2), ("cat", "cart", "ads"), strict=True
            ):
                end = at + took + wait_us * rng.lognormal(0, 0.2)
                calls.append(call(f"web/{name}Get", at, end, call(f"{name}/get", at + 10, at + 10 + took)))
                at = end + 10
            found.append(call("web/page", 0, at + 40, *calls))
        return found

    samples = tuple(
        Sample(name, "", T0 + at * HOUR_NS, T0 + at * HOUR_NS + 200 * SECOND_NS)
        for at, name in enumerate(("reference", "problem"))
    )
    found = replace(population(pages(20, 1), pages(1_500, 2)), samples=samples)
    findings = compare(found, [Chosen(METHOD, RobustSettings(paths=False))]).report.section(FindingsSection)
    assert findings is not None
    (finding,) = findings.findings
    assert finding.title.startswith("web waits longer for all that it calls: web/")
    assert finding.title.endswith("; the same at 2 other calls of web")
    assert not finding.suspect


def test_where_no_call_site_is_significant_the_component_with_most_of_the_change_is_named() -> None:
    mean = account_section().accounts[0]
    place = mean.rows[0].model_copy(update={"total": 0.8 * (mean.after - mean.before)})
    (reason,) = likely_place(mean.model_copy(update={"rows": (place,)}), 0.7)
    assert reason.text.startswith(
        f"Likely at {place.site.operation.partition(' -> ')[2] or place.site.component}: 80"
    )
    less = place.model_copy(update={"total": 0.6 * (mean.after - mean.before)})
    assert not [*likely_place(mean.model_copy(update={"rows": (less,)}), 0.7)]


def test_where_findings_leave_a_part_its_largest_places_are_named() -> None:
    mean = account_section().accounts[0]
    change = mean.after - mean.before
    parts = (("a", 0.05, None), ("b", 0.25, None), ("c", -0.1, None), ("b", 0.1, None), ("d", 0.6, 1))
    rows = tuple(
        mean.rows[0].model_copy(
            update={
                "site": mean.rows[0].site.model_copy(update={"component": component, "operation": "x"}),
                "total": part * change,
                "finding": finding,
            }
        )
        for component, part, finding in parts
    )
    whole = mean.model_copy(update={"rows": rows, "mix": 0.1 * change})
    found = ExplainedShare(0.6 * change, change, (0.5 * change, 1.5 * change))
    (reason,) = largest_rest(found, whole, 0.1)
    assert reason.text == (
        f"Largest other parts, without a finding: b/x ({wording.change(0.35 * change)}), "
        f"the mix of requests ({wording.change(0.1 * change)})."
    )
    assert not [*largest_rest(replace(found, found_us=0.95 * change), whole, 0.1)]
    assert not [*largest_rest(replace(found, significant=False), whole, 0.1)]


@pytest.mark.parametrize(
    ("points", "words"), [(0.2, "Failing more often +20"), (-0.2, "Failing less often −20")]
)
def test_failures_that_became_fewer_are_called_so(points: float, words: str) -> None:
    (errors,) = (one for one in account_section().accounts if one.measure == "errors")
    moved = errors.model_copy(update={"slower": points, "calls": 0.0, "structure": 0.0, "mix": 0.0})
    assert breakdown.parts(moved).startswith(words)
