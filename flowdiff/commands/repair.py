"""`flowdiff repair`: fold late events into the windows they belong to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from flowdiff.cli.options import LakeOption
from flowdiff.cli.terminal import echo
from flowdiff.cli.upkeep import DryRunOption, GraceOption, upkeep
from flowdiff.settings.effective import effective
from flowdiff.settings.keys import CONFIG_VARIABLE
from schemas.errors import ConfigError


def command(
    lake: LakeOption,
    finished: Annotated[
        bool,
        typer.Option(
            "--finished",
            help="Nothing is being ingested: do not wait until no more can come of a request.",
        ),
    ] = False,
    grace: GraceOption = "1h",
    dry_run: DryRunOption = False,
    lane: Annotated[
        int | None,
        typer.Option(
            help="Instead, read the damaged or missing segments of a halted lane again from Kafka, as ingest "
            "is configured. Of partition n it is n + 1.",
            metavar="N",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help=f"With --lane: configuration of ingest; else {CONFIG_VARIABLE}.")
    ] = None,
    accept_gaps: Annotated[
        bool,
        typer.Option(
            "--accept-gaps", help="With --lane: go on without what Kafka no longer has; the ledger says so."
        ),
    ] = False,
) -> None:
    """Fold late events into the windows they belong to, under readers and live ingestion.

    Their requests are stitched anew from all events, as far as these are kept (live.keep_events). Readers
    that have started are not disturbed: replaced files are deleted by the first run after the grace.
    """
    if lane is not None:
        _read_again(lake, lane, config, accept_gaps=accept_gaps)
        return
    with upkeep(lake, "Repair", grace) as run:
        from stitch.drivers.repair.mending import LateOutcome
        from stitch.drivers.repair.repairing import repair

        done = repair(run, finished=finished, dry_run=dry_run)
    would = "would be " if dry_run else ""
    folded = done.events.get(LateOutcome.FOLDED, 0)
    echo(
        f"{folded:,} late events of {done.requests:,} requests {would}folded in, "
        f"{done.windows:,} windows {would}written anew"
    )
    for verdict, text in (
        (LateOutcome.SAME, f"{would}dropped, copies of events that were not late"),
        (LateOutcome.WAITS, "wait: their window is not sealed, or more may come of their request"),
        (LateOutcome.LOST, "stay late: other events of their requests are not kept (live.keep_events)"),
        (LateOutcome.SPLIT, "stay late: their requests came by several partitions (flowdiff rekey)"),
        (LateOutcome.RETIRED, f"belong to requests of windows that are retired; {would}dropped with those"),
    ):
        if n := done.events.get(verdict, 0):
            echo(f"{n:,} {text}")
    if done.aged:
        echo(f"{done.aged:,} {would}dropped: not to be folded in, and past the age of flowdiff retain")
    if done.lost_segments:
        echo(
            f"flowdiff: {len(done.lost_segments):,} files of events kept for a repair are missing, "
            f"'{done.lost_segments[0]}' first: requests with events in them stay as they are. "
            "Restore the files from a backup; `flowdiff fsck` names all.",
            err=True,
        )
    if not dry_run:
        echo(f"{done.removed:,} files and folders removed, replaced or retired longer than the grace ago")


def _read_again(lake: str, lane: int, config: Path | None, *, accept_gaps: bool) -> None:
    """Restore the open events of a lane from Kafka where their segments are damaged."""
    found = effective({"lake": lake}, os.environ, config).config
    with upkeep(lake, "Reading a lane again") as run:
        from ingest.kafka.log_reader import LogReader
        from stitch.drivers.repair.reading_again import read_again

        if found.receives:
            raise ConfigError(
                "What came over OTLP cannot be read again: the spool no longer has it.",
                remedy="Restore the segments from a backup, or end the lane: flowdiff end-lane.",
            )
        log = LogReader(found.kafka, found.live.decode)
        try:
            done = read_again(run, lane, log, found.live.decode, accept_gaps=accept_gaps)
        finally:
            log.close()
    echo(
        f"lane {lane}: {done.segments:,} segments read again; "
        f"{done.open_after:,} of {done.open_before:,} open events are there"
    )
    for gone in done.lost:
        echo(f"Kafka no longer has {gone.topic}/{gone.partition} {gone.start} to {gone.end - 1}")
