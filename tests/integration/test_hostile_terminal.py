"""Names that steer a terminal are shown and not obeyed, by every command that prints them."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import flowdiff
from flowdiff.__main__ import main

EVIL = "a\x1b[2J\x1b]0;owned\x07b\u202ec\u200fd\ne\rf"
STEERING = set(EVIL) - set("abcdef[]0;owned2J\n")
SHOWN = "a\u241b[2J\u241b]0;owned\u2407b\ufffdc\ufffdd\u240ae\u240df"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    record = {"component": EVIL, "point": EVIL, "host": EVIL, "request_id": f"r{EVIL}", "breadcrumb": "b"}
    start = 1_700_000_000_000_000_000
    lines = [
        json.dumps(
            {
                **record,
                "ts": start + i * 1000,
                "status": EVIL,
                "params": {EVIL: EVIL, f"{EVIL}n": 1},
                "seq": i,
            }
        )
        for i in range(3)
    ]
    (folder / "hostile.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert run("import", str(folder / "hostile.json"), "--lake", str(folder / "lake")) == 0
    return folder / "lake"


@pytest.mark.parametrize(
    "command",
    [
        ("categories",),
        ("flow", "r", "--params"),
        ("sql", "-c", "SELECT root, status, request_id FROM requests"),
        (
            "sql",
            "-c",
            "SELECT root, [root] AS list, {'a': root} AS struct, root AS \"x\x1b[2J\u202e\" FROM requests",
        ),
        ("sql", "-c", "SELECT " + ", ".join(f"root AS r{i}" for i in range(30)) + " FROM requests"),
        ("sql", "-c", "SELECT chr(0) || chr(27) || 'x' AS zero"),
    ],
)
def test_output_steers_no_terminal(
    lake: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    capsys.readouterr()
    assert run(*command, "--lake", str(lake)) == 0
    out = capsys.readouterr().out
    assert not set(out) & (STEERING | {"\0"})
    assert "\u241b" in out
    assert all(not line.startswith(("e", "[2J")) for line in out.splitlines())


def test_a_name_is_shown_whole(
    lake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    run("categories", "--lake", str(lake))
    assert f"{SHOWN}/{SHOWN}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "shown",
    [
        lambda lake: lake.requests(),
        lambda lake: lake.sql('SELECT root AS "x\x1b[2J\u202e" FROM requests'),
        lambda lake: lake.flow("r"),
        lambda lake: lake.flow("r").nodes,
        lambda lake: lake.browse(),
    ],
)
def test_python_steers_no_terminal(lake: Path, shown: Callable[[flowdiff.Lake], object]) -> None:
    """What a prompt shows of an object, and a notebook of a table; values stay what they are."""
    found = shown(flowdiff.open(lake))
    tables = isinstance(found, flowdiff.Table | flowdiff.Flow)
    for text in (repr(found), *([found._repr_html_()] if tables else [])):
        assert not set(text) & STEERING
        assert SHOWN[:3] in text


def test_what_python_raises_steers_no_terminal(lake: Path) -> None:
    with pytest.raises(flowdiff.FlowdiffError) as caught:
        flowdiff.open(lake).flow(EVIL)
    told = "".join(traceback.format_exception(caught.value))
    assert not set(told.replace("\n", "")) & STEERING
    assert EVIL in caught.value.message


@pytest.mark.parametrize("command", [("flow", EVIL), ("export", "--format", "dot", "--category", EVIL)])
def test_errors_steer_no_terminal(
    lake: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(*command, "--lake", str(lake)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert not set(error) & STEERING


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (".bogus", "no command .bogus"),
        (".schema", "Name a view: requests, "),
        (".schema nope", "no view 'nope': requests, "),
        (".schema mutations", "VARCHAR[]"),
        (".help", ".quit"),
    ],
)
def test_shell_answers_a_dot_command(
    lake: Path, line: str, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = iter([line, ".quit"])
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert run("sql", "--lake", str(lake)) == 0
    assert told in capsys.readouterr().out
