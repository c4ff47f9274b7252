"""`flowdiff summarize`: compute a period's window statistics ahead of the comparisons that read them."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from flowdiff.cli.named_settings import REFINE, SetOption, help_all_option, refinement
from flowdiff.cli.options import JsonOption, LakeOption, WorkersOption, warn_of_pending
from flowdiff.cli.progress import counted_progress
from flowdiff.cli.settings_options import Together, takes_settings
from flowdiff.cli.spark_options import SparkOptions
from flowdiff.cli.terminal import echo, echo_json
from schemas.errors import LakeError

if TYPE_CHECKING:
    from analyze.profile.stored import ProfileTally


@takes_settings
def command(
    lake: LakeOption,
    period: Annotated[
        list[str] | None,
        typer.Option(help="Periods to summarize, as in `compare`; may be repeated. Default: the whole lake."),
    ] = None,
    sums: Annotated[
        bool,
        typer.Option("--sums", help="Also keep sums of six hours each, from which long histories are read."),
    ] = False,
    workers: WorkersOption = None,
    *,
    spark: Annotated[SparkOptions, Together()],
    as_json: JsonOption = False,
    settings: SetOption = None,
    help_all: Annotated[bool, help_all_option(REFINE)] = False,
) -> None:
    """Compute the statistics of every window in advance, so that histories are read in seconds.

    `compare` computes missing statistics itself. Files under `stats/` can be deleted at any time. Refinement
    settings must be those of the comparisons. With --sums, the windows of each quarter of a UTC day are also
    summed up in one file, which makes long histories fast to read.
    """
    import json

    from analyze.profile.stored import ProfileTally, keep_profiles, keep_quarters
    from analyze.report.wording import counted
    from analyze.scope import Lakes
    from schemas.ranges import parse_ranges
    from stitch.lake.place import absolute
    from stitch.lake.stats_files import sweep
    from stitch.processes import cores

    del help_all  # it ends the command before
    cluster = spark.cluster(workers)
    # Executors have working folders of their own.
    lakes = Lakes(lake if cluster is None else absolute(lake))
    found = [lakes.sealed_part(p) for p in parse_ranges(period or ["all"], now_ns=time.time_ns())]
    warn_of_pending(found)
    tally, of_sums = ProfileTally(), ProfileTally()
    with ExitStack() as stack:
        watch = stack.enter_context(counted_progress("Windows"))
        for part in {part.root: part for part in found}.values():
            sweep(part.store)
        doing = workers or cores() if cluster is None else stack.enter_context(cluster.executor(""))[0]
        keep_profiles(found, refinement(settings), tally=tally, watch=watch, workers=doing)
    _refuse(f"{tally.made - tally.kept} of {tally.made} window statistics", lake, tally)
    n_sums = keep_quarters(found, refinement(settings), tally=of_sums) if sums else 0
    _refuse("Sums of windows", lake, of_sums)
    if as_json:
        counts = {"windows": tally.read + tally.made, "made": tally.made, "kept": tally.read, "sums": n_sums}
        echo_json(json.dumps(counts))
        return
    total = counted(tally.read + tally.made, "window")
    anew = f" ({tally.outdated} of them anew: an earlier version kept them)" if tally.outdated else ""
    echo(f"{total}: {tally.made} worked out{anew}, {tally.read} there already")
    if sums:
        echo(f"{counted(n_sums, 'quarter')} of a day with several windows: the sum of each is kept")


def _refuse(what: str, lake: str, tally: ProfileTally) -> None:
    """Raise LakeError if some statistics could not be written."""
    if tally.refusals:
        raise LakeError(
            f"{what} could not be written to '{lake}': {'; '.join(tally.refusals)}.",
            remedy="See to the disk and its permissions; comparisons work without them, more slowly.",
        )
