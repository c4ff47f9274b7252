"""`flowdiff compare`: what changed between two periods."""

from __future__ import annotations

import sys
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from analyze.compare import Outcome, compare
from analyze.load import load_population
from analyze.methods.spectroscope.paper_settings import Distance, PaperSettings, Ranking, Variant
from analyze.refine.settings import Level, RefineSettings
from analyze.report.assemble import PeriodName
from analyze.report.gate import FailOn, Floor, fails, parse_floor
from analyze.report.html import render_html
from analyze.report.store import HTML_FILE, write_report
from analyze.report.terminal import print_report
from analyze.scope import LakePeriod, resolve
from flowdiff.options import warn_of_pending
from flowdiff.output import open_output
from schemas.periods import parse_period
from schemas.report import to_json

STDOUT = "-"

Hosts = Literal["auto", "full", "none"]
"""Host policies that need no map of roles."""


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both periods, found in their lakes."""

    reference: LakePeriod
    problem: LakePeriod


def command(
    reference: Annotated[str, typer.Option(help="Period before: ISO range, `2026-11-19/1d`, `LAKE@range`.")],
    problem: Annotated[str, typer.Option(help="Period after, written the same way.")],
    lake: Annotated[
        Path | None, typer.Option(envvar="FLOWDIFF_LAKE", help="Lake of periods that name none.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Filter of both periods: \"service.version = 'v2' and host = 'a'\".")
    ] = None,
    reference_where: Annotated[str | None, typer.Option(help="Filter of the reference only.")] = None,
    problem_where: Annotated[str | None, typer.Option(help="Filter of the problem period only.")] = None,
    variant: Annotated[
        Variant, typer.Option(help="Spectroscope as its papers say, or as its released source does.")
    ] = "text",
    sm_threshold: Annotated[
        int, typer.Option(min=1, help="Change of a category's count that makes a structural mutation.")
    ] = 50,
    alpha: Annotated[float, typer.Option(min=0, max=1, help="Level of the KS tests.")] = 0.05,
    one_to_n: Annotated[
        bool, typer.Option(help="A precursor must have lost as many requests as its mutation gained.")
    ] = True,
    distance: Annotated[
        Distance | None, typer.Option(help="Edit distance; by default that of the ranking's paper.")
    ] = None,
    ranking: Annotated[Ranking, typer.Option(help="Whose formula ranks: NSDI'11 or tech report.")] = "nsdi",
    level: Annotated[Level, typer.Option(help="L0: every node. L3: component boundaries only.")] = "L0",
    hosts: Annotated[Hosts, typer.Option(help="Whether hosts are part of the structure.")] = "auto",
    json_file: Annotated[
        str | None, typer.Option("--json", help="Write the report as JSON here too; `-` prints it.")
    ] = None,
    html_file: Annotated[Path | None, typer.Option("--html", help="Write the page here too.")] = None,
    save: Annotated[bool, typer.Option(help="Keep the report in the lake, under reports/.")] = True,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    fail_on: Annotated[FailOn, typer.Option(help="Mutations that make the exit code 1.")] = FailOn.MUTATIONS,
    min_contribution: Annotated[
        str | None, typer.Option(help="Smaller ones do not: summed response time (500ms) or share (5%).")
    ] = None,
) -> None:
    """Compare two periods: name, rank and explain what changed.

    Exit code 0: nothing found. 1: mutations found (see --fail-on, --min-contribution). 2: error.
    """
    settings = PaperSettings(
        variant=variant,
        sm_threshold=sm_threshold,
        alpha=alpha,
        one_to_n=one_to_n,
        distance=distance,
        ranking=ranking,
    )
    floor = Floor() if min_contribution is None else parse_floor(min_contribution)
    now_ns = time.time_ns()
    sides = _Sides(
        *(
            resolve(
                parse_period(text, now_ns=now_ns, where=_both(where, own)),
                default_lake=None if lake is None else str(lake),
            )
            for text, own in ((reference, reference_where), (problem, problem_where))
        )
    )
    warn_of_pending([sides.reference, sides.problem])
    outcome = _compare(sides, settings, RefineSettings(level=level, host_policy=hosts))
    page = _write(outcome, lake or sides.problem.root, save=save, json_file=json_file, html_file=html_file)
    if json_file == STDOUT:
        sys.stdout.buffer.write(to_json(outcome.comparison).encode())
    else:
        console = Console()
        print_report(outcome.comparison, console)
        if page is not None:
            console.print(f"\nReport: {page}", markup=False, highlight=False, soft_wrap=True)
    if open_page and page is not None:
        webbrowser.open(page.resolve().as_uri())
    if fails(outcome, fail_on, floor):
        raise typer.Exit(1)


def _both(where: str | None, own: str | None) -> str | None:
    """A filter for both periods and one for this, as one."""
    parts = [part for part in (where, own) if part is not None]
    return " and ".join(parts) if parts else None


def _compare(sides: _Sides, settings: PaperSettings, refine: RefineSettings) -> Outcome:
    with _stage("Loading and refining"):
        population = load_population(sides.reference.period, sides.problem.period, refine)
    roots = dict.fromkeys(side.root.resolve().name for side in (sides.reference, sides.problem))
    with _stage("Comparing"):
        return compare(
            population,
            _name(sides.reference),
            _name(sides.problem),
            settings,
            level=refine.level,
            refine={key: str(value) for key, value in refine.model_dump(exclude={"level"}).items()},
            source=", ".join(roots),
        )


def _name(side: LakePeriod) -> PeriodName:
    period = side.period
    where = "" if period.where is None else period.where.text
    return PeriodName(period.text, period.start_ns, period.end_ns, where)


def _write(
    outcome: Outcome, lake: Path, *, save: bool, json_file: str | None, html_file: Path | None
) -> Path | None:
    """Write what was asked for; the page's path, where there is one. Raises LakeError, InputError."""
    page = None
    with _stage("Writing the report"):
        if save:
            page = write_report(lake, outcome) / HTML_FILE
        if json_file is not None and json_file != STDOUT:
            _write_text(Path(json_file), to_json(outcome.comparison))
        if html_file is not None:
            _write_text(html_file, render_html(outcome.comparison))
            page = html_file
    return page


def _write_text(path: Path, text: str) -> None:
    with open_output(path) as out:
        out.write(text.encode())


@contextmanager
def _stage(name: str) -> Iterator[None]:
    """A spinner on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"{name} …"):
        yield
