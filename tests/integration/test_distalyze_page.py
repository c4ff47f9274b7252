"""DISTALYZER from the command line to page, terminal and JSON: periods, slow against fast, filters."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fixtures.chromium_pages import fits, loaded
from oracles.devtools import Tab
from oracles.hbase import hbase
from rich.console import Console

from analyze.compare import compare
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.methods.port import Chosen
from analyze.methods.registry import method_of
from analyze.report.gate import Outcome
from analyze.report.page import render_html
from analyze.report.terminal import print_report
from flowdiff.__main__ import main
from schemas.report.networks import DistalyzeSection
from schemas.report.report import from_json, to_json

HOSTILE = '<script>alert(1)</script>"&[red]'


def flowdiff(*arguments: str) -> int:
    """Exit code of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """The HBase case with a name that tries to break out."""
    whole = hbase(0, 2_000)
    (one,) = whole.categories
    nodes = tuple(
        node._replace(component=HOSTILE) if node.component == "regionserver" else node
        for node in one.graph.nodes
    )
    named = replace(whole, categories=(replace(one, graph=replace(one.graph, nodes=nodes)),))
    return compare(named, [Chosen(method_of("distalyze"), DistalyzeSettings())])


@pytest.fixture(scope="module")
def page(outcome: Outcome) -> str:
    return render_html(outcome.report, outcome.views)


@pytest.mark.browser
def test_the_page_loads_alone_and_without_complaint(tab: Tab, page: str) -> None:
    dom = loaded(tab, page)
    assert 'id="distalyze"' in dom
    assert 'id="dc1"' in dom
    assert dom.count('<svg class="graph network') >= 2
    assert dom.count('<svg class="spread"') >= 5
    assert dom.count("<script") == 1
    assert "&lt;script&gt;alert(1)" in dom


@pytest.mark.browser
def test_the_page_fits_the_window(tab: Tab, page: str, tmp_path: Path) -> None:
    told = fits(tab, page, (1385, 385), tmp_path)
    for found in told.values():
        assert found["over"] <= 0
        assert found["unreached"] == found["covered"] == 0


def test_a_terminal_of_80_columns(outcome: Outcome) -> None:
    out = io.StringIO()
    print_report(outcome.report, outcome.views, Console(file=out, width=80, force_terminal=False))
    text = out.getvalue()
    assert max(len(line) for line in text.splitlines()) <= 80
    told = " ".join(text.split())
    # Of a duration and the event at its end, the duration leads.
    assert told.startswith("Look first at client/HTable.get_lookup after client/HTable.get: 55 µs → 997 ms")
    assert "Just before: client/HTable.get reached" in told
    assert HOSTILE in told  # as text, no markup obeyed


def test_json_is_the_model(outcome: Outcome) -> None:
    read = from_json(to_json(outcome.report), [DistalyzeSection])
    assert read == outcome.report
    assert read.section(DistalyzeSection).components


PERIODS = ("--reference", "2022-08-23T16:55/10m", "--problem", "2022-08-23T15:10/5m")


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("distalyze") / "lake"
    traces = [
        str(shared_data / "online-boutique" / f"{name}.otlp.jsonl.gz")
        for name in ("before", "after-recommendation-delay")
    ]
    assert flowdiff("import", *traces, "--lake", str(folder)) == 0
    return str(folder)


def test_a_delay_between_two_real_periods(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The labelled service is in the first component, whose chain begins there; the lake keeps tables."""
    assert flowdiff("compare", "--lake", lake, *PERIODS, "--method", "distalyze") == 1
    out = capsys.readouterr().out
    folder = Path(out.rsplit("Report: ", 1)[1].strip()).parent
    found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    first = found["sections"][0]["components"][0]
    start = first["variables"][first["chain"][-1]]
    assert "recommendationservice" in start["component"] + start["what"]
    assert start["after"] > start["before"]
    features = pq.read_table(folder / "distalyze_features.parquet")
    assert features.num_rows == found["sections"][0]["features"]
    assert (folder / "distalyze_dependencies.parquet").exists()


def test_slow_against_fast_in_one_period(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--sample", "one=2022-08-23T15:10/5m", "--method", "distalyze", "--fail-on", "never")
    assert flowdiff("compare", "--lake", lake, *asked, "--no-save", "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    section = found["sections"][0]
    assert (section["class0"], section["class1"]) == ("fast", "slow")
    assert section["studies"]
    assert all(study["mean1_us"] > study["mean0_us"] for study in section["studies"])


def test_two_filters_of_one_period(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    period = "2022-08-23T15:10/5m"
    asked = ("--reference", period, "--problem", period, "--method", "distalyze", "--fail-on", "never")
    filters = ("--reference-where", "duration < 100ms", "--problem-where", "duration > 400ms")
    assert flowdiff("compare", "--lake", lake, *asked, *filters, "--no-save", "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sections"][0]["class1"] == "problem"
