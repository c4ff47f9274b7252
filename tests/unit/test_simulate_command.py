"""`flowdiff simulate` from the outside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowdiff.__main__ import main
from simulator.faults import FAULTS
from simulator.workloads import WORKLOADS


def simulate(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", *arguments])
    return int(ended.value.code or 0)


def test_writes_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run.ndjson.gz"
    code = simulate(
        *("--workload", "linux-build", "--fault", "F3", "--seed", "7", "--requests", "400"),
        *("--out", str(out), "--workers", "1", "--json"),
    )
    assert code == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["traced"] == 400
    assert out.stat().st_size > 1_000


def test_same_arguments_same_bytes(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.jsonl", "b.jsonl")]
    for file in files:
        simulate("--workload", "iozone", "--requests", "200", "--format", "otlp-json", "--out", str(file))
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_run_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    file = tmp_path / "keep.gz"
    file.write_bytes(b"before")
    monkeypatch.setattr("simulator.output.Run.lines", broken)
    assert simulate("--requests", "20", "--out", str(file), "--workers", "1") == 130
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("keep.gz", b"before")]


@pytest.mark.parametrize(("workload", "fault"), [("sfs97", "F5-spin"), ("web-shop", "S1-slow-stock")])
@pytest.mark.parametrize(
    "how", ["--fault-end 10", "--fault {} --fault-start 60 --fault-end 30", "--fault {} --fault-end nan"]
)
def test_an_end_that_ends_nothing_is_refused(workload: str, fault: str, how: str, tmp_path: Path) -> None:
    arguments = [
        "--workload",
        workload,
        "--requests",
        "20",
        "--out",
        str(tmp_path / "a"),
        *how.format(fault).split(),
    ]
    assert simulate(*arguments) == 2
    assert [*tmp_path.iterdir()] == []


def test_traces_on_standard_output(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    size = ("--requests", "20", "--workers", "1")
    assert simulate(*size, "--out", str(tmp_path / "a.ndjson")) == 0
    capfdbinary.readouterr()
    assert simulate(*size, "--out", "-") == 0
    out, error = capfdbinary.readouterr()
    assert out == (tmp_path / "a.ndjson").read_bytes()
    assert b"traced: 20" in error


def test_lists_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate("--list") == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in [*WORKLOADS, *FAULTS])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing to write"),
        (("--out", "x.ndjson", "--workload", "nfs"), "no workload"),
        (("--out", "x.ndjson", "--fault", "F99"), "no fault"),
        (("--out", "x.ndjson", "--severity", "1"), "more severities"),
        (("--out", "x.ndjson", "--start", "noon"), "not a time"),
        (("--out", "x.ndjson", "--start", "9999-01-01"), "outside 1990 to 2200"),
        (("--out", "x.jsonl", "--workload", "web-shop", "--format", "native"), "is written as otlp-json"),
        (("--out", "x.jsonl", "--workload", "web-shop", "--sample", "0.5"), "traces every request"),
        (("--out", "-", "--json"), "takes standard output"),
        (("--out", "missing-folder/x.ndjson", "--requests", "20"), "does not exist"),
    ],
)
def test_mistakes_are_told_in_one_line(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert simulate(*arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
