"""How a section is shown. One `SectionView` a type of section; renderers loop over sections and ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from markupsafe import Markup
from rich.console import Console

from schemas.report.report import Report
from schemas.report.section import Section

S = TypeVar("S", bound=Section)


@dataclass(frozen=True, slots=True)
class SectionView(Generic[S]):
    """The model of a section and its renderers; as JSON it is the model itself."""

    model: type[S]
    html: Callable[[S, str], Markup]
    """One or several blocks for the page's `<main>`: no script element, no style attribute, nothing loaded;
    names escaped. Ids must not be those of another type of section, and each ends with the text given: empty
    for the first section of this type on the page, `-2` for the second (of another method), and so on."""
    text: Callable[[S, Console], None] | None
    """Prints it to a terminal; None: it is for the page only."""
    aside: bool = False
    """A `<details>` among "Everything else" at the end of the page, instead of in the middle."""
    style: str = ""
    """CSS of its own."""
    script: str = ""
    """JavaScript of its own, which the page allows by its hash; empty: none. The block must be complete
    without it. What it works on is the report's JSON in the page (`#flowdiff-report`)."""
    leads: bool = False
    """It tells its method's verdict: it stands below the headline instead of the verdict's sentence."""
    warnings: Callable[[S], tuple[str, ...]] | None = None
    """Sentences that a reader must know before the headline; None: it never has any."""

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
    told: dict[str, None] = {}
    for section in report.sections:
        view = views[section.section]
        if view.warnings is not None:
            told |= dict.fromkeys(view.warnings(section))
    return tuple(told)
