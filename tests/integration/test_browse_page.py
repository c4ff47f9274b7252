"""`flowdiff browse`: its page in a real browser with script and without, terminal, JSON, command."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from oracles.devtools import Tab
from oracles.hostile_period import hostile_period
from rich.console import Console

from analyze.compare import compare
from analyze.methods.browse.settings import BrowseSettings
from analyze.methods.port import Chosen
from analyze.methods.registry import method_of
from analyze.report.gate import Outcome
from analyze.report.page import render_html
from analyze.report.terminal import print_report
from flowdiff.__main__ import main
from schemas.report.browse import (
    BrowsePlacesSection,
    BrowseRangesSection,
    BrowseSchedulesSection,
    BrowseTimelineSection,
    BrowseVarianceSection,
)
from schemas.report.report import from_json, to_json

SECTIONS = (
    BrowseRangesSection,
    BrowseSchedulesSection,
    BrowseTimelineSection,
    BrowsePlacesSection,
    BrowseVarianceSection,
)
TABLES = ("roots", "categories", "sites")
ROWS = """[...document.querySelectorAll('{table} tbody tr')].map(
  row => [...row.cells].map(cell => cell.textContent.trim()).join(' | '))"""


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return compare(hostile_period(), [Chosen(method_of("browse"), BrowseSettings())])


@pytest.fixture(scope="module")
def page(outcome: Outcome, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("page") / "browse.html"
    file.write_text(render_html(outcome.report, outcome.views), encoding="utf-8")
    return file.as_uri()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize("dark", [True, False])
def test_the_page_loads_alone_fits_and_complains_of_nothing(
    tab: Tab, page: str, width: int, script: bool, dark: bool
) -> None:
    tab.open(page, script=script, width=width, dark=dark)
    assert tab.complaints == []
    assert [url for url in tab.asked if not url.endswith("favicon.ico")] == [page]
    tab.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert tab.run("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    unreached = """[...document.querySelectorAll('main *')].filter(e => e.scrollWidth > e.clientWidth + 1
      && e.clientWidth > 0 && e.tabIndex < 0 && /auto|scroll/.test(getComputedStyle(e).overflowX)).length"""
    assert tab.run(unreached) == 0


@pytest.mark.browser
def test_without_script_everything_is_there_but_the_choice(tab: Tab, page: str, outcome: Outcome) -> None:
    tab.open(page, script=False)
    ranges = outcome.report.section(BrowseRangesSection)
    assert tab.run("document.querySelector('.chooser').hidden")
    assert tab.run("document.querySelectorAll('[id^=range].inside').length") == len(ranges.ranges) == 3
    for number, one in enumerate(ranges.ranges, 1):
        assert len(tab.run(ROWS.format(table=f"#range{number}-categories"))) == len(one.categories)
        assert len(tab.run(ROWS.format(table=f"#range{number}-sites"))) == len(one.sites)
    assert tab.run("document.querySelectorAll('svg.train').length") == 4  # two categories, medoid and mean
    assert tab.run("document.querySelectorAll('svg.bar .waited').length") >= 4
    assert tab.run("document.querySelectorAll('svg.by-time').length") == 8  # four of each entry
    assert tab.run("document.querySelectorAll('svg.lanes').length") >= 2
    assert tab.run("document.querySelectorAll('#errors tbody tr').length") == 2
    assert tab.run("document.querySelectorAll('th button').length") == 0


@pytest.mark.browser
def test_a_chosen_range_says_what_the_page_says(tab: Tab, page: str, outcome: Outcome) -> None:
    """The script counts by bins what Python counted by requests: the same rows, word by word."""
    tab.open(page)
    ranges = outcome.report.section(BrowseRangesSection)
    for number, one in enumerate(ranges.ranges, 1):
        tab.run(f"document.querySelectorAll('.presets button')[{number - 1}].click()")
        for table in TABLES:
            told = tab.run(ROWS.format(table=f".chooser .of-{table}"))
            assert told == tab.run(ROWS.format(table=f"#range{number}-{table}"))
            assert told
        assert tab.run("document.querySelector('.chooser .filter code').textContent") == (
            one.where or "none: all requests"
        )
        assert f"({one.n:,})" in tab.run("document.querySelector('.chosen').textContent")
    assert tab.complaints == []


@pytest.mark.browser
def test_dragging_and_sliding_choose(tab: Tab, page: str) -> None:
    tab.open(page)
    box = tab.run(
        "(b => [b.left, b.top, b.width, b.height])"
        "(document.querySelector('svg.density').getBoundingClientRect())"
    )
    left, top, width, height = box
    tab.drag((left + 2, top + height / 2), (left + width / 2, top + height / 2))
    ends = "[...document.querySelectorAll('.chooser input')].map(one => Number(one.value))"
    first, past = tab.run(ends)
    assert first == 0
    bins = tab.run("Number(document.querySelector('input.to').max)")
    assert bins * 0.4 < past < bins * 0.6
    tab.run(
        "(one => { one.value = '0'; one.dispatchEvent(new Event('input')); })"
        "(document.querySelector('input.to'))"
    )
    assert tab.run(ends) == [0, 1]  # a range is never empty
    assert tab.complaints == []


@pytest.mark.browser
def test_a_table_is_sorted_by_a_column(tab: Tab, page: str) -> None:
    tab.open(page)
    column = "document.getElementById('sites')"
    values = f"[...{column}.tBodies[0].rows].map(row => row.cells[2].textContent)"
    tab.run(f"{column}.tHead.rows[0].cells[2].querySelector('button').click()")
    down = tab.run(values)
    tab.run(f"{column}.tHead.rows[0].cells[2].querySelector('button').click()")
    assert tab.run(values) == down[::-1] or len(set(down)) < len(down)
    sizes = {"ns": 1e-3, "µs": 1.0, "ms": 1e3, "s": 1e6}
    us = [float(text.split("\u00a0")[0]) * sizes[text.split("\u00a0")[1]] for text in down]
    assert us == sorted(us, reverse=True)
    assert len(us) > 2


@pytest.mark.browser
def test_hostile_names_run_nothing_even_without_the_policy(tab: Tab, page: str, tmp_path: Path) -> None:
    text = Path(page.removeprefix("file://")).read_text(encoding="utf-8")
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert bare != text
    file = tmp_path / "bare.html"
    file.write_text(bare, encoding="utf-8")
    tab.open(file.as_uri())
    assert tab.run("document.querySelectorAll('script').length") == 2
    assert tab.run("document.querySelectorAll('main img, main b b, main script').length") == 0
    assert "\x00" not in text
    assert "\u202e" not in text.replace("\\u202e", "").split('id="flowdiff-report"')[0]
    assert tab.complaints == []


@pytest.mark.browser
def test_the_policy_holds(tab: Tab, page: str, tmp_path: Path) -> None:
    """The checks above can fail: another script, a handler and an image are refused, and it is said."""
    text = Path(page.removeprefix("file://")).read_text(encoding="utf-8")
    file = tmp_path / "broken.html"
    added = "<main><script>document.title='run'</script><img src='x.png' onerror='document.title=1'>"
    file.write_text(text.replace("<main>", added), encoding="utf-8")
    tab.open(file.as_uri())
    assert len(tab.complaints) >= 2
    assert tab.run("document.title").startswith("flowdiff")


def test_a_terminal_of_80_columns(outcome: Outcome) -> None:
    out = io.StringIO()
    print_report(outcome.report, outcome.views, Console(file=out, width=80, force_terminal=False))
    assert max(len(line) for line in out.getvalue().splitlines()) <= 80
    told = " ".join(out.getvalue().split())
    assert "Mode 1, around" in told
    assert "Typical requests" in told
    assert "<script>alert(1)" in told  # as text
    assert not set("\x00\u202e") & set(told)


def test_json_is_the_model(outcome: Outcome) -> None:
    read = from_json(to_json(outcome.report), SECTIONS)
    assert read == outcome.report
    ranges = read.section(BrowseRangesSection)
    modes = [one for one in ranges.ranges if one.kind == "mode"]
    assert sum(one.n for one in modes) == sum(ranges.n) == 240
    assert read.section(BrowsePlacesSection).failed_inside == pytest.approx(
        sum(ranges.failed) / sum(ranges.weight)
    )


def test_the_command_on_real_traces(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def flowdiff(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert not ended.value.code
        return capsys.readouterr().out

    lake = str(tmp_path / "lake")
    trace = str(shared_data / "online-boutique" / "after-recommendation-delay.otlp.jsonl.gz")
    flowdiff("import", trace, "--lake", lake)
    out = flowdiff("browse", "--lake", lake, "--json", str(tmp_path / "report.json"))
    kept = Path(out.rsplit("Report: ", 1)[1].strip())
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    sections: dict[str, dict[str, Any]] = {one["section"]: one for one in report["sections"]}
    slow = [one for one in sections["browse-ranges"]["ranges"] if one["low_us"] > 3e5]
    sites = sections["browse-ranges"]["sites"]
    assert "recommendationservice" in sites[slow[0]["sites"][0]["place"]]["label"]
    # What a range says is what its filter finds.
    narrowed = flowdiff("browse", "--lake", lake, "--where", slow[0]["where"], "--json", "-", "--no-save")
    assert json.loads(narrowed)["samples"][0]["requests"] == slow[0]["n"]
    typical = sections["browse-schedules"]["requests"][0]["medoid"]
    assert typical["lanes"][0]["component"] == "frontend"
    drawn = flowdiff("flow", typical["request_id"], "--lake", lake)
    assert "frontend" in drawn
    rows = pq.read_table(kept.parent / "browse_categories.parquet")
    assert sum(rows["requests"].to_pylist()) == report["samples"][0]["requests"]
    shares = pq.read_table(kept.parent / "browse_sites.parquet")["share_of_time"].to_pylist()
    assert sum(shares) == pytest.approx(1, abs=1e-9)
