"""`flowdiff fsck`: is the lake what its commits say?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from schemas.errors import ConfigError, LakeError
from stitch.lake.fsck import check
from stitch.lake.store import LocalDisk


def command(
    folder: Annotated[Path | None, typer.Argument(metavar="[LAKE]", help="Folder of the lake.")] = None,
    lake: Annotated[
        Path | None, typer.Option("--lake", envvar="FLOWDIFF_LAKE", help="The same, as elsewhere.")
    ] = None,
) -> None:
    """Check a lake against its commits; exit code 0 when nothing is wrong, 1 when something is."""
    root = lake if folder is None else folder
    if root is None:
        raise ConfigError("No lake is named.", remedy="Write `flowdiff fsck LAKE`.")
    if not root.is_dir():
        raise LakeError(f"There is no lake at '{root}'.", remedy="Check the path.")
    findings = check(LocalDisk(root))
    for finding in findings:
        typer.echo(f"{finding.invariant}: {finding.detail}")
    typer.echo("1 error" if len(findings) == 1 else f"{len(findings)} errors")
    raise typer.Exit(1 if findings else 0)
