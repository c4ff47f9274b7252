"""`flowdiff fsck`: is the lake what its commits say?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flowdiff.cli.options import LAKE_HELP
from schemas.errors import ConfigError, LakeError


def command(
    folder: Annotated[str | None, typer.Argument(metavar="[LAKE]", help=LAKE_HELP)] = None,
    lake: Annotated[
        str | None,
        typer.Option("--lake", envvar="FLOWDIFF_LAKE", metavar="LAKE", help="The same, as elsewhere."),
    ] = None,
) -> None:
    """Check a lake against its commits; exit code 0 when nothing is wrong, 1 when something is."""
    from stitch.lake.fsck import check
    from stitch.lake.place import is_bucket, open_store

    name = lake if folder is None else folder
    if name is None:
        raise ConfigError("No lake is named.", remedy="Write `flowdiff fsck LAKE`.")
    if not is_bucket(name) and not Path(name).is_dir():
        raise LakeError(f"There is no lake at '{name}'.", remedy="Check the path.")
    findings = check(open_store(name), name)
    for finding in findings:
        typer.echo(f"{finding.invariant}: {finding.detail}")
    typer.echo("1 error" if len(findings) == 1 else f"{len(findings)} errors")
    raise typer.Exit(1 if findings else 0)
