"""`flowdiff retain`: drop windows past their age."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiff.cli.options import LakeArgument
from flowdiff.cli.upkeep import GraceOption, upkeep
from flowdiff.settings.keys import duration_of


def command(
    lake: LakeArgument,
    keep: Annotated[str, typer.Option(help="Age past which a window goes, by its end: 30d.", metavar="AGE")],
    keep_late: Annotated[
        str | None,
        typer.Option(
            help="Age past which late and repaired events and dead letters go, by when they were written; "
            "as --keep where it is not given.",
            metavar="AGE",
        ),
    ] = None,
    keep_reports: Annotated[
        str | None,
        typer.Option(
            help="Age past which reports go, by when they were written; else they stay.", metavar="AGE"
        ),
    ] = None,
    grace: GraceOption = "1h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, change nothing.")] = False,
) -> None:
    """Drop whole windows past an age from a lake, under readers and live ingestion.

    Late events and dead letters of that age go, too; commit records stay. Late events that a repair wrote
    anew go with the next one, by their own time. Readers that start from now on see none of them; the files
    are deleted by the first run after the grace.
    """
    keep_ns = duration_of(keep)
    keep_late_ns, keep_reports_ns = (
        None if age is None else duration_of(age) for age in (keep_late, keep_reports)
    )
    with upkeep(lake, "Retention", grace) as run:
        from stitch.lake.upkeep.retention import retire

        done = retire(
            run,
            keep_ns=keep_ns,
            keep_late_ns=keep_late_ns,
            keep_reports_ns=keep_reports_ns,
            dry_run=dry_run,
        )
        if done.reports and not dry_run:
            from analyze.report.index import kept_reports
            from stitch.lake.place import open_place

            kept_reports(open_place(lake))  # the list of those that are left
    flows, size = (
        sum(numbers) for numbers in ([e.flows for e in done.windows], [e.size for e in done.windows])
    )
    first = f": {done.windows[0].window.name} to {done.windows[-1].window.name}" if done.windows else ""
    would = "would be " if dry_run else ""
    typer.echo(f"{len(done.windows):,} windows {would}retired{first} ({flows:,} flows, {size:,} bytes)")
    for side in done.sides:
        counted = f"{side.files:,} files of {side.table} ({side.rows:,} rows)"
        typer.echo(f"{counted} {would}taken out, written longer than their age ago")
    if done.reports:
        typer.echo(f"{len(done.reports):,} reports {would}removed")
    typer.echo(f"{done.removed:,} files and folders {would}removed, retired longer than the grace ago")
    if done.held_back:
        typer.echo(f"past their age, but not sealed by live ingestion, so kept: {done.held_back:,}")
