"""Whole paths on the page, at its end, and in one line on a terminal. `PATHS` is the section's view."""

from __future__ import annotations

from importlib import resources
from typing import Final

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from analyze.report import wording
from analyze.report.page_templates import template
from analyze.report.section_view import SectionView
from analyze.report.sections.paths.path_words import one_line, repeats_title
from schemas.report.paths import PathsSection

_PACKAGE: Final = "analyze.report.sections.paths"
TIMES_SHOWN: Final = 50
"""Paths with other times listed; the rest is counted."""


def paths_html(section: PathsSection, end: str) -> Markup:
    """A `<details>`; nothing where no path changed; `end` ends every id."""
    page = template(_PACKAGE, "paths.html.jinja")
    return Markup(
        page.render(
            s=section,
            end=end,
            line=one_line(section),
            times=section.times[:TIMES_SHOWN],
            repeats_title=repeats_title,
        )
    )


def print_paths(section: PathsSection, console: Console) -> None:
    """One line; nothing where no path changed."""
    line = one_line(section)
    if line:
        console.print(Text("Paths: ", style="bold").append(wording.visible(line), style="not bold"))


PATHS: Final = SectionView(
    PathsSection,
    paths_html,
    print_paths,
    aside=True,
    style=resources.files(_PACKAGE).joinpath("paths.css").read_text(encoding="utf-8"),
)
