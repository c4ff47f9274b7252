"""The robust report's sections: page, terminal, JSON and tables of one made by hand."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from oracles.page_reader import Reader, assert_inert
from oracles.robust_report import (
    N0,
    account_section,
    failing_products,
    findings_section,
    robust_outcome,
    second_store,
    site,
    slow_recommendations,
    verdict_section,
)
from oracles.robust_report import account as made_account
from oracles.shop import HOSTILE
from pydantic import BaseModel
from rich.console import Console

from analyze.methods.robust.kind_words import KIND_WORDS
from analyze.methods.robust.sections import breakdown
from analyze.methods.robust.sections import findings as finding_words
from analyze.methods.robust.sections import verdict as verdict_words
from analyze.methods.robust.sections.finding_rows import finding_tables
from analyze.report.gate import FINDING_KINDS, Outcome, weigh
from analyze.report.page import render_html
from analyze.report.terminal import print_blocks, print_report
from schemas.errors import ConfigError
from schemas.report.accounts import AccountSection, Reason, ReasonKind, VerdictSection
from schemas.report.findings import ChangeKind, FindingsSection, Interval
from schemas.report.parts import Section
from schemas.report.report import Report, content_id, from_json, to_json
from schemas.report.report_tables import REPORT_TABLES
from schemas.trace_urls import parse_trace_url

SECTIONS = (VerdictSection, AccountSection, FindingsSection)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return robust_outcome()


@pytest.fixture(scope="module")
def page(outcome: Outcome) -> str:
    return render_html(outcome.report, outcome.views)


def told(outcome: Outcome, report: Report, width: int = 80) -> str:
    out = StringIO()
    print_report(report, outcome.views, Console(file=out, width=width, color_system=None))
    return out.getvalue()


def with_section(report: Report, section: Section) -> Report:
    """The same report, its section of that type replaced."""
    mine = section.model_copy(update={"method": "robust"})
    return report.model_copy(
        update={"sections": tuple(mine if type(s) is type(mine) else s for s in report.sections)}
    )


def hostile(value: Any) -> Any:
    """A model in which every free text is hostile; closed words stay what they are."""
    if isinstance(value, BaseModel):
        closed = {
            "section",
            "what",
            "reason",
            "kind",
            "unit",
            "measure",
            "outcome",
            "only",
            "sample",
            "side",
            "category",
        }
        return type(value).model_validate(
            {name: part if name in closed else hostile(part) for name, part in value}
        )
    if isinstance(value, tuple):
        return tuple(hostile(part) for part in value)
    return f"{HOSTILE}\x1b[31m\u202e{value}" if type(value) is str else value


def test_page_is_well_formed_and_inert(page: str):
    seen = assert_inert(page)
    ids = [attrs["id"] for _, attrs in seen.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = {(attrs["href"] or "")[1:] for tag, attrs in seen.tags if tag == "a"}
    assert links <= set(ids)
    assert {"f1", "f2", "f3"} <= links | set(ids)


def test_every_label_refers_to_something(page: str):
    seen = Reader(page)
    ids = {attrs["id"] for _, attrs in seen.tags if "id" in attrs}
    assert {attrs["aria-labelledby"] for _, attrs in seen.tags if "aria-labelledby" in attrs} <= ids


def test_hostile_texts_stay_text(outcome: Outcome):
    sections = tuple(hostile(section) for section in outcome.report.sections)
    report = outcome.report.model_copy(update={"sections": sections})
    page = render_html(report, outcome.views)
    seen = assert_inert(page)
    assert not any(tag == "b" and attrs for tag, attrs in seen.tags)
    assert "\u202e" not in page.split('<script type="application/json"')[0]
    text = told(outcome, report)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_sections_come_in_the_order_in_which_they_are_read(page: str):
    text = " ".join(Reader(page).text)
    places = [
        text.index(words)
        for words in (
            "Sampling fell from",
            "Mean response time rose",
            "Mean, slow and failed requests rose",
            "Where the change came from",
            "ListRecommendations of recommendationservice takes",
            "GetProduct of productcatalogservice fails",
            "Everything else",
        )
    ]
    assert places == sorted(places)


def test_a_card_says_what_where_how_much_how_sure_and_whom(page: str):
    start = page.index('id="f2"')
    card = " ".join(" ".join(Reader(page[start : page.index("</article>", start)], whole=False).text).split())
    for part in (
        "fails",
        "productcatalogservice",
        "from 3 callers",
        "0.1\u00a0%",
        "12\u00a0%",
        "+11 to +13\u00a0points",
        "10 to 16\u00a0%",
        "q < 1e-12",
        "3,174",
        "OLJCESPC7Z",
        "a3ce929d0e0e47364bf92f3577b34da6",
        "retries",
    ):
        assert " ".join(part.split()) in card, part


def test_no_key_of_a_category_is_in_sight(outcome: Outcome, page: str):
    """Keys stand in the folded table of paths only; not in titles, steps or the terminal."""
    keys = {m.category for f in findings_section().findings for m in f.members}
    keys |= {f.account.category0 for f in findings_section().findings if f.account is not None}
    shown = re.sub(r"<details class=\"more\"><summary>Paths.*?</details>", "", page, flags=re.S)
    shown = shown.split('<script type="application/json"')[0]
    assert not [key for key in keys if key[:10] in shown]
    assert not [key for key in keys if key[:10] in told(outcome, outcome.report)]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_terminal_fits_its_width_and_is_short(outcome: Outcome, width: int):
    lines = told(outcome, outcome.report, width).splitlines()
    assert max(map(len, lines)) <= width
    if width >= 80:
        assert len(lines) <= 51


def test_terminal_tells_places_where_no_finding_does(outcome: Outcome):
    section = account_section()
    rows = tuple(row.model_copy(update={"finding": None}) for row in section.accounts[0].rows)
    account = section.accounts[0].model_copy(update={"rows": rows})
    report = with_section(outcome.report, section.model_copy(update={"accounts": (account,)}))
    text = told(outcome, report)
    assert "redis-cart-2/HGETALL" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("width", [60, 80])
def test_terminal_cuts_no_number_of_a_place(width: int):
    rows = [
        (
            site("a-component-of-a-long-name", f"AnOperationOfALongName#{at}"),
            "root",
            2e-6,
            -0.000_3,
            part,
            None,
        )
        for at, part in enumerate((0.22, 0.023, 0.018))
    ]
    slow = made_account("tail", "share", 0.05, 0.05, rows, [], threshold_us=618_000.0)
    out = StringIO()
    one = account_section().model_copy(update={"accounts": (slow,)})
    print_blocks(breakdown.breakdown_blocks(one), Console(file=out, width=width, color_system=None))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    places = [line for line in lines if "…" in line]
    assert len(places) >= 3
    assert all(re.search(r"…[^ ]* +\+?−?[0-9.]+\u00a0points", line) for line in places)
    assert all("…" not in line.partition("…")[2] for line in places)


def test_what_follows_is_told_apart_on_the_terminal(outcome: Outcome):
    text = " ".join(told(outcome, outcome.report, 120).split())
    assert "instead of 5.2: retries; 12 % of PlaceOrder" in text


def test_a_finding_says_what_its_share_is_of(outcome: Outcome, page: str):
    share = finding_words.share_sentence(slow_recommendations()).replace("\u00a0", " ")
    assert share == "82 % (78 to 86 %) of all that got slower"
    assert share in " ".join(told(outcome, outcome.report).replace("\u00a0", " ").split())
    assert share in " ".join(Reader(page).text).replace("\u00a0", " ")
    faster = slow_recommendations().model_copy(update={"contribution_us": -5_000.0})
    assert finding_words.share_sentence(faster).endswith("of all that got faster")
    other_way = faster.model_copy(update={"share_of_change": None})
    assert finding_words.part_sentence(other_way).replace("\u00a0", " ") == "−5 ms on the mean"


def test_a_share_that_cannot_be_told_is_said_so_where_the_time_stands(outcome: Outcome):
    """The verdict says it of all findings; who reads a finding alone must not take its time for a part."""
    found = slow_recommendations().model_copy(update={"share_of_change": None, "share_estimate": None})
    why = "the change of the mean is not significant"
    section = findings_section().model_copy(update={"findings": (found,), "findings_total": 1})
    for mean, times in ((Interval(low=-15_900.0, high=22_800.0), 1), (None, 0)):
        told_so = section.model_copy(update={"insignificant_mean": mean})
        report = with_section(outcome.report, told_so)
        page = " ".join(
            " ".join(Reader(render_html(report, outcome.views)).text).replace("\u00a0", " ").split()
        )
        assert page.count(why) == times
        assert " ".join(told(outcome, report).replace("\u00a0", " ").split()).count(why) == times
        assert from_json(to_json(report), SECTIONS) == report
    sure = finding_words.part_unknown(found, Interval(low=-142_000.0, high=-99_000.0))
    assert sure == "the change of the mean may be chance"  # at the level asked for
    unmoved = found.model_copy(update={"contribution_us": 0.0})
    assert finding_words.part_unknown(unmoved, Interval(low=-1.0, high=1.0)) == ""


def test_what_was_not_tested_is_said_to_be_so(outcome: Outcome):
    section = account_section()
    untested = {"low": None, "high": None, "changed": False}
    accounts = tuple(account.model_copy(update=untested) for account in section.accounts)
    report = with_section(outcome.report, section.model_copy(update={"accounts": accounts}))
    text = " ".join(Reader(render_html(report, outcome.views)).text)
    assert "not testable" in text
    assert "not significant" not in text
    assert from_json(to_json(report), SECTIONS) == report


def test_json_is_the_model(outcome: Outcome):
    assert from_json(to_json(outcome.report), SECTIONS) == outcome.report


def test_warnings_stand_above_the_headline(outcome: Outcome):
    text = told(outcome, outcome.report)
    assert text.startswith("! Sampling fell from")
    calm = verdict_section().model_copy(update={"quality": ()})
    assert told(outcome, with_section(outcome.report, calm)).startswith("Mean response time rose")


@pytest.mark.parametrize("result", verdict_words.OUTCOME)
def test_every_outcome_is_told(outcome: Outcome, result: str):
    section = verdict_section().model_copy(update={"outcome": result, "missing_requests": 4_200})
    report = with_section(outcome.report, section)
    page = render_html(report, outcome.views)
    assert verdict_words.OUTCOME[result] in " ".join(Reader(page).text)
    text = " ".join(told(outcome, report).split())
    assert "About 4,200 more requests" in text
    assert ("Smallest visible change" in text) == (result in ("unchanged", "cannot-tell", "not-explained"))


def test_every_kind_has_its_words():
    for kind in ChangeKind:
        assert KIND_WORDS[kind]


def test_a_report_without_findings_is_shown(outcome: Outcome):
    nothing = findings_section().model_copy(update={"findings": (), "findings_total": 0})
    report = with_section(outcome.report, nothing)
    assert "None." in " ".join(Reader(render_html(report, outcome.views)).text)
    assert "1." not in told(outcome, report).splitlines()[-3]


def test_lines_of_an_account_add_up():
    for account in account_section().accounts:
        for most in (0, 1, 3, 100):
            lines = breakdown.lines(account, most)
            assert sum(line.total for line in lines) == pytest.approx(
                account.after - account.before, rel=1e-9, abs=1e-12
            )


def test_tables_are_complete_and_add_up():
    sections = account_section()
    findings = (slow_recommendations(), failing_products(), second_store())
    tables = finding_tables(findings, sections.accounts)
    for name, table in tables.items():
        assert table.schema.equals(REPORT_TABLES[name].remove(0))
    assert tables["findings"]["rank"].to_pylist() == [1, 2, 3]
    assert tables["findings"]["share"].to_pylist() == pytest.approx([0.82, 0.13, 0.035])
    evidence = tables["evidence"].to_pylist()
    assert [(row["rank"], row["place"]) for row in evidence] == [
        *((1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1))
    ]
    assert [row["consequence_of"] for row in evidence[:5]] == [None, 1, None, 1, 2]
    assert [row["relation"] for row in evidence] == [
        e.relation for finding in findings for e in finding.evidence
    ]
    for account in sections.accounts:
        rows = [row for row in tables["account"].to_pylist() if row["measure"] == account.measure]
        assert sum(row["total"] for row in rows) == pytest.approx(account.after - account.before)
        assert all(
            row["calls"] + row["structure"] + row["slower"] + row["mix"] == pytest.approx(row["total"])
            for row in rows
        )


def test_the_share_of_a_finding_is_what_was_estimated():
    """An interval that ends at 1 has its middle below the estimate."""
    sure = slow_recommendations().model_copy(
        update={"share_of_change": Interval(low=0.6, high=1.0), "share_estimate": 0.95}
    )
    none = failing_products().model_copy(update={"share_of_change": None, "share_estimate": None})
    table = finding_tables((sure, none), ())["findings"]
    assert table.select(["share", "share_low", "share_high"]).to_pylist() == [
        {"share": 0.95, "share_low": 0.6, "share_high": 1.0},
        {"share": None, "share_low": None, "share_high": None},
    ]


def test_findings_weigh_by_kind_and_by_time():
    changed = [account for account in account_section().accounts if account.changed]
    weighed = weigh(findings_section().findings, verdict_section(), changed, N0)
    assert [(w.kind, w.us, w.sure) for w in weighed] == [
        ("response-time", 99_200.0 * N0, True),
        ("errors", None, True),
        ("structural", 3_900.0 * N0, True),
    ]


def test_request_ids_are_links_where_an_address_is_known(outcome: Outcome):
    request = findings_section().findings[0].examples[0].request_id
    odd = "a/b?c=<1>"
    first, *others = findings_section().findings
    example = first.examples[0].model_copy(update={"request_id": odd})
    section = FindingsSection(
        findings=(first.model_copy(update={"examples": (example, *first.examples)}), *others),
        findings_total=3,
    )
    report = with_section(outcome.report, section)
    plain = render_html(report, outcome.views)
    assert "https://jaeger" not in plain
    url = parse_trace_url("https://jaeger.example/trace/{trace_id}?x=1")
    page = render_html(report.model_copy(update={"trace_url": url}), outcome.views)
    assert f'<a href="https://jaeger.example/trace/{request}?x=1"' in page
    assert '<a href="https://jaeger.example/trace/a%2Fb%3Fc%3D%3C1%3E?x=1"' in page
    assert content_id(report.model_copy(update={"trace_url": url})) == content_id(report)


@pytest.mark.parametrize(
    "text", ["", "jaeger/{trace_id}", "https://jaeger/", "javascript:x{trace_id}", "http://[{trace_id}"]
)
def test_what_is_no_address_of_a_trace_is_refused(text: str):
    with pytest.raises(ConfigError, match="is not the address of a trace"):
        parse_trace_url(text)


def test_only_what_got_worse_is_shown_where_asked(outcome: Outcome):
    worse, fails, third = findings_section().findings
    better = worse.model_copy(update={"is_better": True, "title": "it got faster"})
    section = FindingsSection(findings=(better, fails, third), findings_total=9, better_total=2)
    assert "it got faster" in told(outcome, with_section(outcome.report, section))
    only = section.model_copy(update={"only": "worse"})
    shown = told(outcome, with_section(outcome.report, only))
    assert (
        "it got faster"
        not in render_html(with_section(outcome.report, only), outcome.views).partition("<script")[0]
    )
    assert "it got faster" not in shown
    assert "2 findings for the better are not shown, as asked." in shown
    assert "and 5 more findings" in shown


def test_what_moved_the_mean_is_shown_wherever_it_ranks(outcome: Outcome):
    small = findings_section().findings[0].model_copy(update={"contribution_us": 2.0})
    large = small.model_copy(update={"rank": 9, "title": "far faster", "contribution_us": -390.0})
    section = FindingsSection(findings=(*(small,) * 8, large), findings_total=25)
    shown = told(outcome, with_section(outcome.report, section))
    assert "9. far faster" in shown
    assert "and 20 more findings" in shown
    assert finding_words.foremost([1.0, 2.0, -9.0], 2) == [0, 2]
    assert finding_words.foremost([1.0, -9.0, 2.0], 2) == [0, 1]
    assert finding_words.foremost([1.0], 0) == finding_words.foremost([], 5) == []


def test_errors_beside_another_kind_weigh_as_errors_too():
    finding = failing_products().model_copy(update={"kind": ChangeKind.MORE_CALLS})
    weighed = weigh([finding], verdict_section(), (), 10.0)
    assert [(w.kind, w.us) for w in weighed] == [("structural", 158_000.0), ("errors", None)]


def test_what_cannot_be_told_leaves_every_kind_open():
    verdict = verdict_section().model_copy(update={"outcome": "cannot-tell"})
    weighed = weigh((), verdict, (), 1.0)
    assert {w.kind for w in weighed} == {*FINDING_KINDS}
    assert not any(w.sure for w in weighed)


def test_a_significant_measure_is_open_where_no_finding_weighs_as_it_does():
    """Findings without effect are not weighed, and one for the better does not account for a slower mean."""
    changed = verdict_section().model_copy(update={"outcome": "changed"})
    mean, _tail, errors = account_section().accounts
    slower = mean.model_copy(update={"before": 100.0, "after": 120.0})
    assert {w.kind for w in weigh((), changed, (slower,), 1.0)} == {"response-time", "structural", "workload"}
    finding = findings_section().findings[0].model_copy(update={"evidence": ()})
    faster = finding.model_copy(
        update={"kind": ChangeKind.FASTER, "contribution_us": -1.0, "is_better": True}
    )
    assert [w for w in weigh([faster], changed, (slower,), 1.0) if not (w.sure or w.better)]
    worse = finding.model_copy(update={"kind": ChangeKind.SLOWER, "contribution_us": 1.0})
    assert all(w.sure for w in weigh([worse], changed, (slower,), 1.0))
    failing = errors.model_copy(update={"before": 0.0, "after": 0.1})
    assert {w.kind for w in weigh([worse], changed, (slower, failing), 1.0) if not w.sure} == {"errors"}


def test_what_leaves_work_out_accounts_for_the_mean_that_fell_and_is_worse() -> None:
    changed = verdict_section().model_copy(update={"outcome": "changed"})
    fell = account_section().accounts[0].model_copy(update={"before": 120.0, "after": 100.0})
    cut = slow_recommendations().model_copy(
        update={"kind": ChangeKind.LOST_PATH, "contribution_us": -20.0, "evidence": (), "suspect": ""}
    )
    assert [(w.kind, w.better, w.sure) for w in weigh([cut], changed, (fell,), 1.0)] == [
        ("structural", False, True)
    ]


@pytest.mark.parametrize("outcome", ["changed", "not-explained"])
def test_a_mean_that_fell_and_nothing_explains_is_not_better_and_fewer_failures_are(outcome: str) -> None:
    """An empty answer comes early, too."""
    verdict = verdict_section().model_copy(update={"outcome": outcome})
    mean, _tail, errors = account_section().accounts
    fell = mean.model_copy(update={"before": 100.0, "after": 50.0})
    fewer = errors.model_copy(update={"before": 0.1, "after": 0.0})
    weighed = weigh((), verdict, (fell, fewer), 1.0)
    assert {(w.kind, w.better) for w in weighed if w.kind != "workload"} == {
        ("response-time", False),
        ("structural", False),
        ("errors", True),
    }


def test_another_mix_is_open_where_nothing_else_weighs():
    changed = verdict_section().model_copy(update={"outcome": "changed"})
    assert [(w.kind, w.sure) for w in weigh((), changed, (), 1.0, mix_changed=True)] == [("workload", False)]
    found = findings_section().findings
    assert all(w.sure for w in weigh(found, changed, (), 1.0, mix_changed=True))
    assert weigh((), changed, (), 1.0) == []


def test_a_change_without_a_cause_is_open_for_what_it_may_come_from():
    verdict = verdict_section().model_copy(update={"outcome": "not-explained"})
    mean, _tail, errors = account_section().accounts
    assert {w.kind for w in weigh((), verdict, (errors,), 1.0)} == {"errors"}
    timed = weigh((), verdict, (mean,), 2.0)
    assert {w.kind for w in timed} == {"response-time", "structural", "workload"}
    assert [w.us for w in timed] == pytest.approx([2 * (mean.after - mean.before)] * 3)
    assert [w.kind for w in weigh((), verdict, (), 1.0)] == ["workload"]


def test_the_account_is_folded_where_nothing_changed_by_test(outcome: Outcome):
    section = account_section()
    calm = tuple(account.model_copy(update={"changed": False}) for account in section.accounts)
    report = with_section(outcome.report, section.model_copy(update={"accounts": calm}))
    for shown, opened in ((outcome.report, 1), (report, 0)):
        page = render_html(shown, outcome.views)
        page = page[page.index('id="account"') : page.index('id="findings"')]
        measures = [
            attrs
            for tag, attrs in Reader(page, whole=False).tags
            if tag == "details" and "class" not in attrs
        ]
        assert len(measures) == 3
        assert sum("open" in attrs for attrs in measures) == opened


def test_a_number_that_is_missing_is_told_once():
    section = verdict_section().model_copy(update={"missing_requests": 55})
    told = Reason(kind=ReasonKind.TOO_FEW, text="About 55 more requests would tell.", requests=55)
    told_already = section.model_copy(update={"reasons": (told,)})
    assert any("55 more requests" in gap for gap in verdict_words.gaps(section))
    assert not any("55" in gap for gap in verdict_words.gaps(told_already))
