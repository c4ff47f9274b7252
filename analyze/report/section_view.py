"""How a section is shown: its model, and the function that makes blocks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from analyze.report.blocks import Blocks
from schemas.report.parts import Section
from schemas.report.report import Report

S = TypeVar("S", bound=Section)


@dataclass(frozen=True, slots=True)
class SectionView(Generic[S]):
    """The model of a section and its blocks; as JSON it is the model itself."""

    model: type[S]
    blocks: Callable[[S], Blocks]
    aside: bool = False
    """It stands among "Everything else" at the end of the page, instead of in the middle."""
    leads: bool = False
    """It shows its method's verdict: it stands below the headline instead of the verdict's sentence."""
    warnings: Callable[[S], tuple[str, ...]] | None = None
    """Sentences that a reader must know before the headline; None: it never has any."""
    style: str = ""
    """CSS of its own drawings."""
    script: str = ""
    """JavaScript of its own, which the page allows by its hash; empty: none. The section must be complete
    without it. What it works on is the report's JSON in the page (`#flowdiff-report`)."""

    @property
    def tag(self) -> str:
        """The tag of its sections."""
        return str(self.model.model_fields["section"].default)


Views = Mapping[str, SectionView[Any]]
"""By tag."""


def views_by_tag(views: Iterable[SectionView[Any]]) -> Views:
    """Views by tag. Raises ValueError where two share one and are not the same."""
    found: dict[str, SectionView[Any]] = {}
    for view in views:
        if found.setdefault(view.tag, view) is not view:
            raise ValueError(f"two sections are called '{view.tag}'")
    return found


def warnings(report: Report, views: Views) -> tuple[str, ...]:
    """What stands above a report's headline: the warnings of its sections, each once."""
    sentences: dict[str, None] = {}
    for section in report.sections:
        view = views[section.section]
        if view.warnings is not None:
            sentences |= dict.fromkeys(view.warnings(section))
    return tuple(sentences)
