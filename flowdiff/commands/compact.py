"""`flowdiff compact`: merge the many small files of a window into one."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiff.cli.options import LakeOption
from flowdiff.cli.terminal import echo
from flowdiff.cli.upkeep import DryRunOption, GraceOption, upkeep


def command(
    lake: LakeOption,
    files: Annotated[
        int, typer.Option(min=2, help="Minimum number of flow files of a window to rewrite it.")
    ] = 4,
    grace: GraceOption = "1h",
    dry_run: DryRunOption = False,
) -> None:
    """Rewrite sealed windows of many small files as one file per table, with the same rows.

    Running readers are not disturbed: the first run after the grace period deletes the replaced files.
    """
    with upkeep(lake, "Compaction", grace) as run:
        from stitch.lake.upkeep.compaction import compact

        done = compact(run, least_files=files, dry_run=dry_run)
    if dry_run:
        size = f"{done.files_before:,} files, {done.bytes_before:,} bytes"
        echo(f"{done.windows:,} windows would be written anew ({size})")
        return
    echo(
        f"{done.windows:,} windows written anew: {done.files_before:,} files of {done.bytes_before:,} bytes "
        f"became {done.files_after:,} of {done.bytes_after:,}"
    )
    echo(f"{done.removed:,} files and folders removed, replaced or retired longer than the grace ago")
