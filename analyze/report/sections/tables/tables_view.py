"""Sections that are one table at the end of the page and nothing on a terminal: roots, categories, sums."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from analyze.report.page_templates import template
from analyze.report.section_view import S, SectionView
from schemas.report.categories import CategoriesSection
from schemas.report.roots import RootsSection
from schemas.report.sums import SumsSection


def _table(model: type[S], file: str) -> SectionView[S]:
    """A `<details>` with the table of a template, which has no ids."""

    def html(section: S, _end: str) -> Markup:
        return Markup(template("analyze.report.sections.tables", file).render(s=section))

    return SectionView(model, html, None, aside=True)


ROOTS: Final = _table(RootsSection, "roots.html.jinja")
CATEGORIES: Final = _table(CategoriesSection, "categories.html.jinja")
SUMS: Final = _table(SumsSection, "sums.html.jinja")
