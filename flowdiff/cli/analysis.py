"""Run methods over samples: read, refine, analyse, write, print; shared by all analysing commands.

The analysis is imported where it is called: help and completion only need the options.
"""

from __future__ import annotations

import sys
import time
import webbrowser
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flowdiff.analysing import analysed, refuse_sample_count, with_trace_url
from flowdiff.cli.options import ComparedPeriods, warn_of_pending
from flowdiff.cli.outcome import reported_afterwards, say
from flowdiff.cli.output import is_stdout, open_output, refuse_unwritable
from flowdiff.cli.progress import stage
from flowdiff.cli.terminal import Terminal
from schemas.errors import ConfigError, InputError, LakeError
from schemas.trace_urls import parse_trace_url
from stitch.heap import keep_freed

if TYPE_CHECKING:
    from analyze.methods.port import Chosen
    from analyze.profile.history import StatisticsUse
    from analyze.refine.settings import RefineSettings
    from analyze.report.gate import Outcome
    from flowdiff.samples import Samples


@dataclass(frozen=True, slots=True)
class Destinations:
    """Places to which a command sends its report besides the terminal: files, a lake, a browser."""

    json_file: Annotated[
        str | None, typer.Option("--json", help="Write the report as JSON to this file; `-` prints it.")
    ] = None
    html_file: Annotated[
        Path | None,
        typer.Option("--html", help="Write the report as an HTML page to this file; `-` prints it."),
    ] = None
    markdown_file: Annotated[
        str | None,
        typer.Option(
            "--markdown",
            help="Write a short report in Markdown to this file, for pull requests and chat; `-` prints it.",
        ),
    ] = None
    save: Annotated[
        bool, typer.Option("--save/--no-save", help="Keep the report in the lake, under reports/.")
    ] = True
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False
    trace_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="FLOWDIFF_TRACE_URL",
            help="Link each request id on the page to https://HOST/trace/{trace_id}. Default: "
            "trace_url in flowdiff.json of the lake.",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Check the destinations. Raises ConfigError if two outputs want standard output, or the address of
        traces is invalid; InputError for a file that cannot be written.
        """
        if self.trace_url is not None:
            parse_trace_url(self.trace_url)
        wants = [form for form, file in self.files.items() if is_stdout(file)]
        if len(wants) > 1:
            raise ConfigError(
                f"{' - and '.join(wants)} - both want standard output.", remedy="Name a file for one."
            )
        for file in self.files.values():
            refuse_unwritable(file)

    @property
    def files(self) -> dict[str, Path]:
        """Option (`--json`, …) -> file, for each format that is requested."""
        given = {"--json": self.json_file, "--html": self.html_file, "--markdown": self.markdown_file}
        return {form: Path(file) for form, file in given.items() if file is not None}


def compared(
    asked: Mapping[str, Sequence[str]],
    periods: ComparedPeriods,
    chosen: Sequence[Chosen[Any]],
    refine: RefineSettings,
    remedy: str,
    *,
    history: Sequence[str] = (),
    provisional: Path | None = None,
    use: StatisticsUse = "never",
    workers: int = 1,
    memory: int | None = None,
) -> tuple[Samples, Outcome]:
    """Find the requested samples, and run methods over them, with a spinner on a terminal.

    asked: sample -> texts of its periods; other arguments and exceptions as in `find_samples`,
    `refuse_sample_count` and `flowdiff.analysing.analysed`.
    """
    from flowdiff.samples import find_samples

    refuse_sample_count([one.method for one in chosen], [*asked], remedy)
    found = find_samples(
        asked,
        history,
        now_ns=time.time_ns(),
        lake=periods.lake,
        where=periods.where,
        own_where=periods.own_where,
        provisional=provisional,
    )
    warn_of_pending(found.periods)
    if memory is None:
        keep_freed()
    return found, analysed(found, chosen, refine, use, stage, workers, memory)


_ELSEWHERE: Final = "It went where --json and --html say; --no-save leaves the lake alone."


def publish(
    outcome: Outcome, lake: str, to: Destinations, *, done: str, whole: bool = True, last: str = ""
) -> None:
    """Write the report to its destinations, and print it as text, JSON or the page.

    lake: where to store the report; a failure to store is only reported on standard error. done: beginning of
    the message about a failure to print; whole: as in `print_report`; last: text printed below the report.
    Raises InputError for a file that cannot be written, after everything else is written and printed;
    ConfigError if a page in a bucket should be opened.
    """
    from analyze.report.markdown import render_markdown
    from analyze.report.page import render_html
    from schemas.report.report import to_json
    from stitch.lake.place import local_path

    if to.open_page and to.html_file is None and local_path(lake) is None:
        raise ConfigError("--open shows a file of this machine.", remedy="Give --html FILE, too.")
    outcome = with_trace_url(outcome, lake, to.trace_url)
    with stage("Writing the report"):
        kept = _kept(outcome, lake) if to.save else None
        at = kept if isinstance(kept, str) else None
        at = at if to.html_file is None or is_stdout(to.html_file) else str(to.html_file)
        forms = {
            "--json": lambda: to_json(outcome.report),
            "--html": lambda: render_html(outcome.report, outcome.views),
            "--markdown": lambda: render_markdown(outcome.report, outcome.views, at or ""),
        }
        made = [(file, forms[form]().encode()) for form, file in to.files.items()]
        refused = _write_files([(file, content) for file, content in made if not is_stdout(file)])
    if isinstance(kept, LakeError):
        wrote = not refused and (to.json_file is not None or to.html_file is not None)
        say(str(LakeError(kept.message, remedy=_ELSEWHERE) if wrote else kept))
    printed = [content for file, content in made if is_stdout(file)]
    if printed:
        sys.stdout.buffer.write(printed[0])
    else:
        _print(outcome, at, done=done, whole=whole, last=last)
    if refused:
        raise refused[0]
    if to.open_page and at is not None:
        webbrowser.open(Path(at).resolve().as_uri())


def _kept(outcome: Outcome, lake: str) -> str | LakeError:
    """Store the report in the lake; return the path of its page there, or the error."""
    from analyze.report.index import kept_reports
    from analyze.report.page import INDEX_LINK, render_html
    from analyze.report.store import keep_report
    from stitch.lake.place import open_place

    place = open_place(lake)
    try:
        at = keep_report(place, outcome, render_html(outcome.report, outcome.views, index=INDEX_LINK))
    except LakeError as error:
        return error
    with suppress(OSError):  # the next reader repairs the list
        kept_reports(place)
    return at


def _write_files(made: Sequence[tuple[Path, bytes]]) -> list[InputError]:
    """Write all files, even if writing one fails; return the errors. made: (path, content) of each file."""
    refused = []
    for path, content in made:
        try:
            with open_output(path) as out:
                out.write(content)
        except InputError as error:
            refused.append(error)
    return refused


def _print(outcome: Outcome, at: str | None, *, done: str, whole: bool, last: str) -> None:
    """Print the report as text.

    at: path of its page, None if it is not stored; done, whole, last: as in `publish`.
    """
    from analyze.report.terminal import print_report

    # The exit code depends on the findings, even if the reader leaves before the end of the text.
    with reported_afterwards(done):
        console = Terminal()
        whole = print_report(outcome.report, outcome.views, console, whole=whole)
        if last:
            console.print(last, markup=False, highlight=False)
        if not whole:
            console.print("more: -v (grounds, breakdown, tests)", markup=False, highlight=False)
        if at is not None:
            blank = "\n" if whole and not last else ""
            console.print(f"{blank}Report: {at}", markup=False, highlight=False, soft_wrap=True)
