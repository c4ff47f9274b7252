"""Run methods over samples: read, refine, analyse, write, print. Every analysing command does this.

What does the work is imported where it is called: help and completion need the options only.
"""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from flowdiff.cli.output import STDOUT, is_stdout, open_output
from flowdiff.cli.streams import say, told_afterwards
from schemas.errors import ConfigError, InputError, LakeError

if TYPE_CHECKING:
    from analyze.methods.port import AnyMethod, Chosen
    from analyze.profile.history import StatisticsUse
    from analyze.refine.settings import RefineSettings
    from analyze.report.outcome import Outcome
    from flowdiff.samples import Samples


@dataclass(frozen=True, slots=True)
class Destinations:
    """Where a report goes besides the terminal."""

    json_file: str | None = None
    """`-`: standard output, instead of the text."""
    html_file: Path | None = None
    """`-`: standard output, instead of the text."""
    save: bool = True
    """Into the lake."""
    open_page: bool = False
    """Show it in a browser."""

    def __post_init__(self) -> None:
        """Raises ConfigError where two want standard output."""
        if self.json_file == STDOUT and self.prints_page:
            raise ConfigError(
                "--json - and --html - both want standard output.", remedy="Name a file for one."
            )

    @property
    def prints_page(self) -> bool:
        """Whether the page goes to standard output, instead of the text."""
        return self.html_file is not None and is_stdout(self.html_file)


def refuse_sample_count(methods: Sequence[AnyMethod], names: Sequence[str], remedy: str) -> None:
    """Raise ConfigError where a method takes another number of samples, before anything is read.

    remedy: how the command at hand is given samples.
    """
    for method in methods:
        if method.samples.allows(len(names)):
            continue
        missing = [f"--{name}" for name in ("reference", "problem") if name not in names]
        taken = f"The method '{method.name}' takes {method.samples.text}"
        if method.samples.allows(2) and set(names) <= {"reference", "problem"}:
            raise ConfigError(f"{taken}: {' and '.join(missing)} missing.")
        raise ConfigError(f"{taken}, and {len(names)} given.", remedy=remedy)


def analysed(
    found: Samples, chosen: Sequence[Chosen[Any]], refine: RefineSettings, use: StatisticsUse
) -> Outcome:
    """`flowdiff.lake.analysed`, with a spinner on a terminal."""
    from flowdiff import lake

    return lake.analysed(found, chosen, refine, use, _stage)


_ELSEWHERE: Final = "It went where --json and --html say; --no-save leaves the lake alone."


def publish(outcome: Outcome, lake: str, to: Destinations, *, done: str) -> None:
    """Write the report where it was asked for and print it: as text, as JSON, or the page.

    `lake` is where it is kept. Where it cannot be kept, that is told on standard error and the report stands:
    it has been printed. `done` begins the line that tells of output that could not be printed. Raises
    InputError for a file that cannot be written, when all else is written and printed; ConfigError where a
    page is to be opened that is in a bucket.
    """
    from stitch.lake.place import is_bucket

    if to.open_page and to.html_file is None and is_bucket(lake):
        raise ConfigError("--open shows a file of this machine.", remedy="Give --html FILE, too.")
    with _stage("Writing the report"):
        page = _rendered(outcome) if to.save or to.html_file is not None else ""
        kept = _kept(outcome, lake, page) if to.save else None
        refused = _write_files(outcome, page, to)
    if isinstance(kept, LakeError):
        wrote = not refused and (to.json_file is not None or to.html_file is not None)
        say(str(LakeError(kept.message, remedy=_ELSEWHERE) if wrote else kept))
        kept = None
    at = kept if to.html_file is None or to.prints_page else str(to.html_file)
    _print(outcome, page, at, to, done=done)
    if refused:
        raise refused[0]
    if to.open_page and at is not None:
        webbrowser.open(Path(at).resolve().as_uri())


def _rendered(outcome: Outcome) -> str:
    from analyze.report.page import render_html

    return render_html(outcome.report, outcome.views)


def _kept(outcome: Outcome, lake: str, page: str) -> str | LakeError:
    """Where the page is in the lake, or why it is not."""
    from analyze.report.store import keep_report
    from stitch.lake.place import open_place

    try:
        return keep_report(open_place(lake), outcome, page)
    except LakeError as error:
        return error


def _write_files(outcome: Outcome, page: str, to: Destinations) -> list[InputError]:
    """Write each file that was asked for, whatever becomes of the others; what could not be."""
    from schemas.report.report import to_json

    texts: list[tuple[Path, str]] = []
    if to.json_file is not None and to.json_file != STDOUT:
        texts.append((Path(to.json_file), to_json(outcome.report)))
    if to.html_file is not None and not to.prints_page:
        texts.append((to.html_file, page))
    refused = []
    for path, text in texts:
        try:
            with open_output(path) as out:
                out.write(text.encode())
        except InputError as error:
            refused.append(error)
    return refused


def _print(outcome: Outcome, page: str, at: str | None, to: Destinations, *, done: str) -> None:
    """Print the report as text, as JSON, or its page; `at` is where that was written."""
    from analyze.report.terminal import print_report
    from schemas.report.report import to_json

    if to.json_file == STDOUT:
        sys.stdout.buffer.write(to_json(outcome.report).encode())
    elif to.prints_page:
        sys.stdout.buffer.write(page.encode())
    else:
        # The exit code says what was found, whoever reads the text to its end.
        with told_afterwards(done):
            console = Console()
            print_report(outcome.report, outcome.views, console)
            if at is not None:
                console.print(f"\nReport: {at}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _stage(name: str) -> Iterator[None]:
    """A spinner on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(f"{name} …"):
        yield
