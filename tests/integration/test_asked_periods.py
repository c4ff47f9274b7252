"""Periods that a comparison is asked for by a moment, and the lakes that its report names."""

from __future__ import annotations

import pytest

import flowdiff
from flowdiff.__main__ import main
from flowdiff.lake import Lake


def run(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two lakes; the first holds both days, the second only the later one."""
    folder = tmp_path_factory.mktemp("asked")
    both, later = Lake(str(folder / "both")), Lake(str(folder / "x" / "later"))
    for seed, day, fault in ((1, 18, ()), (2, 19, ("F1-mds-config",))):
        file = folder / f"{day}.json"
        flowdiff.simulate(file, requests=600, seed=seed, start=f"2026-11-{day}T09:00:00Z", fault=fault)
        both.import_(file)
    later.import_(file)
    return both.name, later.name


def test_since_takes_as_many_windows_before(
    lakes: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("compare", lakes[0], "--since", "09:00", "--no-save") == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "before 2026-11-18T09:00Z to 2026-11-19T09:00Z, 600 requests" in said
    assert "after 2026-11-19T09:00Z to 2026-11-19T09:05Z, 600 requests" in said


def test_times_of_day_are_of_the_lakes_last_day(
    lakes: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    periods = ("--reference", "2026-11-18T09:00/5m", "--problem", "09:00/9:05")
    assert run("compare", lakes[0], *periods, "--no-save") == 1
    assert "after 2026-11-19T09:00Z to 2026-11-19T09:05Z" in " ".join(capsys.readouterr().out.split())
    assert run("windows", lakes[0], "--period", "09:00/1h", "--json") == 0
    assert "2026-11-18" not in capsys.readouterr().out
    assert run("browse", "--lake", lakes[1], "--period", "09:00/5m", "--no-save") == 0
    assert Lake(lakes[1]).requests("9:00/5m").arrow().num_rows == 600


def test_two_filters_part_all_that_the_lake_has(
    lakes: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    parts = ("--reference-where", "duration < 1s", "--problem-where", "duration >= 1s")
    assert run("compare", lakes[0], *parts, "--no-save", "--fail-on", "never") in (0, 2)
    told = capsys.readouterr()
    assert "missing" not in told.err
    slow = ("--reference-where", "root like '%READ%'", "--problem-where", "root not like '%READ%'")
    assert run("compare", lakes[0], *slow[:2], "--no-save") == 2
    assert "--problem-where is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--since", "2026-11-18T09:00Z"), "no windows on both sides"),
        (("--since", "2027-01-01"), "no windows on both sides"),
        (("--since", "soon"), "'soon' is not a moment"),
        (("--since", "9:00", "--problem", "all"), "Give --since, or --reference and --problem"),
    ],
)
def test_a_moment_that_parts_nothing_is_refused_in_a_line(
    lakes: tuple[str, str], capsys: pytest.CaptureFixture[str], given: tuple[str, ...], said: str
) -> None:
    assert run("compare", lakes[0], *given) == 2
    assert said in capsys.readouterr().err


def test_since_needs_a_lake(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLOWDIFF_LAKE", raising=False)
    assert run("compare", "--since", "9:00") == 2
    assert "--since needs a lake" in capsys.readouterr().err


def test_periods_name_their_lakes_where_there_are_two(
    lakes: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    both, later = lakes
    days = ("--reference", f"{both}@2026-11-18", "--problem", f"{later}@2026-11-19")
    assert run("compare", *days, "--no-save") == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "before both@2026-11-18 to 2026-11-19," in said
    assert "after later@2026-11-19 to 2026-11-20," in said


@pytest.mark.parametrize("command", ["windows", "fsck", "reports"])
def test_a_lake_is_a_word_or_an_option(
    lakes: tuple[str, str], capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run(command, lakes[1]) == 0
    as_word = capsys.readouterr().out
    assert run(command, "--lake", lakes[1]) == 0
    assert capsys.readouterr().out == as_word
    assert run(command, lakes[1], "more") == 2
    assert "unexpected extra argument" in capsys.readouterr().err
    assert run(command, "--lake", lakes[1], "more") == 2
