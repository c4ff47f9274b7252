"""A method with a command of its own: of one period, of two, or of two parts of one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from oracles.method_folders import COUNTING, install

from flowdiff.__main__ import COMMANDS, main
from flowdiff.cli.method_command import method_command

ABOUT = "Count requests."
EVENING, AFTERNOON = "2022-08-23T16:55/10m", "2022-08-23T15:10/5m"


def run(*arguments: str) -> int:
    """Exit code of the command line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command") / "lake"
    names = ("before", "after-recommendation-delay")
    traces = [str(shared_data / "online-boutique" / f"{name}.otlp.jsonl.gz") for name in names]
    assert run("import", *traces, "--lake", str(folder)) == 0
    return folder


@pytest.fixture(autouse=True)
def count_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`flowdiff count`, of a method of one sample or two."""
    install(tmp_path, monkeypatch, "count", COUNTING.format(least=1, most=2))
    module = ModuleType("flowdiff.commands.count")
    vars(module)["command"] = method_command("count", f"{ABOUT}\n\nOf one period or of two.")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "count", ABOUT)


def counted(capsys: pytest.CaptureFixture[str], lake: Path, *arguments: str) -> dict[str, Any]:
    """Requests by sample, as the command counts them."""
    assert run("count", "--lake", str(lake), *arguments, "--json", "-", "--no-save") == 0
    (section,) = json.loads(capsys.readouterr().out)["sections"]
    assert section["method"] == "count"
    return dict(section["requests"])


def test_one_period_two_or_all(lake: Path, capsys: pytest.CaptureFixture[str]):
    assert counted(capsys, lake) == {"period": 1011}
    assert counted(capsys, lake, "--period", EVENING, "--period", AFTERNOON) == {"period": 1011}
    before = counted(capsys, lake, "--period", EVENING)["period"]
    both = counted(capsys, lake, "--reference", EVENING, "--problem", AFTERNOON)
    assert both == {"reference": before, "problem": 1011 - before}


def test_two_parts_of_one_period(lake: Path, capsys: pytest.CaptureFixture[str]):
    parts = ("--reference-where", "duration < 20ms", "--problem-where", "duration >= 20ms")
    both = counted(capsys, lake, "--period", EVENING, *parts)
    assert all(both.values())
    assert sum(both.values()) == counted(capsys, lake, "--period", EVENING)["period"]


def test_the_report_is_kept_and_printed(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    written = tmp_path / "page.html"
    # Nothing was compared, so there is nothing that a gate decides.
    assert run("count", "--lake", str(lake), "--period", EVENING, "--html", str(written)) == 0
    out = capsys.readouterr().out
    assert "Counted." in out
    (kept,) = lake.glob("reports/*/report.html")
    link = b' <a class="index" href="../index.html">all reports</a>'
    assert kept.read_bytes().replace(link, b"") == written.read_bytes()
    assert f"Report: {written}" in out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--period", "all", "--problem", "all"), "not both"),
        (("--problem", "all"), "--reference is missing. For one period give --period"),
        (("--reference-where", "host = 'a'"), "--problem-where is missing"),
        (("--set", "level=L9"), "refine.level"),
    ],
)
def test_what_is_wrong_is_named(given: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]):
    assert run("count", "--lake", "/none", *given) == 2
    assert words in capsys.readouterr().err


def test_help_says_what_the_method_does(capsys: pytest.CaptureFixture[str]):
    assert run("count", "--help") == 0
    out = capsys.readouterr().out
    assert ABOUT in out
    assert "--period" in out
    assert "--fail-on" not in out
