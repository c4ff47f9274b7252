"""`flowdiff diff`: two files of real traces, and the groups of commands."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from flowdiff.__main__ import COMMANDS, GROUPS, PANELS, main

FILES = ("before.otlp.jsonl.gz", "after-recommendation-delay.otlp.jsonl.gz")


def run(*arguments: object) -> int:
    """Exit code of the command line."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.fixture
def recorded(shared_data: Path) -> tuple[Path, Path]:
    return (shared_data / "online-boutique" / FILES[0], shared_data / "online-boutique" / FILES[1])


def test_two_files_are_compared(
    recorded: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert run("diff", *recorded, "--html", tmp_path / "page.html", "--json", tmp_path / "r.json") == 1
    said = capsys.readouterr().out
    assert said.startswith("✗ SLOWER")
    assert "recommendationservice" in said.partition("\nmean")[0]
    assert "gate: FAIL, exit 1" in said
    assert len(json.loads((tmp_path / "r.json").read_text())["samples"]) == 2
    assert "SLOWER" in (tmp_path / "page.html").read_text()
    assert not [*temporary.iterdir()]


def test_a_file_is_unchanged_beside_itself(
    recorded: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("diff", recorded[0], recorded[0]) in (0, 3)
    said = capsys.readouterr().out
    assert "gate: FAIL" not in said
    assert re.search(r"p99\s\S+\ss\s\(same\)", said)
    assert " ".join(said.split()).count("; after second@") == 1


def test_sides_are_called_by_what_differs_of_their_paths(
    recorded: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side, file in zip(("monday", "tuesday"), recorded, strict=True):
        (tmp_path / side).mkdir()
        (tmp_path / side / f"traces{''.join(file.suffixes)}").write_bytes(file.read_bytes())
    files = [next((tmp_path / side).iterdir()) for side in ("monday", "tuesday")]
    assert run("diff", *files) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "before monday@" in said
    assert "after tuesday@" in said


def test_sides_named_from_a_folder_above_stay_in_their_own(
    recorded: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    for folder, file in zip((tmp_path, here / "sub"), recorded, strict=True):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "traces.otlp.jsonl.gz").write_bytes(file.read_bytes())
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.chdir(here)
    assert run("diff", "../traces.otlp.jsonl.gz", "sub/traces.otlp.jsonl.gz") == 1
    assert f"before {tmp_path.name}@" in " ".join(capsys.readouterr().out.split())
    assert [*temporary.iterdir()] == []


def test_a_file_that_is_not_there_is_one_line(
    recorded: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("diff", recorded[0], tmp_path / "none.jsonl") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "none.jsonl" in line


def test_what_was_rejected_is_said_and_a_side_without_requests_refused(
    recorded: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged, nothing = tmp_path / "dama[g]ed.jsonl", tmp_path / "nothing.jsonl"
    whole = gzip.decompress(recorded[1].read_bytes())
    damaged.write_bytes(whole + b'{"resourceSpans": 7}\n')
    nothing.write_bytes(b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"zz"}]}]}]}\n')
    assert run("diff", recorded[0], tmp_path / "dama*.jsonl") == 1
    assert "rejected: 1 " in capsys.readouterr().err
    assert run("diff", recorded[0], nothing) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "No event could be read" in line


def test_what_decided_is_said_where_nothing_counts(
    recorded: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("diff", *recorded, "--fail-on", "errors")
    decided = " ".join(capsys.readouterr().out.partition("gate: ")[2].split())
    assert f"exit {code}" in decided
    assert "of another kind" in decided


def test_every_command_is_listed_once_and_accepted_at_the_top(capsys: pytest.CaptureFixture[str]) -> None:
    grouped = [name for _, names in GROUPS.values() for name in names]
    shown = [name for names in PANELS.values() for name in names]
    assert sorted([*grouped, *shown]) == sorted(COMMANDS)
    assert len([name for name in shown if name != "simulate"]) <= 16
    for group, (_, names) in GROUPS.items():
        assert run(group) == 2
        shown_below = capsys.readouterr().out
        assert all(f" {name} " in shown_below for name in names)
        assert run(group, names[0], "--help") == 0
        below = capsys.readouterr().out
        assert run(names[0], "--help") == 0
        at_the_top = capsys.readouterr().out
        assert below.replace(f"flowdiff {group} ", "flowdiff ").split() == at_the_top.split()


def test_a_kept_page_links_the_list_of_reports_and_no_other_does(
    recorded: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, page = tmp_path / "lake", tmp_path / "page.html"
    assert run("import", *recorded, "--lake", lake) == 0
    periods = ("--reference", "2022-08-23T16:55/10m", "--problem", "2022-08-23T15:10/5m")
    assert run("compare", "--lake", lake, *periods, "--html", page) == 1
    capsys.readouterr()
    (kept,) = (lake / "reports").glob("*/report.html")
    assert '<a class="index" href="../index.html">' in kept.read_text()
    assert (kept.parent / "../index.html").is_file()
    assert "../index.html" not in page.read_text()


def test_one_side_may_have_no_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare, whole, traces = tmp_path / "bare", tmp_path / "whole", tmp_path / "traces.ndjson.gz"
    small = ("--workload", "postmark-large", "--requests", "300", "--seed", "1", "--out", traces)
    assert run("simulate", *small) == 0
    assert run("import", traces, "--lake", bare, "--drop-params", "*") == 0
    assert run("import", traces, "--lake", whole) == 0
    assert not (bare / "params").exists()
    assert (whole / "params").exists()
    for first, second in ((bare, whole), (whole, bare)):
        periods = ("--reference", f"{first}@all", "--problem", f"{second}@all")
        assert run("compare", *periods, "--no-save") in (0, 3), capsys.readouterr().err
