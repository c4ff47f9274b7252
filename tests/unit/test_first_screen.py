"""First screen: its verdict word, headline and numbers agree with each other."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from oracles.robust_report import robust_outcome
from rich.console import Console

from analyze.methods.robust.method import METHOD
from analyze.report.gate import FailOn, Floor, gate
from analyze.report.page import render_html
from analyze.report.section_view import views_by_tag
from analyze.report.terminal import print_report
from schemas.report.accounts import AccountSection
from schemas.report.explanations import ChangedIdentifier, Rule
from schemas.report.findings import ChangeKind, FindingsSection
from schemas.report.report import Report

OUTCOME = robust_outcome()
VIEWS = views_by_tag(METHOD.sections)


def changed(model: type[Any], update: dict[str, Any]) -> Report:
    """The report with a section of it changed."""
    report = OUTCOME.report
    sections = tuple(s.model_copy(update=update) if isinstance(s, model) else s for s in report.sections)
    return report.model_copy(update={"sections": sections})


def accounts(**means: float) -> dict[str, Any]:
    """Accounts of which the mean changed significantly from `before` to `after`; nothing else did."""
    found = OUTCOME.report.section(AccountSection).accounts
    return {
        "accounts": tuple(
            one.model_copy(
                update={"changed": one.measure == "mean", **(means if one.measure == "mean" else {})}
            )
            for one in found
        )
    }


def screen(report: Report) -> str:
    out = StringIO()
    assert not print_report(report, VIEWS, Console(file=out, width=200, color_system=None), whole=False)
    return out.getvalue().replace("\N{NO-BREAK SPACE}", " ")


def one_finding(**update: Any) -> dict[str, Any]:
    first = OUTCOME.report.section(FindingsSection).findings[0]
    return {"findings": (first.model_copy(update=update),), "findings_total": 1, "better_total": 0}


def test_a_finding_that_saves_time_is_no_cause_of_what_got_slower() -> None:
    report = changed(AccountSection, accounts(before=100.0, after=200.0))
    faster = one_finding(kind=ChangeKind.FASTER, contribution_us=-5.0, evidence=())
    sections = tuple(
        s.model_copy(update=faster) if isinstance(s, FindingsSection) else s for s in report.sections
    )
    lines = screen(report.model_copy(update={"sections": sections})).splitlines()
    first, *rest = lines[next(at for at, line in enumerate(lines) if line[0] in "✗✓?") :]
    title = faster["findings"][0].title.replace("\N{NO-BREAK SPACE}", " ")
    assert first.startswith("✗ SLOWER: no finding is the cause of it")
    assert title not in first
    assert any(title in line for line in rest)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (100.0, 200.0, "mean 100 µs → 200 µs (+100 %)"),
        (100.0, 100.0, "mean 100 µs (same)"),
        (0.0, 100.0, "mean 0 µs → 100 µs "),
    ],
)
def test_the_mean(before: float, after: float, told: str) -> None:
    assert told in screen(changed(AccountSection, accounts(before=before, after=after)))


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (50.0, "50 %: +50 µs of +100 µs on the mean"),
        (130.0, "all of it: +130 µs of +100 µs on the mean; all else together saved 30 µs"),
    ],
)
def test_a_part_can_be_divided_by_hand(part: float, told: str) -> None:
    report = changed(AccountSection, accounts(before=100.0, after=200.0))
    update = one_finding(contribution_us=part, kind=ChangeKind.SLOWER)
    sections = tuple(
        s.model_copy(update=update) if isinstance(s, FindingsSection) else s for s in report.sections
    )
    assert told in screen(report.model_copy(update={"sections": sections}))


def test_what_is_not_shown_explains_too() -> None:
    report = changed(FindingsSection, {"findings_total": 40})
    assert "has no finding" not in screen(report)


def test_escapes_and_markup_of_names_are_shown() -> None:
    name = "a\x1b[31m[bold]"
    said = screen(changed(FindingsSection, one_finding(title=name, suspect=name, kind=ChangeKind.ERRORS)))
    assert "\x1b" not in said
    assert said.count("[bold]") == 2


def test_a_gate_that_is_off_says_so() -> None:
    assert gate(OUTCOME, FailOn(frozenset()), Floor()).line == "gate: off (--fail-on never), exit 0"
    assert (
        gate(replace(OUTCOME, weighed=()), FailOn(), Floor()).line
        == "gate: PASS, exit 0; no finding makes it fail"
    )


def test_a_segment_is_not_said_to_fail_twice() -> None:
    """Its title begins with what the verdict word says."""
    account = OUTCOME.report.section(AccountSection).accounts
    failing = tuple(one.model_copy(update={"changed": False}) for one in account)
    title = "failing for tier = free: 3.1 %, was 0.4 %, in 10 operations of cart"
    found = one_finding(kind=ChangeKind.ERRORS, title=title, evidence=(), when=None, first_window_ns=None)
    report = changed(AccountSection, {"accounts": failing})
    sections = tuple(
        s.model_copy(update=found) if isinstance(s, FindingsSection) else s for s in report.sections
    )
    first = screen(report.model_copy(update={"sections": sections}))
    assert "✗ FAILING in the period from 09:00:00Z for tier = free: 3.1 %, was 0.4 %" in first


def test_what_changed_at_all_operations_has_no_place() -> None:
    first = OUTCOME.report.section(FindingsSection).findings[0]
    assert first.explanation is not None
    everywhere = ChangedIdentifier(where="", key="build.number", before="41", after="42")
    found = first.explanation.model_copy(update={"identifiers": (everywhere,)})
    report = changed(FindingsSection, one_finding(explanation=found))
    page = render_html(report, VIEWS).replace("<wbr>", "")
    assert '>build.number</strong>, <code class="code">41</code>' in page


@pytest.mark.parametrize("is_old", [False, True])
def test_the_first_screen_names_the_rule_of_the_sentence(is_old: bool) -> None:
    """A leaf below it holds for fewer; reports of before it was kept have leaves alone."""
    first = OUTCOME.report.section(FindingsSection).findings[0]
    assert first.explanation is not None
    leaf = Rule(conditions=("count > 106",), n_affected=9, n_others=0, purity=1.0, lift=2.0)
    best = leaf.model_copy(update={"conditions": ("count > 98",), "n_affected": 10})
    contrast = first.explanation.contrast.model_copy(update={"n_affected": 10, "n_others": 50})
    told = {"contrast": contrast, "reliable": True, "rules": (leaf,), "best": None if is_old else best}
    explained = first.explanation.model_copy(update=told)
    found = one_finding(kind=ChangeKind.SLOWER, contribution_us=90.0, explanation=explained)
    sections = tuple(
        s.model_copy(update=found) if isinstance(s, FindingsSection) else s
        for s in changed(AccountSection, accounts(before=100.0, after=200.0)).sections
    )
    said = " ".join(screen(OUTCOME.report.model_copy(update={"sections": sections})).split())
    assert ("count > 106 90 % of the affected" if is_old else "count > 98 100 % of the affected") in said
