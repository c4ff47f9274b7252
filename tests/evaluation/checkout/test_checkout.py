"""All checkouts fail, and so they did in windows of the history: no gate passes, and the place is named."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from evaluation.checkout.shop import CALM, FAILING, PLACES, VARIANTS, Variant, arguments, history, record

from flowdiff.__main__ import main


def flowdiff(*words: object) -> int:
    with redirect_stdout(StringIO()), pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module", params=[0, 1])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    record(folder / "spans.jsonl", seed=request.param)
    assert flowdiff("import", folder / "spans.jsonl", "--lake", folder / "lake", "--window", "1m") == 0
    return folder / "lake"


def compared(variant: Variant, lake: Path, to: Path) -> tuple[int, dict[str, Any]]:
    code = flowdiff("compare", *arguments(variant), "--lake", lake, "--no-save", "--json", to)
    return code, json.loads(to.read_bytes())


def named(report: dict[str, Any]) -> list[str]:
    """Sentences that send a reader somewhere: findings, suspects, reasons, what hides a change."""
    sections = {section["section"]: section for section in report["sections"]}
    rows = [
        *sections["findings"]["findings"],
        *sections["verdict"]["hidden"],
        *sections.get("suspects", {}).get("suspects", ()),
    ]
    return [*(reason["text"] for reason in sections["verdict"]["reasons"]), *(row["title"] for row in rows)]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_no_gate_passes_a_failing_checkout(variant: Variant, lake: Path, tmp_path: Path) -> None:
    code, report = compared(variant, lake, tmp_path / "report.json")
    assert code != 0
    assert any(place in sentence for sentence in named(report) for place in PLACES), named(report)


def test_calm_windows_pass(lake: Path, tmp_path: Path) -> None:
    """Were nothing to pass, the ten above would say nothing."""
    code, report = compared(Variant("calm", CALM[-2], history(FAILING, 0)), lake, tmp_path / "calm.json")
    assert code == 0, named(report)


def test_what_hides_it_is_shown_with_both_numbers_and_its_windows(lake: Path, tmp_path: Path) -> None:
    _, report = compared(VARIANTS[2], lake, tmp_path / "report.json")
    verdict = next(section for section in report["sections"] if section["section"] == "verdict")
    assert verdict["outcome"] == "cannot-tell", verdict["reasons"]
    hidden = next(row for row in verdict["hidden"] if "fails in" in row["title"])
    assert hidden["before"] < 0.1 < 0.9 < hidden["after"]
    assert hidden["p"] < 1e-6 < 0.1 < hidden["p_usual"]
    assert len(hidden["windows"]) == 4
