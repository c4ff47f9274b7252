"""The list of subcommands, what help costs, and how whatever goes wrong ends."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise

import pytest
import typer

from flowdiff.__main__ import COMMANDS, GROUPS, PANELS, main, module_of
from flowdiff.cli.outcome import exit_code, reported_afterwards
from schemas.errors import ConfigError, LakeError

HEAVY = ("duckdb", "numpy", "pyarrow", "scipy", "jinja2")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says(name: str) -> None:
    doc = import_module(module_of(name)).command.__doc__
    assert doc.startswith(COMMANDS[name])
    assert COMMANDS[name].endswith(".")


LIGHT = (
    (),
    ("--help",),
    ("--version",),
    ("--show-completion", "bash"),
    ("nonsense",),
    ("windows", "--help"),
    ("categories", "--help"),
    ("sql", "--help"),
    ("export", "--help"),
    ("import", "--help"),
    ("ingest", "--help"),
    ("config", "--help"),
    ("top", "--help"),
    ("fsck", "--help"),
    ("summarize", "--help"),
    ("calibrate", "--help"),
    ("compact", "--help"),
    ("retain", "--help"),
    ("repair", "--help"),
    ("end-lane", "--help"),
)
"""What is answered before anything is imported that works."""


def test_help_imports_nothing_that_works() -> None:
    """One after the other in one process: what one of them imports stays."""
    script = (
        "import sys\nfrom flowdiff.__main__ import main\n"
        f"for arguments in {LIGHT!r}:\n"
        "    try: main(arguments)\n    except SystemExit: pass\n"
        f"    print('imported', arguments, [x for x in {HEAVY!r} if x in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if line.startswith("imported ")]
    assert told == [f"imported {arguments!r} []" for arguments in LIGHT]


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    listed = [*GROUPS, *(name for names in PANELS.values() for name in names)]
    assert all(f" {name} " in out for name in listed)
    assert not any(f" {name} " in out for _, names in GROUPS.values() for name in names)


@pytest.mark.parametrize("name", COMMANDS)
def test_paragraphs_of_help_fill_their_lines(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    lines = [line.strip() for line in capsys.readouterr().out.split("╭")[0].splitlines()]
    for line, after in pairwise(lines):
        assert not line or not after or len(f"{line} {after.split()[0]}") > 76, line


def test_brackets_of_help_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit):
        main(["produce", "--help"])
    assert "Security settings: [kafka] of --config" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("flowdiff analyze cat", {"categories"}),
        ("flowdiff sql --time", {"--timeout"}),
        ("flowdiff win", {"windows"}),
    ],
)
def test_the_shell_completes_commands_and_options(words: str, completed: set[str]) -> None:
    environment = {
        "_FLOWDIFF_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "flowdiff"], env=environment, capture_output=True, text=True, check=False
    )
    assert {*done.stdout.split()} == completed, done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["imprt"], "No such command 'imprt'. Did you mean 'import'? See: flowdiff --help [usage]"),
        (["windows"], "Missing option '--lake'"),
        (["windows", "--lak", "x"], "No such option: --lak"),
        (["sql", "--lake", "x", "--format", "x"], "'x' is not one of 'table', 'csv', 'json', 'parquet'"),
        (
            ["sql", "--lake", "x", "-c", "select 1", "--timeout", "soon"],
            "--timeout: 'soon' is not a duration",
        ),
    ],
)
def test_a_wrong_call_is_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLOWDIFF_LAKE", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert told in error
    assert error.count("\n") == 1


def fail(error: BaseException) -> Callable[[], int]:
    def run() -> int:
        raise error

    return run


def gone() -> int:
    """How rich ends a process when the reader has left."""
    try:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
    except BrokenPipeError:
        raise SystemExit(1)  # noqa: B904 - rich does it so


@pytest.mark.parametrize(
    ("run", "code", "told"),
    [
        (lambda: None, 0, ""),
        (lambda: 1, 1, ""),
        (fail(LakeError("No lake.")), 2, "flowdiff: No lake. [lake]\n"),
        (fail(ConfigError("Two\nlines\x1b.")), 2, "flowdiff: Two␊lines␛. [config]\n"),
        (fail(PermissionError(errno.EACCES, "Permission denied", "/x/y")), 2, "flowdiff: '/x/y': permission"),
        (fail(OSError(errno.ENOSPC, "No space left on device")), 2, "cannot be written: no space left"),
        (fail(OSError(errno.EMFILE, "Too many open files")), 2, "The system refused: too many open files"),
        (fail(BrokenPipeError(errno.EPIPE, "Broken pipe")), 0, ""),
        (gone, 0, ""),
        (fail(SystemExit(1)), 1, ""),
        (fail(KeyboardInterrupt()), 130, "flowdiff: interrupted.\n"),
        (fail(typer.Abort()), 130, "flowdiff: interrupted.\n"),
        (fail(MemoryError()), 2, "not enough memory"),
        (
            fail(UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "surrogates")),
            2,
            "The name 'a\\xff' is not UTF-8.",
        ),
    ],
)
def test_how_a_command_ends(
    run: Callable[[], int], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(run) == code
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == (1 if told else 0)


@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError("a bug"), OSError("no number"), UnicodeEncodeError("utf-8", "\ud800", 0, 1, "x")],
)
def test_a_bug_keeps_its_traceback(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(fail(error)) == 2
    assert "Traceback" in capsys.readouterr().err


def test_what_is_done_stays_done_where_it_cannot_be_told(capsys: pytest.CaptureFixture[str]) -> None:
    with reported_afterwards("The import is committed"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert capsys.readouterr().err == (
        "flowdiff: The import is committed; that could not be printed: no space left on device.\n"
    )
    with reported_afterwards("The import is committed"):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
    assert capsys.readouterr().err == ""
    with pytest.raises(ZeroDivisionError), reported_afterwards("x"):
        raise ZeroDivisionError
