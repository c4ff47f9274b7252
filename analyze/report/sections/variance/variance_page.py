"""Variance on the page: the split as a tree of bars, sites and categories, the parts of some categories."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Final

from markupsafe import Markup

from analyze.report import measures
from analyze.report.drawing.cumulative import Curve, draw_cumulative
from analyze.report.drawing.plot import draw_histogram
from analyze.report.page_templates import template
from analyze.report.section_view import SectionView
from analyze.report.sections.variance import variance_terminal, variance_words
from schemas.report.findings import Interval
from schemas.report.variance import VarianceChangeSection, VarianceDetailsSection, VarianceSection

MOST_ROOTS: Final = 8
SHOWN_SITES: Final = 15
LEAST_SITES: Final = 5
MATERIAL: Final = 1e-3
"""Places that add less are listed on demand, but for the first few."""
SHOWN_CATEGORIES: Final = 15

_PACKAGE: Final = "analyze.report.sections.variance"
_STYLE: Final = resources.files(_PACKAGE).joinpath("variance.css").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class ShareBar:
    """A share on an axis, percent of its length."""

    left: float
    width: float
    low: float
    high: float
    """Its interval; both 0 where it is not known."""
    negative: bool


@dataclass(frozen=True, slots=True)
class ShareAxis:
    """An axis from the least share, or 0, to the largest."""

    least: float
    most: float

    @classmethod
    def over(cls, shares: list[float]) -> ShareAxis:
        """The axis that shows some shares."""
        return cls(min([0.0, *shares]), max([0.0, *shares]) or 1.0)

    def at(self, share: float) -> float:
        """Place of a share, percent, within the axis."""
        place = 100 * (share - self.least) / (self.most - self.least)
        return min(max(place, 0.0), 100.0)

    def bar(self, share: float, interval: Interval | None = None) -> ShareBar:
        """From 0 to a share."""
        left, right = sorted((self.at(0.0), self.at(share)))
        low, high = (0.0, 0.0) if interval is None else (self.at(interval.low), self.at(interval.high))
        return ShareBar(left, max(right - left, 0.3 if share else 0.0), low, high, share < 0)


def variance_html(section: VarianceSection, end: str) -> Markup:
    """The block of tier 1; `end` ends every id."""
    kinds = ("after",) if len(section.curves) == 1 else ("before", "after")
    curves = [Curve(kind, curve.points) for kind, curve in zip(kinds, section.curves, strict=True)]
    return Markup(
        template(_PACKAGE, "variance.html.jinja").render(
            s=section,
            end=end,
            words=variance_words,
            c2_sentence=measures.c2_sentence,
            roots=variance_words.root_parts(section, MOST_ROOTS),
            axis=ShareAxis.over([site.within for site in section.sites]),
            shown_sites=_shown(section),
            shown_categories=SHOWN_CATEGORIES,
            curve=draw_cumulative(
                "C² of categories of more than 10 requests, cumulative",
                "C² (log scale); the line is C² = 1",
                curves,
                1.0,
            ),
        )
    )


def _shown(section: VarianceSection) -> int:
    """Places that are listed at once."""
    worth = sum(abs(site.within) >= MATERIAL for site in section.sites[:SHOWN_SITES])
    return max(LEAST_SITES, worth)


def details_html(section: VarianceDetailsSection, end: str) -> Markup:
    """The block of tier 2."""
    return Markup(
        template(_PACKAGE, "details.html.jinja").render(
            s=section,
            end=end,
            words=variance_words,
            drawn=[
                (
                    detail,
                    ShareAxis.over([edge.share for edge in detail.edges]),
                    None if detail.histogram is None else draw_histogram(detail.histogram),
                )
                for detail in section.details
            ],
        )
    )


def change_html(section: VarianceChangeSection, end: str) -> Markup:
    """The block about two samples."""
    return Markup(
        template(_PACKAGE, "change.html.jinja").render(
            s=section,
            end=end,
            words=variance_words,
            axis=ShareAxis.over([row.change for row in section.sites]),
        )
    )


VARIANCE: Final = SectionView(
    VarianceSection,
    html=variance_html,
    text=variance_terminal.print_variance,
    style=_STYLE,
    warnings=variance_words.expired,
)
VARIANCE_DETAILS: Final = SectionView(
    VarianceDetailsSection, html=details_html, text=variance_terminal.print_details, style=_STYLE
)
VARIANCE_CHANGE: Final = SectionView(
    VarianceChangeSection, html=change_html, text=variance_terminal.print_change, style=_STYLE
)
