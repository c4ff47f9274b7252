"""`flowdiff retain`: drop windows past their age."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flowdiff.cli.named_settings import SetOption, refinement
from flowdiff.cli.options import LakeOption
from flowdiff.cli.terminal import echo
from flowdiff.cli.upkeep import DryRunOption, GraceOption, upkeep
from flowdiff.settings.keys import duration_of
from schemas.errors import LakeError, PeriodError

if TYPE_CHECKING:
    from stitch.lake.upkeep.retention import Retired


def command(
    lake: LakeOption,
    keep: Annotated[
        str, typer.Option(help="Age of a window, by its end, after which it is removed: 30d.", metavar="AGE")
    ],
    keep_late: Annotated[
        str | None,
        typer.Option(
            help="Age of late events, repaired events and dead letters, by the time they were written,"
            " after which they are removed. Default: as --keep.",
            metavar="AGE",
        ),
    ] = None,
    keep_reports: Annotated[
        str | None,
        typer.Option(
            help="Age of a report, by the time it was written, after which it is removed. Default: "
            "reports are kept.",
            metavar="AGE",
        ),
    ] = None,
    fine_statistics: Annotated[
        str | None,
        typer.Option(
            help="Age after which statistics are kept by quarter of a day instead of by window. "
            "Default: both are kept.",
            metavar="AGE",
        ),
    ] = None,
    grace: GraceOption = "1h",
    dry_run: DryRunOption = False,
    settings: SetOption = None,
) -> None:
    """Remove windows above an age from a lake, also during ingestion and while it is read.

    Late events and dead letters of that age are removed as well; commit records stay. Readers that start
    afterwards see none of it; the first run after the grace period deletes the files. Statistics by quarter
    of a day take a sixth of the files of hourly windows and serve histories with blocks of six hours or
    more; shorter blocks are then read from requests. Refinement settings must be those of the comparisons.
    """
    keep_ns = duration_of(keep)
    keep_late_ns, keep_reports_ns, fine_ns = (
        None if age is None else duration_of(age) for age in (keep_late, keep_reports, fine_statistics)
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
    _say(done, "would be " if dry_run else "")
    if fine_ns is not None:
        since_ns = -(2**63) if done.to_ns is None else done.to_ns
        _coarsen(lake, since_ns, fine_ns, settings, dry_run=dry_run)


def _say(done: Retired, would: str) -> None:
    """Print how much is retired, or would be in a dry run."""
    flows, size = (
        sum(numbers) for numbers in ([e.flows for e in done.windows], [e.size for e in done.windows])
    )
    first = f": {done.windows[0].window.name} to {done.windows[-1].window.name}" if done.windows else ""
    echo(f"{len(done.windows):,} windows {would}retired{first} ({flows:,} flows, {size:,} bytes)")
    for side in done.sides:
        counted = f"{side.files:,} files of {side.table} ({side.rows:,} rows)"
        echo(f"{counted} {would}taken out, written longer than their age ago")
    if done.reports:
        echo(f"{len(done.reports):,} reports {would}removed")
    echo(f"{done.removed:,} files and folders {would}removed, retired longer than the grace ago")
    if done.held_back:
        echo(f"past their age, but not sealed by live ingestion, so kept: {done.held_back:,}")


def _coarsen(lake: str, since_ns: int, age_ns: int, settings: list[str] | None, *, dry_run: bool) -> None:
    """Replace window statistics by quarter-day sums, for windows from the retirement limit to an age; print
    the number of sums.
    """
    from analyze.profile.stored import ProfileTally, coarsen
    from analyze.scope import Lakes
    from schemas.periods import Period

    tally = ProfileTally()
    with upkeep(lake, "Adding up the statistics") as run:
        until_ns = run.now_ns - age_ns
        try:
            old = [Lakes(lake).sealed_part(Period(None, since_ns, until_ns))]
        except PeriodError:  # no window is so old
            old = []
        coarse = coarsen(old, refinement(settings), until_ns, tally=tally, dry_run=dry_run)
    echo(
        f"statistics of {coarse.windows:,} windows {'would be ' if dry_run else ''}kept by quarter of a day "
        f"({coarse.quarters:,} quarters) instead of by window ({coarse.size:,} bytes)"
    )
    if tally.refusals:
        raise LakeError(
            f"Sums of statistics could not be written to '{lake}': {'; '.join(tally.refusals)}.",
            remedy="See to the disk and its permissions; what was not added up stays by window.",
        )
