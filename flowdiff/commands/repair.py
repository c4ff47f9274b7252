"""`flowdiff repair`: rebuild windows that have late events, or restore damaged segments from Kafka."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flowdiff.cli.options import LakeOption
from flowdiff.cli.terminal import echo
from flowdiff.cli.upkeep import DryRunOption, GraceOption, upkeep
from flowdiff.settings.effective import effective
from flowdiff.settings.keys import CONFIG_VARIABLE
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from ingest.source import RangeSource


def command(
    lake: LakeOption,
    grace: GraceOption = "1h",
    dry_run: DryRunOption = False,
    lane: Annotated[
        int | None,
        typer.Option(
            help="Instead, restore damaged or missing segments of this lane's log from Kafka, with ingest's "
            "configuration. The lane of a partition is its number plus 1; 0 are imports with --keep-events, "
            "whose events cannot be read again.",
            metavar="N",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help=f"With --lane: configuration file of ingest. Default: ${CONFIG_VARIABLE}."),
    ] = None,
    accept_gaps: Annotated[
        bool,
        typer.Option(
            "--accept-gaps",
            help="With --lane: accept the loss of messages that Kafka no longer has, and record it.",
        ),
    ] = False,
    finished: Annotated[bool, typer.Option("--finished", hidden=True)] = False,
) -> None:
    """Rebuild windows that have late events now, even while they are read and live ingestion runs.

    Live ingestion also does so by itself, at most every ten minutes (live.rebuild). Late events of windows
    whose raw events are deleted (live.keep_events) stay late. Running readers are not disturbed: replaced
    files are deleted by the first run after the grace period.
    """
    if finished:
        raise ConfigError(
            "--finished means nothing any more: late events wait for no end of their requests.",
            remedy="Leave it out. live.rebuild says when ingestion builds a window again by itself.",
        )
    if lane is not None:
        _read_again(lake, lane, config, accept_gaps=accept_gaps)
        return
    with upkeep(lake, "Repair", grace) as run:
        from stitch.drivers.repair.repairing import repair
        from stitch.scratch import Scratch

        with Scratch() as scratch:
            done = repair(run, scratch, dry_run=dry_run)
    if dry_run:
        echo(f"{done.windows:,} windows would be built again")
        return
    echo(f"{done.windows:,} windows built again; {done.events:,} events in all windows that were built")
    if done.late:
        echo(f"{done.late:,} events stored as late: the log of their windows is gone (live.keep_events)")
    echo(f"{done.removed:,} files and folders removed, replaced or retired longer than the grace ago")


def _read_again(lake: str, lane: int, config: Path | None, *, accept_gaps: bool) -> None:
    """Restore the damaged segments of a lane's log from Kafka, and print the result."""
    from schemas.config import DecodeConfig
    from stitch.lake.lane import FILE_LANE

    # Imported files are no log that could be read again, and need no configuration of one.
    found = None if lane == FILE_LANE else effective({"lake": lake}, os.environ, config).config
    receives = found is not None and found.receives
    with upkeep(lake, "Reading a lane again") as run:
        from ingest.kafka.log_reader import LogReader
        from stitch.drivers.repair.reading_again import NothingLeft, read_again

        with ExitStack() as held:
            log: RangeSource = NothingLeft()  # a spool drops what the lake has
            if found is not None and not receives:
                log = held.enter_context(closing(LogReader(found.kafka, found.live.decode)))
            decode = DecodeConfig() if found is None else found.live.decode
            done = read_again(run, lane, log, decode, accept_gaps=accept_gaps)
    echo(
        f"lane {lane}: {done.segments:,} segments read again; "
        f"{done.events_after:,} of {done.events_before:,} events are there"
    )
    source = "The spool" if receives else "Kafka"
    for gone in done.lost:
        echo(f"{source} no longer has {gone.topic}/{gone.partition} {gone.start} to {gone.end - 1}")
