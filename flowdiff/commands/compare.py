"""`flowdiff compare`: what changed between two periods, or what a method finds in one or many.

What does the work is imported where it is called: help and completion need the options only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, cast, get_args

import typer

from analyze.methods.registry import method_names
from analyze.refine.settings import RefineSettings
from flowdiff.cli.analysis import Destinations, analysed, publish, refuse_sample_count
from flowdiff.cli.method_command import with_methods
from flowdiff.cli.options import (
    REFINE_OPTIONS,
    OpenOption,
    PeriodsLakeOption,
    PeriodsWhereOption,
    ProblemOption,
    ProblemWhereOption,
    ReferenceOption,
    ReferenceWhereOption,
    ReportHtmlOption,
    ReportJsonOption,
    SaveOption,
    UnsealedOption,
    own_filters,
    provisional_folder,
    warn_of_pending,
)
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from analyze.methods.port import Chosen
    from analyze.profile.history import StatisticsUse

DEFAULT_METHODS: Final = ("robust",)
EVERYDAY: Final = ("exclude",)
"""Settings of methods that `--help` shows."""


def _compare(
    *,
    chosen: Sequence[Chosen[Any]],
    reference: ReferenceOption = None,
    problem: ProblemOption = None,
    sample: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PERIOD",
            hidden=True,
            help="Instead of the two: a sample of this name, for methods of one or many; repeated.",
        ),
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PERIOD",
            help="Ordinary times, for methods that look; written the same way. It may hold the others.",
        ),
    ] = None,
    lake: PeriodsLakeOption = None,
    where: PeriodsWhereOption = None,
    reference_where: ReferenceWhereOption = None,
    problem_where: ProblemWhereOption = None,
    refine: Annotated[RefineSettings, REFINE_OPTIONS],
    json_file: ReportJsonOption = None,
    html_file: ReportHtmlOption = None,
    save: SaveOption = True,
    unsealed: UnsealedOption = False,
    open_page: OpenOption = False,
    statistics: Annotated[
        str,
        typer.Option(
            metavar="USE",
            hidden=True,
            help="What is read from window statistics, not requests: auto (long histories, samples that "
            "do not fit into memory), never, history, all.",
        ),
    ] = "auto",
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="What makes the exit code 1 or 3: any (default), never, or kinds, repeated: errors, "
            "response-time, structural, workload (as the method has them).",
        ),
    ] = None,
    min_contribution: Annotated[
        str | None,
        typer.Option(help="Smaller changes of time do not: summed response time (500ms) or share (5%)."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="How to compare; repeated for several in one report. It brings options of its own."
        ),
    ] = None,
) -> None:
    """Compare two periods: name, rank and explain what changed.

    Exit code 0: nothing found. 1: changed (see --fail-on, --min-contribution). 2: error. 3: it cannot be
    told, or something changed that nothing explains.
    """
    from analyze.report.gate import ANY, Floor, gate_code, parse_fail_on, parse_floor
    from analyze.report.store import kept_heads
    from flowdiff.cli.finding_views import compared_of, with_views
    from flowdiff.samples import asked_samples, find_samples
    from stitch.lake.place import open_place

    del method  # read before the options were made: see CompareCommand
    counts = parse_fail_on(fail_on or (ANY,), chosen[0].method.kinds)
    floor = Floor() if min_contribution is None else parse_floor(min_contribution)
    to = Destinations(json_file, html_file, save=save, open_page=open_page)
    asked = asked_samples(reference or (), problem or (), sample or ())
    refuse_sample_count([one.method for one in chosen], [*asked], "Give each as --sample NAME=PERIOD.")
    found = find_samples(
        asked,
        history or (),
        now_ns=time.time_ns(),
        lake=lake,
        where=where,
        own_where=own_filters(reference_where, problem_where),
        provisional=provisional_folder() if unsealed else None,
    )
    warn_of_pending(found.periods)
    # Statistics of a window are kept in the lake, and those of one that goes on would be wrong in a minute.
    use = _use(statistics)
    outcome = analysed(found, chosen, refine, "history" if unsealed and use != "never" else use)
    # Kept where the problem lies; --lake may be another one, of periods that name none.
    place = found.compared[-1][1][0].lake
    # A page that goes elsewhere, too, has no other report beside it.
    kept = kept_heads(open_place(place)) if save and html_file is None else ()
    outcome = with_views(outcome, compared_of(found.compared), method_names(), kept)
    publish(outcome, place, to, done="The comparison is done")
    if code := gate_code(outcome, counts, floor):
        raise typer.Exit(code)


def _use(text: str) -> StatisticsUse:
    from analyze.profile.history import StatisticsUse

    uses = get_args(StatisticsUse)
    if text not in uses:
        raise ConfigError(f"--statistics {text}: choose from {', '.join(uses)}.")
    return cast("StatisticsUse", text)


class CompareCommand(typer.core.TyperCommand):
    """`compare`, whose options depend on its methods: they are read first, then the options are made."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """A context of the command with the options of the methods named in `args`. Raises ConfigError."""
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        methods = [*dict.fromkeys(_methods_in(args) or DEFAULT_METHODS)]
        app.command(info_name, help=self.help)(with_methods(_compare, methods, EVERYDAY))
        return typer.main.get_command(app).make_context(info_name, args, parent, **extra)


def _methods_in(args: Sequence[str]) -> list[str]:
    """Values of `--method` among arguments that are not parsed yet; what stands after `--` is none."""
    found = []
    options = list(args[: args.index("--")] if "--" in args else args)
    for place, word in enumerate(options):
        name, equals, value = word.partition("=")
        if name == "--method":
            found += [value] if equals else options[place + 1 : place + 2]
    return found


command = with_methods(_compare, DEFAULT_METHODS, EVERYDAY)
COMMAND_CLASS: Final = CompareCommand
