"""The report in a real browser: nothing asked for, nothing complained about, everything there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from fixtures.chromium_pages import fits, loaded, printed_pages, served, without_policy
from oracles.command_line import command
from oracles.devtools import Tab
from oracles.robust_report import robust_outcome
from oracles.shop import shop_outcome
from oracles.striped_reads import reads

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.variance.method import METHOD as VARIANCE
from analyze.methods.variance.settings import VarianceSettings
from analyze.report.page import render_html
from schemas.report.mutations import MutationsSection

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page() -> str:
    shown = shop_outcome()
    return render_html(shown.report, shown.views)


@pytest.fixture(scope="module")
def robust() -> str:
    shown = robust_outcome()
    return render_html(shown.report, shown.views)


@pytest.fixture(scope="module")
def variance() -> str:
    shown = compare(reads(samples=2, wilder=2.0), [Chosen(VARIANCE, VarianceSettings())])
    return render_html(shown.report, shown.views)


def flowdiff(*arguments: str) -> None:
    done = command(*arguments)
    assert done.code == 0, done.err


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of `make demo`, of fewer requests."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    flowdiff("demo", str(folder), "--requests", "3000")
    return folder / "report.html"


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of the storage service in paper mode: many mutations."""
    folder = tmp_path_factory.mktemp("paper")
    lake = str(folder / "lake")
    for day, seed, fault in (("18", "1", ()), ("19", "2", ("--fault", "F1-mds-config"))):
        file = str(folder / f"{day}.ndjson.gz")
        size = ("--requests", "1000", "--seed", seed, "--workers", "1")
        flowdiff("simulate", "--start", f"2026-11-{day}T09:00:00Z", *size, *fault, "--out", file)
        flowdiff("import", file, "--lake", lake)
    report = folder / "paper.html"
    flowdiff(
        *("compare", "--lake", lake, "--method", "paper", "--no-save"),
        *(
            "--reference",
            "2026-11-18",
            "--problem",
            "2026-11-19",
            "--fail-on",
            "never",
            "--html",
            str(report),
        ),
    )
    return report


def test_page_loads_alone_and_without_complaint(tab: Tab, page: str):
    dom = loaded(tab, page)
    for section in ("m1", "m2", "m3", "results", "all"):
        assert f'id="{section}"' in dom
    assert dom.count('<svg class="graph') >= 5
    assert dom.count("How long the response waited for each step") >= 3
    assert dom.count('<svg class="plot') >= 5
    assert dom.count('class="arrow slower"') >= 1


def test_robust_page_loads_alone_and_without_complaint(tab: Tab, robust: str):
    dom = loaded(tab, robust)
    for section in ("sure", "account", "findings", "f1", "f2", "f3"):
        assert f'id="{section}"' in dom
    assert dom.count('<td class="bar"') >= 20
    assert dom.count('<svg class="plot') == 1


def test_variance_page_loads_alone_and_without_complaint(tab: Tab, variance: str):
    dom = loaded(tab, variance)
    for section in ("variable", "variance", "places", "categories", "details"):
        assert f'id="{section}"' in dom
    assert dom.count('<svg class="plot cumulative"') == 1
    assert dom.count('<svg class="bar"') >= 10


def test_a_broken_page_would_be_noticed(tab: Tab, page: str):
    """The checks above can fail: a script and an image are refused by the policy, and the console says so."""
    injected = page.replace("<main>", '<main><script>document.title="run"</script><img src="/x.png">')
    with served(injected) as (address, asked):
        tab.open(address)
        assert len(tab.complaints) >= 2
    assert "/x.png" not in asked
    assert "<title>run</title>" not in tab.dom


def test_hostile_names_run_nothing_even_without_the_policy(tab: Tab, page: str, tmp_path: Path):
    """The names of the shop try to open an alert; without the policy, only escaping stops them."""
    bare = without_policy(page)
    assert bare != page
    file = tmp_path / "bare.html"
    file.write_text(bare, encoding="utf-8")
    tab.open(file.as_uri())
    dom = tab.dom
    assert tab.complaints == []
    assert dom.count("<script") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in dom


@pytest.fixture(scope="module")
def long_numbers(variance: str) -> str:
    """The page of what became more variable with the longest numbers that were seen there."""
    longest = {
        "Its variance": '×0.000307<span class="span">0.000015 to 0.0062</span>',
        "C²": "0.23 → 0.0098",
        "Deviation": "1.61\u00a0ms → 48.6\u00a0ms",
    }
    n = 0
    for label, told in longest.items():
        variance, found = re.subn(rf'(data-of="{label}">).*?</td>', rf"\g<1>{told}</td>", variance)
        n += found
    assert n
    return variance


