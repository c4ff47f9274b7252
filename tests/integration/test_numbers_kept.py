"""Page and terminal are functions of `report.json` alone, and the tables of a report hold its numbers."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

import flowdiff
from analyze.report.page import render_html
from analyze.report.terminal import print_report
from flowdiff.__main__ import main
from flowdiff.serve.report_pages import known_views
from schemas.report.report import Report, from_json

DEPLOYED_S = 360
SIDES = ("--reference", "2026-11-18T20:20/6m", "--problem", "2026-11-18T20:26/6m")
ASKED = {
    "robust": ("compare", *SIDES, "--fail-on", "never", "-v"),
    "paper": ("compare", *SIDES, "--fail-on", "never", "--method", "paper", "-v"),
    "distalyze": ("distalyze", *SIDES),
    "variance": ("variance", *SIDES),
    "clusters": ("clusters", *SIDES),
    "browse": ("browse", *SIDES),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    traces = flowdiff.simulate(
        folder / "shop.jsonl.gz",
        workload="web-shop",
        requests=3_600,
        start="2026-11-18T20:20:00Z",
        fault="S1",
        fault_start=DEPLOYED_S,
    )
    flowdiff.open(folder / "lake", create=True).import_(str(traces))
    return folder / "lake"


class Shown:
    """Answer to one question: terminal, page, JSON."""

    def __init__(self, lake: Path, folder: Path, asked: str) -> None:
        words = [*ASKED[asked], "--lake", lake, "--no-save"]
        words += ["--json", folder / "report.json", "--html", folder / "page.html"]
        with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit) as ended:
            main([*map(str, words)])
        assert not ended.value.code
        self.terminal = out.getvalue()
        self.page = (folder / "page.html").read_text()
        self.json = (folder / "report.json").read_text()

    @property
    def report(self) -> Report:
        return from_json(self.json, [view.model for view in known_views().values()])


@pytest.fixture(scope="module", params=ASKED)
def shown(request: pytest.FixtureRequest, lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return Shown(lake, tmp_path_factory.mktemp(request.param), request.param)


def test_page_and_terminal_are_made_of_the_json_alone(shown: Shown) -> None:
    assert render_html(shown.report, known_views()) == shown.page
    out = io.StringIO()
    print_report(shown.report, known_views(), Console(file=out, width=80, force_terminal=False))
    assert shown.terminal.startswith(out.getvalue())


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """Fields of a row with those of its call site and of the interval of its change, as columns have them."""
    return {**row, **(row.get("site") or {}), **(row.get("change") or {})}


def listed(report: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Rows of the JSON by the table that stores all of them."""
    sections = {section["section"]: section for section in report["sections"]}
    findings = sections["findings"]["findings"]
    return {
        "findings": findings,
        "evidence": [
            row | {"rank": one["rank"], "place": place}
            for one in findings
            for place, row in enumerate(one["evidence"], 1)
        ],
        "account": [
            row | {"measure": account["measure"], "part": "site", "rank": row["finding"]}
            for account in sections["account"]["accounts"]
            for row in account["rows"]
        ],
        "kinds": sections["kinds"]["kinds"],
    }


def test_parquet_has_the_numbers_of_the_json(lake: Path, tmp_path: Path) -> None:
    """Each row that the JSON lists is a row of its table, with the same value in each column of a name."""
    with pytest.raises(SystemExit):
        main(
            [
                *map(
                    str,
                    (
                        "compare",
                        *SIDES,
                        "--fail-on",
                        "never",
                        "--lake",
                        lake,
                        "--html",
                        tmp_path / "page.html",
                    ),
                )
            ]
        )
    (folder,) = (one for one in (lake / "reports").iterdir() if one.is_dir())
    for name, rows in listed(json.loads((folder / "report.json").read_text())).items():
        stored = pq.read_table(folder / f"{name}.parquet").to_pylist()
        compared = 0
        for row in map(flat, rows):
            known = {key: row[key] for key in stored[0] if isinstance(row.get(key), int | float | str)}
            assert any(all(one[key] == value for key, value in known.items()) for one in stored), (
                name,
                known,
            )
            compared += len(known)
        assert compared >= 3 * len(rows) > 0, name
