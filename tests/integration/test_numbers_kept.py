"""Every number that a page or a terminal shows is in `report.json`, or a sum or difference of its numbers."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

import flowdiff
from analyze.report import wording
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
NUMBER = re.compile(r"(?<![\w.:#/-])(?<!< )((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-\d+)?)(?![\w:/-])")
SCALES = (1.0, 100.0, 1e3, 1e-3, 1e-6, 60.0, 1 / 60, 1 / 3600)


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
    """So that a number which is not a function of the JSON cannot be on them."""
    assert render_html(shown.report, known_views()) == shown.page
    out = io.StringIO()
    print_report(shown.report, known_views(), Console(file=out, width=80, force_terminal=False))
    assert shown.terminal.startswith(out.getvalue())


def objects(value: Any) -> Iterator[list[float]]:
    """Numbers of each object and list, at any depth."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    numbers = [float(one) for one in inner if isinstance(one, int | float) and not isinstance(one, bool)]
    if numbers:
        yield numbers
    for one in inner:
        yield from objects(one)


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from texts(one)


def columns(value: Any) -> Iterator[float]:
    """Sums over the rows of each list of objects, field by field, and the lengths of lists."""
    if isinstance(value, list):
        yield float(len(value))
        rows = [one for one in value if isinstance(one, dict)]
        for key in {key for row in rows for key in row}:
            numbers = [row.get(key) for row in rows]
            yield sum(float(n) for n in numbers if isinstance(n, int | float) and not isinstance(n, bool))
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from columns(one)


def wordings(number: float) -> Iterator[str]:
    """Texts of a number in the units and digits in which reports word it."""
    size = abs(number)
    for scale in SCALES:
        for digits in range(1, 7):
            yield wording.significant(size * scale, digits)
    yield from (wording.percent(size), wording.part(size), wording.count(round(size)), wording.p_value(size))
    yield from (wording.rough(size, 2), wording.factor(size))
    yield f"{size:.2f}"
    yield f"{size:.1f}"


def known_numbers(content: Any) -> Iterator[set[str]]:
    """Numbers as worded: those of the JSON, then sums over rows, differences and ratios within an object."""
    plain = {abs(number) for numbers in objects(content) for number in numbers}
    yield worded(plain) | {number for text in texts(content) for number in numbers_in(text)}
    made = {*columns(content)}
    for numbers in objects(content):
        if len(numbers) <= 40:
            made |= {abs(a - b) for a in numbers for b in numbers}
            made |= {a / b for a in numbers for b in numbers if b}
            made |= {1 - a for a in numbers}
    yield worded(made - plain)


def worded(numbers: set[float]) -> set[str]:
    """All texts of numbers, each number's read at once."""
    return {text for number in numbers for text in numbers_in(" ; ".join(wordings(number)))}


def numbers_in(text: str) -> list[str]:
    """Numbers of a text, in its order, without names that hold digits and bounds (`< 1e-12`)."""
    return NUMBER.findall(" ".join(text.split()))


def test_every_number_on_the_terminal_is_one_of_the_json(shown: Shown) -> None:
    content = json.loads(shown.json)
    shown_numbers = {*numbers_in(shown.terminal.partition("\nReport: ")[0])}
    change = content["headline"]["change"]["delta_us"]
    for section in content["sections"]:  # what a finding leaves of the change of the mean
        for part in section.get("findings", ()):
            shown_numbers -= worded({part["contribution_us"] - change})
    missing = sorted(shown_numbers)
    for known in known_numbers(content):
        missing = [number for number in missing if number not in known]
        if not missing:
            break
    assert missing == []


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
