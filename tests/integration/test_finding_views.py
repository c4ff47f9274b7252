"""Findings of a comparison lead to other analyses of their requests: every command that is printed runs."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.robust_report import robust_outcome

from analyze.methods.registry import method_names
from analyze.report.page import render_html
from flowdiff.__main__ import main
from flowdiff.cli.finding_views import Compared, requests_of, shell_line, with_views
from schemas.periods import parse_period
from schemas.report.findings import ChangeKind, Finding, FindingsSection, Member
from schemas.report.report import content_id

PERIODS = ("--reference", "2022-08-23T16:55/10m", "--problem", "2022-08-23T15:10/5m")
COMPARED = Compared(
    "some lake", {"reference": ("a/b",), "problem": ("c/d", "e/f")}, {"reference": "", "problem": "x = 1"}
)


def flowdiff(*arguments: str) -> int:
    """Exit code of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("views") / "a lake"
    traces = [
        str(shared_data / "online-boutique" / f"{name}.otlp.jsonl.gz")
        for name in ("before", "after-recommendation-delay")
    ]
    assert flowdiff("import", *traces, "--lake", str(folder)) == 0
    return str(folder)


def findings(file: Path) -> list[dict[str, Any]]:
    sections = json.loads(file.read_text(encoding="utf-8"))["sections"]
    return next(section["findings"] for section in sections if section["section"] == "findings")


def test_every_command_runs_and_a_page_beside_is_linked(
    lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("compare", "-v", "--lake", lake, *PERIODS, "--where", "root like '%'", "--fail-on", "never")
    assert flowdiff(*asked, "--json", str(tmp_path / "first.json")) == 0
    out = capsys.readouterr().out
    first = findings(tmp_path / "first.json")
    views = {tuple(view["arguments"]): view for finding in first for view in finding["views"]}
    assert {view["method"] for view in first[0]["views"]} == {
        "flow",
        *({"distalyze", "variance", "browse"} & {*method_names()}),
    }
    for finding in first:
        (line,) = (line for line in out.splitlines() if line.endswith(finding["views"][0]["command"]))
        assert line.startswith("   flowdiff flow ")
    for arguments, view in views.items():
        assert shlex.split(view["command"]) == ["flowdiff", *arguments]
        assert view["page"] is None
        if view["method"] == "flow":
            assert flowdiff(*arguments) == 0
            continue
        kept = () if view["method"] == "browse" else ("--no-save",)
        assert flowdiff(*arguments, *kept, "--json", str(tmp_path / "view.json")) == 0
        found = json.loads((tmp_path / "view.json").read_text(encoding="utf-8"))
        assert [sample["name"] for sample in found["samples"]] == ["reference", "problem"]
        assert all(sample["requests"] > 0 for sample in found["samples"])
    capsys.readouterr()
    # Now a page of one of them lies beside the report's.
    assert flowdiff(*asked, "--json", str(tmp_path / "second.json")) == 0
    page = Path(capsys.readouterr().out.rsplit("Report: ", 1)[1].strip())
    again = findings(tmp_path / "second.json")
    linked = [view for finding in again for view in finding["views"] if view["page"] is not None]
    assert {view["method"] for view in linked} == {"browse"}
    assert all((page.parent / view["page"]).resolve().is_file() for view in linked)
    assert f'<a href="{linked[0]["page"]}">browse</a>' in page.read_text(encoding="utf-8")
    one, two = (
        json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8")) for name in ("first", "second")
    )
    assert one["id"] == two["id"] == page.parent.name


def test_a_method_that_is_not_there_gives_no_link() -> None:
    outcome = robust_outcome()
    some = with_views(outcome, COMPARED, ["browse", "paper"]).report.section(FindingsSection)
    assert {view.method for finding in some.findings for view in finding.views} == {"flow", "browse"}
    none = with_views(outcome, COMPARED, ["paper"]).report.section(FindingsSection)
    assert {view.method for finding in none.findings for view in finding.views} == {"flow"}
    assert with_views(outcome, None, method_names()) == outcome


def test_the_id_is_that_of_the_content_and_the_page_has_a_row() -> None:
    outcome = robust_outcome()
    more = with_views(outcome, COMPARED, method_names())
    assert more.report.id == outcome.report.id
    assert content_id(more.report) == content_id(outcome.report)
    page = render_html(more.report, more.views)
    assert page.count("<summary>Look further, with other analyses</summary>") == len(
        more.report.section(FindingsSection).findings
    )
    assert "<summary>Look further, with other analyses</summary>" not in render_html(
        outcome.report, outcome.views
    )
    flow, view, *_ = more.report.section(FindingsSection).findings[0].views
    assert flow.arguments[-2:] == ("--lake", "some lake")
    assert view.arguments[1:9] == (
        *("--lake", "some lake", "--reference", "a/b"),
        *("--problem", "c/d", "--problem", "e/f"),
    )


def finding(kind: ChangeKind, place: str, roots: list[str], total: int | None = None) -> Finding:
    """One of a report with other names; `place` is a component, or a caller and whom it calls."""
    one = robust_outcome().report.section(FindingsSection).findings[0]
    members = tuple(Member(category="0", root=root, requests0=1, requests1=1) for root in roots)
    component, arrow, callee = place.partition(" -> ")
    site = one.site.model_copy(update={"component": component, "operation": f"GET{arrow}{callee}"})
    return one.model_copy(
        update={
            "kind": kind,
            "site": site,
            "members": members,
            "members_total": len(members) if total is None else total,
        }
    )


@pytest.mark.parametrize(
    ("kind", "place", "roots", "total", "told"),
    [
        (ChangeKind.SLOWER, "db", ["a/x", "a/x"], None, "root = 'a/x' and component = 'db'"),
        (ChangeKind.SLOWER, "web -> db", ["a/x"], None, "root = 'a/x' and component = 'db'"),
        (ChangeKind.SLOWER, "web -> db+cache", [], None, "component = 'web'"),
        (ChangeKind.ERRORS, "web -> db", [], None, "component = 'web'"),
        (ChangeKind.NEW_PATH, "db", ["a/x", "b's"], None, "root in ('a/x', 'b''s')"),
        (ChangeKind.ERRORS, "h1/db", ["a/x"], 9, ""),
        (ChangeKind.ERRORS, "db\u202e", ["a\x00"], None, ""),
        (ChangeKind.SLOWER, "db", [f"r{i}" for i in range(6)], None, "component = 'db'"),
    ],
)
def test_the_filter_of_a_finding(
    kind: ChangeKind, place: str, roots: list[str], total: int | None, told: str
) -> None:
    text = requests_of(finding(kind, place, roots, total))
    assert text == told
    if text:
        assert parse_period("all", now_ns=0, where=text).where is not None


@given(st.lists(st.text(st.characters(exclude_categories=("Cs", "Cc"))), max_size=4))
def test_a_line_is_read_by_a_shell_as_it_was_meant(words: list[str]) -> None:
    assert shlex.split(shell_line(words)) == words


def test_a_filter_of_one_period_stays_its_own() -> None:
    outcome = robust_outcome()
    told = with_views(outcome, replace(COMPARED, where={"reference": "", "problem": ""}), ["browse"])
    for one in told.report.section(FindingsSection).findings:
        narrow = requests_of(one)
        assert ("--where" in one.views[1].arguments) == bool(narrow)
        assert one.views[1].arguments[-1] == (narrow or "e/f")
