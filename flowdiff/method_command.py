"""A subcommand of one method: `flowdiff variance` is the run of `compare` with that method, by its own name.

The module of such a command is three lines, and a row in `flowdiff.__main__.COMMANDS`:

    from flowdiff.method_command import method_command

    command = method_command("variance", \"\"\"Find where response times vary, and why. …\"\"\")

It takes one period or two, as many as its method takes:

    flowdiff variance --period P                                   one sample, called `period`
    flowdiff variance --reference A --problem B                    two samples
    flowdiff variance --period P --reference-where … --problem-where …     two parts of one period
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from analyze.methods.port import Chosen
from analyze.methods.registry import method_of
from analyze.refine.settings import RefineSettings
from flowdiff.analysis_options import (
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
    own_filters,
)
from flowdiff.analysis_run import Destinations, analysed, publish, refuse_sample_count
from flowdiff.method_options import with_methods
from flowdiff.options import warn_of_pending
from flowdiff.refine_options import REFINE_OPTIONS


def method_command(name: str, doc: str) -> Callable[..., None]:
    """The command of a method; `doc` is its help, and its first sentence its line in `flowdiff --help`.

    Raises ConfigError where there is no such method.
    """
    command = with_methods(_analyse, [method_of(name)])
    command.__doc__ = doc
    return command


def _analyse(
    *,
    chosen: Sequence[Chosen[Any]],
    period: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PERIOD",
            help="Period to look at: ISO range, `2026-11-19/1d`, `LAKE@range`; several: repeated. "
            "Default: all, where no two periods are given.",
        ),
    ] = None,
    reference: ReferenceOption = None,
    problem: ProblemOption = None,
    lake: PeriodsLakeOption = None,
    where: PeriodsWhereOption = None,
    reference_where: ReferenceWhereOption = None,
    problem_where: ProblemWhereOption = None,
    refine: Annotated[RefineSettings, REFINE_OPTIONS],
    json_file: ReportJsonOption = None,
    html_file: ReportHtmlOption = None,
    save: SaveOption = True,
    open_page: OpenOption = False,
) -> None:
    from flowdiff.sampling import find_samples, one_or_two

    to = Destinations(json_file, html_file, save=save, open_page=open_page)
    own_where = own_filters(reference_where, problem_where)
    asked = one_or_two(period or (), reference or (), problem or (), own_where)
    refuse_sample_count(
        [one.method for one in chosen], [*asked], "Give --period, or --reference and --problem."
    )
    found = find_samples(
        asked,
        (),
        now_ns=time.time_ns(),
        lake=lake,
        where=where,
        own_where=own_where,
    )
    warn_of_pending(found.periods)
    outcome = analysed(found, chosen, refine, "never")
    # Kept where what was looked at lies; --lake may be another one, of periods that name none.
    publish(outcome, found.compared[-1][1][0].lake, to, done="The analysis is done")
