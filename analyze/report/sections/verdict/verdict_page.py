"""The verdict on the page: the outcome and why, data quality, what would have been seen.

`VERDICT` is the section's view, on the page and on a terminal.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from markupsafe import Markup

from analyze.report.page_templates import template
from analyze.report.section_view import SectionView
from analyze.report.sections.verdict import verdict_words
from analyze.report.sections.verdict.verdict_terminal import print_verdict
from schemas.report.accounts import VerdictSection

_PACKAGE: Final = "analyze.report.sections.verdict"


def verdict_html(section: VerdictSection, end: str) -> Markup:
    """The section's block of the page; `end` ends every id."""
    page = template(_PACKAGE, "verdict.html.jinja")
    return Markup(page.render(s=section, end=end, words=verdict_words))


VERDICT: Final = SectionView(
    VerdictSection,
    verdict_html,
    print_verdict,
    style=resources.files(_PACKAGE).joinpath("verdict.css").read_text(encoding="utf-8"),
    leads=True,
    warnings=verdict_words.warnings,
)