WIDTHS = (1385, 1185, 685, 375)
"""As narrow as a scroll bar leaves them."""


@pytest.mark.parametrize("shown", ["page", "robust", "variance", "long_numbers"])
def test_page_fits_the_window_and_bars_share_one_axis(
    tab: Tab, tmp_path: Path, shown: str, request: pytest.FixtureRequest
) -> None:
    """Nothing but tables and graphs that scroll by themselves is wider than the window; all
    bars of one table lie under each other, and all that opens or scrolls is reached by keyboard.
    """
    told = fits(tab, request.getfixturevalue(shown), WIDTHS, tmp_path)
    for width, found in told.items():
        assert found.pop("width") == width
        assert found.pop("over") <= 0, width
        assert found == {"axes": 0, "unreached": 0, "covered": 0, "spilled": 0}, width


def test_print_of_a_robust_report_is_short(tab: Tab, robust: str, tmp_path: Path) -> None:
    report = tmp_path / "robust.html"
    report.write_text(robust, encoding="utf-8")
    assert 2 <= printed_pages(tab, report) <= 4


def sections_open(dom: str) -> dict[str, bool]:
    """Rank -> whether the details of the mutation are open."""
    found = re.findall(r"<details( open=\"\")?><summary class=\"title\"><h\d id=\"m(\d+)-title\"", dom)
    return {rank: bool(is_open) for is_open, rank in found}


def test_a_link_to_a_closed_mutation_opens_it(tab: Tab, paper: Path, tmp_path: Path) -> None:
    tab.open(paper.as_uri())
    plain = tab.dom
    last = max(sections_open(plain), key=int)
    again = shutil.copy(paper, tmp_path)  # of the page that it shows a browser loads nothing
    tab.open(f"{Path(again).as_uri()}#m{last}")
    linked = tab.dom
    assert not sections_open(plain)[last]
    assert sections_open(linked) == sections_open(plain) | {last: True}


def test_the_demo_names_the_change_and_the_parameter(demo: Path) -> None:
    """A query of the deployed version is slow for one warehouse."""
    page = demo.read_text(encoding="utf-8")
    first = page[page.index('id="f1"') : page.index("</article>")]
    said = " ".join(re.sub("<[^>]*>", " ", first.replace("<wbr>", "")).split())
    assert "inventory/SELECT stock calling pg-main.internal: slow" in said
    assert re.search("What differs warehouse is eu-2", said)


@pytest.mark.parametrize("mode", ["demo", "paper"])
def test_print_of_the_demo_is_short(
    tab: Tab, tmp_path: Path, mode: str, request: pytest.FixtureRequest
) -> None:
    assert 1 <= printed_pages(tab, request.getfixturevalue(mode)) <= 10


@pytest.fixture(scope="module")
def traces(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("traces") / "lake"
    flowdiff("import", str(shared_data / "online-boutique" / "*.otlp.jsonl.gz"), "--lake", str(lake))
    return lake


@pytest.mark.parametrize(
    ("problem", "method"),
    [("2022-08-23T12:10/5m", "paper"), ("2022-08-23T15:10/5m", "paper"), ("2022-08-23T12:10/5m", "robust")],
)
def test_print_of_a_comparison_of_real_traces_is_short(
    tab: Tab, traces: Path, tmp_path: Path, problem: str, method: str
) -> None:
    report = tmp_path / "report.html"
    flowdiff(
        *("compare", "--lake", str(traces), "--reference", "2022-08-23T16:55/10m", "--problem", problem),
        *("--no-save", "--fail-on", "never", "--html", str(report), "--method", method),
    )
    assert 1 <= printed_pages(tab, report) <= 10


def test_print_of_many_mutations_is_cut_and_says_so(tab: Tab, tmp_path: Path) -> None:
    shown = shop_outcome()
    section = shown.report.section(MutationsSection)
    first, listed = section.mutations[0], section.lists[0]
    brief = first.model_copy(update={"category": "0" * 32})
    ranks = tuple(range(1, 501))
    many = tuple((first if rank <= 40 else brief).model_copy(update={"rank": rank}) for rank in ranks)
    longer = section.model_copy(
        update={"mutations": many, "lists": (listed.model_copy(update={"ranks": ranks, "total": 500}),)}
    )
    sections = tuple(longer if s is section else s for s in shown.report.sections)
    page = render_html(shown.report.model_copy(update={"sections": sections}), shown.views)
    assert "and 475 more" in page
    report = tmp_path / "many.html"
    report.write_text(page, encoding="utf-8")
    assert printed_pages(tab, report) <= 10
