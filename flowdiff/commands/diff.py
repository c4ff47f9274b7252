"""`flowdiff diff`: compare two files of traces directly, without naming a lake."""

from __future__ import annotations

import re
from os.path import abspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from flowdiff.cli.outcome import say
from schemas.errors import InputError


def command(
    before: Annotated[
        str, typer.Argument(help="File of traces before, or a glob in quotes: 'before/*.jsonl.gz'.")
    ],
    after: Annotated[str, typer.Argument(help="File of traces after, or a glob in quotes.")],
    html: Annotated[Path | None, typer.Option(help="Write the report as an HTML page to this file.")] = None,
    markdown: Annotated[
        str | None, typer.Option(help="Write a short report in Markdown to this file; `-` prints it.")
    ] = None,
    as_json: Annotated[
        str | None, typer.Option("--json", help="Write the report as JSON to this file; `-` prints it.")
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Findings that make the exit code 1 or 3, as in `flowdiff compare`; may be repeated.",
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Print the whole report: reasons of the verdict, breakdown, tests."
        ),
    ] = False,
) -> None:
    """Compare two files of traces, or two sets of files, without keeping a lake.

    Both are read into temporary lakes. To ask further questions, `flowdiff import` the files.
    """
    from flowdiff.__main__ import run

    given = {"--html": html, "--markdown": markdown, "--json": as_json}
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    options += [word for kind in fail_on or () for word in ("--fail-on", kind)]
    with TemporaryDirectory(prefix="flowdiff-diff-") as folder:
        lakes = [str(Path(folder) / name) for name in _names(before, after)]
        for files, lake in zip((before, after), lakes, strict=True):
            _import(files, lake)
        periods = [f"{lake}@all" for lake in lakes]
        more = ["--verbose"] if verbose else []
        code = run(
            ["compare", "--reference", periods[0], "--problem", periods[1], "--no-save", *options, *more]
        )
    if code:
        raise typer.Exit(code)


def _names(before: str, after: str) -> tuple[str, str]:
    """Names of the two lakes in reports: the last path components in which `before` and `after` differ."""
    # Without `..`, which would be a folder beside ours.
    paths = [Path(abspath(files)) for files in (before, after)]  # noqa: PTH100 - links keep their names
    for first, second in zip(*(path.parts[::-1] for path in paths), strict=False):
        left, right = (re.sub(r"[^\w.*-]", "_", part) for part in (first, second))
        if left != right:
            return left, right
    return "first", "second"


def _import(files: str, lake: str) -> None:
    """Import the files of one side (before, after) into a lake; report refused items on standard error.

    Raises InputError if no request is left.
    """
    from flowdiff.lake import Lake

    done = Lake(lake).import_(files, progress=True)
    if done.rejected:
        told = ", ".join(f"{number:,} {reason}" for reason, number in done.rejected.items())
        say(f"{files}: rejected: {told}")
    if not done.flows:
        raise InputError(
            f"'{files}' holds no request.", remedy="See docs/internals/formats.md for what is read."
        )
