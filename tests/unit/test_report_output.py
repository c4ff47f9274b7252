"""HTML page, terminal text, and files of a report."""

import hashlib
import json
import re
from base64 import b64encode
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from oracles.kept_reports import kept
from oracles.page_reader import Reader, assert_inert
from oracles.paper_report import SECTIONS, named, paper_outcome
from oracles.populations import constant_chain, population
from oracles.shop import HOSTILE, shop_outcome
from rich.console import Console

from analyze.report import wording
from analyze.report.gate import Outcome
from analyze.report.page import render_html
from analyze.report.terminal import print_report
from schemas.errors import LakeError
from schemas.report.mutations import Mutation, MutationsSection
from schemas.report.report import from_json


@pytest.fixture(scope="module")
def shop() -> Outcome:
    return shop_outcome()


@pytest.fixture(scope="module")
def page(shop: Outcome) -> str:
    return html(shop)


def html(outcome: Outcome) -> str:
    return render_html(outcome.report, outcome.views)


def told(outcome: Outcome, width: int = 120) -> str:
    out = StringIO()
    print_report(outcome.report, outcome.views, Console(file=out, width=width, color_system=None))
    return out.getvalue()


def mutations(outcome: Outcome) -> tuple[Mutation, ...]:
    return outcome.report.section(MutationsSection).mutations


def test_page_is_well_formed_and_inert(page: str):
    assert_inert(page)


def test_policy_forbids_everything_but_the_one_style_sheet(page: str):
    seen = Reader(page)
    policy = next(a["content"] for t, a in seen.tags if a.get("http-equiv") == "Content-Security-Policy")
    digest = b64encode(hashlib.sha256(seen.data["style"].encode()).digest()).decode()
    assert policy == (f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'")


def test_hostile_names_stay_text(page: str):
    seen = Reader(page)
    assert any(HOSTILE.split("/", 1)[1].rstrip(">")[:10] in text for text in seen.text)
    assert not any(tag == "b" and attrs for tag, attrs in seen.tags)
    assert page.count("<script") == 1
    assert page.count("</script") == 1
    assert "Clock of host <b> is" in "".join(seen.text)


def test_embedded_json_is_the_report(page: str, shop: Outcome):
    assert from_json(Reader(page).data["script"], SECTIONS) == shop.report


def test_every_link_has_its_target(page: str):
    seen = Reader(page)
    ids = [attrs["id"] for _, attrs in seen.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [attrs["href"] for tag, attrs in seen.tags if tag == "a"]
    assert {link[1:] for link in links if link} <= set(ids)
    assert {"m1", "m2", "m3"} <= set(ids)


def test_page_shows_what_was_found(page: str, shop: Outcome):
    text = " ".join("".join(Reader(page).text).split())
    assert shop.report.headline.sentence.replace("\u00a0", " ") in text.replace("\u00a0", " ")
    assert "recommendationservice/ListRecommendations>" in text
    assert "service.version = '<v2>'" in text
    assert "Before you trust it" in text


def test_page_is_deterministic(page: str):
    assert html(shop_outcome()) == page


def test_page_without_mutations():
    quiet = population(constant_chain(("a", "b"), 40, 40, 100, 100))
    got = paper_outcome(quiet)
    text = "".join(Reader(html(got)).text)
    assert "No mutation" in text
    assert "cannot say how small a change" in text


@pytest.mark.parametrize("width", [80, 100, 120])
def test_terminal_fits_its_width(shop: Outcome, width: int):
    text = told(shop, width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "2 structural mutations and 1 response-time mutation found." in text
    assert "timing" in text
    for m in mutations(shop):
        assert f" {wording.short(m.category)} " in text
    assert f"(stored as {wording.short(mutations(shop)[0].stored[0])})" in " ".join(text.split())
    for m in mutations(shop):
        assert f"{m.before.count} → {m.after.count} " in text
        assert wording.change(m.contribution_us) in text


def test_terminal_clips_long_names_and_no_numbers():
    long = population(constant_chain(("frontend/" + "x" * 200, "b"), 100_000, 300_000, 100, 100))
    got = paper_outcome(long)
    text = told(got, 80)
    line = next(row for row in text.splitlines() if row.startswith("1 structure"))
    assert len(line) <= 80
    assert f"{wording.count(100_000)} → {wording.count(300_000)}" in line
    assert re.search("front.*…x+ ", line)
    assert "Contribution" in text
    assert "Share" not in text


def test_a_mutation_that_costs_nothing_is_neither_more_nor_less():
    p = population(
        constant_chain(("r", "a"), 80, 0, 2000, 0),
        constant_chain(("r", "b"), 0, 80, 0, 2000),
        constant_chain(("x", "y"), 40, 40, 1000, 500),
    )
    got = paper_outcome(p)
    text = told(got, 120)
    assert "Takes more time" not in text
    assert "±0" in text
    assert "Takes more time" not in html(got)


def test_page_names_stored_categories(page: str, shop: Outcome):
    seen = Reader(page)
    titles = {attrs.get("title") for tag, attrs in seen.tags if tag == "code"}
    for m in mutations(shop):
        assert m.stored[0] in titles
        assert all(row.stored[0] in titles for row in m.precursors)


def test_terminal_prints_markup_of_names_as_text():
    p = population(constant_chain(("[red]x[/red]", "b"), 1, 90, 100, 100))
    got = paper_outcome(named(p, "[bold]", "y"))
    text = told(got, 120)
    assert "[red]x[/red]" in text
    assert "[bold]" in text


def test_control_characters_in_names_are_shown_and_not_obeyed():
    name = "svc\x1b[2J\x07\n\u202egnp"
    p = population(constant_chain((f"{name}/op", "b", "c"), 1, 90, 100, 100))
    got = paper_outcome(p)
    text = told(got, 120)
    page = html(got)
    visible_part = page[: page.index('<script type="application/json"')]
    for shown in (text, visible_part):
        assert "svc\u241b[2J\u2407\u240a\ufffdgnp/op" in shown
        assert not set(shown) & {"\x1b", "\x07", "\u202e"}


def test_report_folder_is_whole_and_kept(tmp_path: Path):
    outcome = shop_outcome()
    folder = kept(tmp_path, outcome, html(outcome))
    assert folder == tmp_path / "reports" / outcome.report.id
    assert sorted(p.name.partition("-")[0] for p in folder.iterdir()) == [
        "SHA256SUMS",
        "categories.parquet",
        "edges.parquet",
        "mutations.parquet",
        "precursors.parquet",
        "report.html",
        "report.json",
        "requests.parquet",
    ]
    assert json.loads((folder / "report.json").read_text())["id"] == outcome.report.id
    assert pq.read_table(folder / "mutations.parquet").equals(outcome.tables["mutations"])
    before = {p: p.stat().st_mtime_ns for p in folder.iterdir()}
    assert kept(tmp_path, outcome, html(outcome)) == folder
    assert {p: p.stat().st_mtime_ns for p in folder.iterdir()} == before
    assert [p.name for p in (tmp_path / "reports").iterdir()] == [folder.name]


def test_report_that_cannot_be_written_says_so(tmp_path: Path):
    (tmp_path / "reports").write_text("a file where the folder should be")
    with pytest.raises(LakeError, match="cannot be written"):
        kept(tmp_path, shop_outcome(), "")
