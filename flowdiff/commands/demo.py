"""`flowdiff demo`: the whole pipeline on a simulated service, from traces to a report."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from flowdiff.cli.terminal import echo
from schemas.errors import InputError

DAYS: Final = {
    "wednesday": ["--seed", "1", "--start", "2026-11-18T09:00:00Z"],
    "thursday": ["--seed", "2", "--start", "2026-11-19T09:00:00Z", "--fault", "F1-mds-config"],
}
"""Arguments of the two simulated days. On the second the metadata server writes to the data node: the papers'
first case.
"""
MADE: Final = {"lake", "report.html", *(f"{day}.ndjson.gz" for day in DAYS)}


def command(
    folder: Annotated[Path, typer.Argument(help="Folder for the traces, the lake and the report.")] = Path(
        "demo"
    ),
    requests: Annotated[int, typer.Option(min=100, help="Requests simulated a day.")] = 6_000,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
) -> None:
    """Simulate a storage service before and after a change, compare, write a report.

    Every step is a command, which is printed before it runs. What an earlier demo left is replaced.
    """
    from flowdiff.__main__ import run

    _empty(folder)
    lake, files = str(folder / "lake"), {day: str(folder / f"{day}.ndjson.gz") for day in DAYS}
    simulated = ["simulate", "--workload", "postmark-large", "--requests", str(requests)]
    steps = [
        *([*simulated, "--workers", str(workers), *DAYS[day], "--out", files[day]] for day in DAYS),
        ["import", *files.values(), "--lake", lake],
        ["windows", "--lake", lake],
        [
            *("compare", "--lake", lake, "--reference", "2026-11-18", "--problem", "2026-11-19"),
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
    """Remove the files of an earlier demo. Raises InputError where the folder has anything else."""
    from shutil import rmtree

    folder.mkdir(parents=True, exist_ok=True)
    if foreign := sorted({path.name for path in folder.iterdir()} - MADE):
        raise InputError(
            f"The folder '{folder}' holds '{foreign[0]}', which no demo made.", remedy="Name another folder."
        )
    for path in folder.iterdir():
        rmtree(path) if path.is_dir() else path.unlink()
