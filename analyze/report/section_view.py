"""View of a section: its model, and the function that makes its blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from analyze.report.blocks import Blocks, Words
from schemas.report.parts import Section
from schemas.report.report import Report

S = TypeVar("S", bound=Section)


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """Summary of a report that can be read in ten seconds, with the same layout on terminal, Markdown and
    page."""

    headline: Words
    """Headline: the verdict in a word, the onset and the cause, on one line."""
    blocks: Blocks
    """Numbers, who is affected, the first finding, the periods: about ten lines."""
    over_time: Blocks = ()
    """Time strip of both periods; on the page only."""
    picture: Blocks = ()
    """Graph of the calls around the first findings, and histogram of response times; on the page only."""
    said: tuple[str, ...] = ()
    """Notes of the report that `blocks` already contain, so that they are not repeated below."""


@dataclass(frozen=True, slots=True)
class SectionView(Generic[S]):
    """View of one type of section: its model, and the functions that make its blocks, warnings and first
    screen.
    """

    model: type[S]
    blocks: Callable[[S], Blocks]
    aside: bool = False
    """True: the section is shown at the end of the page, under "Everything else"; False: among the main
    sections."""
    leads: bool = False
    """True: the section shows its method's verdict, so that the headline does not repeat it."""
    warnings: Callable[[S], tuple[str, ...]] | None = None
    """Function that returns sentences shown above the headline; None: the section has none."""
    first_screen: Callable[[Report], FirstScreen] | None = None
    """Function that makes the first screen of a report with this section; None: the first screen is headline
    and verdict.
    """
    style: str = ""
    """CSS for the section's drawings."""
    script: str = ""
    """JavaScript of the section, allowed by its hash; empty: none.

    The script may read the report's JSON in the page (`#flowdiff-report`). The section must be complete
    without the script.
    """

    @property
    def tag(self) -> str:
        """Tag of the sections that this view shows: their field `section`."""
        return str(self.model.model_fields["section"].default)


Views = Mapping[str, SectionView[Any]]
"""Tag of a section -> its view."""


def views_by_tag(views: Iterable[SectionView[Any]]) -> Views:
    """Index views by tag. Raises ValueError if two different views have the same tag."""
    found: dict[str, SectionView[Any]] = {}
    for view in views:
        if found.setdefault(view.tag, view) is not view:
            raise ValueError(f"two sections are called '{view.tag}'")
    return found


def warnings(report: Report, views: Views) -> tuple[str, ...]:
    """Warnings of all sections of a report, without duplicates, to be shown above the headline."""
    sentences: dict[str, None] = {}
    for section in report.sections:
        view = views[section.section]
        if view.warnings is not None:
            sentences |= dict.fromkeys(view.warnings(section))
    return tuple(sentences)


def first_screen(report: Report, views: Views) -> FirstScreen | None:
    """First screen of a report; None if its method makes none, or if the report has several methods."""
    if len(report.methods) != 1:
        return None
    makers = (views[section.section].first_screen for section in report.sections)
    make = next((maker for maker in makers if maker is not None), None)
    return None if make is None else make(report)


def opening(report: Report, views: Views) -> tuple[str, str]:
    """First and second sentence of a report without a first screen.

    One method: its verdict, then the measured change. Several methods, or a section that shows the verdict:
    the measured change, then an empty text.
    """
    sentence = report.headline.sentence
    if len(report.methods) != 1 or any(views[section.section].leads for section in report.sections):
        return sentence, ""
    return report.methods[0].verdict.text, sentence
