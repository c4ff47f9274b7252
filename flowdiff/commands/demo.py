"""`flowdiff demo`: the whole pipeline on a simulated web shop, from traces to a report."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from flowdiff.cli.terminal import echo
from schemas.errors import InputError

BEGIN: Final = datetime(2026, 11, 18, 20, 20, tzinfo=UTC)
DEPLOYED: Final = 0.6
"""Share of the run before the new version is deployed; with the default number of requests, that is until
20:38.
"""
PER_SECOND: Final = 5
"""Number of requests per second of the simulated shop."""
TRACES: Final = "shop.jsonl.gz"
MADE: Final = {"lake", "report.html", TRACES}


def command(
    folder: Annotated[Path, typer.Argument(help="Folder for the traces, the lake and the report.")] = Path(
        "demo"
    ),
    requests: Annotated[int, typer.Option(min=100, help="Number of simulated requests.")] = 9_000,
) -> None:
    """Simulate a web shop before and after a deployment, compare both, and write a report.

    Each step is a command, printed before it runs. Files of an earlier demo are replaced.
    """
    from flowdiff.__main__ import run

    _empty(folder)
    lake, traces = str(folder / "lake"), str(folder / TRACES)
    deployed_s = round(DEPLOYED * requests / PER_SECOND)
    fault = ["--fault", "S1-slow-stock", "--fault-start", str(deployed_s)]
    steps = [
        [
            *(
                "simulate",
                "--workload",
                "web-shop",
                "--requests",
                str(requests),
                "--start",
                f"{BEGIN:%Y-%m-%dT%H:%MZ}",
            ),
            *(*fault, "--out", traces),
        ],
        ["import", traces, "--lake", lake],
        ["windows", "--lake", lake],
        [
            *("compare", "--lake", lake, "--since", f"{BEGIN + timedelta(seconds=deployed_s):%H:%M:%S}"),
            # The demo is about a change, so exit code 1 of the comparison is no failure.
            *("--fail-on", "never", "--html", str(folder / "report.html")),
        ],
    ]
    for step in steps:
        echo()
        echo(f"$ flowdiff {shlex.join(step)}")
        if code := run(step):
            raise typer.Exit(code)
    echo()
    echo(f"Open {folder / 'report.html'} in a browser. Ask the lake:")
    echo(f"  flowdiff sql --lake {lake}")


def _empty(folder: Path) -> None:
    """Remove the files of an earlier demo from a folder. Raises InputError if the folder has other files."""
    from shutil import rmtree

    folder.mkdir(parents=True, exist_ok=True)
    if foreign := sorted({path.name for path in folder.iterdir()} - MADE):
        raise InputError(
            f"The folder '{folder}' holds '{foreign[0]}', which no demo made.", remedy="Name another folder."
        )
    for path in folder.iterdir():
        rmtree(path) if path.is_dir() else path.unlink()
