"""`flowdiff end-lane`: end a lane whose partitions were deleted, so that windows no longer wait for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from flowdiff.cli.options import LakeOption
from flowdiff.cli.terminal import echo
from flowdiff.cli.upkeep import upkeep
from schemas.windows import NS_PER_SECOND

if TYPE_CHECKING:
    from stitch.lake.store import Store


def command(
    lake: LakeOption,
    lane: Annotated[
        int | None,
        typer.Option(help="Lane to end: partition number plus 1. Default: list the lanes.", metavar="N"),
    ] = None,
) -> None:
    """End a lane whose partitions were deleted for good, and build the windows that waited for it.

    Later windows are built and sealed without the lane. Its raw events are deleted once their windows are
    built. If its partitions return, the process they are assigned to takes the lane over and resumes at its
    offsets.
    """
    with upkeep(lake, "Ending a lane") as run:
        from stitch.drivers.ending import end_lane
        from stitch.scratch import Scratch

        if lane is None:
            _list(run.store)
            return
        with Scratch() as scratch:
            done = end_lane(run, lane, scratch)
    streams = ", ".join(stream.name for stream in done.streams)
    echo(f"lane {lane} ({streams}) ended: {done.windows:,} windows built of {done.events:,} events")


def _list(store: Store) -> None:
    """Print every lane that reads partitions, with its watermark, number of commits, and partitions."""
    from analyze.report.text_table import Heading, Kind
    from flowdiff.cli.listing import print_rows
    from stitch.drivers.ending import lanes_of_partitions

    def reached(watermark_ns: int | None, ended_ns: int | None) -> str:
        if ended_ns is not None:
            return "ended"
        if watermark_ns is None:
            return "nothing"
        return f"{datetime.fromtimestamp(watermark_ns // NS_PER_SECOND, UTC):%Y-%m-%d %H:%M}"

    rows = [
        [
            str(found.lane),
            reached(found.standing.watermark_ns, found.standing.ended_to_ns),
            f"{found.commit:,}",
            ", ".join(stream.name for stream in found.streams),
        ]
        for found in lanes_of_partitions(store)
    ]
    columns = [
        Heading("lane", Kind.NUMBER),
        Heading("sealed to (UTC)", Kind.EXACT),
        Heading("commits", Kind.NUMBER),
        Heading("partitions"),
    ]
    print_rows(columns, rows)
