"""A history that is statistics serves segments as one of requests does."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from evaluation.segments.described import Fault, Scenario, system_of
from evaluation.segments.played import WINDOW_NS, Playing
from evaluation.segments.recorded import T0, period
from oracles.quiet_import import Quiet

from flowdiff.__main__ import main
from stitch.drivers.batch import ImportSettings, import_into

REQUESTS = 1_500
FAILING = Scenario("failing", (Fault("cart", of={"tier": "free"}, fails=0.12),))
SLOW = Scenario("slow", (Fault("cart", of={"client.region": "ap"}, slower=2.0),))
QUIET = Scenario("quiet")
WINDOWS = (*[QUIET] * 10, QUIET, FAILING, SLOW)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine windows of history, a reference, then one quiet, one failing and one slow for some."""
    folder, system = tmp_path_factory.mktemp("segments"), system_of(0)
    files = []
    for at, scenario in enumerate(WINDOWS):
        files.append(folder / f"{at:02}.jsonl")
        lines = Playing(system, scenario, at, T0 + at * WINDOW_NS, REQUESTS).lines()
        files[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    import_into(
        folder / "lake",
        [str(file) for file in files],
        ImportSettings(window_length_ns=WINDOW_NS),
        owner="test",
        created_by="test",
        stdin=BytesIO(),
        progress=Quiet(),
    )
    return folder / "lake"


def findings(lake: Path, problem: int, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """Titles of a comparison of a window with the reference."""
    periods = ("--reference", period(9, 1), "--problem", period(problem, 1), "--history", period(0, 9))
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["compare", "--lake", str(lake), "--no-save", *periods, *options, "--json", "-"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    (section,) = [s for s in found["sections"] if s["section"] == "findings"]
    return [finding["title"] for finding in section["findings"]]


@pytest.mark.parametrize(("problem", "says"), [(11, "tier = free"), (12, "client.region = ap")])
def test_a_segment_is_found_with_requests_and_with_statistics(
    lake: Path, capsys: pytest.CaptureFixture[str], problem: int, says: str
) -> None:
    for use in ("never", "history"):
        (title, *_) = findings(lake, problem, capsys, "--statistics", use)
        assert says in title, use


def test_ordinary_windows_make_the_difference(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an attribute that is not kept nothing is known, and the reference alone is too short."""
    options = ("--statistics", "history", "--set", "statistics.attributes=device")
    assert findings(lake, 11, capsys, *options) == []


def test_ordinary_times_have_none(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert findings(lake, 10, capsys, "--statistics", "history") == []
