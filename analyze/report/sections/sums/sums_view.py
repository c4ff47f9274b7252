"""The section `sums`: a table on the page, nothing on a terminal."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from analyze.report.page_templates import template
from analyze.report.section_view import SectionView
from schemas.report.sums import SumsSection

_PACKAGE: Final = "analyze.report.sections.sums"


def sums_html(section: SumsSection) -> Markup:
    """A `<details>` with the table."""
    return Markup(template(_PACKAGE, "sums.html.jinja").render(s=section))


SUMS: Final = SectionView(SumsSection, sums_html, None, aside=True)
