"""One run of methods over samples: read, refine, analyse, write, print. Every analysing command does this.

What does the work is imported where it is called: help and completion need the options only.
"""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from analyze.methods.port import AnyMethod, Chosen
from analyze.refine.settings import RefineSettings
from flowdiff.output import open_output
from flowdiff.streams import told_afterwards
from schemas.errors import ConfigError
from schemas.report.report import to_json

if TYPE_CHECKING:
    from analyze.history.reading import StatisticsUse
    from analyze.report.outcome import Outcome
    from flowdiff.sampling import Samples

STDOUT: Final = "-"


@dataclass(frozen=True, slots=True)
class Destinations:
    """Where a report goes besides the terminal."""

    json_file: str | None = None
    """`-`: standard output, instead of the text."""
    html_file: Path | None = None
    save: bool = True
    """Into the lake."""
    open_page: bool = False
    """Show it in a browser."""


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
    """What the methods find in the samples: read and refined once, analysed, ready to be shown.

    Raises PeriodError, LakeError, ConfigError as `read_samples` and `compare` do.
    """
    from analyze.calibrate import calibration_sentence
    from analyze.compare import compare
    from analyze.history.reading import read_samples

    with _stage("Loading and refining"):
        read = read_samples(
            found.compared,
            found.history,
            refine,
            use=use,
            can_use=all(one.method.statistics is not None for one in chosen),
        )
    compared = replace(read.compared, notes=(*found.notes, *read.compared.notes))
    roots = dict.fromkeys(part.root.resolve().name for _, parts in found.compared for part in parts)
    with _stage("Analysing"):
        return compare(
            compared,
            chosen,
            history=read.history,
            refined=refine,
            source=", ".join(roots),
            calibration=calibration_sentence(found.compared[-1][1][0].store, chosen[0], refine),
        )


def publish(outcome: Outcome, lake: str, to: Destinations, *, done: str) -> None:
    """Write the report where it was asked for, then print it: as text, or as JSON.

    `done` begins the line that tells of output that could not be printed. Raises LakeError, InputError,
    ConfigError where a page is to be opened that is in a bucket.
    """
    from analyze.report.terminal import print_report
    from stitch.lake.place import is_bucket

    if to.open_page and to.html_file is None and is_bucket(lake):
        raise ConfigError("--open shows a file of this machine.", remedy="Give --html FILE, too.")
    page = _write(outcome, lake, to)
    if to.json_file == STDOUT:
        sys.stdout.buffer.write(to_json(outcome.report).encode())
    else:
        # The exit code says what was found, whoever reads the text to its end.
        with told_afterwards(done):
            console = Console()
            print_report(outcome.report, outcome.views, console)
            if page is not None:
                console.print(f"\nReport: {page}", markup=False, highlight=False, soft_wrap=True)
    if to.open_page and page is not None:
        webbrowser.open(Path(page).resolve().as_uri())


def _write(outcome: Outcome, lake: str, to: Destinations) -> str | None:
    """Write what was asked for; where the page is, if there is one. Raises LakeError, InputError."""
    from analyze.report.page import render_html
    from analyze.report.store import keep_report
    from stitch.lake.place import open_place

    where = None
    with _stage("Writing the report"):
        page = render_html(outcome.report, outcome.views) if to.save or to.html_file is not None else ""
        if to.save:
            where = keep_report(open_place(lake), outcome, page)
        if to.json_file is not None and to.json_file != STDOUT:
            _write_text(Path(to.json_file), to_json(outcome.report))
        if to.html_file is not None:
            _write_text(to.html_file, page)
            where = str(to.html_file)
    return where


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
