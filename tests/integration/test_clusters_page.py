"""Clusters from the command line to page, terminal and JSON: two periods and one."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fixtures.chromium_pages import fits, loaded
from oracles.devtools import Tab
from oracles.two_changes import two_changes
from rich.console import Console

from analyze.compare import compare
from analyze.methods.clusters.settings import ClustersSettings
from analyze.methods.port import Chosen
from analyze.methods.registry import method_of
from analyze.report.gate import Outcome
from analyze.report.page import render_html
from analyze.report.terminal import print_report
from flowdiff.__main__ import main
from schemas.report.clusters import ClustersSection
from schemas.report.report import from_json, to_json

HOSTILE = '<script>alert(1)</script>"&[red]'


def flowdiff(*arguments: str) -> int:
    """Exit code of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """More READs miss; the cache's name tries to break out."""
    found = two_changes(1, 200, misses=(0.02, 0.5))
    named = tuple(
        replace(
            one,
            graph=replace(
                one.graph,
                nodes=tuple(
                    node._replace(component=HOSTILE) if node.component == "cache" else node
                    for node in one.graph.nodes
                ),
            ),
        )
        for one in found.categories
    )
    settings = ClustersSettings(refits=1, starts=2)
    return compare(replace(found, categories=named), [Chosen(method_of("clusters"), settings)])


@pytest.fixture(scope="module")
def page(outcome: Outcome) -> str:
    return render_html(outcome.report, outcome.views)


@pytest.mark.browser
def test_the_page_loads_alone_and_without_complaint(tab: Tab, page: str) -> None:
    dom = loaded(tab, page)
    assert 'id="clusters"' in dom
    assert dom.count('<tr class="only-b') >= 1
    assert dom.count("<script") == 1
    assert "&lt;script&gt;alert(1)" in dom


@pytest.mark.browser
def test_the_page_fits_the_window(tab: Tab, page: str, tmp_path: Path) -> None:
    told = fits(tab, page, (1385, 385), tmp_path)
    for found in told.values():
        assert found["over"] <= 0
        assert found["unreached"] == found["covered"] == 0


def test_one_node_is_marked_most(outcome: Outcome, page: str) -> None:
    """The overlay of the change stands first, open, and marks the way that only the problem takes."""
    first = page.split('<article class="part card"')[1]
    assert first.count(' most"') == 1
    assert '<tr class="only-b s4 most"' in first
    assert "<details open>" in first
    section = outcome.report.section(ClustersSection)
    assert page.count(' most"') == sum(row.first is not None for row in section.overlays)


def test_a_terminal_of_80_columns(outcome: Outcome) -> None:
    out = io.StringIO()
    print_report(outcome.report, outcome.views, Console(file=out, width=80, force_terminal=False))
    text = out.getvalue()
    assert max(len(line) for line in text.splitlines()) <= 80
    told = " ".join(text.split())
    assert "Look first at cluster" in told
    assert f"Paths part at {HOSTILE}/MISS" in told  # as text, no markup obeyed
    assert "Rand" not in told  # statistics are on the page, folded


def test_json_is_the_model(outcome: Outcome) -> None:
    read = from_json(to_json(outcome.report), [ClustersSection])
    assert read == outcome.report
    assert read.section(ClustersSection).clusters


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of the simulated storage service; on the second metadata go to the data node."""
    folder = tmp_path_factory.mktemp("clusters")
    told = ("simulate", "--workload", "postmark-large", "--requests", "400", "--workers", "1")
    assert flowdiff(*told, "--seed", "1", "--out", str(folder / "a.ndjson")) == 0
    later = ("--start", "2026-01-06T00:00:00Z", "--fault", "F1")
    assert flowdiff(*told, "--seed", "2", *later, "--out", str(folder / "b.ndjson")) == 0
    files = [str(folder / f"{name}.ndjson") for name in "ab"]
    assert flowdiff("import", *files, "--lake", str(folder / "lake")) == 0
    return folder / "lake"


def test_two_periods_by_the_command(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = ("--reference", "2026-01-05/1d", "--problem", "2026-01-06/1d")
    assert flowdiff("clusters", "--lake", str(lake), *days, "--set", "refits=1", "--set", "starts=3") == 0
    out = capsys.readouterr().out
    assert "its suspected origin" in out
    folder = Path(out.rsplit("Report: ", 1)[1].strip()).parent
    requests = pq.read_table(folder / "clusters_requests.parquet")
    assert requests.num_rows == 800
    section = from_json((folder / "report.json").read_text("utf-8"), [ClustersSection]).section(
        ClustersSection
    )
    assert sum(pq.read_table(folder / "clusters.parquet")["requests"].to_pylist()) == 800
    top = section.overlays[0]
    assert top.first is not None
    assert top.nodes[top.first].where in ("sn-data/sn", "sn-meta/sn")
    assert (folder / "report.html").stat().st_size < 5_000_000


def test_one_period_by_the_command(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--period", "2026-01-05/1d", "--clusters", "6", "--set", "refits=0", "--features", "counts")
    assert flowdiff("clusters", "--lake", str(lake), *asked, "--no-save", "--json", "-") == 0
    told = from_json(capsys.readouterr().out, [ClustersSection]).section(ClustersSection)
    assert told.clusters_total == 6
    assert told.chosen == "asked"
    assert {row.kind for row in told.overlays} <= {"nearest", "alone"}
