"""Findings on the page: a card each, what a person needs in sight, the evidence folded below.

`FINDINGS` is the section's view, on the page and on a terminal.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import resources
from typing import Final

from markupsafe import Markup

from analyze.report import measures
from analyze.report.drawing.plot import draw_histogram
from analyze.report.drawing.shift import draw_shift
from analyze.report.drawing.steps import StepsView, steps_view
from analyze.report.page_templates import template
from analyze.report.section_view import SectionView
from analyze.report.sections.findings import finding_words
from analyze.report.sections.findings.finding_terminal import print_findings
from schemas.report.findings import FindingsSection

INDEXED: Final = 3
"""More findings than this are listed above their cards."""

_PACKAGE: Final = "analyze.report.sections.findings"


def findings_html(section: FindingsSection, end: str) -> Markup:
    """The section's block of the page; `end` ends every id."""
    return Markup(
        template(_PACKAGE, "findings.html.jinja").render(
            s=section,
            end=end,
            words=finding_words,
            value=measures.value,
            shift=draw_shift,
            plot=draw_histogram,
            steps_of=_steps(section),
            clock=_clock,
            indexed=INDEXED,
        )
    )


def _steps(section: FindingsSection) -> dict[int, StepsView]:
    return {f.rank: steps_view(f.account) for f in section.findings if f.account is not None}


def _clock(ns: int) -> str:
    """`2026-11-19 09:05Z`."""
    return f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%MZ}"


FINDINGS: Final = SectionView(
    FindingsSection,
    findings_html,
    print_findings,
    style=resources.files(_PACKAGE).joinpath("findings.css").read_text(encoding="utf-8"),
)
