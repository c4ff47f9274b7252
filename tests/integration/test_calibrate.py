"""Ordinary times against ordinary times, in a real lake, through the command line."""

from __future__ import annotations

import json
import shutil
from io import BytesIO
from pathlib import Path

import pytest
from oracles.quiet_import import Quiet
from oracles.traffic import write_native

from analyze.calibrate import calibration_sentence, newest_record
from analyze.methods.port import Chosen
from analyze.methods.registry import method_of
from analyze.refine.settings import RefineSettings
from flowdiff.__main__ import main
from schemas.windows import NS_PER_MINUTE
from stitch.drivers.batch import ImportSettings, import_into
from stitch.lake.fsck import check
from stitch.lake.store import LocalStore


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven windows of twelve requests, less in the first and the last."""
    folder = tmp_path_factory.mktemp("calibrate")
    write_native(folder / "in.ndjson", 120, seconds=590)
    import_into(
        folder / "lake",
        [str(folder / "in.ndjson")],
        ImportSettings(window_length_ns=NS_PER_MINUTE),
        owner="test",
        created_by="test",
        stdin=BytesIO(),
        progress=Quiet(),
    )
    return folder / "lake"


@pytest.fixture
def lake(imported: Path, tmp_path: Path) -> Path:
    return shutil.copytree(imported, tmp_path / "lake")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def calibrate(lake: Path, *more: str) -> int:
    return run("calibrate", "--lake", str(lake), "--method", "paper", "--pairs", "2", *more)


def test_a_record_is_kept_and_told(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = Chosen(method_of("paper"), method_of("paper").settings())
    assert newest_record(LocalStore.at(lake)) is None
    assert calibration_sentence(LocalStore.at(lake), chosen, RefineSettings()) == ""
    assert calibrate(lake) == 0
    out = capsys.readouterr().out
    assert out.startswith("In 2 pairs of ordinary times of this lake (about 3")
    assert "Verdicts: 2 " in out
    record = newest_record(LocalStore.at(lake))
    assert record is not None
    assert (record.pairs, record.method) == (2, "paper")
    assert record.sentence in out
    assert sum(record.verdicts.values()) == 2
    assert 20 <= record.requests0 <= 40
    assert 3 <= record.requests1 <= 14
    told = calibration_sentence(LocalStore.at(lake), chosen, RefineSettings())
    assert told == f"{record.sentence} Measured {record.created_at[:10]}."
    other = calibration_sentence(LocalStore.at(lake), chosen, RefineSettings(host_policy="none"))
    assert "other settings gave" in other
    assert check(LocalStore.at(lake)) == []


def test_a_record_that_cannot_be_kept_is_told_all_the_same(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (lake / "calibration").write_bytes(b"in the way")
    assert calibrate(lake) == 2
    out, error = capsys.readouterr()
    assert out.startswith("In 2 pairs of ordinary times")
    assert "Kept:" not in out
    assert "The calibration cannot be written" in error
    assert error.count("\n") == 1


def test_the_same_seed_gives_the_same(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for number in (1, 2):
        assert calibrate(lake, "--json") == 0
        found.append(json.loads(capsys.readouterr().out))
        assert len([*(lake / "calibration").iterdir()]) == number
    assert {**found[0], "created_at": ""} == {**found[1], "created_at": ""}


def test_a_damaged_record_is_passed_by(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate(lake) == 0
    assert calibrate(lake, "--seed", "1", "--history-windows", "0") == 0
    first, second = sorted((lake / "calibration").iterdir())
    newest = newest_record(LocalStore.at(lake))
    assert newest is not None
    assert newest.chosen.seed == 1
    second.write_bytes(second.read_bytes().replace(b'"paper"', b'"robot"'))
    newest = newest_record(LocalStore.at(lake))
    assert newest is not None
    assert newest.chosen.seed == 0
    (finding,) = check(LocalStore.at(lake))
    assert finding.invariant == "calibration"
    assert second.name in finding.detail
    assert first.name not in finding.detail
    # A number is never given twice, though the newest is damaged.
    assert calibrate(lake) == 0
    assert len([*(lake / "calibration").iterdir()]) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--reference-windows", "20"), "A pair is 20 + 1 adjacent steady windows"),
        (("--period", "2020-01-01"), "holds no window"),
        (("--period", "2025-11-20T00:54/4m,2025-11-20T00:59:30/3m"), "of its 6 windows 6 are steady"),
        (("--set", "nonsense=1"), "no such setting"),
        (("--set", "alpha=x"), "paper.alpha cannot be 'x'"),
        (("--set", "alpha=inf"), "paper.alpha cannot be 'inf'"),
        (("--method", "nothing"), "There is no method 'nothing'"),
    ],
)
def test_what_is_wrong_is_one_line(
    lake: Path, options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate(lake, "--reference-windows", "4", *options) == 2
    told = capsys.readouterr().err
    assert words in told.replace("\n", " ")
    assert "Traceback" not in told
    assert not (lake / "calibration").exists()
