"""`flowdiff variance` on real traces, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flowdiff.__main__ import main

QUIET, DELAYED = "2022-08-23T16:55/10m", "2022-08-23T15:10/5m"
DELAY = "frontend/hipstershop.RecommendationService/ListRecommendations -> recommendationservice"


def run(*arguments: str) -> int:
    """Exit code of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("variance") / "lake"
    names = ("before", "after-recommendation-delay")
    traces = [str(shared_data / "online-boutique" / f"{name}.otlp.jsonl.gz") for name in names]
    assert run("import", *traces, "--lake", str(folder)) == 0
    return folder


def sections(capsys: pytest.CaptureFixture[str], lake: Path, *arguments: str) -> dict[str, Any]:
    """Sections of the report by tag."""
    asked = ("variance", "--lake", str(lake), "--set", "explained=0", *arguments, "--no-save", "--json", "-")
    assert run(*asked) == 0
    return {section["section"]: section for section in json.loads(capsys.readouterr().out)["sections"]}


def test_the_delay_is_the_first_source_and_can_be_marked(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    plain = sections(capsys, lake, "--period", DELAYED)["variance"]
    assert plain["sites"][0]["label"] == DELAY
    markers = tmp_path / "markers.toml"
    markers.write_text(
        f'[[marker]]\nlabel = "{DELAY}"\nkind = "intrinsic"\nowner = "shop"\nreason = "injected"\n'
    )
    marked = sections(capsys, lake, "--period", DELAYED, "--markers", str(markers))["variance"]
    assert marked["sites"][0]["label"] == plain["sites"][1]["label"]
    assert marked["marked_share"] > 0.3


def test_of_two_periods_it_is_what_became_more_variable(lake: Path, capsys: pytest.CaptureFixture[str]):
    found = sections(capsys, lake, "--reference", QUIET, "--problem", DELAYED, "--set", "details=0")
    more = [row for row in found["variance-change"]["sites"] if row["ratio"] > 1]
    assert more[0]["label"] == DELAY
    assert [curve["sample"] for curve in found["variance"]["curves"]] == ["reference", "problem"]


def test_the_report_is_kept_with_its_tables(lake: Path, capsys: pytest.CaptureFixture[str]):
    assert run("variance", "--lake", str(lake), "--period", DELAYED, "--set", "details=2") == 0
    page = Path(capsys.readouterr().out.rsplit("Report: ", 1)[1].strip())
    names = ("sites", "categories", "parts")
    tables = {name: pq.read_table(page.parent / f"variance_{name}.parquet") for name in names}
    assert sum(tables["sites"]["total"].to_pylist()) == pytest.approx(1, abs=1e-9)
    shares: dict[str, float] = {}
    for row in tables["parts"].to_pylist():
        shares[row["category"]] = shares.get(row["category"], 0.0) + row["share"]
    assert list(shares.values()) == pytest.approx([1, 1], abs=1e-9)


def test_what_one_period_does_not_need_is_not_imported(lake: Path):
    """A second's worth: scipy.stats is for two samples and explanations, scikit-learn for other commands."""
    asked = ["variance", "--lake", str(lake), "--period", DELAYED, "--set", "details=0", "--no-save"]
    script = (
        f"import sys\nfrom flowdiff.__main__ import main\ntry: main({asked!r})\nexcept SystemExit: pass\n"
        "print([name for name in ('scipy.stats', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "with a standard deviation of" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_period_without_a_whole_request_is_told(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Its 50 requests are incomplete, all of them."""
    damaged = str(tmp_path / "lake")
    assert run("import", str(shared_data / "zipkin" / "messaging2.json.gz"), "--lake", damaged) == 0
    halves = ("--reference-where", "duration > 0ns", "--problem-where", "duration > 1ns")
    both = ("--reference", "all", "--problem", "all", *halves)
    for command in (("variance",), ("compare", "--method", "variance", *both)):
        capsys.readouterr()
        assert run(*command, "--lake", damaged) == 2
        error = capsys.readouterr().err
        assert "has a variance" in error
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--markers", "/none.toml"), "cannot be read"),
        (("--category", "zz"), "no category"),
        (("--sort", "x"), "variance.sort"),
    ],
)
def test_what_is_wrong_is_one_line(
    given: tuple[str, ...], told: str, lake: Path, capsys: pytest.CaptureFixture[str]
):
    assert run("variance", "--lake", str(lake), "--period", DELAYED, *given) == 2
    error = capsys.readouterr().err
    assert told in error
