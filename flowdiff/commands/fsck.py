"""`flowdiff fsck`: is the lake what its commits say?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stitch.lake.disk import LocalDisk
from stitch.lake.fsck import check


def command(lake: Annotated[Path, typer.Argument(help="Folder of the lake.")]) -> None:
    """Check a lake against its commits; exit code 0 when nothing is wrong, 1 otherwise."""
    findings = check(LocalDisk(lake))
    for finding in findings:
        typer.echo(f"{finding.invariant}: {finding.detail}")
    typer.echo(f"{len(findings)} errors")
    raise typer.Exit(1 if findings else 0)
