"""Titles of findings and reports: plain words, and nothing that no test supports."""

from __future__ import annotations

from dataclasses import replace

import pytest
from oracles.robust_report import account_section, findings_section, verdict_section

from analyze.methods.robust.changes import Change
from analyze.methods.robust.titles import headline_of, title
from analyze.methods.robust.verdict.assertions import one_sum, unsupported
from analyze.profile.names import NO_CALLER, Child, Names, OperationName, SiteKind, SiteName
from analyze.report.gate import ChangedMeasure
from analyze.report.wording import NBSP
from schemas.report.findings import ChangeKind, Interval

NAMES = Names(
    operations=(
        OperationName("checkout", "shop.Checkout/Place"),
        OperationName("checkout", "shop.Pay/Charge", "payment"),
        OperationName("checkout", "shop.Checkout/Ship"),
    ),
    sites=(SiteName(NO_CALLER, 0, SiteKind.CALL),),
    patterns=((), (Child(1, 1, True),), (Child(2, 4, True),)),
    paths=(),
    roots=("checkout/shop.Checkout/Place",),
)


def change(kind: ChangeKind, before: float, after: float, pattern: int = -1) -> Change:
    return Change(
        kind=kind, site=0, p=0.0, z=9.0, unit="share", before=before, after=after, low=0.1, high=0.2,
        n0=9, n1=9, contribution_ns=0.0, pattern=pattern,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lead", "other", "said"),
    [
        (change(ChangeKind.LOST_PATH, 0.87, 0.0, pattern=1), None,
         "stopped calling only payment/shop.Pay/Charge (was 87 % of its requests)"),
        (change(ChangeKind.LOST_PATH, 0.87, 0.03, pattern=1), None,
         "calls only payment/shop.Pay/Charge in 3.0 % of its requests, was 87 %"),
        (change(ChangeKind.NEW_PATH, 0.0, 0.2, pattern=2), None,
         "calls only 3–4 x …/Ship in 20 % of its requests, was 0 %"),
        (change(ChangeKind.NEW_PATH, 0.0, 0.9, pattern=0), change(ChangeKind.LOST_PATH, 0.9, 0.0, pattern=1),
         "stopped calling payment/shop.Pay/Charge in 90 % of its requests"),
        (change(ChangeKind.PATH, 0.2, 0.9, pattern=2), change(ChangeKind.PATH, 0.8, 0.1, pattern=1),
         "calls 3–4 x …/Ship instead of payment/shop.Pay/Charge in 90 % of its requests, was 20 %"),
        (change(ChangeKind.LOST_PATH, 0.4, 0.0, pattern=0), None,
         "stopped calling nothing (was 40 % of its requests)"),
    ],
)  # fmt: skip
def test_a_path_is_named_by_operations_in_plain_words(lead: Change, other: Change | None, said: str) -> None:
    told = title(lead, [lead, *([] if other is None else [other])], NAMES).replace(NBSP, " ")
    assert told == f"checkout/shop.Checkout/Place {said}"


@pytest.mark.parametrize(
    ("callee", "unrecorded", "said"),
    [
        ("cart", {}, "web/GET calling cart: between the two 9 µs pass, was 2 µs"),
        ("", {0: "redis"}, "web/GET calling redis: the call takes 9 µs, was 2 µs"),
        ("", {}, "web/GET: its own time is 9 µs, was 2 µs"),
    ],
)
def test_the_time_of_a_call_is_said_to_be_between_both_sides_only_where_both_are_recorded(
    callee: str, unrecorded: dict[int, str], said: str
) -> None:
    names = replace(NAMES, operations=(OperationName("web", "GET", callee),), unrecorded=unrecorded)
    slower = replace(change(ChangeKind.SLOWER, 2.0, 9.0), unit="us")
    assert title(slower, [slower], names).replace(NBSP, " ") == said


@pytest.mark.parametrize(
    ("after", "said"), [(0.0, "no longer fails (was 30\xa0% of its requests)"), (0.1, "fails in 10\xa0%")]
)
def test_what_stopped_failing_does_not_fail_in_none(after: float, said: str) -> None:
    less = change(ChangeKind.FEWER_ERRORS, 0.3, after)
    assert said in title(less, [less], NAMES)


def test_the_title_of_a_report_is_what_a_test_supports() -> None:
    verdict, found = verdict_section(), findings_section().findings
    mean = account_section().accounts[0]
    assert mean.changed
    slow, failing, fewer = (
        ChangedMeasure("tail", 0.05, 0.2),
        ChangedMeasure("errors", 0.0, 0.1),
        ChangedMeasure("errors", 0.1, 0.0),
    )
    told = headline_of(verdict, mean, (slow, failing), found)
    assert told.startswith("Requests with a failing call rose from")
    assert "; mean response time rose from" in told
    assert headline_of(verdict, mean, (slow, fewer), found).startswith("Mean response time rose from")
    still = mean.model_copy(update={"changed": False})
    told = headline_of(verdict, still, (), found)
    assert told.startswith(f"{found[0].title}; and 2 more findings; the mean response time did not change")
    told = headline_of(verdict, still, (slow, failing), found)
    assert told.startswith(f"{found[0].title}; and 2 more findings; requests with a failing call rose from")
    assert headline_of(verdict, still, (failing,), ()).startswith("Requests with a failing call rose")
    unchanged = verdict.model_copy(update={"outcome": "unchanged"})
    told = headline_of(unchanged, still, (), ())
    assert told.startswith("Nothing changed significantly: mean response time")
    assert "rose" not in told


def test_a_mean_that_fell_by_an_early_answer_is_no_good_news() -> None:
    verdict, mean = verdict_section(), account_section().accounts[0]
    fell = mean.model_copy(update={"before": mean.after, "after": mean.before})
    cut, other = (
        finding.model_copy(update={"contribution_us": us})
        for finding, us in zip(findings_section().findings, (-90_000.0, 5_000.0), strict=False)
    )
    told = headline_of(verdict, fell, (), (other, cut))
    assert told.startswith(f"{cut.title}; mean response time fell from")
    better = cut.model_copy(update={"is_better": True})
    assert headline_of(verdict, fell, (), (other, better)).startswith("Mean response time fell from")
    assert headline_of(verdict, mean, (), (cut, other)).startswith("Mean response time rose from")
    failing = ChangedMeasure("errors", 0.0, 0.1)
    assert headline_of(verdict, fell, (failing,), (cut,)).startswith("Requests with a failing call rose")


def test_a_title_without_a_test_is_found() -> None:
    found = findings_section().findings
    assert not list(unsupported(found))
    wide = found[0].model_copy(update={"change": Interval(low=-1.0, high=found[0].change.high)})
    away = found[0].model_copy(update={"change": Interval(low=-2.0, high=-1.0)})
    assert len(list(unsupported([wide, away, *found[1:]]))) == 2


def test_findings_and_breakdown_that_are_not_one_sum_are_found() -> None:
    mean, found = account_section().accounts[0], findings_section().findings
    left = mean.after - mean.before - sum(finding.contribution_us for finding in found)
    assert not list(one_sum(mean, found, left))
    assert len(list(one_sum(mean, found, left + 1.0))) == 1
    assert len(list(one_sum(mean, found[:1], left + sum(f.contribution_us for f in found[1:])))) == 1
