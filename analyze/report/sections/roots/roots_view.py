"""The section `roots`: a table on the page, nothing on a terminal."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from analyze.report.page_templates import template
from analyze.report.section_view import SectionView
from schemas.report.roots import RootsSection

_PACKAGE: Final = "analyze.report.sections.roots"


def roots_html(section: RootsSection) -> Markup:
    """A `<details>` with the table."""
    return Markup(template(_PACKAGE, "roots.html.jinja").render(s=section))


ROOTS: Final = SectionView(RootsSection, roots_html, None, aside=True)
