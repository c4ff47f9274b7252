"""The section `categories`: a table on the page, nothing on a terminal."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from analyze.report.page_templates import template
from analyze.report.section_view import SectionView
from schemas.report.categories import CategoriesSection

_PACKAGE: Final = "analyze.report.sections.categories"


def categories_html(section: CategoriesSection) -> Markup:
    """A `<details>` with the table."""
    return Markup(template(_PACKAGE, "categories.html.jinja").render(s=section))


CATEGORIES: Final = SectionView(CategoriesSection, categories_html, None, aside=True)
