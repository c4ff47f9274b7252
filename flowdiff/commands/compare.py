"""`flowdiff compare`: changes between two periods, or a method's findings in one or many.

The analysis is imported where it is called: help and completion need the options only.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from analyze.methods.registry import method_names
from flowdiff.cli.analysis import Destinations, compared, publish
from flowdiff.cli.named_settings import SetOption, chosen_settings, help_all_option
from flowdiff.cli.options import (
    ADVANCED,
    GATE,
    OUTPUT,
    PERIODS,
    ComparedPeriods,
    UnsealedOption,
    provisional_folder,
)
from flowdiff.cli.settings_options import Together, takes_settings
from flowdiff.settings.keys import size_of

if TYPE_CHECKING:
    from analyze.profile.history import StatisticsUse

DEFAULT_METHODS: Final = ("robust",)
WORKER_BYTES: Final = 1400 << 20
"""Memory of a worker process that reads and tests, libraries included, bytes: 1.4 GB at 10⁵ call sites, 0.4
GB at 10⁴.
"""


@takes_settings
def command(
    *,
    context: typer.Context,
    periods: Annotated[ComparedPeriods, Together(PERIODS)],
    sample: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PERIOD",
            hidden=True,
            help="Named sample NAME=PERIOD, instead of two periods, for methods that take one or many;"
            " may be repeated.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            rich_help_panel=PERIODS,
            help="Compare the time since this instant, up to the last sealed window, with as long a "
            "time before it: 20:38 (UTC, the last one), an ISO instant, or 30m before the end. "
            "Replaces both periods.",
        ),
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PERIOD",
            rich_help_panel=PERIODS,
            help="History: ordinary times that show how much the system varies, for methods that use "
            "them; in the same form as a period. It may include both periods.",
        ),
    ] = None,
    to: Annotated[Destinations, Together(OUTPUT)],
    unsealed: UnsealedOption = False,
    statistics: Annotated[
        Literal["auto", "never", "history", "all"],
        typer.Option(
            metavar="USE",
            hidden=True,
            help="What is read from window statistics instead of requests: auto (long histories, and "
            "samples that do not fit into memory), never, history, all.",
        ),
    ] = "auto",
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            rich_help_panel=GATE,
            help="Findings that make the exit code 1 or 3: any (default), never, worse (no "
            "improvements), or kinds, repeated: errors, response-time, structural, workload "
            "(those of the method).",
        ),
    ] = None,
    only: Annotated[
        Literal["worse"] | None,
        typer.Option(
            rich_help_panel=GATE,
            help="Show and fail on findings for the worse only; improvements pass.",
        ),
    ] = None,
    min_contribution: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=GATE,
            help="Ignore changes of time below this: sum of response times (500ms) or share (5%).",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=ADVANCED,
            help="Method of comparison: robust (default), paper, …; repeated: several in one report.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            rich_help_panel=ADVANCED,
            help="Parameter to leave out of explanations: `key`, or `component/point key`; may be repeated.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            rich_help_panel=ADVANCED,
            help="Maximum number of processes for comparisons of large fleets; others take one. "
            "Default: all cores, fewer if they would need more than half of the memory.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            rich_help_panel=ADVANCED,
            help="Memory limit of the process: 512MB, 2GB. Requests that do not fit are read as "
            "statistics, a window or part of one at a time. Default: no limit.",
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            rich_help_panel=OUTPUT,
            help="Print the whole report: reasons of the verdict, breakdown, tests.",
        ),
    ] = False,
    settings: SetOption = None,
    help_all: Annotated[bool, help_all_option()] = False,
) -> None:
    """Compare two periods: name, rank and explain what changed.

    Exit code 0: nothing found. 1: changed (see --fail-on, --min-contribution). 2: error. 3: cannot tell, or
    something changed that nothing explains.
    """
    from analyze.report.gate import ANY, Floor, gate, parse_fail_on, parse_floor
    from analyze.report.index import kept_reports
    from flowdiff.cli.finding_views import compared_of, shown_only, with_views
    from flowdiff.extras import installed
    from flowdiff.samples import asked_samples, one_or_two, since_samples
    from stitch.lake.place import open_place
    from stitch.processes import cores, room_for

    del help_all  # its callback ends the command earlier
    chosen, refine = chosen_settings(
        method or DEFAULT_METHODS, [*(f"robust.exclude={key}" for key in exclude or ()), *(settings or ())]
    )
    counts = parse_fail_on((*(fail_on or (ANY,)), *((only,) if only else ())), chosen[0].method.kinds)
    floor = Floor() if min_contribution is None else parse_floor(min_contribution)
    asked = asked_samples(periods.reference or (), periods.problem or (), sample or ())
    if not asked and since is None and periods.own_where:
        asked = one_or_two((), (), (), periods.own_where)
    if since is not None:
        asked = since_samples(since, asked, periods.lake)
    # Statistics are stored in the lake, and those of an unsealed window would soon be wrong.
    use: StatisticsUse = "history" if unsealed and statistics != "never" else statistics
    found, outcome = compared(
        asked,
        periods,
        chosen,
        refine,
        "Give each as --sample NAME=PERIOD.",
        history=history or (),
        provisional=provisional_folder(context) if unsealed else None,
        use=use,
        workers=workers or min(cores(), room_for(WORKER_BYTES)),
        memory=None if memory is None else size_of(memory),
    )
    # Store the report in the problem's lake; --lake may differ, as it is for periods that name none.
    place = found.compared[-1][1][0].lake
    # A page that is written elsewhere has no other reports beside it.
    kept = []
    if to.save and to.html_file is None:
        with suppress(OSError):  # a failure costs links, not the comparison
            kept = kept_reports(open_place(place))
    there = [name for name in method_names() if installed(name)]
    outcome = with_views(outcome, compared_of(found.compared), there, kept)
    outcome = shown_only(outcome, only or "")
    decided = gate(outcome, counts, floor)
    publish(outcome, place, to, done="The comparison is done", whole=verbose, last=decided.line)
    if decided.code:
        raise typer.Exit(decided.code)
