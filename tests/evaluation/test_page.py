"""The page says what the figures say."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from evaluation.cases import CASES, PUBLISHED, Target, case_of
from evaluation.finding_sections import LISTED_FROM, findings_table, recordings_tables
from evaluation.page import write_page
from evaluation.plots import line_plot
from evaluation.recordings.verdicts import totals
from evaluation.sections import fit_table, misses
from evaluation.store import Store
from evaluation.summary import Table, mean, means
from evaluation.tiers import FULL, SHORT, trials

from simulator.output import RunFormat


def row(mode: str, sm: str, **changes: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "mode": mode,
        "sm": sm,
        "threshold": 4,
        "results": 8,
        "relevant": 6,
        "top10_pct": 75.0,
        "false_positive_pct": 25.0,
        "coverage_pct": 88.0,
        "first_rank": 2,
        "explained_error_points": None,
        "seconds": 0.25,
    }
    return {**plain, **changes}


def trial(case: str, seed: int = 1, **changes: Any) -> dict[str, Any]:
    rows = [row("ceiling", "scaled"), *(row("paper/text", sm, **changes) for sm in ("10", "50", "scaled"))]
    return {
        "case": case,
        "seed": seed,
        "traced": SHORT.size(case_of(case)),
        "told_as": "native",
        "windows": 1,
        "excluded": {"LOST": [3, 4]},
        "rows": rows,
    }


def test_means_show_the_range_and_what_is_missing() -> None:
    assert mean([1.0, None, 3.0]).text() == "2 (1…3)"
    assert mean([2.0, 2.0]).text() == "2"
    assert mean([None, None]).text() == "–"
    assert mean([1.0, None, 3.0]).missing == 1


def test_a_missed_target_tells_by_how_much() -> None:
    target = Target(top10_pct=100, false_positive_pct=30, coverage_pct=90, first_rank=1)
    missed = misses(target, means([row("m", "50"), row("m", "50", coverage_pct=92.0)]))
    assert missed == [("top 10", 75.0, 100, 25.0), ("rank", 2.0, 1, 1.0)]
    nothing = misses(target, means([row("m", "50", first_rank=None)]))
    assert ("rank", None, 1, None) in nothing


def test_the_fit_names_what_is_out_of_tolerance() -> None:
    figures = {"categories": 100, "large_pct": 20.0, "in_large_pct": 95.0, "low_variance_pct": 90.0}
    rest = {"max_c2": 1.0, "nodes_mean": 2.0, "nodes_sd": 3.0, "requests": 1000}
    measured = {**figures, **rest, "categories": 130, "large_pct": 29.0}
    text = fit_table(
        [
            {
                "workload": "w",
                "measured": measured,
                "paper": {**figures, **rest},
                "kernel_categories": 131,
                "current": False,
            }
        ]
    )
    assert "| w | categories | 130 | 100 | ± 25 | no, by 5.0 |" in text
    assert "| w | large categories, % | 29 | 20.0 | ± 10 | yes |" in text
    assert "have changed since for w" in text


def test_the_page_is_written_from_the_figures_alone(tmp_path: Path) -> None:
    content = {
        "tier": "short",
        "sample": 0.5,
        "traced": SHORT.traced,
        "sources": "abc",
        "fit": [],
        "trials": [
            trial("8.2"),
            trial("8.6-500", coverage_pct=61.0),
            trial("A/A"),
            trial("A/A", 2, results=9),
        ],
    }
    write_page(content, tmp_path)
    page = (tmp_path / "evaluation.md").read_text(encoding="utf-8")
    assert "| **8.2** MDS configuration | paper | 50 | 128 | 100 | 2 | 70 | – | – | – |" in page
    assert "|  | paper/text | 4 | 8 | 75 | 25 | 61 | 2 | – | 0.25 |" in page
    assert "| A/A: nothing changed | 8.5 (8.0…9.0) |" in page
    assert "2 A/A pairs" in page
    for name in ("delay", "sample", "windows"):
        ElementTree.parse(tmp_path / "evaluation" / f"{name}.svg")


def finding_row(**changes: Any) -> dict[str, Any]:
    said = {"outcome": "changed", "external": False, "exit_code": 1, "titles": ["WRITE is slower"]}
    plain = row("robust", "50", threshold=0, results=2, first_rank=1, false_members_pct=5.0)
    return {**plain, **said, **changes}


def test_findings_are_counted_over_the_seeds() -> None:
    trials = [
        {**trial("8.6-500", seed), "concerned": 9, "rows": [finding_row(first_rank=rank, results=n)]}
        for seed, rank, n in ((1, 1, 1), (2, 3, 3), (3, None, 2))
    ]
    table = Table(trials, {"8.6-500": SHORT.size(case_of("8.6-500"))})
    text = findings_table(table, [case_of("8.6-500")])
    assert "| robust | 2.0 (1.0…3.0) | 1 of 3 | 2 of 3 | 88 | 25 | 5 | – | changed 3 |" in text


def real_row(**changes: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "kind": "fault",
        "recording": "shop-2022",
        "method": "robust",
        "mode": "a",
        "case": "12:01-cart-delay",
        "service": "cart",
        "visible": "visible",
        "rank": 1,
        "named": 1,
        "results": 1,
        "outcome": "changed",
        "exit_code": 1,
        "tested": [],
        "moved": [],
        "reference": "2022-08-23T12:09:00Z/2022-08-23T12:10:16Z",
        "problem": "2022-08-23T12:17:00Z/2022-08-23T12:18:18Z",
        "load_s": 1.0,
        "analyse_s": 0.5,
        "top": [{"text": "cart/Get is slower", "at": ["cart"], "names": ["cart"]}],
    }
    return {**plain, **changes}


def test_recordings_list_what_is_not_as_it_should_be() -> None:
    unseen = {"exit_code": 0, "moved": ["mean"], "top": []}
    rows = [
        real_row(),
        real_row(case="12:30-pay-return", rank=2, named=None, results=2),
        {**real_row(case="12:40-ad-return", rank=None, named=None, results=0), **unseen},
        real_row(kind="quiet", visible=None, rank=None, results=0, exit_code=0, top=[]),
        *[real_row(kind="quiet", visible=None, rank=None)] * LISTED_FROM,
        real_row(kind="quiet", visible=None, rank=None, top=[{"text": "ad fails", "at": [], "names": []}]),
    ]
    page = recordings_tables({"totals": totals(rows), "rows": rows})
    assert "| shop-2022 | robust | with history | visible | 3 | 1 | 2 | 1 | 1.00 | 1 |" in page
    assert "| shop-2022 | robust | with history | 10 | 0.900 | 9 | 9 |" in page
    missed = page.split("### Visible faults")[1].split("###")[0]
    assert "12:30-pay-return, rank 2 of 2" in missed
    assert "12:40-ad-return, rank – of 0, changed: nothing" in missed
    assert "12:01" not in missed
    listed = page.split("### Quiet pairs with")[1].split("###")[0]
    assert "* shop-2022, with history, 12:17:00–12:18:18, 8 quiet pairs: cart/Get is slower" in listed
    assert "* 1 more, each in fewer than 8 pairs" in listed
    assert "ad fails" not in listed
    assert "12:40-ad-return: mean" in page.split("### Passed unseen")[1]


def test_a_plot_has_a_point_for_every_value() -> None:
    svg = line_plot("a < b", "x", "%", {"one": [(1.0, 0.0), (10.0, 100.0)], "two": [(1.0, 50.0)]})
    root = ElementTree.fromstring(svg)
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    heights = [float(c.attrib["cy"]) for c in circles]
    assert len(circles) == 3
    assert heights[0] > heights[2] > heights[1]
    with pytest.raises(ValueError, match="nothing to plot"):
        line_plot("t", "x", "%", {})


def test_results_of_other_sources_count_as_missing(tmp_path: Path) -> None:
    store = Store(tmp_path / "kept", "one")
    assert store.get("t") is None
    store.put("t", {"x": 1})
    assert store.get("t") == {"x": 1}
    assert Store(tmp_path / "kept", "two").get("t") is None


def test_every_case_is_run_once_with_every_seed() -> None:
    for tier, cases in ((SHORT, CASES), (FULL, [c.key for c in PUBLISHED])):
        found = trials(tier)
        names = [t.name for t in found]
        assert len(names) == len(set(names))
        assert {t.case for t in found} >= set(cases)
        for key in cases:
            told_as = RunFormat.NATIVE if CASES[key].level == "L0" else RunFormat.OTLP_JSON
            seeds = {t.seed for t in found if t.case == key and t.told_as is told_as}
            assert len(seeds) >= (tier.seeds if CASES[key].level == "L0" else 1)
    assert {t.traced for t in trials(FULL) if t.case == "8.6-500"} == {210_669}
