"""`flowdiff repair`: late events become part of the windows they belong to."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiff.cli.options import LAKE_HELP
from flowdiff.cli.upkeep import GraceOption, duration_ns, upkeep


def command(
    lake: Annotated[str, typer.Argument(envvar="FLOWDIFF_LAKE", metavar="LAKE", help=LAKE_HELP)],
    finished: Annotated[
        bool,
        typer.Option(
            "--finished",
            help="Nothing is being ingested: do not wait until no more can come of a request.",
        ),
    ] = False,
    grace: GraceOption = "1h",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change, change nothing.")
    ] = False,
) -> None:
    """Fold late events into the windows they belong to, under readers and live ingestion.

    Their requests are stitched anew from all events, as far as these are kept (live.keep_events). Readers
    that have started go on: the files that were replaced go with the first run after the grace.
    """
    grace_ns = duration_ns(grace)
    with upkeep(lake, "Repair") as at:
        from stitch.drivers.repair.mending import Verdict
        from stitch.drivers.repair.repairing import repair

        done = repair(
            at.store,
            lake,
            grace_ns=grace_ns,
            now_ns=at.now_ns,
            owner=at.owner,
            created_by=at.created_by,
            finished=finished,
            dry_run=dry_run,
        )
    would = "would be " if dry_run else ""
    folded = done.events.get(Verdict.FOLDED, 0)
    typer.echo(
        f"{folded:,} late events of {done.requests:,} requests {would}folded in, "
        f"{done.windows:,} windows {would}written anew"
    )
    for verdict, text in (
        (Verdict.SAME, f"{would}dropped, copies of events that were not late"),
        (Verdict.WAITS, "wait: their window is not sealed, or more may come of their request"),
        (Verdict.LOST, "stay late: other events of their requests are not kept (live.keep_events)"),
        (Verdict.SPLIT, "stay late: their requests came by several partitions (flowdiff rekey)"),
        (Verdict.RETIRED, f"belong to requests of windows that are retired; {would}dropped with those"),
    ):
        if n := done.events.get(verdict, 0):
            typer.echo(f"{n:,} {text}")
    if done.aged:
        typer.echo(f"{done.aged:,} {would}dropped: not to be folded in, and past the age of flowdiff retain")
    if not dry_run:
        typer.echo(
            f"{done.removed:,} files and folders removed, replaced or retired longer than the grace ago"
        )
