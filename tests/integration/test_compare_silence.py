"""A problem period in which the service stood still for a while, and was as fast as ever before and after."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flowdiff.__main__ import main
from schemas.windows import NS_PER_SECOND

REFERENCE_NS = 1_767_571_200 * NS_PER_SECOND
"""2026-01-05T00:00Z"""
PROBLEM_NS = REFERENCE_NS + 3_600 * NS_PER_SECOND
REFERENCE, PROBLEM = "2026-01-05T00:00/5m", "2026-01-05T01:00/5m"
SILENT = ((120, 300),)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def requests(start_ns: int, seconds: int, seed: int, silent: Sequence[tuple[int, int]] = ()) -> list[str]:
    """Lines of ten requests a second, of three events each; none of those that begin in a silence."""
    rng = random.Random(seed)
    lines = []
    for at in range(10 * seconds):
        if any(low <= at / 10 < high for low, high in silent):
            continue
        start = start_ns + int((at + rng.random() * 0.9) * NS_PER_SECOND / 10)
        took = int(rng.lognormvariate(7, 0.2) * 1_000)
        name = f"{seed}-{at}"
        for seq, (point, after) in enumerate((("CALL", 0), ("WORK", took // 3), ("REPLY", took))):
            row = {"breadcrumb": f"{name}.0", "request_id": name, "component": "web", "point": point}
            row |= {"host": "h", "seq": seq, "ts": start + after}  # type: ignore[dict-item]
            lines.append(json.dumps(row | ({"kind": "end"} if point == "REPLY" else {})))
    return lines


def lake(folder: Path, *lines: list[str]) -> str:
    file = folder / "events.jsonl"
    file.write_text("\n".join(line for part in lines for line in part) + "\n", encoding="utf-8")
    assert run("import", str(file), "--lake", str(folder / "lake"), "--window", "1m") == 0
    return str(folder / "lake")


def compared(lake: str, *options: str) -> tuple[int, dict[str, Any]]:
    report = Path(lake).parent / "report.json"
    code = run("compare", "--lake", lake, *options, "--no-save", "--json", str(report))
    return code, json.loads(report.read_text(encoding="utf-8"))


def verdict(report: dict[str, Any]) -> dict[str, Any]:
    (found,) = [section for section in report["sections"] if section["section"] == "verdict"]
    return dict(found)


@pytest.fixture(scope="module")
def outage(tmp_path_factory: pytest.TempPathFactory) -> str:
    """From two minutes on to the end of the problem period; the recording has what came after."""
    return lake(
        tmp_path_factory.mktemp("outage"),
        requests(REFERENCE_NS, 300, 1),
        requests(PROBLEM_NS, 420, 2, SILENT),
    )


@pytest.mark.parametrize("use", ["never", "all"])
def test_an_outage_is_no_pass(outage: str, use: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--reference", REFERENCE, "--problem", PROBLEM, "--statistics", use)
    code, report = compared(outage, *asked)
    assert code == 3
    found = verdict(report)
    assert found["outcome"] == "not-explained"
    assert "60\xa0% of the time recorded in the problem period" in found["reasons"][0]["text"]
    first = found["quality"][0]
    assert (first["kind"], first["severe"]) == ("load", True)
    assert first["text"] == (
        "No request was recorded from 2026-01-05T01:02Z to 2026-01-05T01:05Z of the problem period; about "
        "1,800 requests were expected."
    )
    assert report["headline"]["change"]["load_ratio"] == pytest.approx(0.4, abs=0.01)
    assert "No request was recorded from" in " ".join(capsys.readouterr().out.split())
    assert compared(outage, *asked, "--fail-on", "errors")[0] == 3
    page = Path(outage).parent / "page.html"
    assert run("compare", "--lake", outage, *asked, "--no-save", "--html", str(page)) == 3
    assert "No request was recorded from 2026-01-05T01:02Z" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("use", ["never", "all"])
def test_a_reference_with_a_hole_is_not_normal(tmp_path: Path, use: str) -> None:
    made = lake(tmp_path, requests(REFERENCE_NS, 300, 1, [(60, 180)]), requests(PROBLEM_NS, 300, 2))
    code, report = compared(made, "--reference", REFERENCE, "--problem", PROBLEM, "--statistics", use)
    assert (code, verdict(report)["outcome"]) == (0, "unchanged")
    assert verdict(report)["quality"][0]["severe"]
    assert verdict(report)["quality"][0]["text"].startswith(
        "The reference is not normal: no request was recorded from 2026-01-05T00:01Z to 2026-01-05T00:03Z"
    )


@pytest.mark.parametrize("use", ["never", "all"])
@pytest.mark.parametrize("seconds", [300, 200])
def test_a_recording_that_ends_before_the_period_does_is_quiet(
    tmp_path: Path, use: str, seconds: int
) -> None:
    made = lake(tmp_path, requests(REFERENCE_NS, 300, 1), requests(PROBLEM_NS, seconds, 2))
    code, report = compared(made, "--reference", REFERENCE, "--problem", PROBLEM, "--statistics", use)
    assert (code, verdict(report)["outcome"]) == (0, "unchanged")
    assert not any(row["severe"] for row in verdict(report)["quality"])


@pytest.mark.parametrize("seconds", [300, 200, 45])
def test_the_load_of_a_period_recorded_in_part_is_one_number(tmp_path: Path, seconds: int) -> None:
    """From requests and from statistics, which keep when the first and the last of a window began."""
    made = lake(
        tmp_path, requests(REFERENCE_NS, 300, 1), requests(PROBLEM_NS + 70 * NS_PER_SECOND, seconds, 2)
    )
    asked = ("--reference", REFERENCE, "--problem", PROBLEM, "--statistics")
    rates = []
    for use in ("never", "all"):
        report = compared(made, *asked, use)[1]
        (account,) = [section for section in report["sections"] if section["section"] == "account"]
        rates.append((account["rate0"], account["rate1"]))
    assert rates[1] == pytest.approx(rates[0], rel=1e-9)
    assert rates[0] == pytest.approx((10, 10), rel=0.01)
