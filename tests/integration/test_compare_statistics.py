"""The same comparison from requests and from the statistics of windows, on real traces."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from oracles.quiet_import import Quiet
from oracles.stored_profile import decode

import analyze.profile.history
from flowdiff.__main__ import main
from schemas.windows import NS_PER_MINUTE
from stitch.drivers.batch import ImportSettings, import_into

ROBUST = ("--method", "robust", "--no-save")
REFERENCE = ("--reference", "2022-08-23T16:59/2m")
DELAY = (*REFERENCE, "--problem", "2022-08-23T15:12/2m")
RETURN = (*REFERENCE, "--problem", "2022-08-23T12:10/2m")


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("statistics") / "lake"
    names = ("before", "after-recommendation-delay", "after-frontend-return")
    import_into(
        folder,
        [str(shared_data / "online-boutique" / f"{name}.otlp.jsonl.gz") for name in names],
        ImportSettings(window_length_ns=NS_PER_MINUTE),
        owner="test",
        created_by="test",
        stdin=BytesIO(),
        progress=Quiet(),
    )
    return folder


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def report(lake: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run("compare", "--lake", str(lake), *ROBUST, *options, "--json", "-") in (0, 1, 3)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def findings(found: dict[str, Any]) -> list[dict[str, Any]]:
    (section,) = [s for s in found["sections"] if s["section"] == "findings"]
    told: list[dict[str, Any]] = section["findings"]
    return told


def test_a_filter_that_leaves_nothing_names_what_there_is(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for use in ("never", "all"):
        assert (
            run("compare", "--lake", str(lake), *DELAY, "--where", "root = frontend/x", "--statistics", use)
            == 2
        )
        told.append(capsys.readouterr().err)
    assert "holds no request" in told[0]
    assert "There are" in told[0]
    assert told[1] == told[0]


@pytest.mark.parametrize("options", [DELAY, RETURN, (*DELAY, "--history", "all")])
def test_statistics_find_what_requests_find(
    lake: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    requests, statistics = (report(lake, capsys, *options, "--statistics", use) for use in ("never", "all"))
    assert findings(requests)
    one, other = findings(requests)[0], findings(statistics)[0]
    assert (one["kind"], one["site"]["operation"]) == (other["kind"], other["site"]["operation"])
    assert other["affected1"] == pytest.approx(one["affected1"], abs=max(3, 0.05 * one["affected1"]))
    assert other["contribution_us"] == pytest.approx(one["contribution_us"], rel=0.05)
    assert one["examples"]
    assert not other["examples"]
    assert any("no examples" in note for note in statistics["notes"])
    for mine, theirs in zip(requests["samples"], statistics["samples"], strict=True):
        assert mine["requests"] == theirs["requests"]
        assert mine["failed"] == theirs["failed"]
        assert theirs["mean_us"] == pytest.approx(mine["mean_us"], rel=1e-9)
        assert theirs["total_us"] == pytest.approx(mine["total_us"], rel=1e-9)
        assert theirs["median_us"] == pytest.approx(mine["median_us"], rel=0.03)
        assert theirs["p99_us"] == pytest.approx(mine["p99_us"], rel=0.10)


def test_a_history_of_statistics_leaves_the_examples(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = (*DELAY, "--history", "all", "--statistics")
    never, history = (report(lake, capsys, *options, use) for use in ("never", "history"))
    assert [f["title"] for f in findings(never)] == [f["title"] for f in findings(history)]
    assert findings(history)[0]["examples"] == findings(never)[0]["examples"]


def test_what_is_large_is_read_from_statistics(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    plain = analyze.profile.history.gathered

    def counted(samples: Any, *given: Any, **how: Any) -> Any:
        made.append(len(samples))
        return plain(samples, *given, **how)

    monkeypatch.setattr(analyze.profile.history, "gathered", counted)
    options = (*DELAY, "--history", "all")
    report(lake, capsys, *options)
    assert made == []
    monkeypatch.setattr(analyze.profile.history, "MOST_HISTORY", 100)
    report(lake, capsys, *options)
    assert made == [3]  # the minutes that are neither reference nor problem
    monkeypatch.setattr(analyze.profile.history, "MOST_REQUESTS", 1000)
    report(lake, capsys, *options)
    assert made == [3, 2, 3]
    # Paper mode needs requests, and gets them however many there are.
    assert run("compare", "--lake", str(lake), *DELAY, "--method", "paper", "--no-save") == 1
    assert made == [3, 2, 3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--method", "paper", "--statistics", "all"), "The method 'paper' needs requests"),
        (("--method", "robust", "--statistics", "some"), "is not one of 'auto', 'never', 'history', 'all'"),
    ],
)
def test_what_cannot_be_is_one_line(
    lake: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    capsys.readouterr()
    assert run("compare", "--lake", str(lake), *DELAY, *options) == 2
    told = capsys.readouterr().err
    assert words in told.replace("\n", " ")
    assert "Traceback" not in told


def test_statistics_are_small(lake: Path) -> None:
    """Six hundred bytes a call site and window, of windows with sixty sites each."""
    assert run("summarize", "--lake", str(lake)) == 0
    kept = [path.read_bytes() for path in (lake / "stats").glob("*/*.parquet")]
    profiles = [profile for data in kept if (profile := decode(data)) is not None]
    assert len(profiles) == len(kept) > 2
    assert sum(map(len, kept)) < 600 * sum(len(profile.names.sites) for profile in profiles)
