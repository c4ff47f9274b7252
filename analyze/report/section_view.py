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
    """Summary of a report readable in ten seconds: one layout for terminal, Markdown and page."""

    headline: Words
    """Verdict word, onset, and cause, in one line."""
    blocks: Blocks
    """Numbers, who is affected, the first finding, the periods: about ten lines."""
    over_time: Blocks = ()
    """Strip of time, on the page only."""
    picture: Blocks = ()
    """Graph of the calls around the first findings, and response times, on the page only."""
    said: tuple[str, ...] = ()
    """Notes of the report already included in the blocks, not to be repeated."""


@dataclass(frozen=True, slots=True)
class SectionView(Generic[S]):
    """Model of a section and its blocks; the JSON form is the model itself."""

    model: type[S]
    blocks: Callable[[S], Blocks]
    aside: bool = False
    """True: shown under "Everything else" at the end of the page."""
    leads: bool = False
    """True: the section shows its method's verdict, which is then not repeated below the headline."""
    warnings: Callable[[S], tuple[str, ...]] | None = None
    """Returns sentences to be read before the headline; None: there are none."""
    first_screen: Callable[[Report], FirstScreen] | None = None
    """Makes the first screen of a report whose method has this section; None: headline and verdict are
    shown."""
    style: str = ""
    """CSS of the section's drawings."""
    script: str = ""
    """JavaScript of the section, allowed by hash; empty: none. The section must be complete without it. The
    script reads the report's JSON in the page (`#flowdiff-report`)."""

    @property
    def tag(self) -> str:
        """Tag of the sections that this view shows."""
        return str(self.model.model_fields["section"].default)


Views = Mapping[str, SectionView[Any]]
"""Tag -> view."""


def views_by_tag(views: Iterable[SectionView[Any]]) -> Views:
    """Index views by tag. Raises ValueError if two different views share one."""
    found: dict[str, SectionView[Any]] = {}
    for view in views:
        if found.setdefault(view.tag, view) is not view:
            raise ValueError(f"two sections are called '{view.tag}'")
    return found


def warnings(report: Report, views: Views) -> tuple[str, ...]:
    """Warnings above a report's headline: those of its sections, each once."""
    sentences: dict[str, None] = {}
    for section in report.sections:
        view = views[section.section]
        if view.warnings is not None:
            sentences |= dict.fromkeys(view.warnings(section))
    return tuple(sentences)


def first_screen(report: Report, views: Views) -> FirstScreen | None:
    """First screen of a report; None if its method has none, or there are several methods."""
    if len(report.methods) != 1:
        return None
    makers = (views[section.section].first_screen for section in report.sections)
    make = next((maker for maker in makers if maker is not None), None)
    return None if make is None else make(report)


def opening(report: Report, views: Views) -> tuple[str, str]:
    """First and second sentence of a report without a first screen.

    One method: its verdict, then the measured change. Several methods, or a section that shows the verdict:
    the measured change, then nothing.
    """
    sentence = report.headline.sentence
    if len(report.methods) != 1 or any(views[section.section].leads for section in report.sections):
        return sentence, ""
    return report.methods[0].verdict.text, sentence
